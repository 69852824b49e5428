//! The thunks of an executable, as text.
//!
//! In: an executable. Out: a line for each thunk, those inside others indented: what it does, the
//! instruction it is for, what it reads and writes. Promise: it says nothing of threads, of addresses, of
//! how an instruction set computes, or of where pieces of the temporary block lie: those are numbered
//! as they appear.

use std::fmt::Write;

use smallvec::SmallVec;

use super::element::epilogue::EpilogueStep;
use super::element::program::{Program, Step, Task};
use super::executable::Executable;
use super::memory::assign::AllocationKind;
use super::ops::OpKind;
use super::options::MachineCode;
use super::thunk::row_loop::RowLoop;
use super::thunk::{Access, FoldWay, GemmWay, Place, Thunk, ThunkKind, WhileThunk};
use super::view::{BufferSlice, PRIVATE};
use crate::types::ArrayShape;

/// All thunks of an executable.
pub fn listing(executable: &Executable) -> String {
    let mut listing = Listing {
        executable,
        out: String::new(),
        temporaries: Vec::new(),
    };
    listing.sequence(executable.thunks(), 0);
    listing.out
}

struct Listing<'e> {
    executable: &'e Executable,
    out: String,
    /// Where pieces of the temporary block begin.
    temporaries: Vec<usize>,
}

impl Listing<'_> {
    /// Recursion here and below is bounded by the nesting the lowering allows.
    fn sequence(&mut self, thunks: &[Thunk], depth: usize) {
        for thunk in thunks {
            self.thunk(thunk, depth);
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:1$}{text}", "", 2 * depth);
    }

    fn thunk(&mut self, thunk: &Thunk, depth: usize) {
        let module = self.executable.module();
        let name = module.instruction(thunk.instruction).name();
        let mut text = format!("{} {name}", thunk.kind.name());
        if thunk.nested().is_empty() && !matches!(thunk.kind, ThunkKind::RowTiled(_)) {
            let touched = self.touched(thunk);
            let _ = write!(text, ": {touched}");
        }
        let details = details(&thunk.kind);
        if !details.is_empty() {
            let _ = write!(text, "; {details}");
        }
        self.line(depth, &text);
        match &thunk.kind {
            ThunkKind::RowTiled(tiled) => self.sequence(&tiled.members, depth + 1),
            ThunkKind::While(repeated) => {
                self.line(depth + 1, "condition");
                self.sequence(&repeated.condition, depth + 2);
                self.line(depth + 1, "body");
                self.sequence(&repeated.body, depth + 2);
            }
            ThunkKind::Conditional(choice) => {
                for branch in &choice.branches {
                    self.line(depth + 1, "branch");
                    self.sequence(branch, depth + 2);
                }
            }
            _ => {}
        }
    }

    /// What a thunk reads and what it writes.
    fn touched(&mut self, thunk: &Thunk) -> String {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        thunk.each_access(&mut |access| {
            let text = self.access(&access);
            if access.effect.reads() {
                read.push(text.clone());
            }
            if access.effect.writes() {
                written.push(text);
            }
        });
        format!("{} -> {}", read.join(", "), written.join(", "))
    }

    fn access(&mut self, access: &Access<'_>) -> String {
        let place = self.place(&access.slice);
        match access.place {
            Place::View(view) => {
                let shape = ArrayShape::new(view.element_type, &view.dims);
                let dims: SmallVec<[String; 4]> =
                    shape.dims.iter().map(|size| size.to_string()).collect();
                let moves = if view.dynamic.is_empty() { "" } else { "[…]" };
                let ty = shape.element_type.name();
                format!("{ty}[{}] {place}{moves}", dims.join(","))
            }
            Place::Index(_) => format!("index {place}"),
            Place::Slice => place,
        }
    }

    fn place(&mut self, slice: &BufferSlice) -> String {
        if slice.allocation >= PRIVATE {
            return format!("row{}", slice.allocation - PRIVATE);
        }
        let allocations = &self.executable.assignment().allocations;
        let kind = allocations.get(slice.allocation as usize).map(|a| a.kind);
        match kind {
            Some(AllocationKind::Parameter(k)) => format!("parameter{k}"),
            Some(AllocationKind::Output(k)) => format!("output{k}"),
            Some(AllocationKind::Constant(_)) => "constant".to_owned(),
            Some(AllocationKind::Temp) | None => {
                let known = self.temporaries.iter().position(|&at| at == slice.offset);
                let number = known.unwrap_or_else(|| {
                    self.temporaries.push(slice.offset);
                    self.temporaries.len() - 1
                });
                format!("t{number}")
            }
        }
    }
}

/// What a thunk does beyond what it touches.
fn details(kind: &ThunkKind) -> String {
    match kind {
        ThunkKind::Loop(own) => {
            let shared = if own.is_shared { ", shared" } else { "" };
            let over = over_rows(own.rows.as_deref());
            format!("{}{over}{shared}", program(&own.program))
        }
        ThunkKind::Reduce(own) => {
            let mapped = program(&own.program) + &over_rows(own.rows.as_deref());
            let way = match own.way {
                FoldWay::Kernels(_) if own.columns.is_some() => "in one pass with its values",
                FoldWay::Kernels(_) => "kernels",
                FoldWay::Lanes if own.choice.is_some() => "on lanes, by selecting pairs",
                FoldWay::Lanes => "on lanes",
                FoldWay::OneByOne => "value by value",
            };
            let down = match own.space.last() {
                Some((_, false)) => " down columns",
                _ => "",
            };
            format!("{mapped}; folded{down} by {} {way}", program(&own.combiner))
        }
        ThunkKind::RowTiled(own) => format!(
            "{} rows, {} at a time, {} of them scratch",
            own.rows,
            own.tile_rows,
            own.privates.len()
        ),
        ThunkKind::Gemm(own) => {
            let way = match own.way {
                GemmWay::Whole => String::new(),
                GemmWay::PackedOperand(_) => "packed".to_owned(),
                GemmWay::RowBlocks(rows) => format!("{rows} rows at a time"),
            };
            let steps = epilogue(&own.epilogue);
            let comma = if way.is_empty() || steps.is_empty() {
                ""
            } else {
                ", "
            };
            format!("{way}{comma}{steps}")
        }
        ThunkKind::Op(own) => match &own.kind {
            OpKind::Convolution(convolution) => epilogue(&convolution.epilogue),
            _ => String::new(),
        },
        ThunkKind::While(own) => repeated(own),
        _ => String::new(),
    }
}

/// What is done to the elements of a product.
fn epilogue(steps: &[EpilogueStep]) -> String {
    let names = steps.iter().map(EpilogueStep::operation);
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("then {}", names.join(", ")),
    }
}

fn repeated(own: &WhileThunk) -> String {
    let mut text = match own.trip_count {
        Some(trips) => format!("{trips} trips"),
        None => "unknown trips".to_owned(),
    };
    if let Some(code) = &own.bytecode {
        let outside = code.outside.len();
        let _ = write!(text, "; scalar bytecode, {outside} thunks outside of it");
        let when = match code.compiled.when() {
            MachineCode::Never => "never",
            MachineCode::WhenBusy => "when busy",
            MachineCode::AtOnce => "at once",
        };
        let _ = write!(text, "; machine code {when}");
    }
    text
}

/// The rows that a loop goes over.
fn over_rows(rows: Option<&RowLoop>) -> String {
    let Some(rows) = rows else {
        return String::new();
    };
    let copied = rows.inputs.iter().filter(|input| input.1.is_copied());
    match copied.count() {
        0 => format!(", over rows of {}", rows.row),
        copied => format!(", over rows of {}, {copied} inputs copied", rows.row),
    }
}

/// The steps of a program, and how they run.
fn program(program: &Program) -> String {
    let steps = program.steps.iter().map(Step::operation);
    let steps: Vec<String> = steps.collect();
    let mut text = match steps.is_empty() {
        true => "nothing".to_owned(),
        false => steps.join(" "),
    };
    for task in &program.tasks {
        if let Task::Vector(task) = task {
            let (reads, writes) = (task.inputs().len(), task.outputs().len());
            let _ = write!(text, ", vector bytecode of {reads} in and {writes} out");
        }
    }
    text
}
