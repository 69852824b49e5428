//! A verified module compiles and runs on arrays of zeros and of small numbers, or is refused with a
//! typed error; a run that does not end is interrupted.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use hlorun::HloError;
use hlorun::exec::RunOptions;
use hlorun::module::HloModule;
use hlorun::plan::{Check, CompileOptions, MachineCode, compile};
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
    if !is_small(&module) {
        return;
    }
    let Ok(verified) = verify(&module) else {
        return;
    };
    let options = CompileOptions {
        // Every eighth text is run by two threads.
        threads: if data.len() % 8 == 0 { 2 } else { 1 },
        // Every fourth one step by step on copies of what each step declares.
        check: match data.len() % 4 {
            0 => Check::Shadow,
            _ => Check::Plan,
        },
        // Loops of every third as machine code.
        machine_code: match data.len() % 3 {
            0 => MachineCode::AtOnce,
            _ => MachineCode::WhenBusy,
        },
        ..CompileOptions::default()
    };
    let executable = match compile(&verified, &options) {
        Ok(executable) => executable,
        Err(error @ (HloError::Unsupported { .. } | HloError::Execution { .. })) => {
            no_fault(&error);
            return;
        }
        Err(error) => return drop(error.to_string()),
    };
    if executable.temp_size() > TEMP_BYTES {
        return;
    }
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    for leaf in executable.inputs() {
        // Every byte 0 or 1 is a legal value of every type, `pred` too.
        let is_set = leaf.element_type != PrimitiveType::Pred || data.len() % 2 == 0;
        let byte = |at: usize| (is_set && at % 3 == 1).into();
        inputs.push((0..leaf.byte_size()).map(byte).collect());
    }
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let begin = Instant::now();
    let interrupted = move || begin.elapsed() > Duration::from_millis(100);
    let options = RunOptions {
        interrupted: &interrupted,
        ..RunOptions::default()
    };
    match executable.call(&inputs, &options) {
        Ok(_) => report(&module),
        Err(error) => no_fault(&error),
    }
});

/// What is found in a plan or a run is a fault of the program, not of the text.
fn no_fault(error: &HloError) {
    let message = error.to_string();
    let is_ours = message.contains("internal") || message.contains("a fault of hlorun");
    assert!(!is_ours, "{message}");
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});
