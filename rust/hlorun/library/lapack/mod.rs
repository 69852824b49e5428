//! Dense linear algebra: the calls of LAPACK, cuBLAS, cuSOLVER and their kin.
//!
//! In: a target and its configuration. Out: a [`Target`], the routine with how its operands are
//! passed, and a [`LinalgOp`], the routine with its options.

mod results;

use smallvec::SmallVec;

use super::Config;
use crate::module::InstructionRef;
use crate::types::PrimitiveType;

pub use results::{find_results, result_slots};

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

impl Transpose {
    /// By the name of an attribute, the code of a letter, or a truth value.
    pub fn named(name: &str) -> Transpose {
        match name {
            "ADJOINT" | "67" => Transpose::Adjoint,
            "TRANSPOSE" | "84" | "true" => Transpose::Yes,
            _ => Transpose::No,
        }
    }
}

/// Parameters of a routine.
#[derive(Clone, Debug)]
pub struct LinalgOp {
    /// What is computed.
    pub routine: Routine,
    /// Position of every array operand that matters, in LAPACK's order.
    pub operands: SmallVec<[usize; 4]>,
    /// Position of every result that matters, in the routine's order; a status may be missing.
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
    /// The routine of these operands with the options it mostly has.
    pub fn new(routine: Routine, operands: &[usize]) -> LinalgOp {
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

/// How a call passes its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As scalar operands in front of the arrays: jaxlib on the CPU before the foreign-function
    /// interface.
    Operands,
    /// In a descriptor or a message: jaxlib on GPUs before that, and XLA's own calls.
    Descriptor,
    /// As attributes of the foreign-function interface.
    Attributes,
    /// Hardly at all, and no status is returned: what XLA:TPU calls.
    Plain,
}

/// A routine as a target names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// What is computed.
    pub routine: Routine,
    /// How options are passed.
    pub form: Form,
    /// The type of its matrices, where the name holds LAPACK's letter.
    pub element_type: Option<PrimitiveType>,
}

impl Target {
    /// The routine that `target` means; `None` when it is no linear algebra.
    pub fn named(target: &str) -> Option<Target> {
        use Routine as R;
        let of = |routine, form| {
            Some(Target {
                routine,
                form,
                element_type: None,
            })
        };
        match target {
            "__cusolver$cholesky" => return of(R::Potrf, Form::Descriptor),
            "__cublas$triangularSolve" => return of(R::Trsm, Form::Descriptor),
            // What XLA:TPU calls them.
            "LuDecomposition" => return of(R::Lu, Form::Plain),
            "Qr" => return of(R::Geqrf, Form::Plain),
            "ProductOfElementaryHouseholderReflectors" => return of(R::Orgqr, Form::Plain),
            "Eigh" => return of(R::Syevd, Form::Plain),
            _ => {}
        }
        if target.ends_with("lu_pivots_to_permutation") {
            return of(R::Pivots, Form::Attributes);
        }
        let (name, is_ffi) = match target.strip_suffix("_ffi") {
            Some(name) => (name, true),
            None => (target, false),
        };
        // lapack_sgetrf, blas_strsm: a letter for the type; cusolver_getrf, hipsolver_getrf: none.
        let (family, name) = name.split_once('_')?;
        let (name, element_type) = match family {
            "lapack" | "blas" => {
                let ty = match name.as_bytes().first()? {
                    b's' => PrimitiveType::F32,
                    b'd' => PrimitiveType::F64,
                    b'c' => PrimitiveType::C64,
                    b'z' => PrimitiveType::C128,
                    _ => return None,
                };
                (&name[1..], Some(ty))
            }
            "cusolver" | "hipsolver" | "cublas" | "hipblas" | "cuhybrid" | "hiphybrid"
            | "cusparse" | "hipsparse" => (name, None),
            _ => return None,
        };
        let form = match (is_ffi, element_type) {
            (true, _) => Form::Attributes,
            (false, Some(_)) => Form::Operands,
            (false, None) => Form::Descriptor,
        };
        Some(Target {
            routine: routine_named(name, family)?,
            form,
            element_type,
        })
    }
}

fn routine_named(name: &str, family: &str) -> Option<Routine> {
    use Routine as R;
    Some(match name {
        "potrf" | "potrf_batched" => R::Potrf,
        "trsm" | "trsm_batched" => R::Trsm,
        "getrf" | "getrf_batched" => R::Getrf,
        "geqrf" | "geqrf_batched" => R::Geqrf,
        "orgqr" | "ungqr" => R::Orgqr,
        "ormqr" | "unmqr" => R::Ormqr,
        "syevd" | "heevd" | "syevj" => R::Syevd,
        "gesdd" | "gesvd" | "gesvdj" | "gesvdp" => R::Gesdd,
        // cuSOLVER's own packs pairs of eigenvectors.
        "geev" if matches!(family, "lapack" | "blas") => R::Geev,
        "eig_real" | "eig_comp" => R::Geev,
        "gees" => R::Gees,
        "gehrd" => R::Gehrd,
        "sytrd" | "hetrd" => R::Sytrd,
        "geqp3" => R::Geqp3,
        "gtsv" | "gtsv2" => R::Gtsv,
        "syrk" => R::Syrk,
        _ => return None,
    })
}

/// The operands of a call that passes its options in a configuration, in LAPACK's order.
pub fn operands(routine: Routine) -> &'static [usize] {
    match routine {
        Routine::Trsm | Routine::Orgqr | Routine::Geqp3 => &[0, 1],
        Routine::Ormqr => &[0, 1, 2],
        Routine::Syrk | Routine::Gtsv => &[0, 1, 2, 3],
        _ => &[0],
    }
}

/// The operands of a call of [`Form::Operands`], behind its options.
pub fn last_operands(
    instruction: InstructionRef<'_>,
    routine: Routine,
) -> Result<SmallVec<[usize; 4]>, String> {
    use Routine as R;
    let known = matches!(
        routine,
        R::Potrf
            | R::Trsm
            | R::Getrf
            | R::Geqrf
            | R::Orgqr
            | R::Syevd
            | R::Gesdd
            | R::Geev
            | R::Gees
            | R::Gehrd
            | R::Sytrd
    );
    if !known {
        return Err("an old form of this call".to_owned());
    }
    let (count, arrays) = (instruction.operand_ids().len(), operands(routine).len());
    let first = count.checked_sub(arrays).ok_or("has too few operands")?;
    Ok((first..count).collect())
}

/// Whether a call cannot be understood without its options; jaxlib 0.5 leaves them out of `as_text`.
pub fn needs_options(routine: Routine, target: &str) -> bool {
    let needed = matches!(routine, Routine::Trsm | Routine::Ormqr | Routine::Syrk);
    needed || target.starts_with("__")
}

/// The options of a call that has them in `backend_config`: MLIR attributes, JSON, or a struct's
/// bytes.
pub fn with_config(
    instruction: InstructionRef<'_>,
    target: &str,
    routine: Routine,
) -> Result<LinalgOp, String> {
    let config = Config::of(instruction);
    if needs_options(routine, target) && matches!(config, Config::None) {
        return Err(format!(
            "the text leaves out the backend_config of {target:?}, which says how its matrices are read"
        ));
    }
    let mut op = LinalgOp::new(routine, operands(routine));
    read_letters(&mut op, target, &config);
    read_wishes(&mut op, instruction, target, &config);
    if config.bytes().is_some() {
        read_struct(&mut op, target, &config)?;
    }
    Ok(op)
}

/// Options as letters, which come as their codes ('L' 76, 'U' 85, 'N' 78, 'V' 86), or as flags.
fn read_letters(op: &mut LinalgOp, target: &str, config: &Config) {
    // Options of XLA's own calls are a message's fields, which are false when they are not there.
    let absent = |default: bool| default && !target.starts_with("__");
    let flag = |name: &str, default: bool| config.flag(name).unwrap_or(absent(default));
    let code = |name: &str| config.number(name).map(|n| n as i64);
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
        op.transpose = Transpose::named(&value);
    }
    if op.routine == Routine::Ormqr && op.transpose == Transpose::Yes {
        op.transpose = Transpose::Adjoint;
    }
}

/// Which results are wanted, and in which form.
fn read_wishes(op: &mut LinalgOp, instruction: InstructionRef<'_>, target: &str, config: &Config) {
    let code = |name: &str| config.number(name).map(|n| n as i64);
    let flag = |name: &str, default: bool| config.flag(name).unwrap_or(default);
    match op.routine {
        Routine::Gehrd => op.rows = code("low").zip(code("high")),
        Routine::Syevd | Routine::Gees => op.vectors = code("mode").is_none_or(|code| code != 78),
        Routine::Gesdd => {
            op.vectors = code("mode").is_none_or(|code| code != 78) && flag("compute_uv", true);
            op.v_as_columns = target.contains("gesvdj") || target.contains("gesvdp");
            // cuSOLVER's gesvd takes tall matrices only: wide ones are passed transposed.
            let shape = instruction.operand(0).and_then(|o| o.array_shape());
            let is_wide = match shape.map(|shape| &shape.dims[..]) {
                Some([.., rows, columns]) => rows < columns && target.contains("gesvd_ffi"),
                _ => false,
            };
            let is_solver = !target.starts_with("lapack");
            op.exchanged = flag(
                "transposed",
                matches!(config, Config::None) && is_wide && is_solver,
            );
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
}

/// Options in the bytes of a struct, as from 2020 to 2024, or in a list of numbers.
fn read_struct(op: &mut LinalgOp, target: &str, config: &Config) -> Result<(), String> {
    let bytes = config.bytes().unwrap_or_default();
    if target == "Eigh" {
        // "lower,sort,sweeps,tolerance"
        op.lower = bytes.first() != Some(&b'0');
        return Ok(());
    }
    // The type's code, then (where there is one) the triangle.
    if matches!(op.routine, Routine::Potrf | Routine::Syevd)
        && let Some(word) = bytes.get(4..8)
    {
        op.lower = word == [0; 4];
    }
    if op.routine == Routine::Trsm && target.contains("batched") {
        read_batched_trsm(op, bytes)?;
    }
    Ok(())
}

/// The struct of `cublas_trsm_batched`: type, batch, m, n, side, uplo, trans, diag; 32-bit words.
fn read_batched_trsm(op: &mut LinalgOp, bytes: &[u8]) -> Result<(), String> {
    let word = |i: usize| {
        let bytes = bytes.get(4 * i..4 * i + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let (Some(side), Some(uplo), Some(trans), Some(diag)) = (word(4), word(5), word(6), word(7))
    else {
        return Err("a descriptor of another size".into());
    };
    op.left = side == 0;
    op.lower = uplo == 0;
    op.transpose = [Transpose::No, Transpose::Yes, Transpose::Adjoint][(trans as usize).min(2)];
    op.unit_diagonal = diag == 1;
    Ok(())
}
