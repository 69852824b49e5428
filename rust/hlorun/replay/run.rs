//! Runs a replay: every value in its place, every read checked against what was written last.

use super::shadow::{Mark, Shadow};
use super::{Access, Boundary, Compute, Flow, Place, Replay, Step};
use crate::analysis::dataflow::ValueIndex;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::{ArrayMut, ArrayRef, RunOptions};
use crate::module::{ComputationId, InstructionId};
use crate::plan::ops::custom_call::CustomCallInfo;
use crate::types::Dims;

/// Deepest nesting of computations.
const MAX_NESTING: u32 = 200;
/// What a table of pointers holds here: nothing that could be taken for a number.
const TABLE_BYTE: u8 = 0xA5;

impl Replay {
    /// Runs once, as [`crate::plan::Executable::run`] does.
    ///
    /// # Errors
    /// [`HloError::Execution`] for the first read of bytes that hold another value than the one
    /// expected, when memory runs out, or when the caller interrupts.
    ///
    /// # Safety
    /// As [`crate::plan::Executable::run`]: each address holds, or has room for, its array, dense
    /// and row-major.
    pub unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let sizes = self.blocks.iter();
        let mut run = Run {
            replay: self,
            blocks: sizes
                .map(|&size| AlignedBytes::zeroed(size))
                .collect::<Result<Vec<_>>>()?,
            shadow: Shadow::new(self.blocks.len()),
            tags: vec![0; self.names.len()],
            next: 1,
            options,
        };
        for (access, bytes) in &self.constants {
            let to = run.pointer(access.place);
            // SAFETY: the place has as many bytes as the constant, and lies inside its block.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            run.written(access);
        }
        for parameter in &self.parameters {
            let leaf = parameter.access.leaf.and_then(|leaf| inputs.get(leaf));
            let Some(&from) = leaf else {
                return Err(HloError::argument("an argument is missing"));
            };
            let array = run.array(parameter);
            row_major(parameter, from.cast_mut()).copy_to(&array);
            run.written(&parameter.access);
        }
        run.computation(self.entry, 0)?;
        for output in &self.outputs {
            run.read("the result", &output.access)?;
            let leaf = output.access.leaf.and_then(|leaf| outputs.get(leaf));
            let Some(&to) = leaf else {
                return Err(HloError::argument("an output is missing"));
            };
            run.array(output).copy_to(&row_major(output, to));
        }
        Ok(())
    }
}

/// The caller's array of a boundary.
fn row_major(boundary: &Boundary, pointer: *mut u8) -> RawArray {
    RawArray {
        pointer,
        element_type: boundary.shape.element_type,
        dims: boundary.shape.dims.clone(),
        strides: RawArray::row_major_strides(&boundary.shape.dims),
    }
}

struct Run<'r> {
    replay: &'r Replay,
    blocks: Vec<AlignedBytes<u8>>,
    shadow: Shadow,
    /// By value: the write that made it; 0 when it was not made yet.
    tags: Vec<u64>,
    next: u64,
    options: &'r RunOptions<'r>,
}

impl Run<'_> {
    fn pointer(&self, place: Place) -> *mut u8 {
        // SAFETY: places were checked against the sizes of their blocks.
        unsafe { self.blocks[place.block].shared_ptr().add(place.start) }
    }

    /// The array of a boundary in its allocation.
    fn array(&self, boundary: &Boundary) -> RawArray {
        let strides: Dims = boundary.shape.strides();
        RawArray {
            pointer: self.pointer(boundary.access.place),
            strides,
            ..row_major(boundary, std::ptr::null_mut())
        }
    }

    fn written(&mut self, access: &Access) {
        let mark = Mark {
            tag: self.next,
            value: access.value,
        };
        self.next += 1;
        self.tags[access.value.0 as usize] = mark.tag;
        let place = access.place;
        self.shadow.write(place.block, place.start, place.end, mark);
    }

    fn name(&self, value: ValueIndex) -> &str {
        &self.replay.names[value.0 as usize]
    }

    /// Checks that the bytes of a value still hold it.
    fn read(&self, reader: &str, access: &Access) -> Result<()> {
        let place = access.place;
        if place.start >= place.end {
            return Ok(());
        }
        let value = self.name(access.value);
        let tag = self.tags[access.value.0 as usize];
        let reader = match reader {
            "the result" => reader.to_owned(),
            name => format!("`{name}`"),
        };
        if tag == 0 {
            return Err(HloError::execution(format!(
                "{reader} reads `{value}` before it is computed"
            )));
        }
        let found = self.shadow.check(place.block, place.start, place.end, tag);
        let Err(fault) = found else { return Ok(()) };
        let bytes = format!(
            "`{value}` at bytes {}-{} of allocation {}",
            place.start, place.end, place.block
        );
        Err(HloError::execution(match fault.found {
            Some(mark) if mark.value == access.value => {
                format!("{reader} reads {bytes}, but a later `{value}` was written there",)
            }
            Some(mark) => format!(
                "{reader} reads {bytes}, but `{}` overwrote bytes {}-{}",
                self.name(mark.value),
                fault.start,
                fault.end
            ),
            None => format!(
                "{reader} reads {bytes}, but nothing was written to bytes {}-{}",
                fault.start, fault.end
            ),
        }))
    }

    fn flow(&mut self, flow: &Flow) {
        let tags: Vec<u64> = flow
            .iter()
            .map(|(from, _)| self.tags[from.0 as usize])
            .collect();
        for ((_, to), tag) in flow.iter().zip(tags) {
            self.tags[to.0 as usize] = tag;
        }
    }

    /// Recursion is bounded by [`MAX_NESTING`].
    fn computation(&mut self, id: ComputationId, depth: u32) -> Result<()> {
        if depth > MAX_NESTING {
            return Err(HloError::execution(format!(
                "computations nest deeper than {MAX_NESTING}"
            )));
        }
        let replay = self.replay;
        let Some(steps) = replay.steps.get(&id) else {
            return Err(HloError::execution(
                "a computation that runs has no memory in the assignment",
            ));
        };
        for step in steps {
            if (self.options.interrupted)() {
                return Err(HloError::execution("interrupted"));
            }
            self.step(step, depth)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, depth: u32) -> Result<()> {
        match step {
            Step::Compute(compute) => self.compute(compute),
            Step::Table(table) => {
                self.table(table);
                Ok(())
            }
            Step::ReadTable { instruction, table } => self.read(instruction, table),
            Step::While {
                instruction,
                predicate,
                condition,
                body,
                enter,
                again,
            } => {
                let mut flows = enter;
                loop {
                    self.flow_all(flows);
                    self.computation(*condition, depth + 1)?;
                    self.read(instruction, predicate)?;
                    // SAFETY: a predicate is one byte inside its place.
                    if unsafe { self.pointer(predicate.place).read() } == 0 {
                        return Ok(());
                    }
                    self.computation(*body, depth + 1)?;
                    flows = again;
                }
            }
            Step::Conditional {
                instruction,
                selector,
                is_predicate,
                branches,
            } => {
                self.read(instruction, selector)?;
                let pointer = self.pointer(selector.place);
                let last = branches.len() - 1;
                let chosen = match is_predicate {
                    // SAFETY: a predicate is one byte inside its place.
                    true => usize::from(unsafe { pointer.read() } == 0),
                    false => {
                        // SAFETY: the selector is an s32 inside its place.
                        let value = unsafe { pointer.cast::<i32>().read_unaligned() };
                        usize::try_from(value).map_or(last, |v| v.min(last))
                    }
                };
                let (branch, enter, leave) = &branches[chosen.min(last)];
                self.flow(enter);
                self.computation(*branch, depth + 1)?;
                self.flow(leave);
                Ok(())
            }
            Step::Call {
                callee,
                enter,
                leave,
            } => {
                self.flow(enter);
                self.computation(*callee, depth + 1)?;
                self.flow(leave);
                Ok(())
            }
        }
    }

    /// Values of one tuple go several ways at once.
    fn flow_all(&mut self, flows: &[Flow; 3]) {
        let all: Flow = flows.iter().flatten().copied().collect();
        self.flow(&all);
    }

    fn table(&mut self, table: &Access) {
        let (place, to) = (table.place, self.pointer(table.place));
        // SAFETY: the place lies inside its block.
        unsafe { std::ptr::write_bytes(to, TABLE_BYTE, place.end - place.start) };
        self.written(table);
    }

    fn compute(&mut self, compute: &Compute) -> Result<()> {
        let executable = &compute.executable;
        let mut inputs: Vec<*const u8> = vec![std::ptr::null(); executable.inputs().len()];
        for read in &compute.reads {
            self.read(&compute.instruction, read)?;
            if let Some(leaf) = read.leaf {
                inputs[leaf] = self.pointer(read.place).cast_const();
            }
        }
        if let Some(conflict) = &compute.conflict {
            return Err(HloError::execution(&**conflict));
        }
        let mut staging: Vec<Option<AlignedBytes>> = Vec::new();
        let mut outputs: Vec<*mut u8> = Vec::new();
        for (leaf, &staged) in executable.outputs().iter().zip(&compute.staged) {
            let mut block = match staged {
                true => Some(AlignedBytes::uninitialized(leaf.byte_size())?),
                false => None,
            };
            outputs.push(match &mut block {
                Some(block) => block.as_mut_ptr(),
                None => std::ptr::null_mut(),
            });
            staging.push(block);
        }
        for write in &compute.writes {
            if let Some(leaf) = write.leaf.filter(|&leaf| !compute.staged[leaf]) {
                outputs[leaf] = self.pointer(write.place);
            }
        }
        if inputs.iter().any(|p| p.is_null()) || outputs.iter().any(|p| p.is_null()) {
            return Err(HloError::execution(format!(
                "`{}` has an array without memory",
                compute.instruction
            )));
        }
        // What a hook is told of is the module's instruction, not the copy in a module of its own.
        let (given, id) = (self.options.custom_call, compute.id);
        let hook = |_: InstructionId,
                    info: &CustomCallInfo,
                    inputs: &[ArrayRef<'_>],
                    outputs: &[ArrayMut<'_>]| given?(id, info, inputs, outputs);
        let options = RunOptions {
            custom_call: given.is_some().then_some(&hook as _),
            observer: None,
            profile: None,
            ..*self.options
        };
        // SAFETY: every input is a place of its array's size whose bytes were just checked to be
        // written, every output one of its size and alignment that overlaps no input and no other
        // output, or a block of its own.
        unsafe { executable.run(&inputs, &outputs, &options)? };
        for write in &compute.writes {
            if let Some(leaf) = write.leaf
                && let Some(block) = &staging[leaf]
            {
                let to = self.pointer(write.place);
                // SAFETY: the place and the block both have the array's size.
                unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), to, block.len()) };
            }
            self.written(write);
        }
        for table in &compute.tables {
            self.table(table);
        }
        Ok(())
    }
}
