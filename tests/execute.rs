//! Runs every file of `tests/hlo/execute` and compares its results with those XLA:CPU gave.
//!
//! A file is HLO text with comments: `// in: f32[2,3] 1 2 …` for every parameter leaf, in order,
//! `// out: …` for every result leaf, row-major, complex numbers as two, and
//! `// close: r` for results that may differ by `r` times the largest wanted magnitude.
//! Every file runs on one thread and on several: the bits have to agree.

use std::path::{Path, PathBuf};

use hlorun::HloError;
use hlorun::exec::{CustomCallHook, RunOptions};
use hlorun::plan::{Check, CompileOptions, compile};
use hlorun::text::{self, ParseOptions};
use hlorun::types::PrimitiveType;
use hlorun::verify::verify;

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

fn run(
    source: &str,
    inputs: &[Array],
    threads: usize,
    check: Check,
) -> hlorun::Result<Vec<Vec<u8>>> {
    let module = text::parse(source.as_bytes().into(), &ParseOptions::default())?;
    let options = CompileOptions {
        threads,
        check,
        ..CompileOptions::default()
    };
    let executable = compile(&verify(&module)?, &options)?;
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input.bytes[..]).collect();
    let results = executable.call(&inputs, &Default::default())?;
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
    let results = run(&source, &inputs, 4, Check::Plan).map_err(|error| error.to_string())?;
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
    let others = [
        ("on one thread", 1, Check::Plan),
        ("in a shadow run", 3, Check::Shadow),
    ];
    for (how, threads, check) in others {
        let bits = run(&source, &inputs, threads, check).map_err(|error| error.to_string())?;
        if bits != results {
            return Err(format!("other bits {how}"));
        }
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

const NEGATED: &str = "HloModule m
ENTRY e {
  p = f64[3] parameter(0)
  ROOT n = f64[3] negate(p)
}
";

#[test]
fn slices_of_other_sizes_are_refused() {
    let module = text::parse(NEGATED.as_bytes().into(), &ParseOptions::default()).unwrap();
    let executable = compile(&verify(&module).unwrap(), &CompileOptions::default()).unwrap();
    for inputs in [&[] as &[&[u8]], &[&[0; 23]], &[&[0; 25]], &[&[0; 24], &[]]] {
        let error = executable.call(inputs, &RunOptions::default());
        assert!(matches!(error, Err(HloError::Argument(_))), "{inputs:?}");
    }
}

#[test]
fn slices_lie_anywhere() {
    let module = text::parse(NEGATED.as_bytes().into(), &ParseOptions::default()).unwrap();
    let executable = compile(&verify(&module).unwrap(), &CompileOptions::default()).unwrap();
    let numbers = |sign: f64| [1.0, 2.0, 3.0].map(|x: f64| sign * x).map(f64::to_ne_bytes);
    for offset in 0..8 {
        let mut bytes = vec![0; offset];
        bytes.extend(numbers(1.0).as_flattened());
        let results = executable.call(&[&bytes[offset..]], &RunOptions::default());
        assert_eq!(results.unwrap()[0].as_slice(), numbers(-1.0).as_flattened());
    }
}

#[test]
fn a_hook_writes_all_of_a_result_or_the_run_ends() {
    let text = "HloModule m
ENTRY e {
  p = s8[3] parameter(0)
  ROOT c = (s8[3], s8[2]) custom-call(p), custom_call_target=\"mine\"
}
";
    let module = text::parse(text.as_bytes().into(), &ParseOptions::default()).unwrap();
    let executable = compile(&verify(&module).unwrap(), &CompileOptions::default()).unwrap();
    let run = |written: &[&[u8]]| {
        let hook: &CustomCallHook<'_> = &|_, _, inputs, outputs| {
            assert_eq!(inputs[0].dims(), [3]);
            let mut pairs = outputs.iter().zip(written);
            Some(pairs.try_for_each(|(to, bytes)| to.write_row_major(bytes)))
        };
        executable.call(
            &[&[1, 2, 3]],
            &RunOptions {
                custom_call: Some(hook),
                ..RunOptions::default()
            },
        )
    };
    let results = run(&[&[4, 5, 6], &[7, 8]]).unwrap();
    let results: Vec<&[u8]> = results.iter().map(|bytes| bytes.as_slice()).collect();
    assert_eq!(results, [&[4u8, 5, 6] as &[u8], &[7, 8]]);
    for written in [&[] as &[&[u8]], &[&[4, 5, 6]], &[&[4, 5, 6], &[7]]] {
        let error = run(written).unwrap_err();
        assert!(matches!(error, HloError::Execution(_)), "{error}");
    }
}
