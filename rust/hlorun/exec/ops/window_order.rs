//! The order in memory in which windows are walked.
//!
//! In: the arrays of a `reduce-window`. Out: the same arrays, or copies whose rows lie side by side on both sides and are
//! long. Windows over an operand that lies across the result would read a cache line for every element, once for each
//! position of the window.

use smallvec::SmallVec;

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::windowed::{MIN_ARRANGED, MIN_RUN};
use crate::types::Dims;

/// Arrays to walk instead of those given.
pub struct Arranged {
    /// Arrays to read.
    pub operands: Vec<RawArray>,
    /// Arrays to write; [`Arranged::finish`] brings them to their places.
    pub outputs: Vec<RawArray>,
    copied_outputs: bool,
    _memory: Vec<AlignedBytes>,
}

/// Which dimensions lie densest, and which arrays have to be copied for it.
#[derive(Debug, PartialEq)]
struct Order {
    /// Dimensions from the slowest to the fastest.
    dims: SmallVec<[usize; 6]>,
    copies_outputs: bool,
}

impl Order {
    /// The order to copy to; `None` where the arrays are walked as they lie.
    fn of(windows: &[WindowDimension], operand: &RawArray, output: &RawArray) -> Option<Order> {
        let rank = windows.len();
        let window = |d: &usize| windows[*d].size.max(1);
        let positions = (0..rank).fold(1i64, |n, d| n.saturating_mul(window(&d)));
        let work = positions.saturating_mul(output.count() as i64);
        let differ = (0..rank).filter(|&d| operand.strides[d] != 0);
        let differ = differ.fold(1i64, |n, d| n.saturating_mul(operand.dims[d]));
        // A copy touches no more elements than the windows read. Few different elements stay in the cache as they lie.
        let is_worth_it = work >= MIN_ARRANGED.max(operand.count() as i64);
        let has_few = differ < MIN_ARRANGED.min(operand.count() as i64);
        if positions == 1 || !is_worth_it || has_few || operand.count() == 0 {
            return None;
        }
        let mut dims: SmallVec<[usize; 6]> = (0..rank).collect();
        dims.sort_by_key(|&d| (std::cmp::Reverse(output.strides[d].abs()), output.dims[d]));
        // Elements without a window stay together; the first dimension that has one makes the row.
        let (mut run, mut agrees) = (1, true);
        for &d in dims.iter().rev().filter(|&&d| output.dims[d] > 1) {
            agrees &= operand.strides[d] == run && output.strides[d] == run;
            run *= output.dims[d];
            if !windows[d].is_trivial() {
                break;
            }
        }
        let longest = *dims.iter().max_by_key(|&&d| output.dims[d])?;
        if run >= MIN_RUN.min(1 + output.dims[longest] / 2) {
            return (!agrees).then_some(Order {
                dims,
                copies_outputs: false,
            });
        }
        dims.retain(|d| *d != longest);
        dims.push(longest);
        Some(Order {
            dims,
            copies_outputs: true,
        })
    }

    /// An array of those sizes in memory of its own, in this order.
    fn room(&self, like: &RawArray, memory: &mut Vec<AlignedBytes>) -> Result<RawArray> {
        let mut strides: Dims = SmallVec::from_elem(1, like.dims.len());
        let mut step = 1;
        for &d in self.dims.iter().rev() {
            strides[d] = step;
            step *= like.dims[d];
        }
        let mut bytes = AlignedBytes::uninitialized(like.byte_size())?;
        let pointer = bytes.as_mut_ptr();
        memory.push(bytes);
        Ok(RawArray {
            pointer,
            element_type: like.element_type,
            dims: like.dims.clone(),
            strides,
        })
    }
}

impl Arranged {
    /// Arrays in a better order; `None` where those given lie well.
    pub fn of(
        windows: &[WindowDimension],
        operands: &[RawArray],
        outputs: &[RawArray],
        environment: &OpEnvironment<'_>,
    ) -> Result<Option<Arranged>> {
        let Some(order) = Order::of(windows, &operands[0], &outputs[0]) else {
            return Ok(None);
        };
        let mut memory = Vec::new();
        let mut arranged = Vec::with_capacity(operands.len());
        for operand in operands {
            let copy = order.room(operand, &mut memory)?;
            environment.copy(operand, &copy);
            arranged.push(copy);
        }
        let mut results = Vec::with_capacity(outputs.len());
        for output in outputs {
            results.push(match order.copies_outputs {
                true => order.room(output, &mut memory)?,
                false => output.clone(),
            });
        }
        Ok(Some(Arranged {
            operands: arranged,
            outputs: results,
            copied_outputs: order.copies_outputs,
            _memory: memory,
        }))
    }

    /// Copies what was written to `outputs`, unless it is there.
    pub fn finish(self, outputs: &[RawArray], environment: &OpEnvironment<'_>) {
        if self.copied_outputs {
            for (array, output) in self.outputs.iter().zip(outputs) {
                environment.copy(array, output);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PrimitiveType;

    fn array(dims: &[i64], order: &[usize]) -> RawArray {
        let order = Order {
            dims: order.iter().copied().collect(),
            copies_outputs: false,
        };
        let like = RawArray {
            pointer: std::ptr::null_mut(),
            element_type: PrimitiveType::F32,
            dims: Dims::from_slice(dims),
            strides: Dims::from_elem(0, dims.len()),
        };
        order.room(&like, &mut Vec::new()).expect("room")
    }

    fn windows(sizes: &[i64]) -> Vec<WindowDimension> {
        sizes
            .iter()
            .map(|&size| WindowDimension {
                size,
                ..WindowDimension::default()
            })
            .collect()
    }

    #[test]
    fn arrays_that_lie_well_stay() {
        let image = array(&[4, 60, 60, 3], &[0, 1, 2, 3]);
        assert_eq!(Order::of(&windows(&[1, 3, 3, 1]), &image, &image), None);
        let plane = array(&[50, 60], &[1, 0]);
        assert_eq!(Order::of(&windows(&[3, 3]), &plane, &plane), None);
    }

    #[test]
    fn operands_follow_results() {
        let (down, across) = (array(&[50, 60], &[0, 1]), array(&[50, 60], &[1, 0]));
        let order = Order::of(&windows(&[3, 3]), &down, &across).expect("another order");
        assert_eq!(
            (&order.dims[..], order.copies_outputs),
            (&[1, 0][..], false)
        );
    }

    #[test]
    fn short_rows_give_way_to_the_longest() {
        let short = array(&[18, 45, 16, 2], &[0, 1, 2, 3]);
        let order = Order::of(&windows(&[1, 1, 3, 2]), &short, &short).expect("another order");
        assert_eq!(
            (&order.dims[..], order.copies_outputs),
            (&[0, 2, 3, 1][..], true)
        );
        // No dimension is long, or no window covers more than one element.
        let small = array(&[9, 9, 9, 9], &[0, 1, 2, 3]);
        assert_eq!(Order::of(&windows(&[3, 3, 3, 3]), &small, &small), None);
        assert_eq!(Order::of(&windows(&[1, 1, 1, 1]), &short, &short), None);
    }

    #[test]
    fn short_rows_follow_results_too() {
        let (down, across) = (
            array(&[9, 3, 15, 3], &[3, 2, 1, 0]),
            array(&[9, 3, 15, 3], &[0, 1, 2, 3]),
        );
        let order = Order::of(&windows(&[2, 1, 2, 3]), &down, &across).expect("another order");
        assert_eq!((order.dims.last(), order.copies_outputs), (Some(&2), true));
        let (down, across) = (
            array(&[5, 5, 5, 5, 5], &[4, 3, 2, 1, 0]),
            array(&[5, 5, 5, 5, 5], &[0, 1, 2, 3, 4]),
        );
        let order = Order::of(&windows(&[2, 2, 2, 2, 2]), &down, &across).expect("another order");
        assert_eq!((order.dims.last(), order.copies_outputs), (Some(&4), false));
    }

    #[test]
    fn no_more_is_copied_than_windows_read() {
        let (down, few) = (array(&[640, 640], &[0, 1]), array(&[10, 10], &[1, 0]));
        assert_eq!(Order::of(&windows(&[3, 3]), &down, &few), None);
        let mut repeated = array(&[640, 640], &[0, 1]);
        repeated.strides = Dims::from_elem(0, 2);
        let across = array(&[640, 640], &[1, 0]);
        assert_eq!(Order::of(&windows(&[3, 3]), &repeated, &across), None);
        assert!(Order::of(&windows(&[3, 3]), &down, &across).is_some());
    }
}
