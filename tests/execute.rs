//! Runs every file of `tests/hlo/execute` and compares its results with those XLA:CPU gave.
//!
//! A file is HLO text with comments: `// in: f32[2,3] 1 2 …` for every parameter leaf, in order,
//! `// out: …` for every result leaf, row-major, complex numbers as two, and
//! `// close: r` for results that may differ by `r` times the largest wanted magnitude.
//! Every file runs on one thread and on several: the bits have to agree.

use std::path::{Path, PathBuf};

use hlorun::buffers::AlignedBytes;
use hlorun::plan::{CompileOptions, compile};
use hlorun::text::{self, ParseOptions};
use hlorun::types::PrimitiveType;

struct Array {
    ty: PrimitiveType,
    bytes: Vec<u8>,
}

fn array(line: &str) -> Option<Array> {
    let (shape, values) = line.split_once(' ').unwrap_or((line, ""));
    let ty = PrimitiveType::from_name(shape.split('[').next()?.as_bytes())?;
    let mut bytes = Vec::new();
    for value in values.split_whitespace() {
        push(ty.component(), value, &mut bytes)?;
    }
    Some(Array { ty, bytes })
}

fn push(ty: PrimitiveType, value: &str, bytes: &mut Vec<u8>) -> Option<()> {
    match ty {
        PrimitiveType::F32 => bytes.extend(value.parse::<f32>().ok()?.to_ne_bytes()),
        PrimitiveType::F64 => bytes.extend(value.parse::<f64>().ok()?.to_ne_bytes()),
        PrimitiveType::BF16 => {
            bytes.extend(half::bf16::from_f64(value.parse().ok()?).to_ne_bytes());
        }
        PrimitiveType::F16 => bytes.extend(half::f16::from_f64(value.parse().ok()?).to_ne_bytes()),
        _ => {
            let whole: i128 = value.parse().ok()?;
            bytes.extend_from_slice(&whole.to_le_bytes()[..ty.size_bytes()]);
        }
    }
    Some(())
}

/// Real components as `f64`; integers as they are.
fn numbers(ty: PrimitiveType, bytes: &[u8]) -> Vec<f64> {
    let ty = ty.component();
    bytes
        .chunks_exact(ty.size_bytes())
        .map(|b| match ty {
            PrimitiveType::F32 => f64::from(f32::from_ne_bytes(b.try_into().unwrap())),
            PrimitiveType::F64 => f64::from_ne_bytes(b.try_into().unwrap()),
            PrimitiveType::BF16 => half::bf16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
            PrimitiveType::F16 => half::f16::from_ne_bytes(b.try_into().unwrap()).to_f64(),
            _ => b.iter().rev().fold(0.0, |x, &b| x * 256.0 + f64::from(b)),
        })
        .collect()
}

fn difference(ty: PrimitiveType, got: &[u8], want: &[u8], close: f64) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} bytes instead of {}", got.len(), want.len()));
    }
    let is_float = ty.component().is_floating();
    if !is_float {
        return (got != want).then(|| format!("{got:?} instead of {want:?}"));
    }
    let (got, want) = (numbers(ty, got), numbers(ty, want));
    let finite = want.iter().filter(|x| x.is_finite());
    let limit = close * finite.fold(0.0f64, |most, x| most.max(x.abs()));
    let bad = got.iter().zip(&want).position(|(g, w)| {
        let same = g == w || (g.is_nan() && w.is_nan());
        !same && ((g - w).is_nan() || (g - w).abs() > limit)
    });
    bad.map(|i| format!("element {i}: {} instead of {}", got[i], want[i]))
}

fn run(source: &str, inputs: &[Array], threads: usize) -> hlorun::Result<Vec<Vec<u8>>> {
    let module = text::parse(source.as_bytes().into(), &ParseOptions::default())?;
    let options = CompileOptions {
        threads,
        ..CompileOptions::default()
    };
    let executable = compile(&module, &options)?;
    let mut kept = Vec::new();
    for (input, leaf) in inputs.iter().zip(executable.inputs()) {
        assert_eq!(
            input.bytes.len(),
            leaf.byte_size(),
            "an `in:` of another size"
        );
        let mut bytes = AlignedBytes::uninitialized(input.bytes.len())?;
        bytes.as_mut_slice().copy_from_slice(&input.bytes);
        kept.push(bytes);
    }
    let mut results = Vec::new();
    for leaf in executable.outputs() {
        let mut bytes = AlignedBytes::uninitialized(leaf.byte_size())?;
        bytes.as_mut_slice().fill(0xa5);
        results.push(bytes);
    }
    let from: Vec<*const u8> = kept.iter().map(AlignedBytes::as_ptr).collect();
    let to: Vec<*mut u8> = results.iter_mut().map(AlignedBytes::as_mut_ptr).collect();
    // SAFETY: every address has room for its leaf.
    unsafe { executable.run(&from, &to, &Default::default())? };
    Ok(results
        .iter()
        .map(|bytes| bytes.as_slice().to_vec())
        .collect())
}

fn check(path: &Path) -> Result<(), String> {
    let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let comments = |name: &str| {
        let prefix = format!("// {name}: ");
        let found = source.lines().filter_map(|line| line.strip_prefix(&prefix));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    let arrays = |name: &str| -> Result<Vec<Array>, String> {
        let read = |line: &String| array(line).ok_or_else(|| format!("no array: {line}"));
        comments(name).iter().map(read).collect()
    };
    let (inputs, wanted) = (arrays("in")?, arrays("out")?);
    let close: f64 = comments("close")
        .first()
        .map_or(Ok(0.0), |text| text.parse())
        .map_err(|_| "no tolerance")?;
    let results = run(&source, &inputs, 4).map_err(|error| error.to_string())?;
    if results.len() != wanted.len() {
        return Err(format!(
            "{} results instead of {}",
            results.len(),
            wanted.len()
        ));
    }
    for (k, (got, want)) in results.iter().zip(&wanted).enumerate() {
        if let Some(what) = difference(want.ty, got, &want.bytes, close) {
            return Err(format!("result {k}: {what}"));
        }
    }
    let alone = run(&source, &inputs, 1).map_err(|error| error.to_string())?;
    if alone != results {
        return Err("other bits on one thread".into());
    }
    Ok(())
}

#[test]
fn results_are_those_of_xla() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/execute");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    assert!(files.len() > 50, "only {} files", files.len());
    let failures: Vec<String> = files
        .iter()
        .filter_map(|path| {
            let error = check(path).err()?;
            Some(format!("{}: {error}", path.file_name()?.to_string_lossy()))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
