//! A CBLAS library, loaded at the first product that wants one.
//!
//! In: `HLORUN_BLAS` (a library path, or `portable` or `packed` for none), else the path given to [`set_blas_path`],
//! else the system's library names. Out: [`gemm`], which declines what BLAS has no interface for. Promise: nothing is
//! loaded before it is needed; a library without the needed symbols is refused; the environment is not written. The
//! library at the given path runs on the calling thread, because the caller splits the work; one that others may use
//! too keeps its number of threads.

use super::{Gemm, Matrix, OutOfMemory, pack};
use crate::DType;
use crate::scratch::Scratch;
use libloading::Library;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

static PATH: Mutex<Option<String>> = Mutex::new(None);

/// Names the library to load unless `HLORUN_BLAS` does; nobody else should use it. Has no effect after the first large product.
pub fn set_blas_path(path: &str) {
    *PATH.lock().unwrap_or_else(|e| e.into_inner()) = Some(path.to_owned());
}

/// The library in use, or `None`; loads it.
pub fn blas_name() -> Option<&'static str> {
    BLAS.as_ref().map(|b| b.name.as_str())
}

const ROW_MAJOR: i32 = 101;
const NO_TRANS: i32 = 111;
const TRANS: i32 = 112;

// The CBLAS signature with 32-bit (LP64) or 64-bit (ILP64) integers; S is a scalar or a pointer to one.
type Call<I, S> = unsafe extern "C" fn(
    i32,
    i32,
    i32,
    I,
    I,
    I,
    S,
    *const c_void,
    I,
    *const c_void,
    I,
    S,
    *mut c_void,
    I,
);

struct Functions<I> {
    sgemm: Call<I, f32>,
    dgemm: Call<I, f64>,
    cgemm: Call<I, *const c_void>,
    zgemm: Call<I, *const c_void>,
}

enum Interface {
    Narrow(Functions<i32>),
    Wide(Functions<i64>),
}

struct Blas {
    name: String,
    interface: Interface,
    /// Keeps the code mapped; never unloaded.
    _library: Library,
}

static BLAS: LazyLock<Option<Blas>> = LazyLock::new(load);

const SYSTEM: [&str; 6] = [
    "libopenblas.so.0",
    "libopenblas.so",
    "libmkl_rt.so.2",
    "libmkl_rt.so",
    "libcblas.so.3",
    "libcblas.so",
];

fn load() -> Option<Blas> {
    let named = std::env::var("HLORUN_BLAS").ok().filter(|s| !s.is_empty());
    if matches!(named.as_deref(), Some("portable" | "packed")) {
        return None;
    }
    let given = PATH.lock().unwrap_or_else(|e| e.into_inner()).clone();
    let system = SYSTEM.iter().map(|s| (*s).to_owned());
    if let Some(named) = named
        && let Some(blas) = open(named, false)
    {
        return Some(blas);
    }
    let own = given.and_then(|path| {
        let is_shared = is_loaded(&path);
        open(path, !is_shared)
    });
    own.or_else(|| system.into_iter().find_map(|name| open(name, false)))
}

/// Whether somebody in this process uses the library already.
fn is_loaded(path: &str) -> bool {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LAZY};
        // SAFETY: nothing is loaded, so that no initializer runs.
        unsafe { Library::open(Some(path), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
    }
    #[cfg(windows)]
    {
        libloading::os::windows::Library::open_already_loaded(path).is_ok()
    }
}

/// Loads a library. Where nobody else uses it, it is told not to start threads.
fn open(name: String, is_own: bool) -> Option<Blas> {
    // SAFETY: loading a BLAS library runs its initializers, which the user asked for by naming it.
    let library = unsafe { Library::new(&name) }.ok()?;
    for prefix in ["", "scipy_"] {
        // SAFETY: a symbol of this name has the CBLAS signature; the suffix 64_ marks 64-bit integers.
        let interface = unsafe {
            functions::<i32>(&library, prefix, "")
                .map(Interface::Narrow)
                .or_else(|| functions::<i64>(&library, prefix, "64_").map(Interface::Wide))
        };
        if let Some(interface) = interface {
            if is_own {
                one_thread(&library, prefix, matches!(interface, Interface::Wide(_)));
            }
            return Some(Blas {
                name,
                interface,
                _library: library,
            });
        }
    }
    None
}

unsafe fn functions<I>(library: &Library, prefix: &str, suffix: &str) -> Option<Functions<I>> {
    let name = |f: &str| format!("{prefix}cblas_{f}{suffix}");
    // SAFETY: the caller vouches for the signatures.
    unsafe {
        Some(Functions {
            sgemm: *library.get::<Call<I, f32>>(name("sgemm").as_bytes()).ok()?,
            dgemm: *library.get::<Call<I, f64>>(name("dgemm").as_bytes()).ok()?,
            cgemm: *library
                .get::<Call<I, *const c_void>>(name("cgemm").as_bytes())
                .ok()?,
            zgemm: *library
                .get::<Call<I, *const c_void>>(name("zgemm").as_bytes())
                .ok()?,
        })
    }
}

fn one_thread(library: &Library, prefix: &str, wide: bool) {
    let suffix = if wide { "64_" } else { "" };
    for name in [
        format!("{prefix}openblas_set_num_threads{suffix}"),
        "MKL_Set_Num_Threads".to_owned(),
    ] {
        // SAFETY: both functions take one int.
        if let Ok(set) = unsafe { library.get::<unsafe extern "C" fn(i32)>(name.as_bytes()) } {
            // SAFETY: one is a valid number of threads.
            unsafe { set(1) };
        }
    }
}

/// How BLAS reads an operand: transposition flag and leading dimension.
struct Operand {
    trans: i32,
    ld: usize,
}

fn operand(layout: Matrix, rows: usize, cols: usize) -> Option<Operand> {
    let (row, col) = (layout.row_stride, layout.col_stride);
    if (col == 1 || cols <= 1) && row >= cols as isize && row > 0 {
        return Some(Operand {
            trans: NO_TRANS,
            ld: row as usize,
        });
    }
    if (row == 1 || rows <= 1) && col >= rows as isize && col > 0 {
        return Some(Operand {
            trans: TRANS,
            ld: col as usize,
        });
    }
    None
}

/// Runs one product through BLAS; `false` means nothing was done.
///
/// # Safety
/// As [`super::gemm`]; `g.dtype` and `g.out` are equal.
pub(super) unsafe fn gemm(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) -> Result<bool, OutOfMemory> {
    if !matches!(g.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) || g.k == 0 {
        return Ok(false);
    }
    let Some(blas) = BLAS.as_ref() else {
        return Ok(false);
    };
    // BLAS wants the rows or the columns of C contiguous; the columns are the rows of the transposed product.
    if operand(g.c, g.m, g.n).is_none_or(|c| c.trans == TRANS) {
        if operand(g.c, g.m, g.n).is_none() {
            return Ok(false);
        }
        // SAFETY: the same matrices.
        return unsafe { row_major(blas, &g.transposed(), b, a, c) };
    }
    // SAFETY: the caller's contract.
    unsafe { row_major(blas, g, a, b, c) }
}

unsafe fn row_major(
    blas: &Blas,
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) -> Result<bool, OutOfMemory> {
    let size = g.dtype.size_bytes();
    let Some(out) = operand(g.c, g.m, g.n).filter(|o| o.trans == NO_TRANS) else {
        return Ok(false);
    };
    // SAFETY: the caller's contract; the copies are dense.
    unsafe {
        type LaidOut = (Operand, *const u8, Option<Scratch>);
        let laid_out = |from, rows, cols, layout| -> Result<LaidOut, OutOfMemory> {
            if let Some(operand) = operand(layout, rows, cols) {
                return Ok((operand, from, None));
            }
            let packed = pack::dense(from, rows, cols, layout, size)?;
            let dense = Operand {
                trans: NO_TRANS,
                ld: cols,
            };
            Ok((dense, packed.as_ptr(), Some(packed)))
        };
        let (left, a, _packed_a) = laid_out(a, g.m, g.k, g.a)?;
        let (right, b, _packed_b) = laid_out(b, g.k, g.n, g.b)?;
        Ok(match &blas.interface {
            Interface::Narrow(f) => call::<i32>(f, g, (a, &left), (b, &right), (c, &out)),
            Interface::Wide(f) => call::<i64>(f, g, (a, &left), (b, &right), (c, &out)),
        })
    }
}

unsafe fn call<I: TryFrom<usize> + Copy>(
    f: &Functions<I>,
    g: &Gemm,
    a: (*const u8, &Operand),
    b: (*const u8, &Operand),
    c: (*mut u8, &Operand),
) -> bool {
    let int = |x: usize| I::try_from(x).ok();
    let (Some(m), Some(n), Some(k), Some(lda), Some(ldb), Some(ldc)) = (
        int(g.m),
        int(g.n),
        int(g.k),
        int(a.1.ld),
        int(b.1.ld),
        int(c.1.ld),
    ) else {
        return false;
    };
    let (ta, tb) = (a.1.trans, b.1.trans);
    let (a, b, c) = (
        a.0.cast::<c_void>(),
        b.0.cast::<c_void>(),
        c.0.cast::<c_void>(),
    );
    let (re, im) = g.alpha;
    let narrow = [[re as f32, im as f32], [g.beta as f32, 0.0]];
    let wide = [[re, im], [g.beta, 0.0]];
    // SAFETY: dimensions and leading dimensions describe the matrices of the contract.
    unsafe {
        match g.dtype {
            DType::F32 => (f.sgemm)(
                ROW_MAJOR,
                ta,
                tb,
                m,
                n,
                k,
                re as f32,
                a,
                lda,
                b,
                ldb,
                g.beta as f32,
                c,
                ldc,
            ),
            DType::F64 => (f.dgemm)(
                ROW_MAJOR, ta, tb, m, n, k, re, a, lda, b, ldb, g.beta, c, ldc,
            ),
            DType::C64 => {
                let (alpha, beta) = (narrow[0].as_ptr().cast(), narrow[1].as_ptr().cast());
                (f.cgemm)(
                    ROW_MAJOR, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                );
            }
            _ => {
                let (alpha, beta) = (wide[0].as_ptr().cast(), wide[1].as_ptr().cast());
                (f.zgemm)(
                    ROW_MAJOR, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                );
            }
        }
    }
    true
}

/// A Fortran routine of the library in use: LAPACK, or the part of BLAS without a CBLAS name.
#[derive(Clone, Copy)]
pub struct Routine {
    code: *const c_void,
    /// Integers have 64 bits.
    pub wide: bool,
}

// SAFETY: the address of code that is never unloaded.
unsafe impl Send for Routine {}
// SAFETY: as above.
unsafe impl Sync for Routine {}

/// The routine `name`, lower case and without decoration (`"dgetrf"`); `None` without a library or when it lacks it.
pub fn routine(name: &str) -> Option<Routine> {
    let blas = BLAS.as_ref()?;
    let wide = matches!(blas.interface, Interface::Wide(_));
    let suffix = if wide { "_64_" } else { "_" };
    for prefix in ["", "scipy_"] {
        // SAFETY: only the address is taken here.
        let symbol = unsafe {
            blas._library
                .get::<*const c_void>(format!("{prefix}{name}{suffix}").as_bytes())
        };
        if let Ok(symbol) = symbol {
            return Some(Routine {
                code: *symbol,
                wide,
            });
        }
    }
    None
}

impl Routine {
    /// Calls the routine with Fortran's convention: every argument is an address; lengths of character arguments,
    /// all 1, follow. At most 23 arguments; `false` when there are more.
    ///
    /// # Safety
    /// The arguments are what the routine's documentation asks for, integers of the width [`Routine::wide`] says.
    pub unsafe fn call(&self, arguments: &[*mut c_void], characters: usize) -> bool {
        const MOST: usize = 28;
        if arguments.len() + characters > MOST || arguments.len() > 23 {
            return false;
        }
        let mut words = [1usize; MOST];
        for (word, &argument) in words.iter_mut().zip(arguments) {
            *word = argument as usize;
        }
        type Words = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        );
        // SAFETY: all arguments are words; in the C conventions of the supported platforms the caller pops surplus
        // ones, which the routine never reads.
        unsafe {
            let f: Words = std::mem::transmute(self.code);
            let w = words;
            f(
                w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
                w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24],
                w[25], w[26], w[27],
            );
        }
        true
    }
}
