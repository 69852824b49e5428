//! A verified module compiles and runs on arrays of zeros and of small numbers, or is refused with a
//! typed error; a run that does not end is interrupted.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use hlorun::HloError;
use hlorun::buffers::AlignedBytes;
use hlorun::exec::executor::RunOptions;
use hlorun::module::HloModule;
use hlorun::plan::{CompileOptions, compile};
use hlorun::text::{self, ParseOptions};
use hlorun::types::PrimitiveType;
use hlorun::verify::verify;
use hlorun_fuzz::limits::is_small;
use hlorun_fuzz::mutate::mutate;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// Memory a plan may ask for; more is not run.
const TEMP_BYTES: usize = 16 << 20;

/// Where to write which opcodes ran, a line for each: `HLORUN_FUZZ_REPORT`.
static REPORT: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var_os("HLORUN_FUZZ_REPORT")?;
    File::create(path).ok().map(Mutex::new)
});

fn report(module: &HloModule) {
    let Some(file) = REPORT.as_ref() else {
        return;
    };
    let mut names: Vec<String> = module
        .computation_ids()
        .flat_map(|id| &module.computation(id).instructions)
        .map(|&i| module.instruction(i).opcode_name().into_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.push(String::new());
    if let Ok(mut file) = file.lock() {
        drop(file.write_all(names.join("\n").as_bytes()));
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(module) = text::parse(Arc::from(data), &ParseOptions::default()) else {
        return;
    };
    if !is_small(&module) || verify(&module).is_err() {
        return;
    }
    let options = CompileOptions {
        // Every eighth text is run by two threads.
        threads: if data.len() % 8 == 0 { 2 } else { 1 },
        ..CompileOptions::default()
    };
    let executable = match compile(&module, &options) {
        Ok(executable) => executable,
        Err(error @ (HloError::Unsupported { .. } | HloError::Execution { .. })) => {
            assert!(!error.to_string().contains("internal"), "{error}");
            return;
        }
        Err(error) => return drop(error.to_string()),
    };
    if executable.temp_size() > TEMP_BYTES {
        return;
    }
    let block = |size: usize| AlignedBytes::zeroed(size).expect("a small block");
    let mut inputs: Vec<AlignedBytes> = Vec::new();
    for leaf in executable.inputs() {
        let mut bytes = block(leaf.byte_size());
        // Every byte 0 or 1 is a legal value of every type, `pred` too.
        if leaf.element_type != PrimitiveType::Pred || data.len() % 2 == 0 {
            bytes
                .as_mut_slice()
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = (at % 3 == 1).into());
        }
        inputs.push(bytes);
    }
    let mut outputs: Vec<AlignedBytes> = executable
        .outputs()
        .iter()
        .map(|leaf| block(leaf.byte_size()))
        .collect();
    let from: Vec<*const u8> = inputs.iter().map(AlignedBytes::as_ptr).collect();
    let to: Vec<*mut u8> = outputs.iter_mut().map(AlignedBytes::as_mut_ptr).collect();
    let begin = Instant::now();
    let interrupted = move || begin.elapsed() > Duration::from_millis(100);
    // SAFETY: every block has its leaf's size, is aligned, and no other run uses it.
    let result = unsafe {
        executable.run(
            &from,
            &to,
            &RunOptions {
                interrupted: &interrupted,
                ..RunOptions::default()
            },
        )
    };
    match result {
        Ok(_) => report(&module),
        Err(error) => drop(error.to_string()),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});
