//! Fused loops over rows with narrow gaps between them, which are computed as well.
//!
//! The inside of a matrix has rows that do not follow each other, and to gather them into tiles moves each element once
//! more. Where all inputs have rows of one size at one distance, they are read where they lie, over the gaps; what is
//! computed of the gaps is not stored.
//!
//! A gap is shorter than a page, so that it shares its pages with elements of the input, and the loop writes nothing there:
//! of an array that it writes, it reads the elements that it writes and no others.

use super::program::Frame;
use crate::exec::memory::Memory;
use crate::plan::cost::tiles::{MAX_GAP_BYTES, MIN_GAP_ROW, MIN_ROW_PER_GAP, MIN_RUN};
use crate::plan::element::program::Register;
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{Load, LoadKind, LoopThunk, Store};
use crate::plan::view::{PRIVATE, Walk};

/// An input or output in rows.
struct Array {
    register: Register,
    base: *mut u8,
    size: usize,
    /// Elements from row to row.
    pitch: usize,
}

/// A loop over rows and the gaps between them.
pub struct Gaps {
    /// Elements of a row, and from row to row of the inputs.
    row: usize,
    pitch: usize,
    inputs: Vec<Array>,
    outputs: Vec<Array>,
}

// SAFETY: tasks write disjoint ranges of the loop, and stores are one to one.
unsafe impl Sync for Gaps {}

impl Gaps {
    /// The rows of a loop, if its inputs have such, and its outputs rows of the same size.
    pub fn of(thunk: &LoopThunk, memory: &Memory) -> Option<Gaps> {
        let moving = || thunk.loads.iter().filter(|load| !load.is_constant());
        let [(rows, pitch), (row, 1)] = *moving().next()?.walk.as_slice() else {
            return None;
        };
        let gap = usize::try_from(pitch.checked_sub(row)?).ok()?;
        let (row, pitch) = (usize::try_from(row).ok()?, usize::try_from(pitch).ok()?);
        let is_narrow = gap > 0 && gap.checked_mul(MIN_ROW_PER_GAP)? <= row;
        if !is_narrow || thunk.count != rows as usize * row || !pays(row, moving().count(), thunk) {
            return None;
        }
        let inputs = moving().map(|load| {
            let LoadKind::View(view) = &load.kind else {
                return None;
            };
            let size = view.element_type.size_bytes();
            let has_rows = load.walk.as_slice() == [(rows, pitch as i64), (row as i64, 1)];
            let suits = view.slice.allocation < PRIVATE
                && faults::holds(Fault::ReadsOtherRows, has_rows)
                && gap * size <= MAX_GAP_BYTES
                && thunk.stores.iter().all(|store| writes_no_gap(store, load));
            suits.then(|| Array {
                register: load.register,
                base: memory.first(view),
                size,
                pitch,
            })
        });
        let inputs = inputs.collect::<Option<Vec<_>>>()?;
        let outputs = thunk.stores.iter().map(|store| {
            let pitch = pitch_of(&store.walk, row)?;
            (store.view.slice.allocation < PRIVATE).then(|| Array {
                register: store.register,
                base: memory.first(&store.view),
                size: store.view.element_type.size_bytes(),
                pitch,
            })
        });
        Some(Gaps {
            row,
            pitch,
            inputs,
            outputs: outputs.collect::<Option<Vec<_>>>()?,
        })
    }

    /// Computes elements `range`, not empty, by `run`, which computes so many elements of a frame whose inputs are bound.
    pub fn range(
        &self,
        frame: &mut Frame,
        range: std::ops::Range<usize>,
        run: impl Fn(&Frame, usize),
    ) {
        let place = |element: usize| element / self.row * self.pitch + element % self.row;
        let end = place(range.end - 1) + 1;
        let mut start = place(range.start);
        while start < end {
            let n = (end - start).min(frame.tile());
            for input in &self.inputs {
                // SAFETY: from the first element to the last, all of it lies in the input's array.
                let at = unsafe { input.base.add(start * input.size) };
                frame.bind(input.register, at);
            }
            run(frame, n);
            self.store(frame, start, n);
            start += n;
        }
    }

    /// Stores what was computed of rows among `n` elements from `start` on, which count the gaps.
    fn store(&self, frame: &Frame, start: usize, n: usize) {
        let (mut row, mut inner, mut done) = (start / self.pitch, start % self.pitch, 0);
        while done < n {
            let count = self.row.saturating_sub(inner).min(n - done);
            if count > 0 {
                for output in &self.outputs {
                    let bytes = |elements: usize| elements * output.size;
                    // SAFETY: the output has a place for every element of every row, and the tile holds `n`.
                    unsafe {
                        let from = frame.pointer(output.register).add(bytes(done));
                        let to = output.base.add(bytes(row * output.pitch + inner));
                        hlorun_kernels::copy(from, to, bytes(count));
                    }
                }
            }
            done += self.pitch - inner;
            (row, inner) = (row + 1, 0);
        }
    }
}

/// Whether it takes less time than tiles do: they read long rows where they lie, and write a dense output where it belongs.
fn pays(row: usize, inputs: usize, thunk: &LoopThunk) -> bool {
    let dense = thunk.stores.iter().filter(|store| store.is_dense).count();
    let is_direct = dense == thunk.stores.len() && row as i64 >= MIN_RUN;
    row >= MIN_GAP_ROW && inputs > dense && !is_direct
}

/// Whether a store writes nothing between the rows of a load.
fn writes_no_gap(store: &Store, load: &Load) -> bool {
    let LoadKind::View(view) = &load.kind else {
        return false;
    };
    let is_same = store.view.slice == view.slice
        && store.view.offset == view.offset
        && store.view.element_type.size_bytes() == view.element_type.size_bytes()
        && store.walk == load.walk
        && store.view.dynamic.is_empty()
        && view.dynamic.is_empty();
    is_same || !store.view.slice.overlaps(&view.slice)
}

/// Elements from row to row of an output.
fn pitch_of(walk: &Walk, row: usize) -> Option<usize> {
    match *walk.as_slice() {
        [(_, 1)] => Some(row),
        [(_, pitch), (size, 1)] if size as usize == row => usize::try_from(pitch).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::element::elementwise::Kernel;
    use crate::plan::element::program::{Meaning, Program, ProgramBuilder};
    use crate::types::PrimitiveType as P;
    use hlorun_kernels::vector_bytecode::Op;
    use hlorun_kernels::{BinaryOp, DType};

    /// Twice its input.
    fn program() -> Program {
        let mut b = ProgramBuilder::new();
        let x = b.input(P::F32);
        let kernel = Kernel::Binary(hlorun_kernels::binary(BinaryOp::Add, DType::F32).unwrap());
        let meaning = Meaning::of(Op::Binary(BinaryOp::Add));
        let twice = b.known_step(kernel, Some(meaning), &[x, x], P::F32);
        b.finish(&[twice])
    }

    #[test]
    fn only_rows_are_stored() {
        let program = program();
        let (row, pitch, rows) = (30, 33, 9);
        let mut from: Vec<f32> = (0..row + pitch * (rows - 1)).map(|x| x as f32).collect();
        for apart in [row, pitch, 50] {
            for pieces in [
                vec![0, 270],
                vec![0, 64, 128, 270],
                vec![0, 1, 29, 31, 95, 269, 270],
            ] {
                let mut to = vec![-1f32; row + apart * (rows - 1)];
                let array = |register, base: &mut [f32], pitch| Array {
                    register,
                    base: base.as_mut_ptr().cast(),
                    size: 4,
                    pitch,
                };
                let gaps = Gaps {
                    row,
                    pitch,
                    inputs: vec![array(program.inputs[0], &mut from, pitch)],
                    outputs: vec![array(program.outputs[0], &mut to, apart)],
                };
                let mut frame = Frame::new(&program, 64).unwrap();
                for piece in pieces.windows(2) {
                    // SAFETY: the input is bound to `n` elements, the output to a tile of the frame.
                    gaps.range(&mut frame, piece[0]..piece[1], |frame, n| unsafe {
                        frame.run(&program, n);
                    });
                }
                for (at, &value) in to.iter().enumerate() {
                    let (which, inner) = (at / apart, at % apart);
                    let wanted = match inner < row {
                        true => 2.0 * (which * pitch + inner) as f32,
                        false => -1.0,
                    };
                    assert_eq!(value, wanted, "{apart} {pieces:?} {at}");
                }
            }
        }
    }
}
