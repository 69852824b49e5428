//! Which result of a routine is what.

use smallvec::SmallVec;

use super::{Form, LinalgOp, Routine, Target};
use crate::library::results::{Slot, find, is_bytes};
use crate::module::InstructionRef;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// Sizes of one operand: its batch, and the rows and columns of a matrix.
struct Sizes<'a> {
    batch: &'a [i64],
    rows: i64,
    columns: i64,
}

impl Sizes<'_> {
    fn vector(&self, size: i64) -> Dims {
        self.batch.iter().copied().chain([size]).collect()
    }

    fn matrix(&self, rows: i64, columns: i64) -> Dims {
        self.batch.iter().copied().chain([rows, columns]).collect()
    }
}

/// What the routine returns for operands of these shapes, which fit it, with its workspaces where
/// they stand in front of a result.
pub fn result_slots(target: &Target, op: &LinalgOp, operands: &[&ArrayShape]) -> Vec<Slot> {
    use Routine as R;
    let a = operands[0];
    let (ty, real) = (a.element_type, a.element_type.component());
    let rank = if op.routine == R::Pivots || op.routine == R::Gtsv {
        1
    } else {
        2
    };
    let (batch, own) = a.dims.split_at(a.rank().saturating_sub(rank));
    let sizes = Sizes {
        batch,
        rows: own.first().copied().unwrap_or(1),
        columns: own.last().copied().unwrap_or(1),
    };
    let (m, n) = (sizes.rows, sizes.columns);
    let (k, less) = (m.min(n), n.saturating_sub(1).max(0));
    let own = || Slot::array(ty, &a.dims);
    let like = |index: usize| {
        let operand = operands.get(index).copied().unwrap_or(a);
        Slot::array(operand.element_type, &operand.dims)
    };
    let vector = |ty, size| Slot::array(ty, &sizes.vector(size));
    let matrix = |ty, rows, columns| Slot::array(ty, &sizes.matrix(rows, columns));
    let status = || match target.form {
        // One for a batch, or one for each of its matrices.
        Form::Descriptor => Slot::array(PrimitiveType::S32, batch).or_dims(&[]),
        _ => Slot::array(PrimitiveType::S32, batch),
    };
    // Where a status came only with the older forms.
    let old_status = || match target.form {
        Form::Operands => Some(status()),
        Form::Descriptor => Some(status().optional()),
        Form::Attributes | Form::Plain => None,
    };
    match op.routine {
        // XLA's own passes write one status as a vector.
        R::Potrf if target.form == Form::Descriptor => vec![own(), status().or_dims(&[1])],
        R::Potrf => vec![own(), status()],
        R::Trsm | R::Syrk => vec![like(1)],
        R::Ormqr => vec![like(2)],
        R::Getrf => vec![own(), vector(PrimitiveType::S32, k), status()],
        R::Lu => vec![
            own(),
            vector(PrimitiveType::S32, k),
            vector(PrimitiveType::S32, m),
        ],
        R::Geqrf => {
            let slots = [own(), vector(ty, k)];
            slots.into_iter().chain(old_status()).collect()
        }
        R::Orgqr => [own()].into_iter().chain(old_status()).collect(),
        R::Syevd => {
            let status = (target.form != Form::Plain).then(status);
            let slots = [own(), vector(real, n)];
            slots.into_iter().chain(status).collect()
        }
        R::Gesdd => singular(op, [m, n], vector(real, k), own, &matrix, status()),
        R::Geev => eigen(target, ty, &vector, &matrix, n, status()),
        R::Gees => schur(
            target,
            own(),
            vector(ty, n),
            ty,
            [Slot::array(PrimitiveType::S32, batch), status()],
        ),
        R::Gehrd => vec![own(), vector(ty, less), status()],
        R::Sytrd => vec![
            own(),
            vector(real, n),
            vector(real, less),
            vector(ty, less),
            status(),
        ],
        R::Geqp3 => vec![own(), like(1), vector(ty, k)],
        R::Gtsv => vec![like(0), like(1), like(2), like(3), status()],
        // As many rows as are exchanged, or more.
        R::Pivots => vec![Slot::array(PrimitiveType::S32, &a.dims)],
    }
}

/// Eigenvalues, of real matrices in two parts, and left and right eigenvectors; the old form works in
/// memory of its own in front of them.
fn eigen(
    target: &Target,
    ty: PrimitiveType,
    vector: &dyn Fn(PrimitiveType, i64) -> Slot,
    matrix: &dyn Fn(PrimitiveType, i64, i64) -> Slot,
    n: i64,
    status: Slot,
) -> Vec<Slot> {
    let complex = match ty {
        PrimitiveType::F32 => PrimitiveType::C64,
        PrimitiveType::F64 => PrimitiveType::C128,
        other => other,
    };
    let (work, values) = if ty.is_complex() { (2, 1) } else { (3, 2) };
    let is_old = target.form == Form::Operands;
    let mut slots = vec![Slot::Work; if is_old { work } else { 0 }];
    slots.extend(vec![vector(ty, n); values]);
    slots.extend([matrix(complex, n, n), matrix(complex, n, n), status]);
    slots
}

/// The Schur form and its vectors, eigenvalues, how many were sorted, the status. The old form has the
/// vectors behind the eigenvalues, and memory to work in for complex ones.
fn schur(
    target: &Target,
    matrix: Slot,
    value: Slot,
    ty: PrimitiveType,
    [sorted, status]: [Slot; 2],
) -> Vec<Slot> {
    let values = vec![value; if ty.is_complex() { 1 } else { 2 }];
    let mut slots = vec![matrix.clone()];
    if target.form == Form::Operands {
        slots.extend(ty.is_complex().then_some(Slot::Work));
        slots.extend(values);
        slots.push(matrix);
    } else {
        slots.push(matrix);
        slots.extend(values);
    }
    slots.extend([sorted, status]);
    slots
}

fn singular(
    op: &LinalgOp,
    [m, n]: [i64; 2],
    values: Slot,
    own: impl Fn() -> Slot,
    matrix: &dyn Fn(PrimitiveType, i64, i64) -> Slot,
    status: Slot,
) -> Vec<Slot> {
    let k = m.min(n);
    let Slot::Array(first) = own() else {
        return Vec::new();
    };
    let ty = first.types[0];
    let either = |thin: [i64; 2], full: [i64; 2]| {
        let Slot::Array(full) = matrix(ty, full[0], full[1]) else {
            return Slot::Work;
        };
        // Where only values are wanted, scalars may stand in for the vectors.
        matrix(ty, thin[0], thin[1])
            .or_dims(&full.dims[0])
            .or_dims(&[])
    };
    let u = either([m, k], [m, m]);
    let v = if op.v_as_columns {
        either([n, k], [n, n])
    } else {
        either([k, n], [n, n])
    };
    let (third, fourth) = if op.exchanged { (v, u) } else { (u, v) };
    vec![own(), values, third, fourth, status]
}

/// Whether a part of what `target` declares may be memory it works in: bytes, or where the caller
/// allocates it by number of elements, elements of these types.
fn is_work(target: &Target, routine: Routine, ty: PrimitiveType, shape: &ArrayShape) -> bool {
    use Routine as R;
    let types = match (target.form, routine) {
        (Form::Operands, R::Geqrf | R::Orgqr | R::Gehrd | R::Sytrd) => &[ty][..],
        (Form::Operands, R::Syevd | R::Gesdd | R::Geev | R::Gees) => {
            &[ty, ty.component(), PrimitiveType::S32]
        }
        (
            Form::Descriptor,
            R::Getrf | R::Geqrf | R::Orgqr | R::Ormqr | R::Potrf | R::Syevd | R::Gesdd | R::Sytrd,
        ) => &[ty],
        _ => &[],
    };
    is_bytes(shape) || shape.rank() == 1 && types.contains(&shape.element_type)
}

/// Positions of the results of `op` in what `instruction` declares, in the routine's order; an error
/// says what is expected.
pub fn find_results(
    instruction: InstructionRef<'_>,
    target: &Target,
    op: &LinalgOp,
) -> Result<SmallVec<[usize; 6]>, String> {
    let shapes: Option<Vec<&ArrayShape>> = op
        .operands
        .iter()
        .map(|&index| instruction.operand(index)?.array_shape())
        .collect();
    let Some(shapes) = shapes.filter(|shapes| !shapes.is_empty()) else {
        return Err("results of other operands".to_owned());
    };
    let mut slots = result_slots(target, op, &shapes);
    if op.routine == Routine::Pivots {
        slots = permutations(instruction, shapes[0]);
    }
    let is_work = |shape: &ArrayShape| is_work(target, op.routine, shapes[0].element_type, shape);
    let mut found = find(instruction, &slots, &is_work);
    if op.routine == Routine::Gtsv && found.is_err() {
        // cuSPARSE returns the solution alone.
        let alone = find(instruction, &slots[3..4], &is_work);
        found = alone.or(found);
    }
    let mut found: SmallVec<[usize; 6]> = found?.into_iter().map_while(|at| at).collect();
    if op.routine == Routine::Gees && target.form == Form::Operands {
        // Schur vectors come second in LAPACK's order of results.
        let values = found.len() - 4;
        found[1..2 + values].rotate_right(1);
    }
    Ok(found)
}

/// A permutation of at least as many rows as there are exchanges.
fn permutations(instruction: InstructionRef<'_>, exchanges: &ArrayShape) -> Vec<Slot> {
    let parts = crate::library::results::declared(instruction);
    let rows = parts.first().and_then(|part| part.as_ref()?.dims.last());
    let mut dims = exchanges.dims.clone();
    if let (Some(size), Some(&rows)) = (dims.last_mut(), rows) {
        *size = rows.max(*size);
    }
    vec![Slot::array(PrimitiveType::S32, &dims)]
}
