//! A hash of what a module computes, equal for modules that differ in names and metadata only.

use std::fmt::Write;

use super::names::UniqueNames;
use super::order::computation_order;
use super::{PrintOptions, PrintSubcomputationMode, Printer};
use crate::module::HloModule;

/// 128-bit FNV-1a; also a sink for text.
struct Fnv(u128);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= u128::from(byte);
            self.0 = self
                .0
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

impl HloModule {
    /// 32 hexadecimal digits that are the same in every version of hlorun for modules whose entry
    /// computations print the same under XLA's `ModuleFingerprint` options: names, metadata, backend
    /// configs and values of inessential constants do not count, nor do computations that the entry
    /// does not reach. They are not the number XLA computes.
    pub fn fingerprint(&self) -> String {
        // A nested body counts by its own hash: spelled out, bodies could grow without bound.
        let options = PrintOptions {
            print_subcomputation_mode: PrintSubcomputationMode::NameOnly,
            ..PrintOptions::module_fingerprint()
        };
        let mut printer = Printer::new(self, &options, UniqueNames::default());
        for id in computation_order(self, true) {
            printer.out.clear();
            printer.write_computation(id, 0, false);
            let mut hash = Fnv::new();
            hash.add(printer.out.as_bytes());
            printer
                .names
                .rename_computation(id, &format!("{:032x}", hash.0));
        }
        printer.out.clear();
        printer.write_header();
        if let Some(entry) = self.entry {
            let name = printer.computation_name(entry).into_owned();
            let _ = write!(printer.out, "\n{name}");
        }
        let mut hash = Fnv::new();
        hash.add(printer.out.as_bytes());
        format!("{:032x}", hash.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::text::{ParseOptions, parse};

    fn fingerprint(text: &str) -> String {
        let module = parse(Arc::from(text.as_bytes()), &ParseOptions::default());
        module
            .map(|m| m.fingerprint())
            .unwrap_or_else(|e| e.to_string())
    }

    #[test]
    fn only_what_is_computed_counts() {
        let text = "HloModule a\nf { x = f32[] parameter(0) ROOT y = f32[] negate(x) }\n\
                    ENTRY e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=f }";
        let first = fingerprint(text);
        assert_eq!(first, "dd73fae8699271bc9ee4983bd8a0cae4");
        let renamed = text
            .replace("ROOT y", "ROOT z")
            .replace("HloModule a", "HloModule b");
        assert_eq!(fingerprint(&renamed), first);
        let metadata = text.replace("negate(x)", "negate(x), metadata={op_name=\"n\"}");
        assert_eq!(fingerprint(&metadata), first);
        assert_ne!(fingerprint(&text.replace("negate", "cosine")), first);
    }

    #[test]
    fn nested_calls_do_not_multiply() {
        let mut text = String::from("HloModule a\nf0 { ROOT x = f32[] parameter(0) }\n");
        for i in 1..200 {
            let callee = i - 1;
            text.push_str(&format!(
                "f{i} {{ x = f32[] parameter(0) y = f32[] call(x), to_apply=f{callee} \
                 ROOT z = f32[] call(y), to_apply=f{callee} }}\n"
            ));
        }
        assert_eq!(fingerprint(&text).len(), 32);
    }
}
