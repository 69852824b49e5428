//! Dense linear algebra: `cholesky`, `triangular-solve`, and the custom calls of LAPACK, cuBLAS,
//! cuSOLVER and their kin.
//!
//! In: an instruction. Out: a [`LinalgOp`], the routine with its options and with which operands and
//! results are what. Workspaces among the results are left alone.

use smallvec::SmallVec;

use super::combiner::origin;
use super::config::Config;
use super::index_map::array_operand;
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::unsupported;
use crate::types::PrimitiveType;

/// What is computed, by LAPACK's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Routine {
    Potrf,
    Trsm,
    Getrf,
    /// As `Getrf`, with exchanges counted from 0 and the permutation they amount to.
    Lu,
    Geqrf,
    Orgqr,
    Ormqr,
    Syevd,
    Gesdd,
    Geev,
    Gees,
    Gehrd,
    Sytrd,
    Geqp3,
    Gtsv,
    Syrk,
    /// Row exchanges to the permutation they amount to.
    Pivots,
}

/// How a matrix is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transpose {
    /// As it is.
    No,
    /// Transposed.
    Yes,
    /// Transposed and conjugated.
    Adjoint,
}

/// Parameters of a routine.
#[derive(Clone, Debug)]
pub struct LinalgOp {
    /// What is computed.
    pub routine: Routine,
    /// Position of every array operand that matters, in LAPACK's order.
    pub operands: SmallVec<[usize; 4]>,
    /// Position of every result that matters, in the routine's order; found by their types when empty.
    pub results: SmallVec<[usize; 6]>,
    /// The lower triangle is meant.
    pub lower: bool,
    /// The special matrix stands on the left.
    pub left: bool,
    /// How it is read.
    pub transpose: Transpose,
    /// Its diagonal counts as ones.
    pub unit_diagonal: bool,
    /// Vectors are wanted (left ones, where both exist).
    pub vectors: bool,
    /// Right vectors are wanted.
    pub right_vectors: bool,
    /// The fourth result of an SVD is V, not its adjoint.
    pub v_as_columns: bool,
    /// The third and fourth result of an SVD have changed places.
    pub exchanged: bool,
    /// First and last row and column of the part that is reduced, from 1; all when absent.
    pub rows: Option<(i64, i64)>,
    /// Elements beyond the asked-for triangle are zero in the result (HLO's own `cholesky`).
    pub zero_other: bool,
}

impl LinalgOp {
    fn new(routine: Routine, operands: &[usize]) -> LinalgOp {
        LinalgOp {
            routine,
            operands: operands.iter().copied().collect(),
            results: SmallVec::new(),
            lower: true,
            left: true,
            transpose: Transpose::No,
            unit_diagonal: false,
            vectors: true,
            right_vectors: true,
            v_as_columns: false,
            exchanged: false,
            rows: None,
            zero_other: false,
        }
    }
}

/// Plans `cholesky` and `triangular-solve`.
pub fn plan(instruction: InstructionRef<'_>) -> Result<LinalgOp> {
    let op = if instruction.opcode() == HloOpcode::Cholesky {
        LinalgOp {
            lower: instruction.bool(AttrKey::Lower).unwrap_or(false),
            zero_other: true,
            ..LinalgOp::new(Routine::Potrf, &[0])
        }
    } else {
        let transpose = instruction.enumeration(AttrKey::TransposeA);
        LinalgOp {
            lower: instruction.bool(AttrKey::Lower).unwrap_or(false),
            left: instruction.bool(AttrKey::LeftSide).unwrap_or(false),
            unit_diagonal: instruction.bool(AttrKey::UnitDiagonal).unwrap_or(false),
            transpose: transpose_named(transpose.as_deref().unwrap_or("NO_TRANSPOSE")),
            ..LinalgOp::new(Routine::Trsm, &[0, 1])
        }
    };
    checked(instruction, op)
}

fn transpose_named(name: &str) -> Transpose {
    match name {
        "ADJOINT" | "67" => Transpose::Adjoint,
        "TRANSPOSE" | "84" | "true" => Transpose::Yes,
        _ => Transpose::No,
    }
}

/// Which routine a target means, and whether it is of the old kind that passes sizes as operands.
fn routine_of(target: &str) -> Option<Routine> {
    use Routine as R;
    match target {
        "__cusolver$cholesky" => return Some(R::Potrf),
        "__cublas$triangularSolve" => return Some(R::Trsm),
        // What XLA:TPU calls them.
        "LuDecomposition" => return Some(R::Lu),
        "Qr" => return Some(R::Geqrf),
        "ProductOfElementaryHouseholderReflectors" => return Some(R::Orgqr),
        "Eigh" => return Some(R::Syevd),
        _ => {}
    }
    if target.ends_with("lu_pivots_to_permutation") {
        return Some(R::Pivots);
    }
    let name = target.strip_suffix("_ffi").unwrap_or(target);
    // lapack_sgetrf, blas_strsm: a letter for the type; cusolver_getrf, hipsolver_getrf: none.
    let (family, name) = name.split_once('_')?;
    let name = match family {
        "lapack" | "blas" => name.strip_prefix(['s', 'd', 'c', 'z'])?,
        "cusolver" | "hipsolver" | "cublas" | "hipblas" | "cuhybrid" | "hiphybrid" | "cusparse"
        | "hipsparse" => name,
        _ => return None,
    };
    Some(match name {
        "potrf" | "potrf_batched" => R::Potrf,
        "trsm" | "trsm_batched" => R::Trsm,
        "getrf" | "getrf_batched" => R::Getrf,
        "geqrf" | "geqrf_batched" => R::Geqrf,
        "orgqr" | "ungqr" => R::Orgqr,
        "ormqr" | "unmqr" => R::Ormqr,
        "syevd" | "heevd" | "syevj" => R::Syevd,
        "gesdd" | "gesvd" | "gesvdj" | "gesvdp" => R::Gesdd,
        "geev" | "eig_real" | "eig_comp" => R::Geev,
        "gees" => R::Gees,
        "gehrd" => R::Gehrd,
        "sytrd" | "hetrd" => R::Sytrd,
        "geqp3" => R::Geqp3,
        "gtsv" | "gtsv2" => R::Gtsv,
        "syrk" => R::Syrk,
        _ => return None,
    })
}

/// Plans a custom call; `None` when the target is no linear algebra.
pub fn custom_call(instruction: InstructionRef<'_>, target: &str) -> Option<Result<LinalgOp>> {
    let routine = routine_of(target)?;
    let is_old_lapack =
        (target.starts_with("lapack_") || target.starts_with("blas_")) && !target.ends_with("_ffi");
    Some(
        if is_old_lapack {
            old_lapack(instruction, routine)
        } else {
            with_config(instruction, target, routine)
        }
        .and_then(|op| checked(instruction, op)),
    )
}

/// Calls whose options stand in `backend_config`: MLIR attributes, JSON, or a struct's bytes.
fn with_config(
    instruction: InstructionRef<'_>,
    target: &str,
    routine: Routine,
) -> Result<LinalgOp> {
    let config = Config::of(instruction);
    let operands: &[usize] = match routine {
        Routine::Trsm | Routine::Orgqr | Routine::Geqp3 => &[0, 1],
        Routine::Ormqr => &[0, 1, 2],
        Routine::Syrk | Routine::Gtsv => &[0, 1, 2, 3],
        _ => &[0],
    };
    // Without them there is no telling which system is solved; jaxlib 0.5 leaves them out of `as_text`.
    let needed = matches!(routine, Routine::Trsm | Routine::Ormqr | Routine::Syrk);
    if (needed || target.starts_with("__")) && matches!(config, Config::None) {
        return Err(unsupported(
            instruction,
            format!(
                "the text leaves out the backend_config of {target:?}, which says how its matrices are read"
            ),
        ));
    }
    // Options of XLA's own calls are a message's fields, which are false when they are not there.
    let absent = |default: bool| default && !target.starts_with("__");
    let flag = |name: &str, default: bool| config.flag(name).unwrap_or(absent(default));
    // Letters come as their codes: 'L' 76, 'U' 85, 'N' 78, 'V' 86.
    let code = |name: &str| config.number(name).map(|n| n as i64);
    let mut op = LinalgOp::new(routine, operands);
    op.lower = match code("uplo") {
        Some(code) => code == 76,
        None => flag("lower", true),
    };
    op.left = match code("side") {
        Some(code) => code == 76,
        None => flag("left", flag("left_side", true)),
    };
    op.unit_diagonal = match code("diag") {
        Some(code) => code == 85,
        None => flag("unit_diagonal", false),
    };
    let transpose = ["trans_x", "transpose_a", "transpose", "trans"];
    if let Some(value) = transpose.iter().find_map(|name| config.text(name)) {
        op.transpose = transpose_named(&value);
    }
    if routine == Routine::Ormqr && op.transpose == Transpose::Yes {
        op.transpose = Transpose::Adjoint;
    }
    match routine {
        Routine::Gehrd => op.rows = code("low").zip(code("high")),
        Routine::Syevd | Routine::Gees => op.vectors = code("mode").is_none_or(|code| code != 78),
        Routine::Gesdd => {
            op.vectors = code("mode").is_none_or(|code| code != 78) && flag("compute_uv", true);
            op.v_as_columns = target.contains("gesvdj") || target.contains("gesvdp");
            // cuSOLVER's gesvd takes tall matrices only: wide ones are passed transposed.
            let is_wide = match array_operand(instruction, 0)?.dims[..] {
                [.., rows, columns] => rows < columns && target.contains("gesvd_ffi"),
                _ => false,
            };
            op.exchanged = flag("transposed", matches!(config, Config::None) && is_wide);
        }
        Routine::Geev => {
            let wanted = |name, other| match code(name) {
                Some(code) => code != 78,
                None => flag(other, true),
            };
            op.vectors = wanted("compute_left", "left");
            op.right_vectors = wanted("compute_right", "right");
        }
        _ => {}
    }
    if target == "Eigh" {
        // "lower,sort,sweeps,tolerance"
        op.lower = !matches!(config.bytes(), Some([b'0', ..]));
    }
    // Descriptors of 2020 to 2024 are structs: the type's code, then (where there is one) the triangle.
    if let Some(bytes) = config.bytes()
        && target != "Eigh"
        && matches!(routine, Routine::Potrf | Routine::Syevd)
        && let Some(word) = bytes.get(4..8)
    {
        op.lower = word == [0; 4];
    }
    if config.bytes().is_some() && routine == Routine::Trsm && target.contains("batched") {
        return old_batched_trsm(instruction, op, &config);
    }
    Ok(op)
}

/// The struct of `cublas_trsm_batched`: type, batch, m, n, side, uplo, trans, diag; 32-bit words.
fn old_batched_trsm(
    instruction: InstructionRef<'_>,
    mut op: LinalgOp,
    config: &Config,
) -> Result<LinalgOp> {
    let bytes = config.bytes().unwrap_or_default();
    let word = |i: usize| {
        let bytes = bytes.get(4 * i..4 * i + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let (Some(side), Some(uplo), Some(trans), Some(diag)) = (word(4), word(5), word(6), word(7))
    else {
        return Err(unsupported(
            instruction,
            "a descriptor of another size".into(),
        ));
    };
    op.left = side == 0;
    op.lower = uplo == 0;
    op.transpose = [Transpose::No, Transpose::Yes, Transpose::Adjoint][(trans as usize).min(2)];
    op.unit_diagonal = diag == 1;
    Ok(op)
}

/// Calls of jaxlib before the foreign-function interface: options and sizes are `s32` operands in
/// front of the arrays.
fn old_lapack(instruction: InstructionRef<'_>, routine: Routine) -> Result<LinalgOp> {
    let count = instruction.operand_ids().len();
    let arrays = match routine {
        Routine::Trsm => 2,
        Routine::Orgqr => 2,
        _ => 1,
    };
    let Some(first) = count.checked_sub(arrays) else {
        return Err(unsupported(instruction, "too few operands".into()));
    };
    let operands: SmallVec<[usize; 4]> = (first..count).collect();
    let mut op = LinalgOp::new(routine, &operands);
    let option = |index: usize| -> Result<i64> {
        let id = instruction.operand_ids().get(index);
        let constant = id.map(|&id| {
            instruction
                .module
                .instruction(origin(instruction.module, id))
        });
        let bytes = constant.and_then(|constant| constant.literal()?.bytes());
        match bytes {
            Some(&[a, b, c, d]) => Ok(i64::from(i32::from_le_bytes([a, b, c, d]))),
            Some(&[a]) => Ok(i64::from(a)),
            _ => Err(unsupported(
                instruction,
                format!("operand {index}, an option, is no constant"),
            )),
        }
    };
    let (wanted, complex) = (
        i64::from(b'V'),
        array_operand(instruction, first)?.element_type.is_complex(),
    );
    // Results that LAPACK wants as memory to work in stand among the others.
    let results: &[usize] = match (routine, complex) {
        (Routine::Geev, false) => &[3, 4, 5, 6, 7],
        (Routine::Geev, true) => &[2, 3, 4, 5],
        (Routine::Gees, false) => &[0, 3, 1, 2, 4, 5],
        (Routine::Gees, true) => &[0, 3, 2, 4, 5],
        (Routine::Gehrd, _) => &[0, 1, 2],
        (Routine::Sytrd, _) => &[0, 1, 2, 3, 4],
        _ => &[],
    };
    op.results = results.iter().copied().collect();
    match routine {
        Routine::Geev if first >= 2 => {
            op.vectors = option(first - 2)? == wanted;
            op.right_vectors = option(first - 1)? == wanted;
        }
        Routine::Gees if first >= 2 => {
            op.vectors = option(first - 2)? == wanted;
            if option(first - 1)? == i64::from(b'S') {
                return Err(unsupported(instruction, "a sorted Schur form".into()));
            }
        }
        Routine::Gehrd => op.rows = Some((option(1)?, option(2)?)),
        Routine::Sytrd => op.lower = option(1)? != 0,
        Routine::Potrf | Routine::Syevd => op.lower = option(0)? != 0,
        Routine::Trsm => {
            op.left = option(0)? != 0;
            op.lower = option(1)? != 0;
            op.transpose = match option(2)? {
                0 => Transpose::No,
                1 => Transpose::Yes,
                _ => Transpose::Adjoint,
            };
            op.unit_diagonal = option(3)? != 0;
        }
        Routine::Gesdd => op.vectors = option(1)? != 0,
        Routine::Getrf | Routine::Geqrf | Routine::Orgqr => {}
        _ => return Err(unsupported(instruction, "an old form of this call".into())),
    }
    Ok(op)
}

fn checked(instruction: InstructionRef<'_>, op: LinalgOp) -> Result<LinalgOp> {
    for (i, &index) in op.operands.iter().enumerate() {
        let shape = array_operand(instruction, index)?;
        let ty = shape.element_type;
        use PrimitiveType as P;
        let is_number = matches!(ty, P::F32 | P::F64 | P::C64 | P::C128);
        let low = matches!(op.routine, Routine::Potrf | Routine::Trsm) && ty.is_floating();
        let index_like = op.routine == Routine::Pivots || (op.routine == Routine::Geqp3 && i == 1);
        if !(is_number || low || index_like && ty == P::S32) {
            return Err(unsupported(
                instruction,
                format!("linear algebra with {}", ty.name()),
            ));
        }
    }
    Ok(op)
}
