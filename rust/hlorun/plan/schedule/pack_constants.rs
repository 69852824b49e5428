//! `pack-constants`: constant operands are packed once, when the module is compiled.
//!
//! A convolution that reads its inputs in place needs its kernel in strips, a matrix product its right operand in panels.
//!
//! Applies to convolutions with [`KernelStrips`] and no base dilation, and on a single device to products with
//! [`GemmThunk::panels`], whose operand lies in a constant, at a fixed place and with no negative stride. What is packed is
//! a constant of its own: a convolution reads it behind its other operands, a product in place of the operand.

use rustc_hash::FxHashMap;

use super::kernel_strips::KernelStrips;
use crate::buffers::ALIGNMENT;
use crate::module::{HloModule, InstructionId};
use crate::plan::cost::packed_constants::{MAX_COPIES, MAX_GROWTH, MIN_COLUMNS};
use crate::plan::cost::products::MIN_PACKED;
use crate::plan::element::elementwise::dtype;
use crate::plan::faults::{self, Fault};
use crate::plan::ops::convolution::{ConvolutionDims, ConvolutionOp};
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::schedule::scalar_bytecode::products::matrix;
use crate::plan::thunk::{BufferKind, GemmThunk, GemmWay, LogicalBuffer, ThunkKind, ThunkSequence};
use crate::plan::view::{ArrayView, BufferSlice, StridedArray};
use crate::types::{ArrayShape, Literal, PrimitiveType};

/// Name by which it is switched off.
pub const NAME: &str = "pack-constants";

/// What was packed of a constant, and where it is.
type Known = FxHashMap<u32, Vec<(Key, BufferSlice)>>;

/// Packs the bytes of a constant into others; `None` where the constant is too short.
type Pack<'p> = dyn Fn(&[u8], &mut [u8]) -> Option<()> + 'p;

/// What the bytes of a packed constant depend on.
#[derive(PartialEq)]
enum Key {
    Strips {
        kernel: ArrayView,
        dims: ConvolutionDims,
        reversed: Vec<bool>,
        groups: usize,
    },
    Panels {
        operand: ArrayView,
        width: usize,
    },
}

/// Packs what `thunks` and everything nested in them allow; returns the number of operations changed. With `has_peers`,
/// products stay whole: they may be divided among devices by rows.
pub fn run(
    thunks: &mut ThunkSequence,
    buffers: &mut Vec<LogicalBuffer>,
    module: &mut HloModule,
    has_peers: bool,
) -> usize {
    let mut packing = Packing {
        has_peers,
        buffers,
        module,
        known: Known::default(),
    };
    packing.sequence(thunks)
}

struct Packing<'a> {
    has_peers: bool,
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
            let done = match &mut thunk.kind {
                ThunkKind::Op(op) => self.convolution(op, instruction),
                ThunkKind::Gemm(gemm) => self.product(gemm, instruction),
                _ => None,
            };
            packed += usize::from(done.is_some());
        }
        packed
    }

    fn convolution(&mut self, op: &mut OpThunk, instruction: InstructionId) -> Option<()> {
        let (OpKind::Convolution(convolution), [input, kernel, ..]) =
            (&op.kind, op.inputs.as_slice())
        else {
            return None;
        };
        if convolution.has_base_dilation() {
            return None;
        }
        let arrays = [input, kernel, op.outputs.first()?];
        let strips = KernelStrips::of(convolution, arrays.map(StridedArray::from))?;
        let window = convolution.window.0.iter();
        let key = Key::Strips {
            kernel: kernel.clone(),
            dims: convolution.kernel.clone(),
            reversed: window.map(|w| w.window_reversal).collect(),
            groups: strips.groups,
        };
        let slice = self.packed(kernel, key, strips.bytes, instruction, &|bytes, to| {
            pack_strips(convolution, kernel, &strips, bytes, to)
        })?;
        let dims = [strips.bytes as i64];
        let view = ArrayView::dense(slice, PrimitiveType::U8, &dims, &[0]);
        op.inputs.push(view);
        Some(())
    }

    fn product(&mut self, gemm: &mut GemmThunk, instruction: InstructionId) -> Option<()> {
        let (_, m, n, k) = gemm.sizes();
        if self.has_peers || n < MIN_COLUMNS {
            return None;
        }
        // Bits are those of a product that packs for itself.
        if !gemm
            .kernel(m as usize)
            .is_some_and(|gemm| hlorun_kernels::fits_panels(&gemm))
        {
            return None;
        }
        let (width, size) = gemm.panels(MIN_PACKED)?;
        let operand = &gemm.b;
        let key = Key::Panels {
            operand: operand.clone(),
            width,
        };
        let slice = self.packed(operand, key, size, instruction, &|bytes, to| {
            let ty = dtype(operand.element_type)?;
            let sizes = [k as usize, n as usize];
            let from = bytes.get(usize::try_from(operand.offset).ok()? * ty.size_bytes()..)?;
            hlorun_kernels::pack_bytes(ty, width, sizes, from, matrix(operand), to).then_some(())
        })?;
        gemm.way = GemmWay::PackedOperand(slice);
        Some(())
    }

    /// What `pack` makes of the constant that `view` lies in, if it is one.
    fn packed(
        &mut self,
        view: &ArrayView,
        key: Key,
        size: usize,
        instruction: InstructionId,
        pack: &Pack<'_>,
    ) -> Option<BufferSlice> {
        let BufferKind::Constant(literal) = self.buffers[view.slice.allocation as usize].kind
        else {
            return None;
        };
        let known = self.known.entry(view.slice.allocation).or_default();
        let is_same = |other: &Key| faults::holds(Fault::SharesOtherPacking, *other == key);
        if let Some(&(_, slice)) = known.iter().find(|(other, _)| is_same(other)) {
            return (slice.size == size).then_some(slice);
        }
        let bytes = self.module.literal(literal).bytes()?;
        // Elements that are repeated would be stored many times, and negative strides are not packed.
        let is_plain = view.dynamic.is_empty() && view.strides.iter().all(|&stride| stride >= 0);
        let copies = known.iter().map(|(_, slice)| slice.size).sum::<usize>();
        let is_much = copies.saturating_add(size) / MAX_GROWTH > bytes.len();
        if known.len() >= MAX_COPIES || !is_plain || is_much {
            return None;
        }
        // Vectors must not straddle cache lines.
        let room = size.checked_add(ALIGNMENT)?;
        let mut packed = Vec::new();
        packed.try_reserve_exact(room).ok()?;
        packed.resize(room, 0u8);
        let mut packed = packed.into_boxed_slice();
        let offset = packed.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let to = packed.get_mut(offset..)?.get_mut(..size)?;
        pack(bytes.get(view.slice.offset..)?, to)?;
        let shape = ArrayShape::new(PrimitiveType::U8, &[room as i64]);
        let literal = Literal::from_bytes(shape, packed)?;
        self.buffers.push(LogicalBuffer {
            size: room,
            kind: BufferKind::Constant(self.module.add_literal(literal)),
            instruction: Some(instruction),
        });
        let slice = BufferSlice {
            allocation: self.buffers.len() as u32 - 1,
            offset,
            size,
        };
        known.push((key, slice));
        Some(slice)
    }
}

/// Puts a kernel into strips at `to`.
fn pack_strips(
    convolution: &ConvolutionOp,
    kernel: &ArrayView,
    strips: &KernelStrips,
    bytes: &[u8],
    to: &mut [u8],
) -> Option<()> {
    let size = kernel.element_type.size_bytes();
    for nth in 0..strips.parts() {
        let part = strips.part(convolution, &kernel.strides, nth);
        let first = usize::try_from(kernel.offset + part.from).ok()?;
        let from = bytes.get(first.checked_mul(size)?..)?;
        let to = to.get_mut(part.to..)?.get_mut(..strips.group_bytes)?;
        let product = &strips.product;
        if !product.pack_bytes(part.term, from, part.steps, to) {
            return None;
        }
    }
    Some(())
}
