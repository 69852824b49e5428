//! Operations that move bytes, at fixed places and at places that indices name.
//!
//! An index is a scalar that is clamped to `0..=x` and moves an address by `stride` bytes per unit.

use super::{Function, Kind, Op, State, go_on};
use crate::DType;

/// An index type: how it is read.
trait Index: Copy {
    fn wide(self) -> i64;
}

macro_rules! indices {
    ($($t:ty)*) => {$(
        impl Index for $t {
            #[inline(always)]
            fn wide(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}
indices!(i8 u8 i16 u16 i32 u32 i64 u64);

/// The bytes that the index at `b` moves by.
#[inline(always)]
unsafe fn moved<I: Index>(op: &Op, at: *const u8) -> isize {
    // SAFETY: by the promise of `Run`, `at` holds an index, and the operation was made with a stride.
    unsafe {
        let value = at.cast::<I>().read_unaligned().wide();
        value.clamp(0, op.x.max(0)) as isize * op.extra.stride
    }
}

#[inline(always)]
unsafe fn transfer<const SIZE: usize>(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: by the promise of `Run`, both hold `n` bytes; `SIZE` is `n` where it is not zero.
    unsafe {
        match SIZE {
            1 => to.write(from.read()),
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => std::ptr::copy(from, to, n),
        }
    }
}

unsafe fn run_copy<const SIZE: usize>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: by the promise of `Run`.
    unsafe {
        let op = &*at;
        transfer::<SIZE>(op.a, op.out, op.n);
        go_on(op, state)
    }
}

unsafe fn run_index<I: Index, const FIRST: bool>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: by the promise of `Run`.
    unsafe {
        let op = &*at;
        let by = moved::<I>(op, op.b);
        state.offset = if FIRST {
            by
        } else {
            state.offset.wrapping_add(by)
        };
        go_on(op, state)
    }
}

/// Loads, or stores: what is moved is `a`, or else `out`.
unsafe fn run_moved<I: Index, const SIZE: usize, const MORE: bool, const LOAD: bool>(
    at: *const Op,
    state: &mut State,
) -> *const Op {
    // SAFETY: by the promise of `Run`; clamped indices stay in the memory whose start is moved.
    unsafe {
        let op = &*at;
        let mut by = moved::<I>(op, op.b);
        if MORE {
            by = by.wrapping_add(state.offset);
        }
        if LOAD {
            transfer::<SIZE>(op.a.wrapping_offset(by), op.out, op.n);
        } else {
            transfer::<SIZE>(op.a, op.out.wrapping_offset(by), op.n);
        }
        go_on(op, state)
    }
}

macro_rules! with_index {
    ($dtype:expr, $run:ident $(, $arg:tt)*) => {
        match $dtype {
            DType::S8 => $run!(i8 $(, $arg)*),
            DType::U8 => $run!(u8 $(, $arg)*),
            DType::S16 => $run!(i16 $(, $arg)*),
            DType::U16 => $run!(u16 $(, $arg)*),
            DType::S32 => $run!(i32 $(, $arg)*),
            DType::U32 => $run!(u32 $(, $arg)*),
            DType::S64 => $run!(i64 $(, $arg)*),
            DType::U64 => $run!(u64 $(, $arg)*),
            _ => return None,
        }
    };
}

/// [`run_moved`] for a size, 0 of any that has none of its own.
fn sized<I: Index, const MORE: bool, const LOAD: bool>(bytes: usize) -> super::Run {
    match bytes {
        1 => run_moved::<I, 1, MORE, LOAD>,
        4 => run_moved::<I, 4, MORE, LOAD>,
        8 => run_moved::<I, 8, MORE, LOAD>,
        _ => run_moved::<I, 0, MORE, LOAD>,
    }
}

fn indexed<const LOAD: bool>(dtype: DType, bytes: usize, more: bool) -> Option<super::Run> {
    macro_rules! run {
        ($t:ty) => {
            match more {
                true => sized::<$t, true, LOAD>(bytes),
                false => sized::<$t, false, LOAD>(bytes),
            }
        };
    }
    Some(with_index!(dtype, run))
}

/// `n` bytes, which are `bytes`, from `a` to `out`; they may overlap.
pub fn copy(bytes: usize) -> Function {
    let run: super::Run = match bytes {
        1 => run_copy::<1>,
        4 => run_copy::<4>,
        8 => run_copy::<8>,
        _ => run_copy::<0>,
    };
    Function::of(run, Kind::Copy)
}

/// An index at `b` of the next load or store that has more than one; `is_first` forgets those before. `None` where
/// the type is no index.
pub fn index(dtype: DType, is_first: bool) -> Option<Function> {
    macro_rules! run {
        ($t:ty) => {
            if is_first {
                run_index::<$t, true>
            } else {
                run_index::<$t, false>
            }
        };
    }
    let run: super::Run = with_index!(dtype, run);
    Some(Function::of(run, Kind::Index(dtype, is_first)))
}

/// `n` bytes, which are `bytes`, from `a`, moved by the index at `b` and, if there are `more`, those before it, to
/// `out`.
pub fn load(dtype: DType, bytes: usize, more: bool) -> Option<Function> {
    let run = indexed::<true>(dtype, bytes, more)?;
    Some(Function::of(run, Kind::Load(dtype, more)))
}

/// The same from `a` to `out` moved.
pub fn store(dtype: DType, bytes: usize, more: bool) -> Option<Function> {
    let run = indexed::<false>(dtype, bytes, more)?;
    Some(Function::of(run, Kind::Store(dtype, more)))
}
