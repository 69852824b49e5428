//! `product-epilogues`: what a loop does to the result of a product or of a convolution is done to its sums, in registers.
//!
//! A bias, a normalization by columns, bounds, a residual, a step against a gradient: the loop would read all of the result
//! from memory again, and the threads would meet once more before it.
//!
//! Applies to a product that [`hlorun_kernels::takes_epilogue`], to a convolution with [`KernelStrips`], and to a depthwise one
//! whose features are contiguous, if the result is a matrix that one loop alone reads, in order. The loop is a chain of sums,
//! differences, products, and bounds by constants, each with a scalar, a vector over the columns, or a matrix with contiguous
//! columns. The product runs where the loop ran; no thunk between the two writes what it reads. It writes what the loop wrote:
//! a buffer as large as its own, or a part of another one with whole rows, as an operand of a concatenation is.
//!
//! A loop may join two products, as a residual network does where both ways have one: what it does to the first alone is an
//! epilogue of that one, which stays where it is and whose operands are written before it, and the rest, with the first result
//! as an operand, of the other.

use rustc_hash::FxHashMap;

use super::epilogue_steps::{chain, first_chain, strides_of};
use super::kernel_strips::KernelStrips;
use super::loop_merging::without_steps;
use super::row_tiling::count_touches;
use crate::plan::cost::product_epilogues::MAX_BETWEEN;
use crate::plan::element::epilogue::EpilogueStep;
use crate::plan::faults::{self, Fault};
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::thunk::{
    BufferKind, GemmThunk, Load, LoadKind, LogicalBuffer, LoopThunk, Store, Thunk, ThunkKind,
    ThunkSequence,
};
use crate::plan::view::{ArrayView, StridedArray};
use crate::types::Dims;

/// Name by which it is switched off.
pub const NAME: &str = "product-epilogues";

/// Merges what `thunks` and everything nested in them allow; returns how many loops are gone.
pub fn run(thunks: &mut ThunkSequence, buffers: &[LogicalBuffer]) -> usize {
    let mut touches = vec![0u32; buffers.len()];
    count_touches(thunks, &mut touches);
    let mut merging = Merging {
        buffers,
        touches,
        merged: 0,
    };
    merging.sequence(thunks);
    merging.merged
}

struct Merging<'b> {
    buffers: &'b [LogicalBuffer],
    touches: Vec<u32>,
    merged: usize,
}

/// What a loop does to one product alone before anything else: an epilogue of it, while the rest is one of another product.
struct FirstSteps {
    /// Where the product is in its sequence.
    product: usize,
    steps: Vec<EpilogueStep>,
    operands: Vec<ArrayView>,
    /// The loop without these steps.
    rest: LoopThunk,
}

/// A loop as an epilogue.
struct Found {
    /// Where the product is in its sequence.
    product: usize,
    /// The buffer of the product's result.
    own: u32,
    /// The buffer of the loop's result.
    result: u32,
    /// Where in it the product writes, unless it is as large as the product's own.
    place: Option<ArrayView>,
    /// Accesses to `own` before the product.
    earlier: u32,
    steps: Vec<EpilogueStep>,
    operands: Vec<ArrayView>,
}

impl Merging<'_> {
    /// Recursion is bounded by the nesting the lowering allows.
    fn sequence(&mut self, thunks: &mut ThunkSequence) {
        let before = self.merged;
        // Products by the buffer they write, and how often buffers were touched so far.
        let mut products: FxHashMap<u32, usize> = FxHashMap::default();
        let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
        for at in 0..thunks.len() {
            for nested in thunks[at].nested_mut() {
                self.sequence(nested);
            }
            let found = self.find(thunks, at, &products, &seen);
            if let Some(found) = found.or_else(|| self.split(thunks, at, &products, &mut seen)) {
                let (result, earlier) = (found.result, found.earlier);
                for access in thunks[found.product].accesses() {
                    let count = seen.entry(access.slice.allocation).or_default();
                    *count = count.saturating_sub(1);
                }
                self.merge(thunks, at, found);
                // What touched the product's result before now touches the loop's.
                self.touches[result as usize] += earlier;
                *seen.entry(result).or_default() += earlier;
            }
            for access in thunks[at].accesses() {
                *seen.entry(access.slice.allocation).or_default() += 1;
            }
            if let Some((result, _)) = matrix_of(&thunks[at]) {
                products.insert(result.slice.allocation, at);
            }
        }
        if self.merged > before {
            thunks.retain(|thunk| !matches!(thunk.kind, ThunkKind::Nop));
        }
    }

    /// The loop at `at` as an epilogue, if it may be one.
    fn find(
        &self,
        thunks: &[Thunk],
        at: usize,
        products: &FxHashMap<u32, usize>,
        seen: &FxHashMap<u32, u32>,
    ) -> Option<Found> {
        let ThunkKind::Loop(fused) = &thunks[at].kind else {
            return None;
        };
        let ([store], [output]) = (fused.stores.as_slice(), fused.program.outputs.as_slice())
        else {
            return None;
        };
        if store.register != *output {
            return None;
        }
        fused.loads.iter().find_map(|own| {
            let (product, [rows, columns]) = self.product_of(thunks, fused, own, products, seen)?;
            let (steps, operands) = chain(fused, own.register, rows, columns)?;
            let LoadKind::View(view) = &own.kind else {
                return None;
            };
            let buffer = view.slice.allocation;
            let earlier = seen[&buffer] - touches(&thunks[product], buffer);
            let size = |buffer: u32| self.buffers[buffer as usize].size;
            let result = store.view.slice.allocation;
            let place = match store.is_dense && store.covers_buffer && size(result) == size(buffer)
            {
                true => None,
                // The product adds to what earlier thunks wrote into its own buffer.
                false if earlier > 0 => return None,
                false => Some(placed(&thunks[product], store, columns)?),
            };
            let found = Found {
                product,
                own: buffer,
                result,
                place,
                earlier,
                steps,
                operands,
            };
            may_move(thunks, at, &found).then_some(found)
        })
    }

    /// The product whose result is the input `own` of a loop and of nothing else, with its rows and columns.
    fn product_of(
        &self,
        thunks: &[Thunk],
        fused: &LoopThunk,
        own: &Load,
        products: &FxHashMap<u32, usize>,
        seen: &FxHashMap<u32, u32>,
    ) -> Option<(usize, [usize; 2])> {
        let LoadKind::View(view) = &own.kind else {
            return None;
        };
        let buffer = view.slice.allocation;
        let product = *products.get(&buffer)?;
        let (result, [rows, columns]) = matrix_of(&thunks[product])?;
        let data = &self.buffers[buffer as usize];
        let size = result.element_type.size_bytes();
        let is_whole = own.is_dense
            && view.offset == 0
            && view.slice == result.slice
            && view.element_type == result.element_type
            && fused.count == rows * columns
            && data.size == fused.count * size;
        // Everything touches it before the loop, and nothing after.
        let is_alone = faults::holds(
            Fault::EpilogueForgetsResult,
            self.touches[buffer as usize] == seen.get(&buffer)? + 1,
        );
        let is_own = is_whole && is_alone && data.kind == BufferKind::Temp;
        is_own.then_some((product, [rows, columns]))
    }

    /// Gives the first steps of the loop at `at` to a product, if the rest may be the epilogue of another one.
    fn split(
        &mut self,
        thunks: &mut ThunkSequence,
        at: usize,
        products: &FxHashMap<u32, usize>,
        seen: &mut FxHashMap<u32, u32>,
    ) -> Option<Found> {
        let ThunkKind::Loop(fused) = &thunks[at].kind else {
            return None;
        };
        let loads: Vec<Load> = fused.loads.clone();
        loads.iter().find_map(|own| {
            let first = self.first_steps(thunks, at, own, products, seen)?;
            let rest = ThunkKind::Loop(Box::new(first.rest));
            let whole = std::mem::replace(&mut thunks[at].kind, rest);
            // The second product moves, and writes the loop's result instead of its own: the first one reads neither.
            let is_apart = |found: &Found| {
                let reads = |buffer| {
                    let mut operands = first.operands.iter();
                    operands.any(|operand| operand.slice.allocation == buffer)
                };
                let reads_moved = reads(found.own) || reads(found.result);
                faults::holds(Fault::EpilogueReadsMoved, !reads_moved)
            };
            let found = self.find(thunks, at, products, seen).filter(is_apart);
            let Some(found) = found else {
                thunks[at].kind = whole;
                return None;
            };
            // Operands are read by the product, and some of them no longer by the loop.
            for (kind, is_gone) in [(&whole, true), (&thunks[at].kind, false)] {
                let ThunkKind::Loop(fused) = kind else {
                    continue;
                };
                for view in fused.loads.iter().flat_map(|load| load.views()) {
                    let touches = &mut self.touches[view.slice.allocation as usize];
                    *touches = match is_gone {
                        true => touches.saturating_sub(1),
                        false => *touches + 1,
                    };
                }
            }
            for operand in &first.operands {
                self.touches[operand.slice.allocation as usize] += 1;
                *seen.entry(operand.slice.allocation).or_default() += 1;
            }
            extend(&mut thunks[first.product].kind, first.steps, first.operands);
            Some(found)
        })
    }

    /// The steps that the loop at `at` does to the input `own` before it meets others, if that is the result of a product
    /// and they may be its epilogue.
    fn first_steps(
        &self,
        thunks: &[Thunk],
        at: usize,
        own: &Load,
        products: &FxHashMap<u32, usize>,
        seen: &FxHashMap<u32, u32>,
    ) -> Option<FirstSteps> {
        let ThunkKind::Loop(fused) = &thunks[at].kind else {
            return None;
        };
        let (product, [rows, columns]) = self.product_of(thunks, fused, own, products, seen)?;
        let (gone, steps, operands) = first_chain(fused, own.register, rows, columns)?;
        let rest = without_steps(fused, &gone, own.register)?;
        let between = &thunks[product + 1..at];
        let LoadKind::View(view) = &own.kind else {
            return None;
        };
        // The product runs where it is: what the steps read has been written by then, and it does not write it itself.
        let is_ready = |operand: &ArrayView| {
            let buffer = operand.slice.allocation;
            let writes = |thunk: &Thunk| {
                let mut accesses = thunk.accesses();
                accesses.any(|a| a.effect.writes() && a.slice.allocation == buffer)
            };
            let is_written = between.iter().any(writes) || writes(&thunks[product]);
            faults::holds(Fault::EpilogueReadsLater, !is_written)
        };
        let is_free =
            |thunk: &Thunk| thunk.nested().is_empty() && touches(thunk, view.slice.allocation) == 0;
        let may_stay = between.len() <= MAX_BETWEEN
            && between.iter().all(is_free)
            && operands.iter().all(is_ready);
        may_stay.then_some(FirstSteps {
            product,
            steps,
            operands,
            rest,
        })
    }

    /// Makes the loop at `at` the epilogue of its product.
    fn merge(&mut self, thunks: &mut ThunkSequence, at: usize, found: Found) {
        let mut kind = std::mem::replace(&mut thunks[found.product].kind, ThunkKind::Nop);
        extend(&mut kind, found.steps, found.operands);
        if let (Some(place), Some(result)) = (found.place, result_mut(&mut kind)) {
            *result = place;
        }
        thunks[at] = Thunk {
            instruction: thunks[found.product].instruction,
            kind,
        };
        let earlier = found.product.saturating_sub(MAX_BETWEEN)..found.product;
        for at in earlier.chain([at]) {
            thunks[at].rename(&mut |slice, _| {
                if slice.allocation == found.own {
                    slice.allocation = found.result;
                }
            });
        }
        self.merged += 1;
    }
}

/// Adds steps to the epilogue of a product.
fn extend(product: &mut ThunkKind, steps: Vec<EpilogueStep>, operands: Vec<ArrayView>) {
    match product {
        ThunkKind::Gemm(gemm) => {
            gemm.epilogue.extend(steps);
            gemm.epilogue_operands.extend(operands);
        }
        ThunkKind::Op(op) => {
            if let OpKind::Convolution(convolution) = &mut op.kind {
                convolution.epilogue.extend(steps);
            }
            op.inputs.extend(operands);
        }
        _ => {}
    }
}

/// The result of a product, to change it.
fn result_mut(product: &mut ThunkKind) -> Option<&mut ArrayView> {
    match product {
        ThunkKind::Gemm(gemm) => Some(&mut gemm.c),
        ThunkKind::Op(op) => op.outputs.first_mut(),
        _ => None,
    }
}

/// The result of a product with so many columns where a loop stores it: rows that lie apart in a part of a buffer, as those of
/// an operand of a concatenation do.
fn placed(product: &Thunk, store: &Store, columns: usize) -> Option<ArrayView> {
    let (result, _) = matrix_of(product)?;
    let [row, column] = strides_of(&store.walk, columns as i64)?;
    let columns = columns as i64;
    let has_rows = column == 1 && row >= columns && store.view.dynamic.is_empty();
    let has_type = store.view.element_type == result.element_type;
    // Neighbours in a row lie side by side; along every other dimension they are whole rows apart.
    let stride = |&stride: &i64| match stride < columns {
        true => stride,
        false => stride / columns * row,
    };
    let strides: Dims = result.strides.iter().map(stride).collect();
    let place = ArrayView {
        dims: result.dims.clone(),
        strides,
        ..store.view.clone()
    };
    let takes_epilogue = match &product.kind {
        ThunkKind::Gemm(gemm) => {
            let gemm = GemmThunk {
                c: place.clone(),
                ..gemm.as_ref().clone()
            };
            let kernel = gemm.kernel(usize::try_from(gemm.sizes().1).ok()?)?;
            hlorun_kernels::takes_epilogue(&kernel)
        }
        ThunkKind::Op(op) => match &op.kind {
            OpKind::Convolution(convolution) => {
                let arrays = [&op.inputs[0], &op.inputs[1], &place].map(StridedArray::from);
                KernelStrips::of(convolution, arrays).is_some()
            }
            _ => false,
        },
        _ => false,
    };
    (has_rows && has_type && takes_epilogue).then_some(place)
}

/// How often a thunk itself touches a buffer.
fn touches(thunk: &Thunk, buffer: u32) -> u32 {
    let accesses = thunk.accesses();
    let own = accesses.filter(|access| access.slice.allocation == buffer);
    own.count() as u32
}

/// Whether the product may run in place of the loop at `at`, and write the loop's result instead of its own.
fn may_move(thunks: &[Thunk], at: usize, found: &Found) -> bool {
    let product = &thunks[found.product];
    let between = &thunks[found.product + 1..at];
    let keeps_operands = |thunk: &Thunk| {
        let mut writes = thunk.accesses().filter(|access| access.effect.writes());
        thunk.nested().is_empty()
            && writes.all(|access| touches(product, access.slice.allocation) == 0)
    };
    let mut operands = found.operands.iter();
    if between.len() > MAX_BETWEEN
        || !between.iter().all(keeps_operands)
        || between.iter().any(|thunk| touches(thunk, found.own) > 0)
        || touches(product, found.result) > 0
        || operands.any(|array| array.slice.allocation == found.result)
    {
        return false;
    }
    // What the product adds to has been written to its result, and is to be written to the loop's.
    let is_free = |thunk: &Thunk| thunk.nested().is_empty() && touches(thunk, found.result) == 0;
    let mut left = found.earlier;
    if left > 0 && !between.iter().all(is_free) {
        return false;
    }
    for thunk in thunks[..found.product].iter().rev().take(MAX_BETWEEN) {
        if left == 0 {
            break;
        }
        if !is_free(thunk) {
            return false;
        }
        left -= touches(thunk, found.own);
    }
    left == 0
}

/// The result of a product or a convolution that takes an epilogue, and its rows and columns, which lie one after the other
/// in a buffer of their own.
fn matrix_of(thunk: &Thunk) -> Option<(&ArrayView, [usize; 2])> {
    let (result, columns) = match &thunk.kind {
        ThunkKind::Gemm(gemm) => (&gemm.c, columns_of_product(gemm)?),
        ThunkKind::Op(op) => (op.outputs.first()?, columns_of_convolution(op)?),
        _ => return None,
    };
    let count = result.count();
    let is_whole = result.offset == 0
        && result.slice.offset == 0
        && result.slice.size == count * result.element_type.size_bytes()
        && result.dynamic.is_empty();
    (is_whole && columns > 0 && count > 0).then(|| (result, [count / columns, columns]))
}

fn columns_of_product(gemm: &GemmThunk) -> Option<usize> {
    let (_, m, n, _) = gemm.sizes();
    let is_dense = gemm.c.strides[1..] == [n, 1] || (m == 1 && gemm.c.strides[2] == 1);
    let kernel = gemm.kernel(usize::try_from(m).ok()?)?;
    (is_dense && hlorun_kernels::takes_epilogue(&kernel)).then_some(kernel.n)
}

fn columns_of_convolution(op: &OpThunk) -> Option<usize> {
    let OpKind::Convolution(convolution) = &op.kind else {
        return None;
    };
    let ([input, kernel, ..], [output]) = (op.inputs.as_slice(), op.outputs.as_slice()) else {
        return None;
    };
    let columns = usize::try_from(output.dims[convolution.output.feature]).ok()?;
    let arrays = [input, kernel, output].map(StridedArray::from);
    let is_in_rows = output.strides[convolution.output.feature] == 1;
    let takes_epilogue = KernelStrips::of(convolution, arrays).is_some()
        || (convolution.is_depthwise(arrays) && is_in_rows);
    (columns > 1 && takes_epilogue).then_some(columns)
}
