//! How machine code does each operation of the scalar code, and what memory that touches.
//!
//! [`form`] is asked twice: to find out which elements can be kept in registers ([`super::cells`]),
//! and when the operation's instructions are made ([`super::emit`]). [`touches`] says what the form
//! reads and writes, in that order.

use cranelift_codegen::ir::Type;
use hlorun_kernels::scalar_bytecode::Kind;
use hlorun_kernels::{DType, Gemm, Matrix};

use super::operands::{decides_by, index_type, lane_operands};
use super::registers::{bits, register};
use super::{blocks, elements};
use crate::plan::cost::machine_code::{MAX_LANES, MAX_MOVES, MAX_SIDE, MAX_TERMS, MIN_VECTOR};
use crate::plan::thunk::scalar_bytecode::{Code, Element, Place, ScalarOp, ScalarProgram};
use crate::plan::view::offset_in;

/// Bytes of the widest element that a register holds.
const WIDEST: usize = 8;

/// How an operation is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// It decides what comes next.
    Control,
    /// It adds an index to the place of the next load or store.
    Index,
    /// Instructions for each block of elements, or for each element.
    Lanes,
    /// A kernel gets the elements through the stack.
    Passed,
    /// A kernel works on the places themselves.
    Kernel,
    /// Elements are folded by instructions.
    Fold,
    /// A kernel folds the elements in their place.
    KernelFold,
    /// Blocks or elements are read one by one, then written one by one.
    Moves,
    /// Bytes are copied where they are.
    Bytes,
    /// The terms of a product by instructions.
    Terms,
    /// A kernel multiplies matrices in their place.
    KernelProduct,
    /// A kernel chooses among pairs in their place.
    KernelChoice,
}

impl Form {
    /// Whether a call reads and writes the places themselves, where registers do not count.
    pub fn is_in_place(self) -> bool {
        matches!(
            self,
            Form::Kernel
                | Form::KernelFold
                | Form::Bytes
                | Form::KernelProduct
                | Form::KernelChoice
        )
    }
}

/// What kind of register holds an element; `None` where any of its size does.
pub type Holder = Option<Type>;

/// A piece of memory that an operation touches.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// Where.
    pub place: Place,
    /// Bytes.
    pub bytes: usize,
    /// One element in a register, or bytes in their place.
    pub element: Option<Holder>,
    /// Whether it is written.
    pub writes: bool,
}

/// How an operation is done; `None` where machine code cannot.
pub fn form(prepared: &ScalarProgram, op: &ScalarOp) -> Option<Form> {
    let function = match op.code {
        Code::Function(function) => function,
        Code::Product(product) => {
            let g = &prepared.products[product];
            let few = g.m.max(g.n) <= MAX_SIDE && terms(g) <= MAX_TERMS;
            let few = few.then_some(Form::Terms);
            return few.or(Some(Form::KernelProduct));
        }
        Code::Choose(_) => return Some(Form::KernelChoice),
        Code::Gather(walk, _) | Code::Scatter(walk, _) => {
            let is_forward = prepared.walks[walk].iter().all(|&(_, stride)| stride >= 0);
            let fewest = op.n * words(op) / blocks::lanes_of(word(op));
            let is_short = || moves(prepared, op).len() <= MAX_MOVES;
            return Some(match is_forward && fewest <= MAX_MOVES && is_short() {
                true => Form::Moves,
                false => Form::Bytes,
            });
        }
    };
    Some(match function.kind {
        Kind::End
        | Kind::Jump
        | Kind::Back
        | Kind::BackIf
        | Kind::BackIfCompare(..)
        | Kind::JumpIfZero
        | Kind::Switch
        | Kind::Outside => Form::Control,
        Kind::Index(..) => Form::Index,
        Kind::Element => {
            elements::is_known(&op.element?).then_some(())?;
            Form::Lanes
        }
        Kind::Kernel if op.element.is_some_and(|e| is_short(&e, op.n)) => Form::Lanes,
        Kind::Kernel
            if op.n <= MAX_LANES
                && op.sizes.into_iter().all(|size| size.max(op.unit) <= WIDEST) =>
        {
            Form::Passed
        }
        Kind::Kernel => Form::Kernel,
        Kind::Reduce => match op.element {
            Some(element) if op.n <= MAX_LANES && elements::folds(&element) => Form::Fold,
            _ => Form::KernelFold,
        },
        Kind::FoldRows => Form::KernelFold,
        Kind::Copy | Kind::Load(..) | Kind::Store(..) => {
            let (word, count) = (word(op), op.n / word(op));
            match blocks::pieces(count, blocks::lanes_of(word)).count() <= MAX_LANES {
                true => Form::Moves,
                false => Form::Bytes,
            }
        }
    })
}

/// Pieces of code that an operation becomes: for blocks, for single elements, or one.
pub fn pieces(prepared: &ScalarProgram, op: &ScalarOp) -> usize {
    let pieces = match (form(prepared, op), op.code, op.element) {
        (Some(Form::Lanes), _, Some(element)) => {
            blocks::pieces(op.n, blocks::lanes(&element)).count() * blocks::cost(&element)
        }
        (Some(Form::Passed | Form::Fold), ..) => op.n,
        (Some(Form::Moves), ..) => moves(prepared, op).len(),
        (Some(Form::Terms), Code::Product(product), _) => terms(&prepared.products[product]),
        _ => 1,
    };
    pieces.max(1)
}

/// Multiplications of a product.
fn terms(g: &Gemm) -> usize {
    g.m * g.n * g.k * g.batch
}

/// Whether elements are computed by instructions.
fn is_short(element: &Element, n: usize) -> bool {
    let pieces = blocks::pieces(n, blocks::lanes(element)).count();
    elements::is_known(element)
        && (n < MIN_VECTOR || !elements::is_call(element))
        && pieces.saturating_mul(blocks::cost(element)) <= MAX_LANES
}

/// How many rows a fold has, each with a result of its own.
pub fn rows(op: &ScalarOp) -> usize {
    match op.code {
        Code::Function(function) if function.kind == Kind::FoldRows => op.x as usize,
        _ => 1,
    }
}

/// Bytes that one move takes of what is moved.
pub fn word(op: &ScalarOp) -> usize {
    match op.code {
        Code::Gather(_, size) | Code::Scatter(_, size) => size.min(WIDEST),
        Code::Function(_) | Code::Product(_) | Code::Choose(_) => op.unit.clamp(1, WIDEST),
    }
}

/// Moves that an element of a gather or scatter takes.
fn words(op: &ScalarOp) -> usize {
    match op.code {
        Code::Gather(_, size) | Code::Scatter(_, size) => size.div_ceil(WIDEST),
        Code::Function(_) | Code::Product(_) | Code::Choose(_) => 1,
    }
}

/// A move of an operation.
#[derive(Clone, Copy)]
pub struct Move {
    /// Bytes from the operation's places on: of what is read, of what is written.
    pub from: usize,
    pub to: usize,
    /// Bytes that are written.
    pub bytes: usize,
    /// Bytes that are read: as many, or one element that is written several times.
    pub read: usize,
}

/// The moves of an operation.
pub fn moves(prepared: &ScalarProgram, op: &ScalarOp) -> Vec<Move> {
    let word = word(op);
    let (walk, size, is_gather) = match op.code {
        Code::Function(_) | Code::Product(_) | Code::Choose(_) => {
            let pieces = blocks::pieces(op.n / word, blocks::lanes_of(word));
            let moves = pieces.map(|(at, count)| Move {
                from: at * word,
                to: at * word,
                bytes: count * word,
                read: count * word,
            });
            return moves.collect();
        }
        Code::Gather(walk, size) => (walk, size, true),
        Code::Scatter(walk, size) => (walk, size, false),
    };
    let parts = size / word;
    let walk = &prepared.walks[walk];
    // Not negative: `form` looked at the strides.
    let far = |element: usize| offset_in(walk, element as i64) as usize * size;
    let lanes = blocks::lanes_of(word);
    if let Some(&(row, stride @ (0 | 1))) = walk.last()
        && is_gather
        && parts == 1
        && (row as usize).is_multiple_of(lanes)
    {
        let pieces = blocks::pieces(op.n, lanes);
        let moves = pieces.map(|(at, count)| Move {
            from: far(at),
            to: at * size,
            bytes: count * size,
            read: if stride == 0 { size } else { count * size },
        });
        return moves.collect();
    }
    (0..op.n * parts)
        .map(|at| {
            let (element, part) = (at / parts, at % parts * word);
            let (far, near) = (far(element) + part, element * size + part);
            let (from, to) = match is_gather {
                true => (far, near),
                false => (near, far),
            };
            Move {
                from,
                to,
                bytes: word,
                read: word,
            }
        })
        .collect()
}

/// The bytes that an index may move a place by, from the lowest to the highest.
pub fn reach(op: &ScalarOp) -> (isize, isize) {
    let far = op.x.max(0) as isize * op.stride;
    (far.min(0), far.max(0))
}

/// Calls `f` on what an operation touches, reads of each step before its writes. `moved` is how far
/// indices may take a load or store.
pub fn touches(
    prepared: &ScalarProgram,
    op: &ScalarOp,
    form: Form,
    moved: (isize, isize),
    f: &mut dyn FnMut(Touch),
) -> Option<()> {
    let mut element = |place, bytes, holder: Holder, writes| {
        f(Touch {
            place,
            bytes,
            element: Some(holder),
            writes,
        });
    };
    match form {
        Form::Control => {
            if let Some((place, dtype)) = decides_by(op) {
                for place in place.into_iter().filter(|&place| place != Place::Nowhere) {
                    element(place, dtype.size_bytes(), register(dtype), false);
                }
            }
        }
        Form::Index => element(op.operands[1], index_type(op)?.size_bytes(), None, false),
        Form::Lanes => {
            let known = op.element?;
            let size = known.to.size_bytes();
            for (lane, count) in blocks::pieces(op.n, blocks::lanes(&known)) {
                for (place, ty, own) in lane_operands(op, &known, (lane, count)) {
                    let bytes = own * ty.size_bytes();
                    element(place, bytes, blocks::held(ty, own), false);
                }
                let holder = blocks::held(known.to, count);
                element(op.out.behind(lane * size), count * size, holder, true);
            }
        }
        Form::Passed => {
            for (place, size) in op.operands.into_iter().zip(op.sizes) {
                let n = if size == 0 { 0 } else { op.n };
                for (lane, count) in blocks::pieces(n, blocks::lanes_of(size)) {
                    element(place.behind(lane * size), count * size, None, false);
                }
            }
            for (lane, count) in blocks::pieces(op.n, blocks::lanes_of(op.unit)) {
                let place = op.out.behind(lane * op.unit);
                element(place, count * op.unit, None, true);
            }
        }
        Form::Fold => {
            let known = op.element?;
            let (holder, size) = (register(known.to), known.to.size_bytes());
            for (lane, count) in blocks::pieces(op.n, blocks::lanes(&known)) {
                let place = op.operands[0].behind(lane * size);
                element(place, count * size, blocks::held(known.to, count), false);
            }
            element(op.out, size, holder, false);
            element(op.out, size, holder, true);
        }
        Form::Moves => moves_touch(prepared, op, moved, f)?,
        Form::Terms | Form::KernelProduct => product_touches(prepared, op, form, f)?,
        Form::Kernel | Form::KernelFold | Form::Bytes | Form::KernelChoice => {
            blocks(prepared, op, form, moved, f)?;
        }
    }
    Some(())
}

/// What a product touches: elements of its matrices, or in a kernel whole matrices.
fn product_touches(
    prepared: &ScalarProgram,
    op: &ScalarOp,
    form: Form,
    f: &mut dyn FnMut(Touch),
) -> Option<()> {
    let (g, all) = matrices(prepared, op)?;
    let size = g.dtype.size_bytes();
    if form == Form::Terms {
        let [a, b, c] = all;
        let old = if g.beta == 0.0 { Vec::new() } else { c.clone() };
        for (places, writes) in [(a, false), (b, false), (old, false), (c, true)] {
            for place in places {
                f(Touch {
                    place,
                    bytes: size,
                    element: Some(register(g.dtype)),
                    writes,
                });
            }
        }
        return Some(());
    }
    for (at, places) in all.into_iter().enumerate() {
        // Strides go forwards only.
        let (first, last) = (*places.first()?, places.into_iter().max_by_key(offset)?);
        f(Touch {
            place: first,
            bytes: offset(&last) - offset(&first) + size,
            element: None,
            writes: at == 2,
        });
    }
    Some(())
}

/// The places of the elements of a product's matrices: of A, of B, of C, each by matrix of the batch,
/// row and column.
pub fn matrices<'f>(
    prepared: &'f ScalarProgram,
    op: &ScalarOp,
) -> Option<(&'f Gemm, [Vec<Place>; 3])> {
    let Code::Product(product) = op.code else {
        return None;
    };
    let g = prepared.products.get(product)?;
    let size = g.dtype.size_bytes();
    let all = |start: Place, at: &Matrix, rows: usize, columns: usize| {
        let mut places = Vec::with_capacity(g.batch * rows * columns);
        for matrix in 0..g.batch {
            for row in 0..rows {
                for column in 0..columns {
                    // Not negative, as the plan promises.
                    let offset = matrix * at.batch_stride as usize
                        + row * at.row_stride as usize
                        + column * at.col_stride as usize;
                    places.push(start.behind(offset * size));
                }
            }
        }
        places
    };
    let a = all(op.operands[0], &g.a, g.m, g.k);
    let b = all(op.operands[1], &g.b, g.k, g.n);
    let c = all(op.out, &g.c, g.m, g.n);
    Some((g, [a, b, c]))
}

/// The byte of a place in what it is counted from.
fn offset(place: &Place) -> usize {
    match *place {
        Place::Nowhere => 0,
        Place::Scratch(at) | Place::Known(at) | Place::Allocation(_, at) => at,
    }
}

fn moves_touch(
    prepared: &ScalarProgram,
    op: &ScalarOp,
    moved: (isize, isize),
    f: &mut dyn FnMut(Touch),
) -> Option<()> {
    bits(word(op))?;
    let mut one = |place, bytes, writes| {
        f(Touch {
            place,
            bytes,
            element: Some(None),
            writes,
        });
    };
    let kind = match op.code {
        Code::Function(function) => function.kind,
        _ => Kind::Copy,
    };
    let moves = moves(prepared, op);
    match kind {
        Kind::Load(dtype, _) => {
            f(index_touch(op, dtype));
            f(range(op.operands[0], moved, op.n, false)?);
            for Move { to, bytes, .. } in moves {
                f(Touch {
                    place: op.out.behind(to),
                    bytes,
                    element: Some(None),
                    writes: true,
                });
            }
        }
        Kind::Store(dtype, _) => {
            for Move { from, read, .. } in moves {
                one(op.operands[0].behind(from), read, false);
            }
            f(index_touch(op, dtype));
            f(range(op.out, moved, op.n, true)?);
        }
        _ => {
            for &Move { from, read, .. } in &moves {
                one(op.operands[0].behind(from), read, false);
            }
            for &Move { to, bytes, .. } in &moves {
                one(op.out.behind(to), bytes, true);
            }
        }
    }
    Some(())
}

fn index_touch(op: &ScalarOp, dtype: DType) -> Touch {
    Touch {
        place: op.operands[1],
        bytes: dtype.size_bytes(),
        element: Some(None),
        writes: false,
    }
}

/// Bytes that an index may name.
fn range(place: Place, moved: (isize, isize), n: usize, writes: bool) -> Option<Touch> {
    Some(Touch {
        place: place.moved(moved.0)?,
        bytes: (moved.1 - moved.0) as usize + n,
        element: None,
        writes,
    })
}

/// What a call touches in its place.
fn blocks(
    prepared: &ScalarProgram,
    op: &ScalarOp,
    form: Form,
    moved: (isize, isize),
    f: &mut dyn FnMut(Touch),
) -> Option<()> {
    let mut block = |place, bytes, writes| {
        f(Touch {
            place,
            bytes,
            element: None,
            writes,
        });
    };
    let walked = |walk: usize, size: usize| {
        let (mut low, mut high) = (0, 0);
        for &(count, stride) in prepared.walks[walk].iter() {
            let far = (count - 1).max(0) as isize * stride as isize;
            low += far.min(0);
            high += far.max(0);
        }
        (low * size as isize, high * size as isize)
    };
    match op.code {
        Code::Product(_) => return None,
        Code::Choose(choice) => {
            let own = prepared.choices.get(choice)?;
            let [rows, columns] = own.shape;
            let results = [op.out, op.operands[2]];
            for (k, size) in own.sizes.into_iter().enumerate() {
                block(op.operands[k], rows * columns * size, false);
                block(results[k], columns * size, false);
            }
            for (result, size) in results.into_iter().zip(own.sizes) {
                block(result, columns * size, true);
            }
        }
        Code::Gather(walk, size) => {
            f(range(op.operands[0], walked(walk, size), size, false)?);
            block_of(f, op.out, op.n * size, true);
        }
        Code::Scatter(walk, size) => {
            block_of(f, op.operands[0], op.n * size, false);
            f(range(op.out, walked(walk, size), size, true)?);
        }
        Code::Function(function) => match (form, function.kind) {
            (Form::Kernel, _) => {
                for (place, size) in op.operands.into_iter().zip(op.sizes) {
                    if size > 0 {
                        block(place, size * op.n, false);
                    }
                }
                block(op.out, op.unit * op.n, true);
            }
            (Form::KernelFold, _) => {
                let element = op.element?;
                let (from, to) = (element.from.size_bytes(), element.to.size_bytes());
                block(op.operands[0], rows(op) * op.n * from, false);
                block(op.out, rows(op) * to, false);
                block(op.out, rows(op) * to, true);
            }
            (_, Kind::Load(dtype, _)) => {
                f(index_touch(op, dtype));
                f(range(op.operands[0], moved, op.n, false)?);
                block_of(f, op.out, op.n, true);
            }
            (_, Kind::Store(dtype, _)) => {
                block_of(f, op.operands[0], op.n, false);
                f(index_touch(op, dtype));
                f(range(op.out, moved, op.n, true)?);
            }
            _ => {
                block(op.operands[0], op.n, false);
                block(op.out, op.n, true);
            }
        },
    }
    Some(())
}

fn block_of(f: &mut dyn FnMut(Touch), place: Place, bytes: usize, writes: bool) {
    f(Touch {
        place,
        bytes,
        element: None,
        writes,
    });
}
