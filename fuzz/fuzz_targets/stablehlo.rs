//! Any bytes give a module or the reason why not; memory stays in proportion to the input.

#![no_main]

use hlorun::text::ParseOptions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match hlorun::stablehlo::read(data, &ParseOptions::default()) {
        Ok(module) => assert!(module.heap_size() <= 4000 * data.len() + (1 << 20)),
        Err(declined) => drop(declined.to_string()),
    }
});
