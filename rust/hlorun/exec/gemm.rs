//! Matrix products.

use hlorun_kernels::{Epilogue, Gemm};
use smallvec::SmallVec;

use super::array::RawArray;
use super::environment::{Environment, PreparedThunk, try_parallel};
use super::epilogue;
use super::memory::Memory;
use crate::error::{HloError, Result};
use crate::plan::element::elementwise::dtype;
use crate::plan::schedule::scalar_bytecode::products::matrix;
use crate::plan::thunk::{GemmThunk, GemmWay, PackOperandThunk};

/// Packs the right operand of a loop's products.
pub fn pack(thunk: &PackOperandThunk, environment: &Environment<'_>) -> Result<()> {
    let memory = &environment.memory;
    let Some(ty) = dtype(thunk.b.element_type) else {
        return Err(HloError::execution("a product of 1-bit integers"));
    };
    // SAFETY: the view has these sizes and strides; the slice was made as large as the packed operand.
    unsafe {
        hlorun_kernels::pack_operand(
            ty,
            thunk.width,
            [1, 2].map(|dim| thunk.b.dims[dim] as usize),
            memory.first(&thunk.b),
            matrix(&thunk.b),
            memory.pointer(&thunk.to),
            &environment.products(),
        );
    }
    Ok(())
}

/// The product of some of the rows.
fn rows_of(thunk: &GemmThunk, rows: usize) -> Result<Gemm> {
    let gemm = thunk.kernel(rows);
    gemm.ok_or_else(|| HloError::execution("a product of 1-bit integers"))
}

/// Whether [`add_block`] may be used: it then has the bits of a block and a sum.
pub fn adds_blocks(thunk: &GemmThunk) -> bool {
    thunk.epilogue.is_empty()
        && rows_of(thunk, 1).is_ok_and(|gemm| hlorun_kernels::adds_once(&gemm))
}

/// Runs one block of a product that is made of blocks, on this thread, and writes its rows to `c`.
///
/// # Safety
///
/// `rows` are rows of the product, and `c` has room for them.
pub unsafe fn block(
    thunk: &GemmThunk,
    rows: std::ops::Range<usize>,
    memory: &Memory,
    c: *mut u8,
) -> Result<()> {
    let gemm = rows_of(thunk, rows.len())?;
    // SAFETY: the caller's promise.
    unsafe { run_block(thunk, &gemm, rows.start, memory, c) }
}

/// The same, added to the rows that are at `c`.
///
/// # Safety
///
/// As for [`block`]; `c` holds rows.
pub unsafe fn add_block(
    thunk: &GemmThunk,
    rows: std::ops::Range<usize>,
    memory: &Memory,
    c: *mut u8,
) -> Result<()> {
    let mut gemm = rows_of(thunk, rows.len())?;
    gemm.beta = 1.0;
    // SAFETY: the caller's promise.
    unsafe { run_block(thunk, &gemm, rows.start, memory, c) }
}

unsafe fn run_block(
    thunk: &GemmThunk,
    gemm: &Gemm,
    first: usize,
    memory: &Memory,
    c: *mut u8,
) -> Result<()> {
    let epilogue = epilogue_of(thunk, first, memory)?;
    let offset = first as isize * gemm.a.row_stride * gemm.dtype.size_bytes() as isize;
    // SAFETY: by the caller's promise; the views have these sizes and strides.
    unsafe {
        hlorun_kernels::gemm_with_epilogue(
            gemm,
            memory.first(&thunk.a).offset(offset),
            memory.first(&thunk.b),
            c,
            &epilogue,
            &hlorun_kernels::Parallel::SERIAL,
        )?;
    }
    Ok(())
}

/// What is done to the rows of the product from `first` on.
fn epilogue_of(thunk: &GemmThunk, first: usize, memory: &Memory) -> Result<Epilogue> {
    let operands = thunk.epilogue_operands.iter();
    let operands: SmallVec<[RawArray; 4]> = operands.map(|view| memory.array(view)).collect();
    let size = thunk.c.element_type.size_bytes();
    epilogue::resolve(&thunk.epilogue, &operands, size, first)
}

/// The blocks of a product: their rows.
pub fn blocks(thunk: &GemmThunk, block_rows: usize) -> Vec<std::ops::Range<usize>> {
    let m = thunk.sizes().1 as usize;
    (0..m)
        .step_by(block_rows)
        .map(|start| start..m.min(start + block_rows))
        .collect()
}

/// A product with all done that its runs share; `None` where operands of its epilogue lie elsewhere in each, it is done in
/// blocks of rows, or preparing fails.
pub fn prepare<'t>(thunk: &'t GemmThunk, memory: &Memory) -> Option<PreparedThunk<'t>> {
    let mut operands = thunk.epilogue_operands.iter();
    let is_moving = operands.any(|view| !view.dynamic.is_empty());
    if is_moving || matches!(thunk.way, GemmWay::RowBlocks(_)) {
        return None;
    }
    let gemm = rows_of(thunk, thunk.sizes().1 as usize).ok()?;
    let epilogue = epilogue_of(thunk, 0, memory).ok()?;
    Some(Box::new(move |environment| {
        // SAFETY: both are those of the thunk, and allocations stay where they are while it is prepared.
        unsafe { whole(thunk, &gemm, &epilogue, environment) }
    }))
}

/// Runs all of a product at once.
///
/// # Safety
///
/// `gemm` and `epilogue` are those of the thunk, over this memory.
unsafe fn whole(
    thunk: &GemmThunk,
    gemm: &Gemm,
    epilogue: &Epilogue,
    environment: &Environment<'_>,
) -> Result<()> {
    let (memory, parallel) = (&environment.memory, environment.products());
    let (a, c) = (memory.first(&thunk.a), memory.first(&thunk.c));
    // SAFETY: the views have these sizes and strides and stay inside their allocations; the
    // assignment never lets C share memory with what is read; the plan packed B of this very product.
    unsafe {
        match thunk.way {
            GemmWay::PackedOperand(packed) => {
                let b = memory.pointer(&packed);
                hlorun_kernels::gemm_packed(gemm, a, b, c, epilogue, &parallel)?;
            }
            GemmWay::Whole | GemmWay::RowBlocks(_) => {
                let b = memory.first(&thunk.b);
                hlorun_kernels::gemm_with_epilogue(gemm, a, b, c, epilogue, &parallel)?;
            }
        }
    }
    Ok(())
}

/// Runs a product.
pub fn run(thunk: &GemmThunk, environment: &Environment<'_>) -> Result<()> {
    let memory = &environment.memory;
    let gemm = rows_of(thunk, thunk.sizes().1 as usize)?;
    let GemmWay::RowBlocks(block_rows) = thunk.way else {
        let epilogue = epilogue_of(thunk, 0, memory)?;
        // SAFETY: both are those of the thunk.
        return unsafe { whole(thunk, &gemm, &epilogue, environment) };
    };
    let blocks = blocks(thunk, block_rows);
    let row = gemm.n * gemm.out.size_bytes();
    try_parallel(environment, blocks.len(), &|at| {
        let rows = blocks[at].clone();
        // SAFETY: C is dense, so that its rows lie one after the other; blocks are disjoint.
        unsafe {
            let c = memory.first(&thunk.c).add(rows.start * row);
            block(thunk, rows, memory, c)
        }
    })
}
