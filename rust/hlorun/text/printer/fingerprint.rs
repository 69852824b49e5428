//! A hash of what a module computes and how, equal for modules that differ in names and metadata only.

use std::fmt::Write;

use super::names::UniqueNames;
use super::order::computation_order;
use super::{PrintOptions, PrintSubcomputationMode, Printer};
use crate::module::{HloModule, IdMap, InstructionId};
use crate::types::{Literal, LiteralValue};

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

/// Everything an instruction says, but for names and metadata.
fn exact_options() -> PrintOptions {
    PrintOptions {
        print_only_essential_constants: false,
        print_original_value: false,
        print_backend_config: true,
        print_infeed_outfeed_config: true,
        print_control_dependencies: true,
        print_operand_names: true,
        canonicalize_instruction_names: false,
        syntax_sugar_async_ops: false,
        // A nested body counts by its own hash: spelled out, bodies could grow without bound.
        print_subcomputation_mode: PrintSubcomputationMode::NameOnly,
        ..PrintOptions::module_fingerprint()
    }
}

impl HloModule {
    /// 32 hexadecimal digits that are the same in every version of hlorun for modules that compute the
    /// same in the same way.
    ///
    /// Constants count by their bits, shapes with their layouts; attributes, backend configs, called
    /// computations and, of scheduled modules, the order of instructions count as well. Names and
    /// metadata do not, nor do computations that the entry does not reach. It is not the number XLA
    /// computes.
    pub fn fingerprint(&self) -> String {
        let options = exact_options();
        let mut printer = Printer::new(self, &options, UniqueNames::default());
        printer.is_exact = true;
        printer.number_instructions();
        let order = computation_order(self, true);
        for &id in &order {
            printer.out.clear();
            printer.write_computation(id, 0, true);
            let mut hash = Fnv::new();
            hash.add(printer.out.as_bytes());
            printer
                .names
                .rename_computation(id, &format!("{:032x}", hash.0));
        }
        printer.out.clear();
        printer.write_header();
        let roots = match self.entry {
            Some(entry) => vec![entry],
            None => order,
        };
        for id in roots {
            let name = printer.computation_name(id).into_owned();
            let _ = write!(printer.out, "\n{name}");
        }
        let mut hash = Fnv::new();
        hash.add(printer.out.as_bytes());
        format!("{:032x}", hash.0)
    }

    /// What an instruction does: equal texts for instructions that do the same with equal operands,
    /// called computations and control predecessors, which are not part of it.
    pub fn instruction_signature(&self, id: InstructionId) -> String {
        let options = PrintOptions {
            print_control_dependencies: false,
            // Outside a computation there are no canonical names.
            canonicalize_instruction_names: true,
            print_subcomputation_mode: PrintSubcomputationMode::Off,
            ..exact_options()
        };
        let mut printer = Printer::new(self, &options, UniqueNames::default());
        printer.is_exact = true;
        printer.line(id)
    }
}

impl Printer<'_> {
    /// Names instructions by their places in their computations.
    fn number_instructions(&mut self) {
        let mut numbers = IdMap::new(self.module.instruction_count(), 0);
        for computation in self.module.computation_ids() {
            let order = self.order(computation, self.module.config.is_scheduled);
            for (place, &id) in order.iter().enumerate() {
                numbers[id] = place as u32;
            }
        }
        self.names = UniqueNames::numbered(numbers);
    }
}

/// Appends a digest of the bits of a literal's elements, of tuples that of all parts in their order.
pub(super) fn write_digest(out: &mut String, literal: &Literal) {
    let mut hash = Fnv::new();
    let mut stack = vec![literal];
    while let Some(literal) = stack.pop() {
        match &literal.value {
            LiteralValue::Array(bytes) => {
                hash.add(b"array");
                hash.add(&(bytes.len() as u64).to_le_bytes());
                hash.add(bytes);
            }
            LiteralValue::Elided => hash.add(b"elided"),
            LiteralValue::Token => hash.add(b"token"),
            LiteralValue::Tuple(parts) => {
                hash.add(b"tuple");
                hash.add(&(parts.len() as u64).to_le_bytes());
                stack.extend(parts.iter().rev());
            }
        }
    }
    let _ = write!(out, "{:032x}", hash.0);
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
        assert_eq!(first, "e41a3853fec79796a9e3ce09609c4ae9");
        let renamed = text
            .replace("ROOT y", "ROOT z")
            .replace("HloModule a", "HloModule b");
        assert_eq!(fingerprint(&renamed), first);
        let metadata = text.replace("negate(x)", "negate(x), metadata={op_name=\"n\"}");
        assert_eq!(fingerprint(&metadata), first);
        assert_ne!(fingerprint(&text.replace("negate", "cosine")), first);
    }

    /// Every change of what is computed, or how, changes the fingerprint.
    #[test]
    fn different_modules_differ() {
        let base = r#"HloModule m, is_scheduled=true, num_partitions=2, input_output_alias={ {0}: (0, {}, may-alias) }
g { a = f32[4]{0} parameter(0) ROOT n = f32[4]{0} negate(a) }
h { a = f32[4]{0} parameter(0) ROOT n = f32[4]{0} cosine(a) }
ENTRY e {
  x = f32[4]{0} parameter(0)
  c = f32[] constant(2)
  z = f32[2]{0} constant({0, nan})
  w = f64[20]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20.25})
  b = f32[4]{0} broadcast(c), dimensions={}
  y = f32[4]{0} call(x), to_apply=g
  q = f32[2,2]{1,0} custom-call(b), custom_call_target="t", backend_config={"k":[1, 2]}, frontend_attributes={f="1"}
  d = f32[2,2]{1,0} copy(q), control-predecessors={y}, sharding={replicated}
  k = f32[4]{0} batch-norm-inference(x, x, x, x, x), epsilon=0.001, feature_index=0
  ROOT r = (f32[4]{0}, f32[2,2]{1,0}, f32[2]{0}, f64[20]{0}, f32[4]{0}) tuple(y, d, z, w, k)
}"#;
        let changes = [
            ("constant(2)", "constant(3)"),
            ("{0, nan}", "{-0, nan}"),
            ("{0, nan}", "{0, nan(0x400001)}"),
            ("{0, nan}", "{0, -nan}"),
            ("20.25", "20.5"),
            ("[1, 2]", "[1, 3]"),
            (r#"f="1""#, r#"f="2""#),
            ("to_apply=g", "to_apply=h"),
            ("cosine", "sine"),
            ("{replicated}", "{manual}"),
            ("control-predecessors={y}", "control-predecessors={b}"),
            (", control-predecessors={y}", ""),
            ("epsilon=0.001", "epsilon=0.0010000001"),
            ("num_partitions=2", "num_partitions=3"),
            ("may-alias", "must-alias"),
            ("q = f32[2,2]{1,0}", "q = f32[2,2]{0,1}"),
            ("\"t\"", "\"u\""),
            ("tuple(y,", "tuple(x,"),
            (", is_scheduled=true", ""),
        ];
        let first = fingerprint(base);
        assert_eq!(first.len(), 32, "{first}");
        let mut seen = std::collections::HashSet::from([first]);
        for (from, to) in changes {
            let text = base.replacen(from, to, 1);
            assert_ne!(text, base, "{from}");
            let changed = fingerprint(&text);
            assert_eq!(changed.len(), 32, "{to}: {changed}");
            // What the entry does not reach does not count.
            assert_eq!(seen.insert(changed), from != "cosine", "{from} -> {to}");
        }
    }

    #[test]
    fn orders_count_only_in_schedules() {
        let (a, b) = ("a = f32[] negate(p)", "b = f32[] cosine(p)");
        let text = |first, second, scheduled: &str| {
            fingerprint(&format!(
                "HloModule m{scheduled}\nENTRY e {{ p = f32[] parameter(0)\n{first}\n{second}\n\
                 ROOT r = f32[] add(a, b) }}"
            ))
        };
        assert_eq!(text(a, b, ""), text(b, a, ""));
        let scheduled = ", is_scheduled=true";
        assert_ne!(text(a, b, scheduled), text(b, a, scheduled));
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
