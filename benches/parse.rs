//! Speed of `text::parse`, and of `proto::read` on the same modules. `HLORUN_BENCH_TEXTS` names further
//! files, divided by colons.

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hlorun::module::Source;
use hlorun::proto;
use hlorun::text::{self, ParseOptions};

/// A module of `count` fusions in the long dialect, with metadata.
fn generated(count: usize) -> Vec<u8> {
    use std::fmt::Write;
    let mut text = String::from("HloModule generated\n\n");
    for i in 0..count {
        write!(
            text,
            "%fused_computation.{i} (param_0.{i}: f32[16,1024], param_1.{i}: f32[16,1024]) -> f32[16,1024] {{\n  \
             %param_0.{i} = f32[16,1024]{{1,0}} parameter(0)\n  \
             %param_1.{i} = f32[16,1024]{{1,0}} parameter(1)\n  \
             %multiply.{i} = f32[16,1024]{{1,0}} multiply(f32[16,1024]{{1,0}} %param_0.{i}, f32[16,1024]{{1,0}} %param_1.{i}), metadata={{op_type=\"mul\" op_name=\"jit(step)/layer_{i}/mul\" source_file=\"model.py\" source_line={i}}}\n  \
             ROOT %tanh.{i} = f32[16,1024]{{1,0}} tanh(f32[16,1024]{{1,0}} %multiply.{i}), metadata={{op_type=\"tanh\" op_name=\"jit(step)/layer_{i}/tanh\" source_file=\"model.py\" source_line={i}}}\n}}\n\n"
        )
        .expect("writing to a string succeeds");
    }
    text.push_str("ENTRY %main (x: f32[16,1024]) -> f32[16,1024] {\n  %x.0 = f32[16,1024]{1,0} parameter(0)\n");
    for i in 0..count {
        let n = i + 1;
        writeln!(text, "  %x.{n} = f32[16,1024]{{1,0}} fusion(f32[16,1024]{{1,0}} %x.{i}, f32[16,1024]{{1,0}} %x.0), kind=kLoop, calls=%fused_computation.{i}")
            .expect("writing to a string succeeds");
    }
    text.push_str("}\n");
    text.into_bytes()
}

fn bench(c: &mut Criterion) {
    let mut texts: Vec<(String, Arc<[u8]>)> = vec![("generated".into(), generated(2000).into())];
    for path in std::env::var("HLORUN_BENCH_TEXTS")
        .unwrap_or_default()
        .split(':')
    {
        if !path.is_empty() {
            let options = ParseOptions::default();
            let text = text::read(Path::new(path), &options).expect("the file can be read");
            let name = Path::new(path).file_name().unwrap_or_default();
            texts.push((name.to_string_lossy().into_owned(), Arc::from(&*text)));
        }
    }
    let options = ParseOptions::default();
    let mut group = c.benchmark_group("parse");
    for (name, text) in &texts {
        let module = text::parse(text.clone(), &options).expect("the text is legal");
        println!(
            "{name}: {} bytes, {} instructions, {} bytes beside the text",
            text.len(),
            module.instruction_count(),
            module.heap_size()
        );
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| b.iter(|| text::parse(text.clone(), &options)));
    }
    group.finish();
    let mut group = c.benchmark_group("proto");
    for (name, text) in &texts {
        let module = text::parse(text.clone(), &options).expect("the text is legal");
        let bytes = proto::write_module(&module).expect("the module has a proto");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let source = Source::from(bytes);
        group.bench_function(name, |b| b.iter(|| proto::read(&source, &options)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
