//! Runs single passes on the texts of `tests/hlo/passes/<pass>/<case>.hlo`.
//!
//! A file holds the module before the pass, a line `// ----- after`, and the module after it, or
//! `unchanged`. `BLESS=1` writes the second part, otherwise it is compared. Both sides are run on the
//! same inputs and give the same numbers.
//!
//! In a folder named after a pass on thunks the second part is the listing of the thunks without the
//! pass and with it. Both plans are run and give the same bits.
//!
//! And runs all passes on every module of `tests/hlo/execute` and on dumps: after each pass the module
//! is legal, prints, parses again to the same, and computes the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hlorun::HloError;
use hlorun::exec::EVALUATE;
use hlorun::module::HloModule;
use hlorun::module::compact::compact;
use hlorun::plan::element::vector_bytecode;
use hlorun::plan::hlo::pass::{Pass, PassContext};
use hlorun::plan::listing::listing;
use hlorun::plan::options::{Inspect, MachineCode};
use hlorun::plan::pipeline::Pipeline;
use hlorun::plan::{Check, CompileOptions, Executable, PASSES, compile, hlo};
use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::types::PrimitiveType;
use hlorun_kernels::vector_bytecode::{Op, is_supported};
use hlorun_kernels::{BinaryOp, DType};

const AFTER: &str = "// ----- after\n";

/// Passes that add in another order; all others keep every bit.
const REORDERS: [&str; 8] = [
    "layout-assignment",
    "transpose-fold",
    "loop-hoist",
    "loop-accumulate",
    "loop-defer",
    "loop-pack",
    "dot-strength-reduction",
    "tree-reductions",
];

/// Passes on thunks, and what has to be on for them. `assignment` is always on: the listing shows which
/// copies are left, and which values share memory.
const ON_THUNKS: [(&str, &[&str]); 23] = [
    ("assignment", &["fusion"]),
    ("column-folds", &["fusion", "vector-bytecode"]),
    ("fusion", &[]),
    ("joined-inputs", &["fusion"]),
    ("loop-merging", &["fusion", "vector-bytecode"]),
    ("loop-pack", &["fusion", "state-in-place"]),
    ("machine-code", &["fusion", "scalar-bytecode"]),
    ("pack-constants", &["fusion"]),
    ("product-epilogues", &["fusion"]),
    ("reduced-outward", &["fusion", "transposed-inputs"]),
    ("result-order", &["fusion"]),
    ("row-loops", &["fusion", "vector-bytecode"]),
    ("row-tiling", &["fusion"]),
    ("scalar-bytecode", &["fusion"]),
    ("select-reducers", &["fusion"]),
    ("shared-loops", &["fusion"]),
    ("state-in-place", &["fusion"]),
    ("state-parts", &["fusion"]),
    ("transposed-inputs", &["fusion"]),
    ("update-in-place", &["fusion"]),
    ("update-order", &["fusion", "update-in-place"]),
    (
        "updated-parts",
        &["fusion", "update-in-place", "update-order"],
    ),
    ("vector-bytecode", &["fusion"]),
];

fn parse(text: &str, of: &str) -> HloModule {
    let module = hlorun::text::parse(text.as_bytes().into(), &Default::default())
        .unwrap_or_else(|error| panic!("{of}: {error}\n{text}"));
    hlorun::verify::verify(&module).unwrap_or_else(|error| panic!("{of}: {error}\n{text}"));
    module
}

fn print(module: &HloModule) -> String {
    let mut options = PrintOptions::short_parsable();
    options.print_large_constants = true;
    print_module(module, &options)
}

/// Options with every optional pass off but these.
fn only(on: &[&str]) -> CompileOptions {
    CompileOptions {
        disable: PASSES
            .iter()
            .filter(|name| !on.contains(name))
            .map(|name| (*name).to_owned())
            .collect(),
        evaluate: Some(EVALUATE),
        threads: 1,
        check: Check::Plan,
        ..CompileOptions::default()
    }
}

/// The text after `pass`, and after the pass that ran before it.
fn texts(module: &HloModule, pass: &'static str) -> (String, String) {
    let seen: Arc<Mutex<Vec<(&'static str, String)>>> = Arc::default();
    let log = seen.clone();
    let options = CompileOptions {
        inspect: Some(Inspect(Arc::new(move |_, name, module| {
            let module = compact(module);
            hlorun::verify::verify(&module)?;
            let text = print(&module);
            log.lock().unwrap().push((name, text));
            Ok(())
        }))),
        ..only(&[pass])
    };
    let verified = hlorun::verify::verify(module).unwrap_or_else(|error| panic!("{pass}: {error}"));
    if let Err(error) = compile(&verified, &options) {
        assert!(is_refused(&error), "{pass}: {error}");
    }
    let seen = seen.lock().unwrap();
    let at = seen.iter().position(|(name, _)| *name == pass).unwrap();
    let before = match at.checked_sub(1) {
        Some(before) => seen[before].1.clone(),
        None => print(&compact(module)),
    };
    (before, seen[at].1.clone())
}

/// Whether a module is legal, but hlorun does not run it.
fn is_refused(error: &HloError) -> bool {
    matches!(error, HloError::Unsupported(_))
}

/// Every pass, in order.
fn all() -> impl Iterator<Item = &'static Pass> {
    hlo::FLATTEN.iter().chain(hlo::TABLE)
}

/// How inputs are made up.
#[derive(Clone, Copy)]
enum Values {
    /// Small different numbers.
    Plain,
    /// Also zeros of both signs, infinities, NaN, subnormal and extreme numbers.
    Special,
}

/// Value `n` of an element type, in bytes.
fn element(ty: PrimitiveType, n: usize, values: Values) -> Vec<u8> {
    const SPECIAL: [f64; 10] = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-41,
        -1e-310,
        3e38,
        1.0,
        -2.5,
    ];
    let real = match values {
        Values::Plain => n as f64 / 29.0 - 0.5,
        Values::Special => SPECIAL[n % SPECIAL.len()],
    };
    let whole: u64 = match (values, n % 7) {
        (Values::Special, 0) => u64::MAX,
        (Values::Special, 1) => 1 << (ty.bit_width() - 1),
        _ => n as u64,
    };
    match ty {
        PrimitiveType::F32 => (real as f32).to_le_bytes().to_vec(),
        PrimitiveType::F64 => real.to_le_bytes().to_vec(),
        PrimitiveType::F16 => half::f16::from_f64(real).to_le_bytes().to_vec(),
        PrimitiveType::BF16 => half::bf16::from_f64(real).to_le_bytes().to_vec(),
        PrimitiveType::C64 | PrimitiveType::C128 => {
            let parts = [n, n + 3].map(|n| element(ty.component(), n, values));
            parts.concat()
        }
        PrimitiveType::Pred => vec![(n % 2) as u8],
        _ => whole.to_le_bytes()[..ty.size_bytes()].to_vec(),
    }
}

/// Different numbers for every input.
fn inputs(executable: &Executable, values: Values) -> Vec<Vec<u8>> {
    let leaves = executable.inputs().iter().enumerate();
    leaves
        .map(|(k, leaf)| {
            let count = leaf.byte_size() / leaf.element_type.size_bytes();
            (0..count)
                .flat_map(|i| element(leaf.element_type, (i * 37 + k * 11) % 29, values))
                .collect()
        })
        .collect()
}

/// An array that came out.
struct Output {
    ty: PrimitiveType,
    bytes: Vec<u8>,
}

impl Output {
    /// Real components as `f64`; integers as they are.
    fn numbers(&self) -> Vec<f64> {
        let ty = self.ty.component();
        let elements = self.bytes.chunks_exact(ty.size_bytes());
        elements
            .map(|bytes| match ty {
                PrimitiveType::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
                PrimitiveType::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
                PrimitiveType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
                PrimitiveType::BF16 => {
                    half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64()
                }
                _ => bytes
                    .iter()
                    .rev()
                    .fold(0.0, |n, &b| n * 256.0 + f64::from(b)),
            })
            .collect()
    }

    /// What is closer than this is the same.
    fn tolerance(&self) -> f64 {
        match self.ty.component() {
            PrimitiveType::F64 => 1e-12,
            PrimitiveType::F32 => 2e-5,
            PrimitiveType::F16 | PrimitiveType::BF16 => 2e-2,
            _ => 0.0,
        }
    }
}

/// What a module computes from [`inputs`], compiled without optional passes.
fn run(module: &HloModule, values: Values) -> hlorun::Result<Vec<Output>> {
    let executable = compile(&hlorun::verify::verify(module)?, &only(&[]))?;
    call(&executable, values)
}

/// What a plan computes from [`inputs`].
fn call(executable: &Executable, values: Values) -> hlorun::Result<Vec<Output>> {
    let inputs = inputs(executable, values);
    let inputs: Vec<&[u8]> = inputs.iter().map(|bytes| &bytes[..]).collect();
    let outputs = executable.call(&inputs, &Default::default())?;
    let leaves = executable.outputs().iter().zip(outputs);
    Ok(leaves
        .map(|(leaf, bytes)| Output {
            ty: leaf.element_type,
            bytes: bytes.as_slice().to_vec(),
        })
        .collect())
}

fn assert_same(a: &[Output], b: &[Output], of: &str) {
    assert_eq!(a.len(), b.len(), "{of}");
    for (k, (x, y)) in a.iter().zip(b).enumerate() {
        if x.bytes == y.bytes {
            continue;
        }
        let (p, q) = (x.numbers(), y.numbers());
        let finite = q.iter().filter(|v| v.is_finite());
        let scale = finite.fold(1.0f64, |m, v| m.max(v.abs())) * y.tolerance();
        for (i, (p, q)) in p.iter().zip(&q).enumerate() {
            let is_close = p == q || (p.is_nan() && q.is_nan()) || (p - q).abs() <= scale;
            assert!(is_close, "{of}: output {k}[{i}]: {p} and {q}");
        }
    }
}

/// The same bits, but for those of a NaN.
fn assert_same_bits(a: &[Output], b: &[Output], of: &str) {
    assert_eq!(a.len(), b.len(), "{of}");
    for (k, (x, y)) in a.iter().zip(b).enumerate() {
        let size = x.ty.component().size_bytes();
        let (p, q) = (x.bytes.chunks(size), y.bytes.chunks(size));
        let numbers = x.numbers().into_iter().zip(y.numbers());
        for (i, ((p, q), (v, w))) in p.zip(q).zip(numbers).enumerate() {
            let is_same = p == q || (v.is_nan() && w.is_nan());
            assert!(is_same, "{of}: output {k}[{i}]: {v} and {w}");
        }
    }
}

fn check(path: &Path, pass: &'static str, stale: &mut Vec<String>) {
    let of = path.display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let (before, expected) = text.split_once(AFTER).unwrap_or((&text, ""));
    let module = parse(before, &of);
    let (unchanged, after) = texts(&module, pass);
    let after = match after == unchanged {
        true => "unchanged\n".to_owned(),
        false => format!("{}\n", after.trim_end()),
    };
    expect(path, before, expected, &after, stale);
    if after != "unchanged\n" {
        let after = parse(&after, &of);
        for values in [Values::Plain, Values::Special] {
            let (got, wanted) = match (run(&after, values), run(&module, values)) {
                (Ok(got), Ok(wanted)) => (got, wanted),
                // Legal, but nothing here runs it.
                (Err(a), Err(b)) if is_refused(&a) && is_refused(&b) => continue,
                (got, wanted) => panic!("{of}: {:?} {:?}", got.err(), wanted.err()),
            };
            compare(pass, values, [&got, &wanted], &of);
        }
    }
}

/// Compares the second part of a file, or writes it.
fn expect(path: &Path, before: &str, expected: &str, after: &str, stale: &mut Vec<String>) {
    if after == expected {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{before}{AFTER}{after}")).unwrap();
    } else {
        stale.push(format!("{}:\n{after}", path.display()));
    }
}

/// As [`check`], for a pass on thunks.
fn check_thunks(path: &Path, pass: &str, needed: &[&str], stale: &mut Vec<String>) {
    let of = path.display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let (before, expected) = text.split_once(AFTER).unwrap_or((&text, ""));
    let module = parse(before, &of);
    let verified = hlorun::verify::verify(&module).unwrap_or_else(|error| panic!("{of}: {error}"));
    let plan = |on: &[&str]| {
        let options = CompileOptions {
            machine_code: MachineCode::AtOnce,
            ..only(on)
        };
        compile(&verified, &options).unwrap_or_else(|error| panic!("{of}: {error}"))
    };
    let (without, with) = (plan(needed), plan(&[needed, &[pass]].concat()));
    let (old, new) = (listing(&without), listing(&with));
    let after = match (old == new, PASSES.contains(&pass)) {
        (true, false) => new,
        (true, true) => "unchanged\n".to_owned(),
        (false, _) => format!("{old}// ----- with {pass}\n{new}"),
    };
    // Some CPUs have none.
    let has_vectors = is_supported(Op::Binary(BinaryOp::Add), DType::F32, DType::F32);
    let needs_vectors = pass == vector_bytecode::NAME || needed.contains(&vector_bytecode::NAME);
    if !needs_vectors || has_vectors {
        expect(path, before, expected, &after, stale);
    }
    for values in [Values::Plain, Values::Special] {
        let [got, wanted] = [&with, &without]
            .map(|plan| call(plan, values).unwrap_or_else(|error| panic!("{of}: {error}")));
        compare(pass, values, [&got, &wanted], &of);
    }
}

/// That what a pass made gives what was wanted.
fn compare(pass: &str, values: Values, [got, wanted]: [&[Output]; 2], of: &str) {
    match (REORDERS.contains(&pass), values) {
        (false, _) => assert_same_bits(got, wanted, of),
        (true, Values::Plain) => assert_same(got, wanted, of),
        // Infinities and sums in another order do not compare.
        (true, Values::Special) => {}
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    all.sort();
    all
}

#[test]
fn passes_do_what_their_texts_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/passes");
    let (mut stale, mut broken) = (Vec::new(), Vec::new());
    for folder in sorted(&root) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let rewrite = all().find(|pass| pass.name == name);
        let on_thunks = ON_THUNKS.iter().find(|(pass, _)| *pass == name);
        for path in sorted(&folder) {
            let of = path.display().to_string();
            each(&mut broken, of, || match (rewrite, on_thunks) {
                (Some(pass), _) => check(&path, pass.name, &mut stale),
                (_, Some((pass, needed))) => check_thunks(&path, pass, needed, &mut stale),
                _ => panic!("no pass is called {name}"),
            });
        }
    }
    assert!(broken.is_empty(), "{} broken: {broken:#?}", broken.len());
    assert!(
        stale.is_empty(),
        "BLESS=1 writes these:\n{}",
        stale.join("\n")
    );
}

/// Goes on with the next file where one fails.
fn each(broken: &mut Vec<String>, of: String, test: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_err() {
        broken.push(of);
    }
}

/// The module after every pass that changed it, with the pass's name.
fn stages(module: &HloModule) -> Vec<(&'static str, HloModule)> {
    let seen: Arc<Mutex<Vec<(&'static str, HloModule)>>> = Arc::default();
    let log = seen.clone();
    let options = CompileOptions {
        inspect: Some(Inspect(Arc::new(move |_, name, module| {
            log.lock().unwrap().push((name, compact(module)));
            Ok(())
        }))),
        disable: Vec::new(),
        ..only(&[])
    };
    let verified = hlorun::verify::verify(module).unwrap_or_else(|error| panic!("{error}"));
    if let Err(error) = compile(&verified, &options) {
        assert!(is_refused(&error), "{error}");
    }
    std::mem::take(&mut *seen.lock().unwrap())
}

/// Follows a module through all passes.
fn follow(module: &HloModule, of: &str, is_run: bool) {
    let wanted = is_run.then(|| run(module, Values::Plain).ok()).flatten();
    let mut last = String::new();
    for (pass, module) in stages(module) {
        let of = format!("{of} after {pass}");
        let text = print(&module);
        if text == last {
            continue;
        }
        let again = parse(&text, &of);
        assert_eq!(print(&again), text, "{of}");
        if let Some(wanted) = &wanted {
            let got = run(&again, Values::Plain).unwrap_or_else(|error| panic!("{of}: {error}"));
            assert_same(&got, wanted, &of);
        }
        last = text;
    }
}

#[test]
fn modules_stay_legal_after_every_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files = sorted(&root.join("hlo/execute"));
    for folder in sorted(&root.join("hlo/passes")) {
        if all().any(|pass| folder.ends_with(pass.name)) {
            files.extend(sorted(&folder));
        }
    }
    let mut broken = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, _) = text.split_once(AFTER).unwrap_or((&text, ""));
        let of = path.display().to_string();
        each(&mut broken, of.clone(), || {
            follow(&parse(before, &of), &of, true);
        });
    }
    assert!(broken.is_empty(), "{} broken: {broken:#?}", broken.len());
}

#[test]
fn dumps_stay_legal_after_every_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dumps");
    for path in sorted(&root) {
        let Ok(module) = hlorun::text::load(&path, &Default::default()) else {
            // A buffer assignment.
            continue;
        };
        // The largest takes too long to be run after each pass.
        let is_run = module.instruction_count() < 1000;
        follow(&module, &path.display().to_string(), is_run);
    }
}

#[test]
fn passes_stand_behind_what_they_need() {
    for (at, pass) in hlo::TABLE.iter().enumerate() {
        for needed in pass.needs {
            let before = &hlo::TABLE[..at];
            assert!(before.iter().any(|p| p.name == *needed), "{}", pass.name);
        }
    }
}

#[test]
fn a_limit_stops_optional_passes() {
    let module = parse(
        "HloModule m\n\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n",
        "limit",
    );
    let ran = |limit| {
        let options = CompileOptions {
            pass_limit: limit,
            ..CompileOptions::default()
        };
        let verified = hlorun::verify::verify(&module).unwrap();
        let executable = compile(&verified, &options).unwrap();
        let optional = |name: &str| PASSES.contains(&name);
        let ran = executable.passes().iter();
        ran.filter(|pass| optional(pass.name)).count()
    };
    assert_eq!(ran(Some(0)), 0);
    assert_eq!(ran(Some(3)), 3);
    assert!(ran(None) > hlo::PASSES.len());
}

#[test]
fn a_pass_that_breaks_the_module_is_named() {
    let text = "HloModule m\n\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n";
    let breaks = Pass {
        name: "breaks",
        needs: &[],
        is_optional: false,
        run: |module, _| {
            if let Some(entry) = module.entry {
                module.computation_mut(entry).root = None;
            }
            Ok(1)
        },
    };
    for (check, is_named) in [
        (Check::Off, false),
        (Check::Plan, true),
        (Check::Shadow, true),
    ] {
        let options = CompileOptions {
            check,
            ..CompileOptions::default()
        };
        let mut context = PassContext {
            options: &options,
            dynamic_sizes: Vec::new(),
            calls: Vec::new(),
        };
        let mut module = parse(text, "breaks");
        let result =
            Pipeline::new(&options).run(&mut module, std::slice::from_ref(&breaks), &mut context);
        let message = result.err().map(|error| error.to_string());
        let names = message.is_some_and(|message| message.contains("after `breaks`"));
        assert_eq!(names, is_named, "{check:?}");
    }
}
