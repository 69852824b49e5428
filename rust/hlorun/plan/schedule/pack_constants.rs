//! `pack-constants`: kernels of convolutions that are constants are copied into strips when a module is compiled.
//!
//! A convolution that reads its inputs where they lie needs its kernel in the order in which it is read. One that never
//! changes need not be copied in every run.
//!
//! Applies to convolutions whose kernel is all of a constant, and which [`KernelStrips`] is for. The strips are a constant
//! of their own, which the convolution reads beside the kernel.

use rustc_hash::FxHashMap;

use super::kernel_strips::{KernelStrips, Lay};
use crate::module::{HloModule, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::ops::convolution::{ConvolutionDims, ConvolutionOp};
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::thunk::{BufferKind, LogicalBuffer, ThunkKind, ThunkSequence};
use crate::plan::view::{ArrayView, BufferSlice};
use crate::types::{ArrayShape, Literal, PrimitiveType};

/// Name by which it is switched off.
pub const NAME: &str = "pack-constants";

/// Bytes of a cache line: vectors of strips that begin with one lie in one each.
const LINE: usize = 64;
/// Most ways in which one constant is packed.
const MAX_WAYS: usize = 4;

/// What was packed of a constant, in which way, and where it is.
type Known = FxHashMap<u32, Vec<(Way, BufferSlice)>>;

/// All that the strips of a constant depend on.
#[derive(PartialEq)]
struct Way {
    kernel: ArrayView,
    dims: ConvolutionDims,
    reversed: Vec<bool>,
    groups: usize,
}

impl Way {
    fn of(convolution: &ConvolutionOp, kernel: &ArrayView, strips: &KernelStrips) -> Way {
        let window = convolution.window.0.iter();
        Way {
            kernel: kernel.clone(),
            dims: convolution.kernel.clone(),
            reversed: window.map(|w| w.window_reversal).collect(),
            groups: strips.groups,
        }
    }
}

/// Packs what `thunks` and everything nested in them allow; returns for how many convolutions.
pub fn run(
    thunks: &mut ThunkSequence,
    buffers: &mut Vec<LogicalBuffer>,
    module: &mut HloModule,
) -> usize {
    let mut packing = Packing {
        buffers,
        module,
        known: Known::default(),
    };
    packing.sequence(thunks)
}

struct Packing<'a> {
    buffers: &'a mut Vec<LogicalBuffer>,
    module: &'a mut HloModule,
    known: Known,
}

impl Packing<'_> {
    /// Recursion is bounded by the nesting the lowering allows.
    fn sequence(&mut self, thunks: &mut ThunkSequence) -> usize {
        let mut packed = 0;
        for thunk in thunks {
            let instruction = thunk.instruction;
            for nested in thunk.nested_mut() {
                packed += self.sequence(nested);
            }
            let ThunkKind::Op(op) = &mut thunk.kind else {
                continue;
            };
            if let Some(strips) = self.strips(op, instruction) {
                op.inputs.push(strips);
                packed += 1;
            }
        }
        packed
    }

    /// The strips that `op` is to read, if its kernel is a constant.
    fn strips(&mut self, op: &OpThunk, instruction: InstructionId) -> Option<ArrayView> {
        let (OpKind::Convolution(convolution), [input, kernel]) = (&op.kind, op.inputs.as_slice())
        else {
            return None;
        };
        let BufferKind::Constant(literal) = self.buffers[kernel.slice.allocation as usize].kind
        else {
            return None;
        };
        // Such a convolution is cut into others, each with a part of the kernel.
        if convolution.window.0.iter().any(|w| w.base_dilation != 1) {
            return None;
        }
        let arrays = [input, kernel, op.outputs.first()?];
        let strips = KernelStrips::of(convolution, arrays.map(Lay::of_view))?;
        let way = Way::of(convolution, kernel, &strips);
        let known = self.known.entry(kernel.slice.allocation).or_default();
        let is_same = |other: &Way| faults::holds(Fault::SharesOtherStrips, *other == way);
        let found = known.iter().find(|(other, _)| is_same(other));
        let slice = match found {
            Some(&(_, slice)) => slice,
            None if known.len() >= MAX_WAYS => return None,
            None => {
                let bytes = self.module.literal(literal).bytes()?;
                let (literal, offset) = pack(convolution, kernel, &strips, bytes)?;
                self.buffers.push(LogicalBuffer {
                    size: literal.heap_size(),
                    kind: BufferKind::Constant(self.module.add_literal(literal)),
                    instruction: Some(instruction),
                });
                let slice = BufferSlice {
                    allocation: self.buffers.len() as u32 - 1,
                    offset,
                    size: strips.bytes,
                };
                known.push((way, slice));
                slice
            }
        };
        let dims = [strips.bytes as i64];
        Some(ArrayView::dense(slice, PrimitiveType::U8, &dims, &[0]))
    }
}

/// A kernel in strips, as a constant, and where they begin in it.
fn pack(
    convolution: &ConvolutionOp,
    kernel: &ArrayView,
    strips: &KernelStrips,
    bytes: &[u8],
) -> Option<(Literal, usize)> {
    let size = kernel.element_type.size_bytes();
    let bytes = bytes.get(kernel.slice.offset..)?;
    let room = strips.bytes.checked_add(LINE)?;
    let mut packed = Vec::new();
    packed.try_reserve_exact(room).ok()?;
    packed.resize(room, 0u8);
    let mut packed = packed.into_boxed_slice();
    let start = packed.as_ptr().align_offset(LINE).min(LINE);
    for nth in 0..strips.parts() {
        let part = strips.part(convolution, &kernel.strides, nth);
        let first = usize::try_from(kernel.offset + part.from).ok()?;
        let from = bytes.get(first.checked_mul(size)?..)?;
        let to = packed[start..].get_mut(part.to..)?;
        let to = to.get_mut(..strips.group_bytes)?;
        if !strips.product.pack_bytes(part.term, from, part.steps, to) {
            return None;
        }
    }
    let shape = ArrayShape::new(PrimitiveType::U8, &[room as i64]);
    Some((Literal::from_bytes(shape, packed)?, start))
}
