//! Dense linear algebra: which operands a routine takes, and that it returns what it computes.

use super::*;
use crate::library::Config;
use crate::library::lapack::{self as library, Form, LinalgOp, Routine, Target};
use crate::module::{AttrKey, AttrValue};

/// The rule of one call.
pub fn check(i: InstructionRef<'_>, name: &str, target: &Target) -> Result<(), String> {
    let op = match target.form {
        Form::Operands => {
            let operands = library::last_operands(i, target.routine)?;
            for k in 0..operands[0] {
                option(i, k)?;
            }
            LinalgOp::new(target.routine, &operands)
        }
        // Which system is solved stands nowhere.
        _ if library::needs_options(target.routine, name)
            && matches!(Config::of(i), Config::None) =>
        {
            return Ok(());
        }
        _ => library::with_config(i, name, target.routine)?,
    };
    if target.form != Form::Operands {
        operand_count(i, op.operands.len(), op.operands.len())?;
    }
    check_types(i, target, &op)?;
    check_sizes(i, target, &op)?;
    if target.form != Form::Descriptor && target.element_type.is_some() {
        check_layouts(i, &op)?;
    }
    let found = library::find_results(i, target, &op);
    found.map(drop).map_err(|expected| mismatch(i, &expected))
}

/// An option or a size in front of the arrays: one number.
fn option(i: InstructionRef<'_>, k: usize) -> Result<(), String> {
    if array(i, k)?.rank() <= 1 {
        return Ok(());
    }
    Err(format!("{}, expected an option", describe(i, k)))
}

fn check_types(i: InstructionRef<'_>, target: &Target, op: &LinalgOp) -> Result<(), String> {
    use PrimitiveType as P;
    let first = array(i, op.operands[0])?.element_type;
    for (at, &k) in op.operands.iter().enumerate() {
        let ty = array(i, k)?.element_type;
        let is_index = op.routine == Routine::Pivots || op.routine == Routine::Geqp3 && at == 1;
        if is_index {
            want_type(i, k, P::S32, ", positions of rows")?;
            continue;
        }
        let is_number = matches!(ty, P::F32 | P::F64 | P::C64 | P::C128);
        let may_be_low = matches!(op.routine, Routine::Potrf | Routine::Trsm);
        if !(is_number || may_be_low && ty.is_floating() && target.element_type.is_none()) {
            return Err(format!(
                "{}, expected elements of f32, f64, c64 or c128",
                describe(i, k)
            ));
        }
        match target.element_type {
            Some(own) => want_type(i, k, own, ", the type of the routine")?,
            None => want_type(i, k, first, " like the first matrix")?,
        }
    }
    Ok(())
}

/// How many dimensions of each operand are no batch.
fn ranks(routine: Routine) -> &'static [usize] {
    use Routine as R;
    match routine {
        R::Trsm => &[2, 2],
        R::Orgqr | R::Geqp3 => &[2, 1],
        R::Ormqr => &[2, 1, 2],
        R::Gtsv => &[1, 1, 1, 2],
        R::Syrk => &[2, 2, 0, 0],
        R::Pivots => &[1],
        _ => &[2],
    }
}

/// Sizes of each operand without those of the batch, which all have.
fn own_sizes<'m>(i: InstructionRef<'m>, op: &LinalgOp) -> Result<Vec<&'m [i64]>, String> {
    let mut own: Vec<&[i64]> = Vec::with_capacity(4);
    let mut batch: &[i64] = &[];
    for (at, (&k, &rank)) in op.operands.iter().zip(ranks(op.routine)).enumerate() {
        let dims = &array(i, k)?.dims[..];
        let Some(lead) = dims.len().checked_sub(rank) else {
            return Err(format!("{}, expected rank {rank} or more", describe(i, k)));
        };
        if at == 0 {
            batch = &dims[..lead];
        } else if dims[..lead] != *batch && !(rank == 0 && dims.is_empty()) {
            return Err(format!(
                "{}, expected the batch dimensions {} of the first matrix",
                describe(i, k),
                list(batch)
            ));
        }
        own.push(&dims[lead..]);
    }
    Ok(own)
}

fn check_sizes(i: InstructionRef<'_>, target: &Target, op: &LinalgOp) -> Result<(), String> {
    use Routine as R;
    let own = own_sizes(i, op)?;
    let expect = |fits: bool, at: usize, expected: &dyn Fn() -> String| match fits {
        true => Ok(()),
        false => Err(format!(
            "{}, expected {}",
            describe(i, op.operands[at]),
            expected()
        )),
    };
    let n = own[0].last().copied().unwrap_or(0);
    let square = || expect(own[0] == [n, n], 0, &|| "square matrices".to_owned());
    match op.routine {
        R::Getrf | R::Lu | R::Geqrf | R::Gesdd | R::Pivots => Ok(()),
        R::Potrf | R::Syevd | R::Geev | R::Gees | R::Sytrd => square(),
        R::Gehrd => match op.rows {
            Some((low, high)) if n > 0 && (low < 1 || high < low || high > n) => Err(format!(
                "reduces rows {low} to {high} of matrices of {n} rows"
            )),
            _ => square(),
        },
        R::Trsm => {
            square()?;
            let (rows, columns) = (own[1][0], own[1][1]);
            // The options of the old form are values, which the planner knows.
            let either = target.form == Form::Operands && (rows == n || columns == n);
            let (size, what) = match op.left {
                true => (rows, "rows"),
                false => (columns, "columns"),
            };
            expect(either || size == n, 1, &|| format!("{n} {what}"))
        }
        R::Orgqr => {
            let is_wide = own[0][1] > own[0][0];
            expect(!is_wide, 0, &|| "matrices that are not wide".to_owned())?;
            expect(own[1][0] <= n, 1, &|| format!("at most {n} factors"))
        }
        R::Ormqr => {
            let size = own[2][usize::from(!op.left)];
            let factors = own[1][0];
            let fits = own[0][0] == size && factors <= size && factors <= n;
            expect(fits, 2, &|| "sizes that fit the reflections".to_owned())
        }
        R::Geqp3 => expect(own[1][0] == n, 1, &|| format!("{n} columns")),
        R::Gtsv => [1, 2, 3]
            .into_iter()
            .try_for_each(|at| expect(own[at][0] == n, at, &|| format!("{n} rows"))),
        R::Syrk => {
            let n = own[0][usize::from(op.transpose != library::Transpose::No)];
            expect(own[1] == [n, n], 1, &|| format!("{n} rows and columns"))
        }
    }
}

/// Where the text constrains layouts, matrices are stored column by column, as LAPACK reads them.
fn check_layouts(i: InstructionRef<'_>, op: &LinalgOp) -> Result<(), String> {
    let Some(AttrValue::Shapes(constraints)) = i.attribute(AttrKey::OperandLayoutConstraints)
    else {
        return Ok(());
    };
    let table = i.module.shapes();
    let matrices = op.operands.iter().zip(ranks(op.routine));
    for (&k, _) in matrices.filter(|(_, rank)| **rank == 2) {
        let shape = constraints
            .get(k)
            .and_then(|&shape| table.get(shape).as_array());
        if let Some(shape) = shape.filter(|shape| !is_column_major(shape)) {
            return Err(format!(
                "operand_layout_constraints has {shape} for operand {k}, expected matrices column by \
                 column, as LAPACK reads them"
            ));
        }
    }
    Ok(())
}

/// Whether rows are contiguous in a matrix of more than one row and column.
fn is_column_major(shape: &ArrayShape) -> bool {
    let [.., rows, columns] = shape.dims[..] else {
        return true;
    };
    if rows <= 1 || columns <= 1 {
        return true;
    }
    let Some(layout) = &shape.layout else {
        return true;
    };
    let rank = shape.rank() as i64;
    let order = layout.minor_to_major.iter().map(|&d| i64::from(d));
    let matrix: Vec<i64> = order.filter(|&d| d >= rank - 2).collect();
    matrix.first() == Some(&(rank - 2))
}
