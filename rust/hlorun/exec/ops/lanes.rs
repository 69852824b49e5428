//! Folds of rows: `acc[i] = f(acc[i], x[i])` for strided rows of one or several operands.
//!
//! In: a [`Combiner`] of accumulators and values. Out: a [`Folder`] for one task.

use smallvec::SmallVec;

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::element::program::Frame;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::combiner::{Combiner, Shortcut};
use crate::types::PrimitiveType;

/// Rows of one operand: the first element and the distance in elements.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The first element.
    pub pointer: *mut u8,
    /// Elements between neighbours.
    pub step: isize,
}

impl Row {
    /// Elements side by side.
    pub fn dense(pointer: *mut u8) -> Row {
        Row { pointer, step: 1 }
    }

    /// What comes after `count` elements of `size` bytes.
    fn after(self, count: usize, size: usize) -> Row {
        let bytes = self.step * (count * size) as isize;
        Row {
            pointer: self.pointer.wrapping_offset(bytes),
            step: self.step,
        }
    }
}

/// Applies a combiner to rows.
pub struct Folder<'c> {
    combiner: &'c Combiner,
    kernel: Option<hlorun_kernels::Binary>,
    frame: Frame,
    sizes: SmallVec<[usize; 2]>,
    /// `tile` lanes of every accumulator, then of every value.
    lanes: SmallVec<[*mut u8; 4]>,
    tile: usize,
    _scratch: AlignedBytes,
}

/// Most lanes worth having for rows of `length`.
fn lanes_for(length: usize) -> usize {
    length.clamp(1, 1 << 20)
}

/// Copies `n` elements of `size` bytes between rows.
///
/// # Safety
/// Both rows have so many, and they do not overlap.
unsafe fn copy_row(size: usize, from: Row, to: Row, n: usize) {
    let bytes = |step: isize| step * size as isize;
    let (source, target) = (bytes(from.step), bytes(to.step));
    // SAFETY: the caller vouches for both rows.
    unsafe { hlorun_kernels::copy_row(size, n, from.pointer, source, to.pointer, target) };
}

impl<'c> Folder<'c> {
    /// A folder of operands of the types `types`, for rows of about `length` elements.
    pub fn new(
        combiner: &'c Combiner,
        types: &[PrimitiveType],
        length: usize,
    ) -> Result<Folder<'c>> {
        let program = &combiner.program;
        let count = types.len();
        let fits = program.inputs.len() == 2 * count
            && program.outputs.len() == count
            && program.inputs.iter().enumerate().all(|(i, register)| {
                program.types[register.0 as usize].size_bytes() == types[i % count].size_bytes()
            });
        if !fits {
            return Err(HloError::execution("a computation of other types"));
        }
        let kernel = match combiner.shortcut {
            Some(Shortcut::Binary(op)) if count == 1 => {
                dtype(types[0]).and_then(|ty| hlorun_kernels::binary(op, ty))
            }
            _ => None,
        };
        let tile = program.tile(lanes_for(length));
        let mut frame = Frame::new(program, tile)?;
        let sizes: SmallVec<[usize; 2]> = types.iter().map(|ty| ty.size_bytes()).collect();
        // Lanes are a multiple of 64, so every array starts aligned.
        let bytes: usize = sizes.iter().sum();
        let mut scratch = AlignedBytes::uninitialized(2 * bytes * tile)?;
        let mut at = scratch.as_mut_ptr();
        let mut lanes = SmallVec::new();
        for (i, &register) in program.inputs.iter().enumerate() {
            frame.bind(register, at);
            lanes.push(at);
            at = at.wrapping_add(sizes[i % count] * tile);
        }
        Ok(Folder {
            combiner,
            kernel,
            frame,
            sizes,
            lanes,
            tile,
            _scratch: scratch,
        })
    }

    /// `accumulators[i] = f(accumulators[i], values[i])` for rows of `n` elements.
    ///
    /// # Safety
    ///
    /// There is one row per operand on both sides; all reach `n` elements, the accumulators'
    /// distinct, writable and none of the values'.
    pub unsafe fn fold(&mut self, accumulators: &[Row], values: &[Row], n: usize) {
        if let (Some(kernel), [acc], [value]) = (self.kernel, accumulators, values)
            && (n == 1 || (acc.step == 1 && value.step == 1))
        {
            // SAFETY: by the caller's promise; kernels may write onto an operand.
            return unsafe { kernel(acc.pointer, value.pointer, acc.pointer, n) };
        }
        let program = &self.combiner.program;
        let count = self.sizes.len();
        let mut done = 0;
        if let (Some(kernel), [acc], [value]) = (self.kernel, accumulators, values)
            && acc.step == 1
        {
            let size = self.sizes[0];
            let lane = Row::dense(self.lanes[1]);
            while done < n {
                let part = self.tile.min(n - done);
                let to = acc.after(done, size).pointer;
                // SAFETY: as above; there are `tile` lanes.
                unsafe {
                    copy_row(size, value.after(done, size), lane, part);
                    kernel(to, lane.pointer, to, part);
                }
                done += part;
            }
            return;
        }
        while done < n {
            let part = self.tile.min(n - done);
            for (k, &size) in self.sizes.iter().enumerate() {
                let lane = |index: usize| Row::dense(self.lanes[index]);
                // SAFETY: by the caller's promise; there are `tile` lanes.
                unsafe {
                    copy_row(size, accumulators[k].after(done, size), lane(k), part);
                    copy_row(size, values[k].after(done, size), lane(count + k), part);
                }
            }
            // SAFETY: inputs are bound to `part` filled lanes; results are in the frame.
            unsafe {
                if let Some(kernel) = self.kernel {
                    kernel(self.lanes[0], self.lanes[1], self.lanes[0], part);
                } else {
                    self.frame.run(program, part);
                }
            }
            for (k, accumulator) in accumulators.iter().enumerate() {
                let from = match self.kernel {
                    Some(_) => self.lanes[0],
                    None => self.frame.pointer(program.outputs[k]),
                };
                let (from, to) = (Row::dense(from), accumulator.after(done, self.sizes[k]));
                // SAFETY: as above.
                unsafe { copy_row(self.sizes[k], from, to, part) };
            }
            done += part;
        }
    }
}
