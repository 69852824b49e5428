//! Computations, with the bodies of those they call in them where the options want that.

use std::borrow::Cow;
use std::fmt::Write;
use std::rc::Rc;

use foldhash::HashMap;

use super::order::instruction_order;
use super::{PrintSubcomputationMode, Printer};
use crate::module::{AttrKey, AttrValue, ComputationId, HloOpcode, InstructionId, InstructionRef};

/// A computation that is being printed.
pub(super) struct Frame {
    computation: ComputationId,
    order: Rc<[InstructionId]>,
    next: usize,
    indent: usize,
    /// Numbers of the canonical names `tmp_N`.
    canonical: HashMap<InstructionId, usize>,
}

impl Frame {
    /// The number of the canonical name of `id`, handed out when first asked for.
    pub fn canonical_number(&mut self, id: InstructionId) -> usize {
        let next = self.canonical.len();
        *self.canonical.entry(id).or_insert(next)
    }
}

/// What is still to be written, last first.
enum Step {
    /// A computation from its first byte to its last.
    Computation(ComputationId, usize),
    /// The rest of the computation on top of the frames.
    Rest,
    /// What follows the bodies in an instruction's line.
    Tail(InstructionId, bool),
    Text(&'static str),
}

impl Printer<'_> {
    /// In a module the entry computation has `ENTRY` before it, and a schedule is the order.
    pub(super) fn write_computation(
        &mut self,
        computation: ComputationId,
        indent: usize,
        in_module: bool,
    ) {
        let is_entry = in_module && self.module.entry == Some(computation);
        self.indent(indent);
        if is_entry {
            self.out.push_str("ENTRY ");
        }
        let is_named = !self.options.is_in_nested_computation;
        let has_name = is_named && self.options.print_ids;
        let name = match has_name {
            true => self.computation_name(computation),
            false => Cow::Borrowed(""),
        };
        if is_named {
            self.write_percent(&name);
        }
        if has_name {
            self.out.push_str(&name);
            self.out.push(' ');
        }
        let scheduled = in_module && self.module.config.is_scheduled;
        self.run(
            vec![Step::Computation(computation, indent)],
            None,
            scheduled,
        );
    }

    /// An instruction on its own, without a line's end.
    pub(super) fn write_single_instruction(&mut self, id: InstructionId) {
        let instruction = self.module.instruction(id);
        let mut steps = vec![Step::Tail(id, false)];
        let mut frame = self.options.is_in_nested_computation.then(|| Frame {
            computation: instruction.computation(),
            order: Rc::new([]),
            next: 0,
            indent: 0,
            canonical: HashMap::default(),
        });
        self.write_head(instruction, frame.as_mut());
        self.push_bodies(instruction, self.options.indent_amount, &mut steps);
        self.run(steps, frame, false);
    }

    /// The instructions of a computation as they are printed: as they are where that is a schedule.
    pub(super) fn order(
        &mut self,
        computation: ComputationId,
        scheduled: bool,
    ) -> Rc<[InstructionId]> {
        if scheduled {
            return self.module.computation(computation).instructions[..].into();
        }
        let order = self.orders.entry(computation);
        order
            .or_insert_with(|| instruction_order(self.module, computation).into())
            .clone()
    }

    fn run(&mut self, mut steps: Vec<Step>, first: Option<Frame>, scheduled: bool) {
        let mut is_outermost = steps.len() == 1 && first.is_none();
        let mut frames: Vec<Frame> = first.into_iter().collect();
        while let Some(step) = steps.pop() {
            match step {
                Step::Text(text) => self.out.push_str(text),
                Step::Tail(id, ends_line) => {
                    self.write_tail(self.module.instruction(id));
                    if ends_line {
                        self.out.push('\n');
                    }
                }
                Step::Computation(computation, indent) => {
                    if self.out.len() > self.most_nested && !is_outermost {
                        self.out.push('…');
                        continue;
                    }
                    // The outermost one has its name written already.
                    if !std::mem::take(&mut is_outermost) {
                        self.indent(indent);
                    }
                    if self.options.print_program_shape {
                        self.write_program_shape(computation);
                    }
                    self.out.push_str("{\n");
                    // A schedule counts only for computations of their own.
                    let order = self.order(computation, scheduled && frames.is_empty());
                    frames.push(Frame {
                        computation,
                        order,
                        next: 0,
                        indent,
                        canonical: HashMap::default(),
                    });
                    steps.push(Step::Rest);
                }
                Step::Rest => {
                    let Some(mut frame) = frames.pop() else {
                        continue;
                    };
                    if self.write_lines(&mut frame, &mut steps) {
                        self.write_end(&frame);
                    } else {
                        frames.push(frame);
                    }
                }
            }
        }
    }

    /// Writes instructions up to one that has bodies to nest, whose steps it pushes. Returns whether
    /// all are written.
    fn write_lines(&mut self, frame: &mut Frame, steps: &mut Vec<Step>) -> bool {
        let root = self.module.computation(frame.computation).root;
        while let Some(&id) = frame.order.get(frame.next) {
            if let Some(shown) = self.options.leading_and_trailing_instructions_number
                && frame.next == shown
                && frame.order.len() > shown.saturating_mul(2)
            {
                self.indent(frame.indent + 1);
                self.out.push_str("...\n");
                frame.next = frame.order.len() - shown;
                continue;
            }
            frame.next += 1;
            self.indent(frame.indent + 1);
            if root == Some(id) {
                self.out.push_str("ROOT ");
            }
            let instruction = self.module.instruction(id);
            self.write_head(instruction, Some(frame));
            let before = steps.len();
            steps.push(Step::Rest);
            steps.push(Step::Tail(id, true));
            self.push_bodies(instruction, frame.indent + 1, steps);
            if steps.len() > before + 2 {
                return false;
            }
            steps.truncate(before);
            self.write_tail(instruction);
            self.out.push('\n');
        }
        true
    }

    fn write_end(&mut self, frame: &Frame) {
        self.indent(frame.indent);
        self.out.push('}');
        let computation = self.module.computation(frame.computation);
        if let Some(thread) = computation.execution_thread
            && (self.options.print_ids || self.is_exact)
        {
            let thread = self.module.str(thread);
            if thread != "main" {
                let _ = write!(self.out, ", execution_thread=\"{thread}\"");
            }
        }
        if self.options.print_name_after_closing_brace && frame.order.len() > 5 {
            let name = self.computation_name(frame.computation);
            self.out.push_str(" // ");
            self.out.push_str(&name);
        }
    }

    /// `(p: f32[2]) -> f32[2] `.
    pub(super) fn write_program_shape(&mut self, computation: ComputationId) {
        let computation = self.module.computation(computation);
        self.out.push('(');
        for (i, &parameter) in computation.parameters.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            let name = self.instruction_name(parameter);
            self.out.push_str(self.name_part(&name));
            self.out.push_str(": ");
            self.write_shape_of(parameter, false);
        }
        self.out.push_str(") -> ");
        if let Some(root) = computation.root {
            self.write_shape_of(root, false);
        }
        self.out.push(' ');
    }

    /// Pushes, in reverse, the bodies of what `instruction` calls; nothing where none are nested.
    fn push_bodies(&self, instruction: InstructionRef<'_>, indent: usize, steps: &mut Vec<Step>) {
        use HloOpcode as Op;
        let opcode = instruction.opcode();
        match self.options.print_subcomputation_mode {
            PrintSubcomputationMode::Off | PrintSubcomputationMode::NameOnly => return,
            PrintSubcomputationMode::NonSequentialBodies
                if matches!(opcode, Op::Call | Op::Conditional | Op::While) =>
            {
                return;
            }
            _ => {}
        }
        let one = |key| instruction.computation_attribute(key);
        let mut lists: Vec<(&'static str, Vec<ComputationId>, &'static str, &'static str)> =
            Vec::new();
        let mut add = |text, id: Option<ComputationId>| {
            lists.extend(id.map(|id| (text, vec![id], "", "")));
        };
        match opcode {
            Op::While => {
                add(", condition=\n", one(AttrKey::Condition));
                add(", body=\n", one(AttrKey::Body));
            }
            Op::SelectAndScatter => {
                add(", select=\n", one(AttrKey::SelectComputation));
                add(", scatter=\n", one(AttrKey::ScatterComputation));
            }
            Op::Conditional => {
                add(", true_computation=\n", one(AttrKey::TrueComputation));
                add(", false_computation=\n", one(AttrKey::FalseComputation));
                if let Some(AttrValue::Computations(branches)) =
                    instruction.attribute(AttrKey::BranchComputations)
                {
                    let branches = branches.to_vec();
                    lists.push((", branch_computations={\n", branches, ",\n", "\n}"));
                }
            }
            Op::Call
            | Op::Map
            | Op::ReduceWindow
            | Op::Reduce
            | Op::AllReduce
            | Op::AllReduceStart
            | Op::Scatter
            | Op::Sort => add(", to_apply=\n", one(AttrKey::ToApply)),
            Op::CustomCall => {
                let called = super::order::callees(instruction);
                if !called.is_empty() {
                    lists.push((", called_computations={\n", called.into_vec(), ",\n", "\n}"));
                }
            }
            _ => {
                let called = super::order::callees(instruction);
                if !called.is_empty() {
                    lists.push((", calls=\n", called.into_vec(), ", ", ""));
                }
            }
        }
        if opcode == Op::Call && instruction.bool(AttrKey::IsComposite) == Some(true) {
            steps.push(Step::Text(", is_composite=true"));
        }
        for (before, computations, between, after) in lists.into_iter().rev() {
            steps.push(Step::Text(after));
            for (i, &id) in computations.iter().enumerate().rev() {
                steps.push(Step::Computation(id, indent));
                steps.push(Step::Text(if i > 0 { between } else { before }));
            }
        }
        // What a start wraps shows its own bodies first.
        if opcode == Op::AsyncStart
            && self.options.syntax_sugar_async_ops
            && let Some(wrapped) = self.wrapped_instruction(instruction.id)
        {
            self.push_bodies(wrapped, indent, steps);
        }
    }
}
