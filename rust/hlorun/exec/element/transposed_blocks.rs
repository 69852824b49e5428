//! Inputs of loops whose rows lie across memory: a transposed array, read along its columns.
//!
//! In: a walk. Out: some of its rows at a time, transposed into a block that stays in a
//! cache. Read tile by tile instead, every element would cost a cache line.

use crate::buffers::AlignedBytes;
use crate::plan::transposition::Transposition;
use crate::plan::view::Walk;
use crate::plan::view::offset_in;
use smallvec::SmallVec;

/// One number for each dimension of a block.
type Dims<T> = SmallVec<[T; 4]>;

/// A block of transposed rows.
pub struct Block {
    bytes: AlignedBytes,
    /// The element of the walk it begins with; none yet: `usize::MAX`.
    first: usize,
}

impl Block {
    /// Drops the rows it holds, as the input may have changed.
    pub fn forget(&mut self) {
        self.first = usize::MAX;
    }
}

impl Transposition {
    /// Room for a block of elements of `size` bytes.
    pub fn block(&self, size: usize) -> crate::Result<Block> {
        Ok(Block {
            bytes: AlignedBytes::uninitialized(self.block * self.row * size)?,
            first: usize::MAX,
        })
    }

    /// Elements from `start` to the end of its block.
    pub fn rest(&self, start: usize) -> usize {
        let within = start % (self.rows * self.row);
        let next = (within / self.row / self.block + 1) * self.block;
        next.min(self.rows) * self.row - within
    }

    /// Where element `start` of the walk is, and those up to the end of its block, once it is in.
    ///
    /// # Safety
    ///
    /// All elements the walk reaches from `base` are readable; `self` and `block` were made for it.
    pub unsafe fn bring(
        &self,
        walk: &Walk,
        size: usize,
        base: *const u8,
        start: usize,
        block: &mut Block,
    ) -> *mut u8 {
        let plane = self.rows * self.row;
        let row = start % plane / self.row / self.block * self.block;
        let first = start / plane * plane + row * self.row;
        let to = block.bytes.as_mut_ptr();
        if block.first != first {
            let (outer, moving) = walk.split_at(self.outer);
            let offset = row as i64 * moving[0].1 + offset_in(outer, (start / plane) as i64);
            let bytes = size as isize;
            let rows = self.block.min(self.rows - row);
            let mut dims: Dims<usize> = moving.iter().map(|step| step.0 as usize).collect();
            dims[0] = rows;
            let from: Dims<isize> = moving.iter().map(|step| step.1 as isize * bytes).collect();
            let mut dense: Dims<isize> = SmallVec::from_elem(bytes, dims.len());
            for at in (1..dims.len()).rev() {
                dense[at - 1] = dense[at] * dims[at] as isize;
            }
            // SAFETY: the rows are the walk's, and the block holds as many.
            unsafe {
                let base = base.offset(offset as isize * bytes);
                hlorun_kernels::copy_strided(size, &dims, base, &from, to, &dense);
            }
            block.first = first;
        }
        // SAFETY: the block holds elements from `first` to the end of the block.
        unsafe { to.add((start - first) * size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::element::walk;

    #[test]
    fn blocks_hold_what_the_walk_reads() {
        // Two transposed planes of 65 x 130, side by side.
        holds(&[(2, 65 * 130), (130, 1), (65, 130)]);
        // Rows of several dimensions, in planes of their own.
        holds(&[(3, 40 * 15 * 10), (40, 1), (10, 40 * 15), (15, 40)]);
        holds(&[(900, 1), (7, 900), (13, 900 * 7)]);
    }

    fn holds(walk: &[(i64, i64)]) {
        let walk = Walk::from_slice(walk);
        let elements = walk.iter().map(|step| step.0 as u32).product();
        let data: Vec<u32> = (0..elements).collect();
        let transposition = Transposition::of(&walk, 4).unwrap();
        let mut block = transposition.block(4).unwrap();
        let mut want = vec![0u32; data.len()];
        // SAFETY: the walk covers exactly the data.
        unsafe {
            walk::gather(
                &walk,
                4,
                data.as_ptr().cast(),
                0,
                data.len(),
                want.as_mut_ptr().cast(),
            );
        }
        let mut start = 3;
        while start < data.len() {
            let n = transposition.rest(start).min(100);
            // SAFETY: as above; `n` elements lie before the end of the block.
            let got = unsafe {
                let at = transposition.bring(&walk, 4, data.as_ptr().cast(), start, &mut block);
                std::slice::from_raw_parts(at.cast::<u32>(), n)
            };
            assert_eq!(got, &want[start..start + n]);
            start += n;
        }
    }
}
