//! Whether two modules say the same, however their texts are written.

use std::fmt;

use foldhash::HashMap;

use super::printer::{PrintOptions, Printer};
use crate::module::{ComputationId, HloModule, InstructionId};
use crate::types::{Literal, LiteralValue};

/// The first thing in which two modules differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where, in words that name the computation and the instruction.
    pub place: String,
    /// What the first module has there.
    pub left: String,
    /// What the second module has there.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} differs:\n  {}\n  {}",
            self.place, self.left, self.right
        )
    }
}

impl std::error::Error for Difference {}

impl HloModule {
    /// Compares names (those that are printed, unique in the module), opcodes, shapes with layouts,
    /// operands, attributes and literals by value, and, of scheduled modules, the order of
    /// instructions. Where things stand in the text, and how they are written, does not count.
    ///
    /// # Errors
    /// The first difference found.
    pub fn structurally_equal(&self, other: &HloModule) -> Result<(), Box<Difference>> {
        // Literals are compared by their bytes; all else by its one canonical form.
        let options = PrintOptions {
            print_large_constants: false,
            print_operand_index_annotation_interval: 0,
            ..PrintOptions::long()
        };
        let mut left = Side::new(self, &options);
        let mut right = Side::new(other, &options);
        compare("the header", left.printer.header(), right.printer.header())?;
        let count = |side: &Side<'_>| format!("{} computations", side.computations.len());
        compare("the module", count(&left), count(&right))?;
        let entry = |side: &Side<'_>, module: &HloModule| {
            let name = module.entry.map(|id| side.printer.computation_name(id));
            name.unwrap_or_default().into_owned()
        };
        compare("the entry", entry(&left, self), entry(&right, other))?;
        for id in self.computation_ids() {
            let name = left.printer.computation_name(id).into_owned();
            if !left.computations.contains_key(&name) {
                continue;
            }
            let Some(&twin) = right.computations.get(&name) else {
                let missing = String::from("no such computation");
                return Err(difference(&format!("computation '{name}'"), name, missing));
            };
            left.compare_computation(&mut right, id, twin, &name)?;
        }
        Ok(())
    }
}

/// One of the modules, with what it has by name.
struct Side<'m> {
    module: &'m HloModule,
    printer: Printer<'m>,
    computations: HashMap<String, ComputationId>,
    instructions: HashMap<String, InstructionId>,
}

impl<'m> Side<'m> {
    fn new(module: &'m HloModule, options: &'m PrintOptions) -> Side<'m> {
        let printer = Printer::for_comparison(module, options);
        // Their names are not in a text with `xxx-start(…)`, and that says all about them.
        let hidden = printer.sugared_computations();
        let computations = module
            .computation_ids()
            .filter(|id| !hidden.contains(id))
            .map(|id| (printer.computation_name(id).into_owned(), id))
            .collect();
        let instructions = module
            .computation_ids()
            .flat_map(|id| &module.computation(id).instructions)
            .map(|&id| (printer.instruction_name(id).into_owned(), id))
            .collect();
        Side {
            module,
            printer,
            computations,
            instructions,
        }
    }

    fn compare_computation(
        &mut self,
        other: &mut Side<'_>,
        id: ComputationId,
        twin: ComputationId,
        name: &str,
    ) -> Result<(), Box<Difference>> {
        let mine = self.module.computation(id);
        let theirs = other.module.computation(twin);
        let place = format!("computation '{name}'");
        compare(
            &place,
            self.printer.signature(id),
            other.printer.signature(twin),
        )?;
        let count = |n: usize| format!("{n} instructions");
        compare(
            &place,
            count(mine.instructions.len()),
            count(theirs.instructions.len()),
        )?;
        for (at, &id) in mine.instructions.iter().enumerate() {
            let instruction = self.printer.instruction_name(id).into_owned();
            let place = format!("'{instruction}' in computation '{name}'");
            let found = other.instructions.get(&instruction).copied();
            let Some(twin) =
                found.filter(|&i| other.module.instruction_data(i).computation == twin)
            else {
                let missing = String::from("no such instruction");
                return Err(difference(&place, instruction, missing));
            };
            if self.module.config.is_scheduled && theirs.instructions.get(at) != Some(&twin) {
                let position = |n: usize| format!("position {n} of the schedule");
                let there = theirs.instructions.iter().position(|&i| i == twin);
                return Err(difference(
                    &place,
                    position(at),
                    position(there.unwrap_or(0)),
                ));
            }
            compare(&place, self.printer.line(id), other.printer.line(twin))?;
            let literals = (
                self.module.instruction(id).literal(),
                other.module.instruction(twin).literal(),
            );
            if let (Some(a), Some(b)) = literals
                && !same_value(a, b)
            {
                return Err(difference(
                    &format!("the value of {place}"),
                    String::from("one value"),
                    String::from("another value"),
                ));
            }
        }
        Ok(())
    }
}

/// Whether two literals have the same bytes.
fn same_value(a: &Literal, b: &Literal) -> bool {
    let mut stack = vec![(a, b)];
    while let Some((a, b)) = stack.pop() {
        let same = match (&a.value, &b.value) {
            (LiteralValue::Tuple(a), LiteralValue::Tuple(b)) => {
                stack.extend(a.iter().zip(b.iter()));
                a.len() == b.len()
            }
            (LiteralValue::Array(left), LiteralValue::Array(right)) => {
                left == right && a.shape.same_dims_and_type(&b.shape)
            }
            (LiteralValue::Elided, LiteralValue::Elided) => true,
            (LiteralValue::Token, LiteralValue::Token) => true,
            _ => false,
        };
        if !same {
            return false;
        }
    }
    true
}

fn compare(place: &str, left: String, right: String) -> Result<(), Box<Difference>> {
    if left == right {
        Ok(())
    } else {
        Err(difference(place, left, right))
    }
}

fn difference(place: &str, left: String, right: String) -> Box<Difference> {
    Box::new(Difference {
        place: place.to_owned(),
        left,
        right,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::text::{ParseOptions, parse};

    const TEXT: &str = "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  \
                        c = f32[2] constant({1, nan})\n  ROOT r = f32[2] add(a, c), sharding={replicated}\n}";

    fn compare_texts(a: &str, b: &str) -> Option<String> {
        let module = |text: &str| {
            parse(Arc::from(text.as_bytes()), &ParseOptions::default())
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let result = module(a).structurally_equal(&module(b));
        result.err().map(|difference| difference.place)
    }

    #[test]
    fn spelling_does_not_count() {
        let same = TEXT
            .replace("a = f32[2]", "%a = f32[2]{0}")
            .replace("add(a, c)", "add(f32[2]{0} %a, c)")
            .replace("{1, nan}", "{1.0, /*x*/ nan}");
        assert_eq!(compare_texts(TEXT, &same), None);
    }

    #[test]
    fn differences_are_named() {
        let cases = [
            ("HloModule m", "HloModule n", "the header"),
            ("add(a, c)", "add(c, a)", "'r' in computation 'e'"),
            ("add(a, c)", "subtract(a, c)", "'r' in computation 'e'"),
            ("replicated", "manual", "'r' in computation 'e'"),
            (
                "{1, nan}",
                "{1, -nan}",
                "the value of 'c' in computation 'e'",
            ),
            ("ROOT r", "d = f32[2] negate(a)\n ROOT r", "computation 'e'"),
        ];
        for (from, to, place) in cases {
            let changed = TEXT.replace(from, to);
            let found = compare_texts(TEXT, &changed);
            // A value of few elements is a part of the line as well.
            let found = found.map(|found| found.replace("the value of ", ""));
            assert_eq!(
                found.as_deref(),
                Some(place.trim_start_matches("the value of "))
            );
        }
    }
}
