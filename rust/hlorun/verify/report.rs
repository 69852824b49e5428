//! Collects broken rules and gives each its place in the text.

use crate::error::VerifyError;
use crate::module::attributes::AttrValue;
use crate::module::location::locate;
use crate::module::{AttrKey, ComputationId, HloModule, InstructionId, InstructionRef, TextRef};
use crate::types::ShapeTable;

use super::inferred::show;

/// Errors kept; further ones are counted.
const MAX_ERRORS: usize = 1_000;
/// Operands a summary shows.
const MAX_OPERANDS: usize = 8;

/// Broken rules so far.
pub struct Report<'m> {
    module: &'m HloModule,
    errors: Vec<Entry>,
    dropped: usize,
}

struct Entry {
    message: String,
    name: String,
    text: TextRef,
}

impl<'m> Report<'m> {
    /// No errors yet.
    pub fn new(module: &'m HloModule) -> Report<'m> {
        Report {
            module,
            errors: Vec::new(),
            dropped: 0,
        }
    }

    #[cold]
    fn push(&mut self, message: impl FnOnce() -> String, name: TextRef, text: TextRef) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(Entry {
                message: message(),
                name: self.module.str(name).into_owned(),
                text,
            });
        } else {
            self.dropped += 1;
        }
    }

    /// About an instruction; `problem` continues "%name (opcode) ".
    #[cold]
    pub fn instruction(&mut self, id: InstructionId, problem: &str) {
        let i = self.module.instruction(id);
        let message = || format!("%{} ({}) {problem}", i.name(), i.opcode_name());
        self.push(message, i.data().name, i.data().text);
    }

    /// About a computation; `problem` continues "computation %name ".
    #[cold]
    pub fn computation(&mut self, id: ComputationId, problem: &str) {
        let computation = self.module.computation(id);
        let message = || {
            format!(
                "computation %{} {problem}",
                self.module.str(computation.name)
            )
        };
        self.push(message, computation.name, computation.text);
    }

    /// About the module's first line.
    #[cold]
    pub fn module(&mut self, problem: &str) {
        let name = self.module.name;
        self.push(|| problem.to_owned(), name, name);
    }

    /// All of them, in the order of the text.
    pub fn finish(mut self) -> Vec<VerifyError> {
        self.errors.sort_by_key(|entry| entry.text.start);
        let source = self.module.text().source();
        let filename = self.module.text().filename().map(std::sync::Arc::from);
        // Lines are counted once, from each error on to the next.
        let mut base = 0usize;
        let mut lines = 0usize;
        let mut out = Vec::with_capacity(self.errors.len() + 1);
        for entry in self.errors {
            let offset = entry.text.start as usize;
            let location = (entry.text.len > 0 && offset < source.len()).then(|| {
                let mut location = locate(&source[base..], filename.clone(), offset - base);
                location.line += lines;
                lines = location.line - 1;
                base = offset + 1 - location.column;
                location
            });
            out.push(VerifyError {
                message: entry.message,
                instruction: entry.name,
                location,
            });
        }
        if self.dropped > 0 {
            out.push(VerifyError {
                message: format!("… and {} errors more", self.dropped),
                instruction: String::new(),
                location: None,
            });
        }
        out
    }
}

/// `add(f32[3] %a, f32[4] %b)` with the attributes that shape the result.
#[cold]
pub fn summary(i: InstructionRef<'_>) -> String {
    let table: &ShapeTable = i.module.shapes();
    let mut out = format!("{}(", i.opcode_name());
    for (k, operand) in i.operands().enumerate() {
        if k > 0 {
            out.push_str(", ");
        }
        if k == MAX_OPERANDS {
            out.push_str(&format!("… {} in all", i.operand_ids().len()));
            break;
        }
        out.push_str(&format!(
            "{} %{}",
            show(table, operand.shape_id()),
            operand.name()
        ));
    }
    out.push(')');
    for attribute in i.attributes() {
        let value = match &attribute.value {
            AttrValue::Int(value) => value.to_string(),
            AttrValue::Ints(range) => super::rules::common::list(i.module.int_list(*range)),
            AttrValue::Computation(id) => {
                let root = i.module.computation(*id).root;
                let result = root.map_or(String::new(), |root| {
                    format!(
                        " returning {}",
                        show(table, i.module.instruction(root).shape_id())
                    )
                });
                format!("%{}{result}", i.module.str(i.module.computation(*id).name))
            }
            AttrValue::Slice(slices) => slices
                .iter()
                .map(|s| format!("[{}:{}:{}]", s.start, s.limit, s.stride))
                .collect(),
            AttrValue::Padding(padding) => padding
                .iter()
                .map(|p| format!("{}_{}_{}", p.edge_low, p.edge_high, p.interior))
                .collect::<Vec<_>>()
                .join("x"),
            AttrValue::Window(window) => format!(
                "{{{}}}",
                window
                    .0
                    .iter()
                    .map(|w| format!(
                        "size={} stride={} pad={}_{}",
                        w.size, w.stride, w.padding_low, w.padding_high
                    ))
                    .collect::<Vec<_>>()
                    .join("; ")
            ),
            _ => continue,
        };
        if matches!(attribute.key, AttrKey::ChannelId | AttrKey::AsyncGroupId) {
            continue;
        }
        if let Some(name) = attribute.key.name() {
            out.push_str(&format!(", {name}={value}"));
        }
    }
    out
}
