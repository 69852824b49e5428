//! Elementwise operations on the sums of a product, before they are stored.
//!
//! In: sums in registers, and operands with a number for every row and column, for every column, or for all. Out: the results
//! of the steps, one after the other. Promise: each step rounds, as in a pass of its own over C.

use super::ahead::prefetch;
use super::micro::Real;
use crate::DType;
use crate::elementwise::{self, Tier};
use crate::ops::{BinaryOp, is_lower_bound, is_upper_bound};

/// What a step does with the value so far, `x`, and its operand, `y`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpilogueOp {
    /// `x + y`
    Add,
    /// `x - y`
    Subtract,
    /// `y - x`
    SubtractFrom,
    /// `x · y`
    Multiply,
    /// The larger one; `y` is a lower bound ([`crate::ops::is_lower_bound`]).
    AtLeast,
    /// The smaller one; `y` is an upper bound ([`crate::ops::is_upper_bound`]).
    AtMost,
}

impl EpilogueOp {
    /// The step for `op` with the value on the left, or on the right; `constant` has the bits of a constant operand.
    pub fn of(
        op: BinaryOp,
        is_right: bool,
        constant: Option<u64>,
        dtype: DType,
    ) -> Option<EpilogueOp> {
        Some(match op {
            BinaryOp::Add => EpilogueOp::Add,
            BinaryOp::Subtract if is_right => EpilogueOp::SubtractFrom,
            BinaryOp::Subtract => EpilogueOp::Subtract,
            BinaryOp::Multiply => EpilogueOp::Multiply,
            BinaryOp::Maximum if is_lower_bound(constant?, dtype) => EpilogueOp::AtLeast,
            BinaryOp::Minimum if is_upper_bound(constant?, dtype) => EpilogueOp::AtMost,
            _ => return None,
        })
    }
}

/// The operand of a step.
#[derive(Clone, Copy, Debug)]
pub enum EpilogueOperand {
    /// The bits of one number for all elements.
    Scalar(u64),
    /// The address of one number for all elements, which is read when the steps are done.
    Element(*const u8),
    /// A number for every row and column of C.
    Matrix {
        /// That of the first element.
        first: *const u8,
        /// Elements from one row to the next, zero where all rows have the same; columns lie one after the other.
        row_stride: isize,
    },
}

#[derive(Clone, Copy)]
struct Step {
    op: EpilogueOp,
    /// Null where the operand is the number in `own`.
    first: *const u8,
    /// Elements from one row, and from one column, to the next; a column's is zero only where a row's is.
    row: isize,
    column: isize,
    own: [u8; 8],
}

/// Steps in order.
pub struct Epilogue {
    steps: Vec<Step>,
}

// SAFETY: operands are only read.
unsafe impl Send for Epilogue {}
// SAFETY: as above.
unsafe impl Sync for Epilogue {}

impl Epilogue {
    /// No step.
    pub fn none() -> &'static Epilogue {
        static NONE: Epilogue = Epilogue { steps: Vec::new() };
        &NONE
    }

    /// The steps on elements of `size` bytes, 4 or 8.
    pub fn new(
        size: usize,
        steps: impl IntoIterator<Item = (EpilogueOp, EpilogueOperand)>,
    ) -> Epilogue {
        let step = |(op, operand)| {
            let (first, row, column, own) = match operand {
                EpilogueOperand::Matrix { first, row_stride } => (first, row_stride, 1, [0; 8]),
                EpilogueOperand::Element(first) => (first, 0, 0, [0; 8]),
                EpilogueOperand::Scalar(bits) => {
                    let mut own = bits.to_ne_bytes();
                    if size == 4 {
                        own[..4].copy_from_slice(&(bits as u32).to_ne_bytes());
                    }
                    (std::ptr::null(), 0, 0, own)
                }
            };
            Step {
                op,
                first,
                row,
                column,
                own,
            }
        };
        Epilogue {
            steps: steps.into_iter().map(step).collect(),
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether all rows have the same steps and numbers.
    pub fn is_by_columns(&self) -> bool {
        self.steps.iter().all(|step| step.row == 0)
    }

    /// The steps for what begins at a row and column of C.
    #[inline]
    pub(super) fn at(&self, row: usize, column: usize) -> TileEpilogue {
        TileEpilogue {
            steps: self.steps.as_ptr(),
            count: self.steps.len(),
            row: row as isize,
            column: column as isize,
        }
    }

    /// Does the steps to `count` elements of a row of C, `column_stride` elements apart, of which the first lies at `c` and has
    /// the row and column `origin`.
    ///
    /// # Safety
    /// These elements may be read and written, and the epilogue was made for their size; operands have an element for each.
    pub(super) unsafe fn apply_to_row<E: Real>(
        &self,
        origin: [usize; 2],
        c: *mut E,
        column_stride: isize,
        count: usize,
    ) {
        let tile = self.at(origin[0], origin[1]);
        if column_stride == 1 {
            // SAFETY: the caller's contract.
            return unsafe { (E::kernels().epilogue_row)(tile, c, count) };
        }
        for step in &self.steps {
            for j in 0..count {
                // SAFETY: the caller's contract.
                unsafe {
                    let at = c.offset(j as isize * column_stride);
                    let x = step.one(at.read_unaligned(), tile.operand::<E>(step, 0, j));
                    at.write_unaligned(x);
                }
            }
        }
    }
}

/// Does the steps of a tile to so many elements of its first row, which lie one after the other.
///
/// # Safety
/// As [`Epilogue::apply_to_row`]; the CPU has the tier's instruction set.
#[inline(always)]
pub(super) unsafe fn row<T: Vectors<E>, E: Real, const NR: usize>(
    mut tile: TileEpilogue,
    c: *mut E,
    count: usize,
) {
    let lanes = T::Vector::LANES;
    for first in (0..count).step_by(NR) {
        let (c, width) = (c.wrapping_add(first), NR.min(count - first));
        let mut values = [[E::ZERO; NR]];
        // SAFETY: the caller's contract: the row has `width` more elements.
        unsafe {
            let own = values.as_mut_ptr().cast::<E>();
            for at in (0..width).step_by(lanes) {
                let x = T::Vector::load_part(c.add(at).cast(), (width - at).min(lanes));
                x.store(own.add(at).cast());
            }
            match width == NR {
                true => tile.apply::<T, E, 1, NR, true>(&mut values, NR),
                false => tile.apply::<T, E, 1, NR, false>(&mut values, width),
            }
            for at in (0..width).step_by(lanes) {
                let x = T::Vector::load(own.add(at).cast());
                x.store_part(c.add(at).cast(), (width - at).min(lanes));
            }
        }
        tile.column += NR as isize;
    }
}

impl Step {
    #[inline(always)]
    unsafe fn one<E: Real>(&self, x: E, y: *const E) -> E {
        // SAFETY: an element of the operand.
        let y = unsafe { y.read_unaligned() };
        match self.op {
            EpilogueOp::Add => x.add(y),
            EpilogueOp::Subtract => x.sub(y),
            EpilogueOp::SubtractFrom => y.sub(x),
            EpilogueOp::Multiply => x.mul(y),
            EpilogueOp::AtLeast => x.at_least(y),
            EpilogueOp::AtMost => x.at_most(y),
        }
    }
}

/// Steps for a tile that begins at some row and column of C.
#[derive(Clone, Copy)]
pub(super) struct TileEpilogue {
    steps: *const Step,
    count: usize,
    row: isize,
    column: isize,
}

impl TileEpilogue {
    /// No step.
    pub const NONE: TileEpilogue = TileEpilogue {
        steps: std::ptr::NonNull::dangling().as_ptr(),
        count: 0,
        row: 0,
        column: 0,
    };

    /// Whether there is nothing to do.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    unsafe fn steps(&self) -> &[Step] {
        // SAFETY: the epilogue, which outlives its tiles, has so many.
        unsafe { std::slice::from_raw_parts(self.steps, self.count) }
    }

    /// Where a step finds its operand for a row and column of the tile.
    #[inline(always)]
    fn operand<E>(&self, step: &Step, row: usize, column: usize) -> *const E {
        if step.first.is_null() {
            return step.own.as_ptr().cast();
        }
        let row = (self.row + row as isize) * step.row;
        let column = (self.column + column as isize) * step.column;
        step.first.cast::<E>().wrapping_offset(row + column)
    }

    /// Asks for the operands that have a number for every row, before the sums of a tile are made. Not inlined, so that the
    /// loop over the sums keeps its registers.
    #[inline(never)]
    pub fn prefetch<E>(&self, rows: usize, columns: usize) {
        // SAFETY: the tile's steps.
        for step in unsafe { self.steps() }.iter().filter(|step| step.row != 0) {
            for row in 0..rows {
                for column in (0..columns).step_by(64 / size_of::<E>()) {
                    prefetch(self.operand::<E>(step, row, column));
                }
            }
        }
    }

    /// Does the steps to a tile, of which the first `width` columns are there, all of them where it is `WHOLE`.
    ///
    /// # Safety
    /// The CPU has the tier's instruction set; operands have an element for each row and each of these columns.
    #[inline(always)]
    pub unsafe fn apply<
        T: Vectors<E>,
        E: Real,
        const R: usize,
        const NR: usize,
        const WHOLE: bool,
    >(
        &self,
        values: &mut [[E; NR]; R],
        width: usize,
    ) {
        const { assert!(NR.is_multiple_of(T::Vector::LANES)) };
        let first = values.as_mut_ptr().cast::<E>();
        let mut repeated = std::mem::MaybeUninit::<[E; NR]>::uninit();
        // SAFETY: the caller's contract; of a number that is the same for all columns, that one is read.
        unsafe {
            for step in self.steps() {
                let mut from = self.operand::<E>(step, 0, 0);
                // One number for all is read from a vector of it, so that it takes no loops of its own.
                if step.column == 0 {
                    let to = repeated.as_mut_ptr();
                    T::Vector::repeat(from.cast()).store(to.cast());
                    from = to.cast_const().cast();
                }
                // One nest of loops for each operation, so that values stay in registers.
                macro_rules! each {
                    ($f:ident) => {
                        for row in 0..R {
                            let from = from.wrapping_offset(row as isize * step.row);
                            let mut at = 0;
                            while at < NR {
                                let from = from.wrapping_offset(at as isize * step.column).cast();
                                let y = match WHOLE {
                                    true => T::Vector::load(from),
                                    false => T::Vector::load_part(from, width.saturating_sub(at)),
                                };
                                let to = first.add(row * NR + at).cast();
                                T::Vector::load(to).$f(y).store(to);
                                at += T::Vector::LANES;
                            }
                        }
                    };
                }
                match step.op {
                    EpilogueOp::Add => each!(add),
                    EpilogueOp::Subtract => each!(sub),
                    EpilogueOp::SubtractFrom => each!(rsub),
                    EpilogueOp::Multiply => each!(mul),
                    EpilogueOp::AtLeast => each!(at_least),
                    EpilogueOp::AtMost => each!(at_most),
                }
            }
        }
    }
}

/// The operations of steps, on a vector.
///
/// # Safety
/// The CPU has the vector's instruction set; pointers are valid for one vector, aligned or not.
#[allow(clippy::missing_safety_doc, reason = "one contract for all, above")]
pub(super) trait StepVector: Copy {
    const LANES: usize;
    unsafe fn load(p: *const u8) -> Self;
    unsafe fn store(self, p: *mut u8);
    /// The first elements, as many as there are; the others are zero.
    unsafe fn load_part(p: *const u8, count: usize) -> Self;
    /// Stores the first elements, as many as there is room for.
    unsafe fn store_part(self, p: *mut u8, count: usize);
    /// The element in all lanes.
    unsafe fn repeat(p: *const u8) -> Self;
    /// `self * b + c`, rounded once where the tier fuses.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn rsub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn at_least(self, o: Self) -> Self;
    unsafe fn at_most(self, o: Self) -> Self;
}

/// The vectors of a tier.
pub(super) trait Vectors<E>: Tier {
    type Vector: StepVector;
}

macro_rules! step_vector {
    (@body $($name:ident: ($self:ident, $o:ident) $e:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($self, $o: Self) -> Self {
            // SAFETY: the trait's contract.
            #[allow(unused_unsafe, reason = "numbers need no instruction set")]
            unsafe { $e }
        }
    )*};
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<V: crate::vector_bytecode::vector::Vector> StepVector for V {
    const LANES: usize = V::LANES;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the trait's contract.
        unsafe { V::load(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe { V::store(self, p) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const u8, count: usize) -> Self {
        // SAFETY: the trait's contract.
        unsafe { V::load_part(p, count) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut u8, count: usize) {
        // SAFETY: the trait's contract.
        unsafe { V::store_part(self, p, count) }
    }
    #[inline(always)]
    unsafe fn repeat(p: *const u8) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            V::splat(match V::SIZE {
                4 => u64::from(p.cast::<u32>().read_unaligned()),
                _ => p.cast::<u64>().read_unaligned(),
            })
        }
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { V::fma(self, b, c) }
    }
    step_vector! { @body
        add: (self, o) V::add(self, o);
        sub: (self, o) V::sub(self, o);
        rsub: (self, o) V::sub(o, self);
        mul: (self, o) V::mul(self, o);
        at_least: (self, o) V::at_least(self, o);
        at_most: (self, o) V::at_most(self, o);
    }
}

/// A single number, for tiers without vectors of their own.
#[derive(Clone, Copy)]
pub(super) struct Scalar<E>(E);

impl<E: Real> StepVector for Scalar<E> {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the trait's contract.
        Scalar(unsafe { p.cast::<E>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe { p.cast::<E>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const u8, count: usize) -> Self {
        match count {
            0 => Scalar(E::ZERO),
            // SAFETY: the trait's contract.
            _ => unsafe { Self::load(p) },
        }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut u8, count: usize) {
        if count > 0 {
            // SAFETY: the trait's contract.
            unsafe { self.store(p) }
        }
    }
    #[inline(always)]
    unsafe fn repeat(p: *const u8) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self::load(p) }
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Scalar(E::fma::<elementwise::Portable>(self.0, b.0, c.0))
    }
    step_vector! { @body
        add: (self, o) Scalar(self.0.add(o.0));
        sub: (self, o) Scalar(self.0.sub(o.0));
        rsub: (self, o) Scalar(o.0.sub(self.0));
        mul: (self, o) Scalar(self.0.mul(o.0));
        at_least: (self, o) Scalar(self.0.at_least(o.0));
        at_most: (self, o) Scalar(self.0.at_most(o.0));
    }
}

macro_rules! vectors {
    ($($(#[$cfg:meta])? $tier:ident: $words:ty, $doubles:ty;)*) => {$(
        $(#[$cfg])?
        impl Vectors<f32> for elementwise::$tier {
            type Vector = $words;
        }
        $(#[$cfg])?
        impl Vectors<f64> for elementwise::$tier {
            type Vector = $doubles;
        }
    )*};
}
vectors! {
    Portable: Scalar<f32>, Scalar<f64>;
    #[cfg(target_arch = "x86_64")]
    Avx2: crate::vector_bytecode::x86::W8, crate::vector_bytecode::x86::D4;
    #[cfg(target_arch = "x86_64")]
    Avx512: crate::vector_bytecode::x86::W16, crate::vector_bytecode::x86::D8;
    #[cfg(target_arch = "aarch64")]
    Neon: crate::vector_bytecode::neon::W4, crate::vector_bytecode::neon::D2;
}
