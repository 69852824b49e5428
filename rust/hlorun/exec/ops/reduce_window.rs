//! Runs `reduce-window`.
//!
//! Position by position of the window, over all outputs at once, so every output folds its window
//! in row-major order. A window that covers everything before it is a running fold, in the same
//! order and linear time ([`running`]); long windows of associative operations go through [`sliding`].

use smallvec::SmallVec;

use super::lanes::{Folder, Row};
use super::walk::{Nest, Shared, try_split};
use super::window::{Span, spans};
use super::window_blocks::Together;
use super::window_order::Arranged;
use super::{running, sliding, window_rows};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::windowed::{GRAIN, TOGETHER};
use crate::plan::ops::reduce_window::ReduceWindowOp;
use crate::types::{Dims, PrimitiveType};

/// Runs `op`: operands and initial values in, one array per operand out.
pub fn run(
    op: &ReduceWindowOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let (operands, inits) = checked(op, inputs, outputs)?;
    if outputs[0].count() == 0 {
        return Ok(());
    }
    if running::run(op, operands, inits, outputs, environment)? {
        return Ok(());
    }
    match Arranged::of(&op.window.0, operands, outputs, environment)? {
        Some(arranged) => {
            run_as_they_lie(
                op,
                &arranged.operands,
                inits,
                &arranged.outputs,
                environment,
            )?;
            arranged.finish(outputs, environment);
            Ok(())
        }
        None => run_as_they_lie(op, operands, inits, outputs, environment),
    }
}

/// The operands and the initial values, where these arrays are what `op` takes.
fn checked<'i>(
    op: &ReduceWindowOp,
    inputs: &'i [RawArray],
    outputs: &[RawArray],
) -> Result<(&'i [RawArray], &'i [RawArray])> {
    let count = op.count;
    if inputs.len() != 2 * count || outputs.len() != count || count == 0 {
        return Err(HloError::execution("reduce-window takes other arrays"));
    }
    let (operands, inits) = inputs.split_at(count);
    let rank = op.window.0.len();
    let same = |arrays: &[RawArray]| {
        arrays
            .iter()
            .all(|array| array.dims == arrays[0].dims && array.dims.len() == rank)
    };
    if !same(operands) || !same(outputs) || inits.iter().any(|init| init.count() != 1) {
        return Err(HloError::execution("reduce-window operands differ in size"));
    }
    Ok((operands, inits))
}

/// `op` over these arrays, with all done that its runs share; `None` where it is no running fold.
pub fn prepare<'o>(
    op: &'o ReduceWindowOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
) -> Option<running::RunningFold<'o>> {
    let (operands, inits) = checked(op, inputs, outputs).ok()?;
    if outputs[0].count() == 0 {
        return None;
    }
    running::prepare(op, operands, inits, outputs)
}

/// Runs `op` over arrays in the order of their memory.
fn run_as_they_lie(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let rank = op.window.0.len();
    if window_rows::run(op, operands, inits, outputs, environment)?
        || sliding::run(op, operands, inits, outputs, environment)?
    {
        return Ok(());
    }
    let operands = Uniform::read(operands)?;
    let accumulators = Uniform::write(outputs)?;
    for (init, accumulator) in inits.iter().zip(&accumulators.arrays) {
        broadcast(init, accumulator);
    }
    let types: SmallVec<[PrimitiveType; 2]> = outputs.iter().map(|o| o.element_type).collect();
    let work = Work {
        op,
        operands: operands.shared(),
        operand: &operands.arrays[0],
        accumulators: accumulators.shared(),
        accumulator: &accumulators.arrays[0],
        types: &types,
    };
    // Tasks share the dimension with the most outputs, but for the innermost one, which makes rows.
    let (dims, strides) = (&outputs[0].dims, &accumulators.arrays[0].strides);
    let is_row = |d: usize| dims[d] > 1 && strides[d].abs() <= 1;
    let axis =
        (0..rank).max_by_key(|&d| (!is_row(d) && dims[d] > 1, dims[d], std::cmp::Reverse(d)));
    let size = axis.map_or(1, |axis| dims[axis] as usize);
    let window: usize = op
        .window
        .0
        .iter()
        .fold(1, |n, d| n.saturating_mul(d.size.max(1) as usize));
    let per_slice = (outputs[0].count() / size).saturating_mul(window).max(1);
    let grain = (GRAIN / per_slice).max(1);
    try_split(environment, size, grain, &|part| {
        work.run(axis, part, environment)
    })?;
    accumulators.finish(outputs);
    Ok(())
}

/// Fills `target` with the scalar `value`.
pub fn broadcast(value: &RawArray, target: &RawArray) {
    RawArray {
        pointer: value.pointer,
        element_type: value.element_type,
        dims: target.dims.clone(),
        strides: smallvec::SmallVec::from_elem(0, target.dims.len()),
    }
    .copy_to(target);
}

/// Arrays of equal strides: the given ones where they agree, row-major copies otherwise.
pub struct Uniform {
    /// The arrays.
    pub arrays: Vec<RawArray>,
    copies: Vec<AlignedBytes>,
}

impl Uniform {
    fn agree(arrays: &[RawArray]) -> bool {
        arrays
            .iter()
            .all(|array| array.strides == arrays[0].strides)
    }

    /// Arrays to read.
    pub fn read(arrays: &[RawArray]) -> Result<Uniform> {
        let mut uniform = Uniform::write(arrays)?;
        for (copy, array) in uniform.copies.iter_mut().zip(arrays) {
            array.copy_to(&RawArray::over(copy, array.element_type, &array.dims));
        }
        uniform.arrays.truncate(arrays.len());
        Ok(uniform)
    }

    /// Arrays to write; [`Uniform::finish`] brings them to their places.
    pub fn write(arrays: &[RawArray]) -> Result<Uniform> {
        if Uniform::agree(arrays) {
            return Ok(Uniform {
                arrays: arrays.to_vec(),
                copies: Vec::new(),
            });
        }
        let mut copies = Vec::new();
        let mut views = Vec::new();
        for array in arrays {
            let mut bytes = AlignedBytes::uninitialized(array.byte_size())?;
            views.push(RawArray::over(&mut bytes, array.element_type, &array.dims));
            copies.push(bytes);
        }
        Ok(Uniform {
            arrays: views,
            copies,
        })
    }

    /// Copies what was written to `outputs`, unless it is there.
    pub fn finish(self, outputs: &[RawArray]) {
        if !self.copies.is_empty() {
            for (array, output) in self.arrays.iter().zip(outputs) {
                array.copy_to(output);
            }
        }
    }

    /// The first elements.
    pub fn shared(&self) -> Vec<Shared> {
        self.arrays
            .iter()
            .map(|array| Shared::new(array.pointer))
            .collect()
    }
}

struct Work<'a> {
    op: &'a ReduceWindowOp,
    operands: Vec<Shared>,
    operand: &'a RawArray,
    accumulators: Vec<Shared>,
    accumulator: &'a RawArray,
    types: &'a [PrimitiveType],
}

// SAFETY: tasks write disjoint outputs and only read operands.
unsafe impl Sync for Work<'_> {}

impl Work<'_> {
    /// Folds the outputs of `part` along `axis`.
    fn run(
        &self,
        axis: Option<usize>,
        part: std::ops::Range<usize>,
        environment: &OpEnvironment<'_>,
    ) -> Result<()> {
        let dims = &self.accumulator.dims;
        let lists = (0..dims.len())
            .map(|d| {
                let range = if Some(d) == axis {
                    part.start as i64..part.end as i64
                } else {
                    0..dims[d]
                };
                let (window, size) = (&self.op.window.0[d], self.operand.dims[d]);
                spans(window, size, &range, environment)
            })
            .collect::<Result<Vec<Vec<Span>>>>()?;
        let row = dims
            .last()
            .map_or(1, |&d| d as usize)
            .max(TOGETHER.min(self.accumulator.count()));
        let mut folder = Folder::new(&self.op.combiner, self.types, row)?;
        let sizes: SmallVec<[isize; 2]> = self
            .types
            .iter()
            .map(|ty| ty.size_bytes() as isize)
            .collect();
        let (to, from) = (&self.accumulator.strides, &self.operand.strides);
        let together = Together::new(&sizes, self.accumulator.count())?;
        for_boxes(&lists, to, from, &mut |nest, [to, from]| {
            if Together::takes(nest) {
                let at = |bases: &[Shared], at: isize| -> SmallVec<[*mut u8; 2]> {
                    let pairs = bases.iter().zip(&sizes);
                    pairs.map(|(base, &size)| base.at(at * size)).collect()
                };
                let (results, values) = (at(&self.accumulators, to), at(&self.operands, from));
                // SAFETY: spans name outputs and inputs inside their arrays.
                return unsafe { together.fold(&mut folder, nest, &results, &values) };
            }
            nest.for_rows(0..nest.rows(), |[t, f]| {
                let row = |base: &Shared, size: isize, at: isize, step: isize| Row {
                    pointer: base.at(at * size),
                    step,
                };
                let steps = nest.inner.1;
                let rows = |bases: &[Shared], at: isize, step: isize| -> SmallVec<[Row; 2]> {
                    let pairs = bases.iter().zip(&sizes);
                    pairs
                        .map(|(base, &size)| row(base, size, at, step))
                        .collect()
                };
                let accumulators = rows(&self.accumulators, to + t, steps[0]);
                let values = rows(&self.operands, from + f, steps[1]);
                // SAFETY: spans name outputs and inputs inside their arrays.
                unsafe { folder.fold(&accumulators, &values, nest.inner.0) };
            });
        });
        Ok(())
    }
}

/// Calls `f` for every combination of spans, one per dimension, the last changing fastest, with the
/// nest over its outputs and inputs and the first of both, in elements.
pub fn for_boxes(
    lists: &[Vec<Span>],
    output_strides: &Dims,
    input_strides: &Dims,
    f: &mut dyn FnMut(&Nest<2>, [isize; 2]),
) {
    if lists.iter().any(Vec::is_empty) {
        return;
    }
    let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, lists.len());
    loop {
        let mut start = [0isize; 2];
        let mut sizes: SmallVec<[i64; 6]> = SmallVec::new();
        let (mut to, mut from): (SmallVec<[isize; 6]>, SmallVec<[isize; 6]>) = Default::default();
        for (d, list) in lists.iter().enumerate() {
            let span = list[index[d]];
            let (o, i) = (output_strides[d] as isize, input_strides[d] as isize);
            start[0] += span.first as isize * o;
            start[1] += span.base as isize * i;
            sizes.push(span.count);
            let single = span.count == 1;
            to.push(if single { 0 } else { span.step as isize * o });
            from.push(if single {
                0
            } else {
                span.base_step as isize * i
            });
        }
        f(
            &Nest::by_memory(&sizes, [to.as_slice(), from.as_slice()]),
            start,
        );
        let mut axis = lists.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < lists[axis].len() {
                break;
            }
            index[axis] = 0;
        }
    }
}
