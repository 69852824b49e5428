//! Column-major matrices of their own memory, as LAPACK wants them, and the batches they come from.

use hlorun_kernels::DType;
use num_complex::Complex64;

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::element::elementwise::dtype;
use crate::types::strided;
use crate::types::{Dims, PrimitiveType};

/// A dense matrix; vectors are matrices of one column.
pub struct Matrix {
    /// Elements, column by column.
    pub bytes: AlignedBytes<u8>,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Type of an element.
    pub ty: PrimitiveType,
}

/// A number of double precision.
///
/// # Safety
///
/// Elements of `TYPE` lie in memory as this type does.
pub unsafe trait Element: Copy {
    /// Its element type.
    const TYPE: DType;
}

// SAFETY: a 64-bit float.
unsafe impl Element for f64 {
    const TYPE: DType = DType::F64;
}

// SAFETY: two 64-bit floats, the real part first.
unsafe impl Element for Complex64 {
    const TYPE: DType = DType::C128;
}

impl Matrix {
    /// Zeros.
    pub fn zeros(ty: PrimitiveType, rows: usize, cols: usize) -> Result<Matrix> {
        let size = rows
            .checked_mul(cols)
            .and_then(|n| n.checked_mul(ty.size_bytes()))
            .ok_or_else(|| HloError::execution("matrix too large"))?;
        Ok(Matrix {
            bytes: AlignedBytes::zeroed(size)?,
            rows,
            cols,
            ty,
        })
    }

    fn array(&self, dims: &Dims) -> RawArray {
        let strides = match dims.len() {
            2 => [1, dims[0]].into_iter().collect(),
            n => smallvec::SmallVec::from_elem(1, n),
        };
        RawArray {
            pointer: self.bytes.shared_ptr(),
            element_type: self.ty,
            dims: dims.clone(),
            strides,
        }
    }

    /// Copies an array of rank 0, 1 (a column) or 2, converted to `ty`.
    pub fn load(array: &RawArray, ty: PrimitiveType) -> Result<Matrix> {
        let rows = array.dims.first().map_or(1, |&d| d as usize);
        let cols = array.dims.get(1).map_or(1, |&d| d as usize);
        let matrix = Matrix::zeros(ty, rows, cols)?;
        if ty == array.element_type {
            array.copy_to(&matrix.array(&array.dims));
        } else {
            let typed = crate::exec::ops::convolution::Typed::new(array, ty)?;
            typed.array.copy_to(&matrix.array(&array.dims));
        }
        Ok(matrix)
    }

    /// Writes the leading part that `array` has room for.
    pub fn store(&self, array: &RawArray) -> Result<()> {
        let rows = array.dims.first().map_or(1, |&d| d as usize);
        let cols = array.dims.get(1).map_or(1, |&d| d as usize);
        if rows > self.rows || cols > self.cols {
            return Err(HloError::execution(
                "a result larger than what was computed",
            ));
        }
        let mut view = self.array(&array.dims);
        if view.dims.len() == 2 {
            view.strides[1] = self.rows as i64;
        }
        if self.ty == array.element_type {
            view.copy_to(array);
        } else {
            let typed = crate::exec::ops::convolution::Typed::new(&view, array.element_type)?;
            typed.array.copy_to(array);
        }
        Ok(())
    }

    /// The elements as complex numbers.
    pub fn to_complex(&self) -> Result<Vec<Complex64>> {
        self.to_numbers()
    }

    /// The elements as numbers of double precision.
    pub fn to_numbers<T: Element>(&self) -> Result<Vec<T>> {
        let count = self.rows * self.cols;
        let from = dtype(self.ty).ok_or_else(|| HloError::execution("no matrix type"))?;
        let mut values: Vec<T> = Vec::new();
        values
            .try_reserve_exact(count)
            .map_err(|_| HloError::execution("out of memory for a matrix"))?;
        // SAFETY: both hold `count` elements.
        unsafe {
            let convert = hlorun_kernels::convert(from, T::TYPE);
            convert(self.bytes.as_ptr(), values.as_mut_ptr().cast(), count);
            values.set_len(count);
        }
        Ok(values)
    }

    /// A matrix of `values`, rounded to `ty`.
    pub fn from_complex(
        values: &[Complex64],
        rows: usize,
        cols: usize,
        ty: PrimitiveType,
    ) -> Result<Matrix> {
        Matrix::from_numbers(values, rows, cols, ty)
    }

    /// A matrix of real or complex `values`, rounded to `ty`.
    pub fn from_numbers<T: Element>(
        values: &[T],
        rows: usize,
        cols: usize,
        ty: PrimitiveType,
    ) -> Result<Matrix> {
        let mut matrix = Matrix::zeros(ty, rows, cols)?;
        let to = dtype(ty).ok_or_else(|| HloError::execution("no matrix type"))?;
        if values.len() != rows * cols {
            return Err(HloError::execution("a matrix of another size"));
        }
        // SAFETY: both hold as many elements.
        unsafe {
            let convert = hlorun_kernels::convert(T::TYPE, to);
            convert(
                values.as_ptr().cast(),
                matrix.bytes.as_mut_ptr(),
                values.len(),
            );
        }
        Ok(matrix)
    }

    /// Element `(row, column)` as bytes.
    pub fn element(&mut self, row: usize, column: usize) -> &mut [u8] {
        let size = self.ty.size_bytes();
        let at = (column * self.rows + row) * size;
        &mut self.bytes.as_mut_slice()[at..at + size]
    }
}

/// The part of `array` at position `index` of its leading dimensions; `rank` dimensions stay.
pub fn part(array: &RawArray, rank: usize, index: usize) -> RawArray {
    let lead = array.dims.len().saturating_sub(rank);
    let lead_dims = array.dims[..lead].iter().zip(&array.strides);
    let offset = strided::place(index as i64, lead_dims);
    let bytes = offset as isize * array.element_type.size_bytes() as isize;
    RawArray {
        pointer: array.pointer.wrapping_offset(bytes),
        element_type: array.element_type,
        dims: Dims::from_slice(&array.dims[lead..]),
        strides: Dims::from_slice(&array.strides[lead..]),
    }
}

/// Product of the leading dimensions.
pub fn batch_count(array: &RawArray, rank: usize) -> usize {
    let lead = array.dims.len().saturating_sub(rank);
    array.dims[..lead].iter().product::<i64>().max(0) as usize
}
