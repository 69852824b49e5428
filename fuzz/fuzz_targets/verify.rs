//! Verification of whatever parses ends without a panic, and its errors can be shown.

#![no_main]

use std::sync::Arc;

use hlorun::text::{self, ParseOptions};
use hlorun::verify::verify;
use hlorun_fuzz::mutate::mutate;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| {
    let Ok(module) = text::parse(Arc::from(data), &ParseOptions::default()) else {
        return;
    };
    if let Err(error) = verify(&module) {
        assert!(!error.to_string().is_empty());
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});
