//! Where the elements of an array lie: sizes and strides, and walks over indices in row-major order.

use smallvec::SmallVec;

use super::Dims;

/// Strides of a dense row-major array, in elements.
pub fn row_major_strides(dims: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(0, dims.len());
    let mut step = 1i64;
    for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step *= dim.max(1);
    }
    strides
}

/// Whether elements lie side by side in row-major order; strides of unit dimensions do not matter.
pub fn is_row_major(dims: &[i64], strides: &[i64]) -> bool {
    let mut step = 1i64;
    let mut is_expected = true;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        is_expected &= dim == 1 || stride == step;
        step = step.wrapping_mul(dim.max(1));
    }
    is_expected || dims.contains(&0)
}

/// Whether every element lies at the same place by both strides.
pub fn same_places(dims: &[i64], a: &[i64], b: &[i64]) -> bool {
    let mut strides = dims.iter().zip(a.iter().zip(b));
    strides.all(|(&dim, (x, y))| dim == 1 || x == y)
}

/// Where element `at` in row-major order lies: sizes and strides come in pairs, outermost first.
#[inline(always)]
pub fn place<'d>(at: i64, pairs: impl DoubleEndedIterator<Item = (&'d i64, &'d i64)>) -> i64 {
    let (mut rest, mut place) = (at, 0);
    for (&size, &stride) in pairs.rev() {
        // Nothing lies in an empty array; asking for its first element is no reason to stop.
        let size = size.max(1);
        place += rest % size * stride;
        rest /= size;
    }
    place
}

/// Moves `index` on to the next one in row-major order; after the last one comes the first.
pub fn advance(index: &mut [i64], dims: &[i64]) {
    for (index, &dim) in index.iter_mut().zip(dims).rev() {
        *index += 1;
        if *index < dim {
            return;
        }
        *index = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_places_agree() {
        let dims = [2, 1, 3];
        let strides = row_major_strides(&dims);
        assert_eq!(strides.as_slice(), [3, 3, 1]);
        assert!(is_row_major(&dims, &[3, 77, 1]) && !is_row_major(&dims, &[1, 1, 2]));
        let mut index = [0; 3];
        for at in 0..6 {
            let sum: i64 = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
            assert_eq!((sum, place(at, dims.iter().zip(&strides))), (at, at));
            advance(&mut index, &dims);
        }
        assert_eq!(index, [0; 3]);
    }
}
