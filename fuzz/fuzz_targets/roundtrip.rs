//! What parses is printed in both dialects to texts that parse to an equal module.

#![no_main]

use std::sync::Arc;

use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::text::{self, ParseOptions};
use hlorun_fuzz::mutate::mutate;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| {
    let options = ParseOptions::default();
    let Ok(module) = text::parse(Arc::from(data), &options) else {
        return;
    };
    for dialect in [PrintOptions::default(), PrintOptions::long()] {
        let printed = print_module(&module, &dialect);
        match text::parse(Arc::from(printed.as_bytes()), &options) {
            Ok(again) => {
                if let Err(difference) = module.structurally_equal(&again) {
                    panic!("{difference}\nprinted as\n{printed}");
                }
            }
            Err(error) => panic!("{error}\nprinted as\n{printed}"),
        }
    }
    let _ = module.fingerprint();
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});
