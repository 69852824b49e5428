//! Any bytes, of protos and of their texts, give a module or an error that can be shown; a module that is
//! written as either and read again prints alike; memory stays in proportion to the input.

#![no_main]

use hlorun::module::{HloModule, Source};
use hlorun::proto;
use hlorun::text::ParseOptions;
use hlorun::text::printer::{PrintOptions, print_module};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ParseOptions::default();
    let file = match proto::read(&Source::from(data.to_vec()), &options) {
        Ok(file) => file,
        Err(error) => return drop(error.to_string()),
    };
    assert!(file.module.heap_size() <= 200 * data.len() + (64 << 10));
    let Ok(written) = proto::write_module(&file.module) else {
        return;
    };
    // Stack frames are numbered anew each time, and differently where they refer to what is not there.
    let without_frames = PrintOptions {
        print_metadata: false,
        ..PrintOptions::default()
    };
    // Printing does not keep the order of instructions on a cycle, which verification refuses.
    let is_ordered = hlorun::verify::verify(&file.module).is_ok();
    let print = |module: &HloModule| {
        let printed = print_module(module, &without_frames);
        if is_ordered {
            return printed;
        }
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let text = proto::write_module_text(&file.module).expect("what has a proto has its text");
    let printed = print(&file.module);
    for (written, is_exact) in [
        (written, true),
        // A NaN is `nan` there, whatever its payload.
        (text.clone().into_bytes(), !text.contains("nan")),
    ] {
        let again = proto::read(&Source::from(written), &options).expect("what was written");
        assert!(!is_exact || printed == print(&again.module));
    }
});
