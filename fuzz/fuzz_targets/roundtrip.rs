//! What parses and verifies is printed in both dialects to texts that parse to an equal module; what
//! only parses is printed. With `HLORUN_FUZZ_STRICT` set, what only parses has to come back as well.

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
    let is_strict =
        std::env::var_os("HLORUN_FUZZ_STRICT").is_some() || hlorun::verify::verify(&module).is_ok();
    for dialect in [PrintOptions::default(), PrintOptions::long()] {
        let printed = print_module(&module, &dialect);
        if !is_strict {
            continue;
        }
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
