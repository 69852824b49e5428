//! Machine code gives the bits of the interpreter: for every operation and element type on edge
//! values, for random programs, for every file of `tests/hlo/execute`, and where a run ends early.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hlorun::exec::RunOptions;
use hlorun::plan::thunk::{Thunk, ThunkKind};
use hlorun::plan::{CompileOptions, Executable, MachineCode, PASSES, compile};
use hlorun::text::{self, ParseOptions};
use hlorun::types::PrimitiveType;
use hlorun::verify::verify;

#[path = "machine_code/operations.rs"]
mod operations;
#[path = "machine_code/random.rs"]
mod random;
#[path = "machine_code/reductions.rs"]
mod reductions;

/// Only the passes that loops over few elements need, so that loops stay as they are written.
fn plain(machine_code: MachineCode) -> CompileOptions {
    let kept = ["scalar-bytecode", "machine-code", "fusion"];
    CompileOptions {
        threads: 1,
        machine_code,
        disable: PASSES
            .iter()
            .filter(|name| !kept.contains(name))
            .map(|&name| name.to_owned())
            .collect(),
        ..CompileOptions::default()
    }
}

fn planned(source: &str, options: &CompileOptions) -> Executable {
    let module = text::parse(source.as_bytes().into(), &ParseOptions::default());
    let module = module.unwrap_or_else(|error| panic!("{error}\n{source}"));
    let verified = verify(&module).unwrap_or_else(|error| panic!("{error}\n{source}"));
    compile(&verified, options).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

fn results(executable: &Executable, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let results = executable.call(inputs, &RunOptions::default()).unwrap();
    results.iter().map(|r| r.as_slice().to_vec()).collect()
}

/// Loops that became machine code, and loops that could have.
fn made(thunks: &[Thunk]) -> (usize, usize) {
    let mut counts = (0, 0);
    for thunk in thunks {
        if let ThunkKind::While(repeated) = &thunk.kind
            && let Some(flat) = &repeated.bytecode
        {
            counts.0 += usize::from(flat.compiled.is_made());
            counts.1 += 1;
        }
        for inner in thunk.nested() {
            let inner = made(inner);
            counts = (counts.0 + inner.0, counts.1 + inner.1);
        }
    }
    counts
}

/// As numbers compare: a NaN is like another one.
fn same(ty: PrimitiveType, a: &[u8], b: &[u8]) -> bool {
    let part = ty.component();
    let is_nan = |x: &[u8]| match part {
        PrimitiveType::F16 => half::f16::from_ne_bytes([x[0], x[1]]).is_nan(),
        PrimitiveType::BF16 => half::bf16::from_ne_bytes([x[0], x[1]]).is_nan(),
        PrimitiveType::F32 => f32::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        PrimitiveType::F64 => f64::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        _ => false,
    };
    let size = part.size_bytes();
    a.len() == b.len()
        && a.chunks_exact(size)
            .zip(b.chunks_exact(size))
            .all(|(a, b)| a == b || (is_nan(a) && is_nan(b)))
}

/// Runs a module as machine code, as scalar code and as thunks; every loop has to become machine code.
fn compare(source: &str, inputs: &[&[u8]], what: &str) {
    let mut options = plain(MachineCode::Never);
    options.disable.push("scalar-bytecode".to_owned());
    let thunks = results(&planned(source, &options), inputs);
    let interpreted = planned(source, &plain(MachineCode::Never));
    let compiled = planned(source, &plain(MachineCode::AtOnce));
    let want = results(&interpreted, inputs);
    let got = results(&compiled, inputs);
    let (made, loops) = made(compiled.thunks());
    assert!(
        made == loops && loops > 0,
        "{what}: {made} of {loops} loops\n{source}"
    );
    for ((want, thunks), leaf) in want.iter().zip(&thunks).zip(compiled.outputs()) {
        assert!(
            same(leaf.element_type, want, thunks),
            "{what}: scalar code and thunks\n{source}"
        );
    }
    for ((got, want), leaf) in got.iter().zip(&want).zip(compiled.outputs()) {
        if same(leaf.element_type, got, want) {
            continue;
        }
        let size = leaf.element_type.size_bytes();
        let pairs = got.chunks_exact(size).zip(want.chunks_exact(size));
        let wrong = pairs
            .enumerate()
            .find(|(_, (a, b))| !same(leaf.element_type, a, b));
        panic!("{what}: {wrong:?}\n{source}");
    }
}

const INTEGERS: [&str; 8] = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"];
const OTHERS: [&str; 9] = [
    "pred", "f32", "f64", "bf16", "f16", "c64", "c128", "s4", "f8e5m2",
];

fn ty(name: &str) -> PrimitiveType {
    PrimitiveType::from_name(name.as_bytes()).unwrap()
}

/// Every file of `tests/hlo/execute`, whose own test compares the interpreter with XLA.
#[test]
fn files_give_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/execute");
    for entry in std::fs::read_dir(folder).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let options = |machine_code| CompileOptions {
            threads: 2,
            machine_code,
            ..CompileOptions::default()
        };
        if source.contains("custom-call") {
            continue;
        }
        let executables = [MachineCode::Never, MachineCode::AtOnce]
            .map(|machine_code| planned(&source, &options(machine_code)));
        let inputs: Vec<Vec<u8>> = executables[0]
            .inputs()
            .iter()
            .map(|leaf| (0..leaf.byte_size()).map(|at| (at % 5) as u8).collect())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let [want, got] = executables.map(|executable| results(&executable, &inputs));
        assert!(want == got, "{source}");
    }
}

/// Counts up; `s` grows by what it is and the trip.
const COUNT: &str = "HloModule count
condition {
  p = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=2
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = s32[] get-tuple-element(p), index=1
  n = s32[] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  k = s32[] constant(1664525)
  x = s32[] multiply(s, k)
  y = s32[] add(x, i)
  ROOT t = (s32[], s32[], s32[]) tuple(next, y, n)
}
ENTRY main {
  n = s32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[], s32[]) tuple(zero, zero, n)
  w = (s32[], s32[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}
";

#[test]
fn busy_loops_become_machine_code_in_the_middle() {
    let busy = planned(COUNT, &plain(MachineCode::WhenBusy));
    let interpreted = planned(COUNT, &plain(MachineCode::Never));
    let short = 3i32.to_ne_bytes();
    assert_eq!(results(&busy, &[&short]), results(&interpreted, &[&short]));
    assert_eq!(made(busy.thunks()).0, 0, "not worth it yet");
    let long = 300_000i32.to_ne_bytes();
    assert_eq!(results(&busy, &[&long]), results(&interpreted, &[&long]));
    assert!(made(busy.thunks()).0 > 0, "busy enough");
    for n in [0i32, 1, 2, 1000] {
        let n = n.to_ne_bytes();
        assert_eq!(results(&busy, &[&n]), results(&interpreted, &[&n]));
    }
}

#[test]
fn machine_code_can_be_interrupted() {
    let executable = planned(COUNT, &plain(MachineCode::AtOnce));
    let looks = AtomicUsize::new(0);
    let interrupted = || looks.fetch_add(1, Ordering::Relaxed) > 20;
    let options = RunOptions {
        interrupted: &interrupted,
        ..RunOptions::default()
    };
    let endless = i32::MAX.to_ne_bytes();
    let Err(error) = executable.call(&[&endless], &options) else {
        panic!("nobody ended the run");
    };
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_eq!(made(executable.thunks()), (1, 1));
}

#[test]
fn it_can_be_switched_off() {
    let mut options = plain(MachineCode::AtOnce);
    options.disable.push("machine-code".to_owned());
    let executable = planned(COUNT, &options);
    results(&executable, &[&100_000i32.to_ne_bytes()]);
    assert_eq!(made(executable.thunks()), (0, 1));
}

#[test]
fn threads_share_it() {
    let busy = planned(COUNT, &plain(MachineCode::WhenBusy));
    let interpreted = planned(COUNT, &plain(MachineCode::Never));
    let n = 200_000i32.to_ne_bytes();
    let want = results(&interpreted, &[&n]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert_eq!(results(&busy, &[&n]), want);
                }
            });
        }
    });
    assert_eq!(made(busy.thunks()).0, 1);
}

/// A loop of so many additions of `n` elements, as often as its argument says.
fn additions(steps: usize, n: usize) -> String {
    let mut source = format!(
        "HloModule m\n\
         cond {{ p = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(p), index=0  z = s32[] constant(0)  \
         ROOT c = pred[] compare(i, z), direction=GT }}\n\
         body {{ p = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(p), index=0  o = s32[] constant(1)  \
         j = s32[] subtract(i, o)  x0 = f32[{n}] get-tuple-element(p), index=1\n"
    );
    for step in 0..steps {
        let _ = writeln!(source, "x{} = f32[{n}] add(x{step}, x0)", step + 1);
    }
    let _ = write!(
        source,
        "ROOT t = (s32[], f32[{n}]) tuple(j, x{steps}) }}\n\
         ENTRY e {{ i = s32[] parameter(0)  x = f32[{n}] parameter(1)  t = (s32[], f32[{n}]) tuple(i, x)  \
         w = (s32[], f32[{n}]) while(t), condition=cond, body=body  ROOT r = f32[{n}] get-tuple-element(w), index=1 }}"
    );
    source
}

/// A run over more elements is more work, so that to count operations alone would make code after a fraction of the runs.
#[test]
fn code_of_more_pieces_waits_for_more_work() {
    let runs_before = |n: usize| {
        let executable = planned(&additions(40, n), &plain(MachineCode::WhenBusy));
        let (trips, x) = (5i32.to_ne_bytes(), vec![0; 4 * n]);
        let is_made = || {
            results(&executable, &[&trips, &x]);
            let (made, loops) = made(executable.thunks());
            assert_eq!(loops, 1);
            made == 1
        };
        std::iter::repeat_with(is_made)
            .take_while(|&is_made| !is_made)
            .take(5000)
            .count()
    };
    let (few, many) = (runs_before(4), runs_before(64));
    assert!((10..5000).contains(&few), "{few}");
    assert!((few / 2..5000).contains(&many), "{few}, {many}");
}

/// A long run goes on with code for where it is; short ones leave it to the next one to make code for all.
#[test]
fn long_runs_go_on_with_code() {
    for (trips, is_made_at_once) in [(200_000i32, true), (50, false)] {
        let executable = planned(&additions(40, 4), &plain(MachineCode::WhenBusy));
        results(&executable, &[&trips.to_ne_bytes(), &[0; 16]]);
        assert_eq!(made(executable.thunks()), (usize::from(is_made_at_once), 1));
    }
}

/// An entry of small steps, with a loop, a branch, a loop in a branch and a reduction of many elements among them.
const ENTRY: &str = "HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less { x = f32[8] parameter(0)  ROOT s = f32[8] negate(x) }
goes_on { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
trip { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  x = f32[8] get-tuple-element(s), index=1  y = f32[8] sine(x)
  ROOT t = (s32[], f32[8]) tuple(j, y) }
twice { x = f32[8] parameter(0)  y = f32[8] add(x, x)  zero = s32[] constant(0)  s = (s32[], f32[8]) tuple(zero, y)
  w = (s32[], f32[8]) while(s), condition=goes_on, body=trip  ROOT z = f32[8] get-tuple-element(w), index=1 }
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[] parameter(1)
  a = f32[] exponential(q)
  b = f32[] multiply(a, q)
  c = f32[] add(b, a)
  d = f32[8] broadcast(c), dimensions={}
  f = f32[8] add(p, d)
  g = f32[8] tanh(f)
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, g)
  ended = (s32[], f32[8]) while(start), condition=goes_on, body=trip
  h = f32[8] get-tuple-element(ended), index=1
  many = f32[5000] broadcast(c), dimensions={}
  none = f32[] constant(0)
  all = f32[] reduce(many, none), dimensions={0}, to_apply=sum
  is_more = pred[] compare(q, none), direction=GT
  k = f32[8] conditional(is_more, h, h), true_computation=twice, false_computation=less
  l = f32[8] broadcast(all), dimensions={}
  m = f32[8] divide(k, l)
  ROOT r = (f32[8], f32[8], f32[]) tuple(m, k, c)
}";

/// Without fusion, so that each operation is a step, and without the pass of this name.
fn entry(machine_code: MachineCode, off: &str) -> Executable {
    let mut options = plain(machine_code);
    options.disable.extend(["fusion", off].map(str::to_owned));
    planned(ENTRY, &options)
}

#[test]
fn steps_of_an_entry_become_code() {
    let steps = entry(MachineCode::Never, "scalar-bytecode");
    assert!(steps.bytecode().is_none());
    let interpreted = entry(MachineCode::Never, "machine-code");
    let compiled = entry(MachineCode::AtOnce, "fusion");
    // All arrays stay, so that those of later runs lie elsewhere.
    let mut arrays = Vec::new();
    for (round, q) in [0.25f32, -1.5, f32::NAN, 0.0, 2.0, -0.25]
        .into_iter()
        .enumerate()
    {
        let p: Vec<u8> = (0..8)
            .flat_map(|i| ((i + round) as f32 - 3.5).to_ne_bytes())
            .collect();
        let q = q.to_ne_bytes().to_vec();
        let want = results(&steps, &[&p, &q]);
        for executable in [&interpreted, &compiled] {
            let got = results(executable, &[&p, &q]);
            for ((got, want), leaf) in got.iter().zip(&want).zip(executable.outputs()) {
                assert!(same(leaf.element_type, got, want), "{q:?}");
            }
            arrays.push(got);
        }
        arrays.push(vec![p, q]);
    }
    let code = interpreted.bytecode().unwrap();
    assert_eq!(code.outside.len(), 3, "two loops and the long reduction");
    assert!(compiled.bytecode().unwrap().compiled.is_made());
}

#[test]
fn threads_share_the_code_of_an_entry() {
    let executable = entry(MachineCode::Never, "machine-code");
    let p = [0; 32];
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (executable, p) = (&executable, &p);
            scope.spawn(move || {
                let q = f32::from(thread).to_ne_bytes();
                let first = results(executable, &[p, &q]);
                for _ in 0..200 {
                    assert_eq!(results(executable, &[p, &q]), first);
                }
            });
        }
    });
}

/// Runs of an entry add up.
#[test]
fn entries_become_machine_code_when_it_pays() {
    let executable = entry(MachineCode::WhenBusy, "fusion");
    let code = executable.bytecode().unwrap();
    let p = [0; 32];
    let run = || results(&executable, &[&p, &1f32.to_ne_bytes()]);
    let first = run();
    assert!(!code.compiled.is_made());
    for _ in 0..100_000 {
        if code.compiled.is_made() {
            assert_eq!(run(), first);
            return;
        }
        assert_eq!(run(), first);
    }
    panic!("never made");
}
