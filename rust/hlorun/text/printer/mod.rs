//! Module → text, in the bytes of XLA's own `HloModule::ToString`.
//!
//! Comes in: a module and [`PrintOptions`]. Goes out: text that, unless an option leaves something
//! out, parses to a module that is [structurally equal](super::equality). Promise: depth of calls
//! costs no stack, and nested bodies, which can grow exponentially, are cut with `…` at a limit.

mod attributes;
pub(crate) mod braces;
mod computation;
mod escape;
mod fingerprint;
mod float;
mod header;
mod instruction;
mod literal;
mod metadata;
mod names;
mod options;
mod order;
mod shapes;
mod sharding;
mod stack_frames;
mod values;

use std::borrow::Cow;
use std::rc::Rc;

use foldhash::HashMap;

use super::attribute_table::{SHARED, is_attribute_of};
use crate::module::{AttrValue, ComputationId, HloModule, InstructionId, InstructionRef};
use crate::types::{ShapeId, ShapeStyle};
pub(crate) use attributes::write_string_or_dict;
pub(crate) use escape::{unescape, write_escaped};
pub(crate) use float::{write_f32, write_f64};
pub(crate) use literal::{write_literal, write_typed_literal};
use metadata::FrameStyle;
pub(crate) use names::UniqueNames;
pub use options::{PrintOptions, PrintSubcomputationMode};
pub(crate) use order::{
    Dependencies, Places, callees, computation_order, instruction_order, keeps_channel_order,
    post_order,
};
use shapes::WrittenShapes;
pub(crate) use stack_frames::StackFrames;
pub(crate) use values::{write_dim_labels, write_padding, write_slice, write_window};

/// Bytes of output up to which bodies are nested, for each byte of source.
const NESTED_GROWTH: usize = 64;
/// Bytes of output up to which bodies are nested in any case.
const NESTED_BYTES: usize = 64 << 20;

/// The whole module.
pub fn print_module(module: &HloModule, options: &PrintOptions) -> String {
    let mut printer = Printer::for_module(module, options);
    printer.out.reserve(module.text().source().len());
    printer.write_module();
    printer.out
}

/// Whether two modules have the same print but for the numbers of stack frames, which follow from the order of
/// the instructions in the text that was read.
pub fn prints_alike(a: &HloModule, b: &HloModule, options: &PrintOptions) -> bool {
    let print = |module| {
        let mut printer = Printer::for_comparison(module, options);
        printer.write_module();
        printer.out
    };
    print(a) == print(b)
}

/// One instruction, on one line unless the options nest what it calls.
pub fn print_instruction(
    module: &HloModule,
    instruction: InstructionId,
    options: &PrintOptions,
) -> String {
    let mut printer = Printer::new(module, options, UniqueNames::default());
    printer.write_single_instruction(instruction);
    printer.out
}

/// What a print in progress holds.
pub(super) struct Printer<'m> {
    module: &'m HloModule,
    options: &'m PrintOptions,
    /// Names that differ from those in the text.
    names: UniqueNames,
    frames: StackFrames,
    frame_style: FrameStyle,
    /// Shapes that have been written before.
    shapes: WrittenShapes,
    /// Whether different values are never written alike: constants as digests of their bits, numbers
    /// of attributes with all their digits.
    is_exact: bool,
    /// Bytes of output after which bodies are cut.
    most_nested: usize,
    /// Orders of computations that have been looked at.
    orders: HashMap<ComputationId, Rc<[InstructionId]>>,
    out: String,
}

impl<'m> Printer<'m> {
    fn new(module: &'m HloModule, options: &'m PrintOptions, names: UniqueNames) -> Printer<'m> {
        Printer {
            module,
            options,
            names,
            frames: StackFrames::default(),
            frame_style: if options.print_inline_stack_frames {
                FrameStyle::Source
            } else {
                FrameStyle::Number
            },
            shapes: WrittenShapes::new(module),
            is_exact: false,
            most_nested: NESTED_GROWTH
                .saturating_mul(module.text().source().len())
                .saturating_add(NESTED_BYTES),
            orders: HashMap::default(),
            out: String::new(),
        }
    }

    /// A printer of parts of a module, with the names and stack frames that the whole has.
    pub(super) fn for_module(module: &'m HloModule, options: &'m PrintOptions) -> Printer<'m> {
        let mut printer = Printer::new(module, options, UniqueNames::new(module));
        printer.frames = StackFrames::new(module);
        printer
    }

    /// A printer whose parts are equal where those of two modules say the same: stack frames are
    /// written by what they are, since their numbers follow from the order of the instructions.
    pub(super) fn for_comparison(module: &'m HloModule, options: &'m PrintOptions) -> Printer<'m> {
        let mut printer = Printer::for_module(module, options);
        printer.frame_style = FrameStyle::Identity;
        printer
    }

    /// The `HloModule` line.
    pub(super) fn header(&mut self) -> String {
        self.write_header();
        std::mem::take(&mut self.out)
    }

    /// What a computation says besides its instructions.
    pub(super) fn signature(&mut self, id: ComputationId) -> String {
        self.write_program_shape(id);
        let computation = self.module.computation(id);
        if let Some(root) = computation.root {
            self.write_instruction_name(root);
        }
        if let Some(thread) = computation.execution_thread {
            self.out.push_str(&self.module.str(thread));
        }
        std::mem::take(&mut self.out)
    }

    /// The line of an instruction.
    pub(super) fn line(&mut self, id: InstructionId) -> String {
        self.write_single_instruction(id);
        std::mem::take(&mut self.out)
    }

    /// A name as the options want it, `%` included.
    fn write_name(&mut self, name: &str) {
        self.write_percent(name);
        self.out.push_str(self.name_part(name));
    }

    /// `%` where the options want it, or where the name without it would read as a number.
    fn write_percent(&mut self, name: &str) {
        let is_numeric = || !self.is_exact && name.starts_with(|c: char| c.is_ascii_digit());
        if self.options.print_percent || is_numeric() {
            self.out.push('%');
        }
    }

    /// The name, or what is before its first dot where ids are left out.
    fn name_part<'n>(&self, name: &'n str) -> &'n str {
        match name.find('.') {
            Some(dot) if !self.options.print_ids => &name[..dot],
            _ => name,
        }
    }

    pub(super) fn instruction_name(&self, id: InstructionId) -> Cow<'m, str> {
        match self.names.instruction(id) {
            Some(name) => Cow::Owned(name.into_owned()),
            None => self.module.str(self.module.instruction_data(id).name),
        }
    }

    pub(super) fn computation_name(&self, id: ComputationId) -> Cow<'m, str> {
        match self.names.computation(id) {
            Some(name) => Cow::Owned(name.to_owned()),
            None => self.module.str(self.module.computation(id).name),
        }
    }

    fn write_instruction_name(&mut self, id: InstructionId) {
        if !self.names.write_number(&mut self.out, id) {
            let name = self.instruction_name(id);
            self.write_name(&name);
        }
    }

    fn write_computation_name(&mut self, id: ComputationId) {
        let name = self.computation_name(id);
        self.write_name(&name);
    }

    fn write_shape(&mut self, id: ShapeId, layout: bool) {
        self.write_shape_in(
            id,
            if layout {
                ShapeStyle::CANONICAL
            } else {
                ShapeStyle::LOGICAL
            },
        );
    }

    /// The shape of an instruction's result.
    fn write_shape_of(&mut self, id: InstructionId, layout: bool) {
        use crate::module::HloOpcode;
        let instruction = self.module.instruction_data(id);
        if layout && instruction.opcode == HloOpcode::Constant && !self.is_exact {
            // The shape of a constant is that of its literal, whose elements are not packed.
            self.write_shape_in(instruction.shape, ShapeStyle::UNPACKED);
        } else {
            self.write_shape(instruction.shape, layout);
        }
    }

    fn write_shape_in(&mut self, id: ShapeId, style: ShapeStyle) {
        use std::fmt::Write;
        let start = self.out.len();
        if style == ShapeStyle::CANONICAL && self.shapes.write(&mut self.out, id) {
            return;
        }
        let _ = write!(self.out, "{}", self.module.shapes().display(id, style));
        if style == ShapeStyle::CANONICAL {
            self.shapes.keep(id, &self.out[start..]);
        }
    }

    /// The operation behind an asynchronous start, update or done, where it is the only one of its
    /// computation.
    ///
    /// `None` also where it and the start have different values of an attribute, which the form
    /// `xxx-start(…)` has only one place for.
    fn wrapped_instruction(&self, id: InstructionId) -> Option<InstructionRef<'m>> {
        use crate::module::{AttrKey, HloOpcode};
        let mut instruction = self.module.instruction(id);
        // Each step goes to an operand, so more steps than instructions are a cycle.
        for _ in 0..=self.module.instruction_count() {
            match instruction.opcode() {
                HloOpcode::AsyncStart => {
                    let computation = instruction.computation_attribute(AttrKey::Calls)?;
                    let computation = self.module.computation(computation);
                    let root = computation.root?;
                    let single = computation.instructions.iter().all(|&i| {
                        i == root || self.module.instruction(i).opcode() == HloOpcode::Parameter
                    });
                    let root = self.module.instruction(root);
                    let agree = SHARED.iter().all(|&key| {
                        match (instruction.attribute(key), root.attribute(key)) {
                            (Some(a), Some(b)) => self.written(a) == self.written(b),
                            _ => true,
                        }
                    });
                    // Of another shape nobody could tell which part is the result.
                    let shapes = self.module.shapes();
                    let parts = instruction.shape().as_tuple();
                    let in_parts = parts.is_some_and(|parts| {
                        parts.len() > 1 && shapes.get(parts[0]).as_tuple().is_some()
                    });
                    // Of an unknown opcode nobody could tell that it is wrapped.
                    let known = root.opcode() != HloOpcode::Unknown;
                    // What has no meaning to a start would be taken for the wrapped one's.
                    let own = instruction.attributes().iter().all(|attribute| {
                        matches!(
                            attribute.key,
                            AttrKey::Other(_) | AttrKey::OutputOperandAliasing
                        ) || is_attribute_of(HloOpcode::AsyncStart, attribute.key)
                    });
                    return (single && agree && known && own && in_parts).then_some(root);
                }
                HloOpcode::AsyncUpdate | HloOpcode::AsyncDone => {
                    instruction = instruction.operand(0)?;
                }
                _ => return None,
            }
        }
        None
    }

    /// Digits of the numbers of attributes.
    fn digits(&self) -> usize {
        if self.is_exact { 17 } else { 6 }
    }

    /// The text of a value that is kept as written.
    fn written(&self, value: &AttrValue) -> Option<&[u8]> {
        match value {
            AttrValue::Raw(text) => Some(self.module.text().bytes(*text)),
            AttrValue::Sharding(sharding) => Some(self.module.text().bytes(sharding.text)),
            _ => None,
        }
    }
}
