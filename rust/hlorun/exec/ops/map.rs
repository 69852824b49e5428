//! Runs `map`: the computation over tiles of elements.

use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::map::MapOp;

/// Runs `op`: its operands in, one array out.
pub fn run(
    op: &MapOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let [output] = outputs else {
        return Err(HloError::execution("map gives one array"));
    };
    let program = &op.program;
    let fits = program.inputs.len() == inputs.len()
        && program.inputs.iter().zip(inputs).all(|(register, input)| {
            input.dims == output.dims
                && program.types[register.0 as usize].size_bytes()
                    == input.element_type.size_bytes()
        });
    if !fits {
        return Err(HloError::execution("map takes other arrays"));
    }
    let count = output.count();
    if count == 0 {
        return Ok(());
    }
    let copies = inputs
        .iter()
        .map(RawArray::to_row_major)
        .collect::<Result<Vec<_>>>()?;
    let mut result = AlignedBytes::uninitialized(output.byte_size())?;
    let target = Shared::new(result.as_mut_ptr());
    let size = output.element_type.size_bytes();
    let sizes: Vec<usize> = inputs
        .iter()
        .map(|input| input.element_type.size_bytes())
        .collect();
    let tile = Frame::tile_for(program, count);
    let failed = std::sync::atomic::AtomicBool::new(false);
    split(environment, count.div_ceil(tile), 32, &|range| {
        let Ok(mut frame) = Frame::new(program, tile) else {
            failed.store(true, std::sync::atomic::Ordering::Relaxed);
            return;
        };
        for block in range {
            let start = block * tile;
            let n = tile.min(count - start);
            for ((&register, copy), size) in program.inputs.iter().zip(&copies).zip(&sizes) {
                let at = start * size;
                frame.bind(register, copy.shared_ptr().wrapping_add(at));
            }
            // SAFETY: inputs hold `n` elements from `start`, the result as many.
            unsafe {
                frame.run(program, n);
                let from = frame.pointer(program.outputs[0]);
                std::ptr::copy_nonoverlapping(from, target.at((start * size) as isize), n * size);
            }
        }
    });
    if failed.into_inner() {
        return Err(HloError::execution("out of memory for map"));
    }
    RawArray::over(&mut result, output.element_type, &output.dims).copy_to(output);
    Ok(())
}
