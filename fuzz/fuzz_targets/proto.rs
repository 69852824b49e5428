//! Any bytes give a module or an error that can be shown; a module that is written as a proto and
//! read again prints alike; memory stays in proportion to the input.

#![no_main]

use hlorun::module::Source;
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
    let again = proto::read(&Source::from(written), &options).expect("what was written");
    let print = |module| print_module(module, &PrintOptions::default());
    assert_eq!(print(&file.module), print(&again.module));
});
