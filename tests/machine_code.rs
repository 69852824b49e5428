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

/// Elements at the edges of a type.
fn edges(name: &str) -> Vec<Vec<u8>> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.5,
        0.499_999_97,
        2.5,
        3e9,
        -3e9,
        1e-40,
        300.7,
        -129.2,
        65535.6,
        1e19,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
    ];
    let size = ty(name).size_bytes();
    match name {
        "pred" => vec![vec![0], vec![1]],
        "f64" => floats.iter().map(|x| x.to_ne_bytes().to_vec()).collect(),
        "f32" => floats
            .iter()
            .map(|&x| (x as f32).to_ne_bytes().to_vec())
            .collect(),
        "bf16" => {
            let bits = |x: &f64| half::bf16::from_f64(*x).to_ne_bytes().to_vec();
            floats.iter().map(bits).collect()
        }
        "f16" => {
            let bits = |x: &f64| half::f16::from_f64(*x).to_ne_bytes().to_vec();
            floats.iter().map(bits).collect()
        }
        "c64" | "c128" => {
            let part = edges(if name == "c64" { "f32" } else { "f64" });
            let pairs = part.iter().zip(part.iter().rev().skip(3));
            pairs.map(|(re, im)| [&re[..], &im[..]].concat()).collect()
        }
        "s4" => (-8i8..8).map(|x| vec![x as u8]).collect(),
        "f8e5m2" => (0u8..=255).step_by(9).map(|x| vec![x]).collect(),
        _ => {
            let width = 8 * size as u32;
            let top = 1u64 << (width - 1);
            [
                0,
                1,
                2,
                3,
                7,
                u64::from(width) - 1,
                u64::from(width),
                u64::from(width) + 1,
                top,
                top - 1,
                top + 1,
                u64::MAX,
                u64::MAX - 1,
                u64::MAX - 8,
                100,
            ]
            .iter()
            .map(|x| x.to_ne_bytes()[..size].to_vec())
            .collect()
        }
    }
}

/// A loop that takes `x`, `y` and `z` from arrays of `n` elements and puts `r`, of type `to`, which
/// `lines` compute, into another; `lanes` of them at a time.
fn elementwise(from: &str, to: &str, n: usize, lanes: usize, lines: &str) -> String {
    let (trips, vector) = (n / lanes, format!("[{lanes}]"));
    let mut body = String::new();
    for name in ["x", "y", "z"] {
        let _ = writeln!(
            body,
            "  all{name} = {from}[{trips},{lanes}] get-tuple-element(p), index={}
  row{name} = {from}[1,{lanes}] dynamic-slice(all{name}, i, zero), dynamic_slice_sizes={{1,{lanes}}}
  {name} = {from}{vector} reshape(row{name})",
            ["x", "y", "z"].iter().position(|&n| n == name).unwrap() + 1
        );
    }
    let lines = lines.replace("$from", &format!("{from}{vector}"));
    let lines = lines.replace("$to", &format!("{to}{vector}"));
    let lines = lines.replace("$pred", &format!("pred{vector}"));
    let array = |ty: &str| format!("{ty}[{trips},{lanes}]");
    let (a, o) = (array(from), array(to));
    let state = format!("(s32[], {a}, {a}, {a}, {o})");
    format!(
        "HloModule elementwise
condition {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}{lines}
  row = {to}[1,{lanes}] reshape(r)
  out = {o} get-tuple-element(p), index=4
  new = {o} dynamic-update-slice(out, row, i, zero)
  ROOT t = {state} tuple(next, allx, ally, allz, new)
}}
ENTRY main {{
  x = {a} parameter(0)
  y = {a} parameter(1)
  z = {a} parameter(2)
  o = {o} parameter(3)
  zero = s32[] constant(0)
  t = {state} tuple(zero, x, y, z, o)
  w = {state} while(t), condition=condition, body=body
  ROOT r = {o} get-tuple-element(w), index=4
}}
"
    )
}

/// Compares `lines` on all pairs of edges of a type, one by one and several at a time.
fn on_edges(from: &str, to: &str, lines: &str) {
    let edges = edges(from);
    let mut columns = [Vec::new(), Vec::new(), Vec::new()];
    let mut n = 0;
    for (i, x) in edges.iter().enumerate() {
        for (j, y) in edges.iter().enumerate() {
            columns[0].extend_from_slice(x);
            columns[1].extend_from_slice(y);
            columns[2].extend_from_slice(&edges[(i * 7 + j * 3) % edges.len()]);
            n += 1;
        }
    }
    while n % 12 != 0 {
        for column in &mut columns {
            let element = column[..ty(from).size_bytes()].to_vec();
            column.extend(element);
        }
        n += 1;
    }
    let empty = vec![0; n * ty(to).size_bytes()];
    for lanes in [1, 3, 12] {
        let source = elementwise(from, to, n, lanes, lines);
        let what = format!("{from} to {to}, {lanes} at a time: {lines}");
        compare(
            &source,
            &[&columns[0], &columns[1], &columns[2], &empty],
            &what,
        );
    }
}

fn is_float(name: &str) -> bool {
    ty(name).is_floating()
}

#[test]
fn unary_operations() {
    let floats = "abs negate sign floor ceil round-nearest-afz round-nearest-even exponential \
                  exponential-minus-one log log-plus-one logistic sqrt rsqrt cbrt sine cosine tan tanh erf";
    for name in INTEGERS.iter().chain(&OTHERS) {
        let ops = match *name {
            "pred" => "not",
            "c64" | "c128" => "negate exponential sqrt",
            "s4" => "abs negate not",
            name if is_float(name) => floats,
            name if name.starts_with('u') => "not popcnt count-leading-zeros sign abs",
            _ => "abs negate sign not popcnt count-leading-zeros",
        };
        for op in ops.split_whitespace() {
            on_edges(name, name, &format!("  r = $to {op}(x)"));
        }
        if is_float(name) && !name.starts_with('c') {
            on_edges(name, "pred", "  r = $to is-finite(x)");
        }
    }
}

#[test]
fn binary_operations() {
    for name in INTEGERS.iter().chain(&OTHERS) {
        let ops = match *name {
            "pred" => "and or xor maximum minimum",
            "c64" | "c128" => "add subtract multiply divide",
            name if is_float(name) => {
                "add subtract multiply divide maximum minimum remainder power atan2"
            }
            _ => {
                "add subtract multiply divide remainder maximum minimum and or xor power shift-left \
                 shift-right-arithmetic shift-right-logical"
            }
        };
        for op in ops.split_whitespace() {
            on_edges(name, name, &format!("  r = $to {op}(x, y)"));
        }
    }
}

#[test]
fn operations_with_constants() {
    for name in INTEGERS {
        for value in ["0", "1", "2", "3", "8", "64", "100"] {
            for op in "divide remainder multiply shift-left shift-right-arithmetic \
                       shift-right-logical subtract"
                .split_whitespace()
            {
                let constant = format!("  c = {name}[] constant({value})\n");
                let wide = "  k = $from broadcast(c), dimensions={}\n";
                on_edges(name, name, &format!("{constant}{wide}  r = $to {op}(x, k)"));
                on_edges(name, name, &format!("{constant}{wide}  r = $to {op}(k, x)"));
            }
        }
    }
}

#[test]
fn comparisons_selections_and_bounds() {
    for name in INTEGERS.iter().chain(&OTHERS) {
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            if name.starts_with('c') && !matches!(direction, "EQ" | "NE") {
                continue;
            }
            let compare = format!("compare(x, y), direction={direction}");
            on_edges(name, "pred", &format!("  r = $to {compare}"));
            let select = format!("  c = $pred {compare}\n  r = $to select(c, y, z)");
            on_edges(name, name, &select);
        }
        if !name.starts_with('c') {
            on_edges(name, name, "  r = $to clamp(x, y, z)");
        }
    }
}

#[test]
fn conversions() {
    for from in INTEGERS.iter().chain(&OTHERS) {
        for to in INTEGERS.iter().chain(&OTHERS) {
            if from.starts_with('c') && !to.starts_with('c') {
                continue;
            }
            on_edges(from, to, "  r = $to convert(x)");
        }
    }
    for (from, to) in [
        ("f32", "s32"),
        ("u64", "f64"),
        ("bf16", "u16"),
        ("s8", "u8"),
    ] {
        on_edges(from, to, "  r = $to bitcast-convert(x)");
    }
}

#[test]
fn reductions() {
    for (name, op) in [
        ("f32", "add"),
        ("f64", "add"),
        ("f32", "maximum"),
        ("f32", "multiply"),
        ("s32", "add"),
        ("s8", "minimum"),
        ("u64", "or"),
        ("pred", "and"),
        ("bf16", "add"),
    ] {
        for lanes in [1usize, 2, 5, 12, 32, 48] {
            let edges: Vec<Vec<u8>> = edges(name);
            let trips = 40;
            let mut state = 1u64;
            let mut random = || {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 40) as usize
            };
            let array: Vec<u8> = (0..trips * lanes)
                .flat_map(|_| edges[random() % edges.len()].clone())
                .collect();
            let source = format!(
                "HloModule r
combine {{
  a = {name}[] parameter(0)
  b = {name}[] parameter(1)
  ROOT r = {name}[] {op}(a, b)
}}
condition {{
  p = (s32[], {name}[{trips},{lanes}], {name}[{trips}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], {name}[{trips},{lanes}], {name}[{trips}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  all = {name}[{trips},{lanes}] get-tuple-element(p), index=1
  row = {name}[1,{lanes}] dynamic-slice(all, i, zero), dynamic_slice_sizes={{1,{lanes}}}
  line = {name}[{lanes}] reshape(row)
  init = {name}[] constant(1)
  sum = {name}[] reduce(line, init), dimensions={{0}}, to_apply=combine
  one_sum = {name}[1] reshape(sum)
  out = {name}[{trips}] get-tuple-element(p), index=2
  new = {name}[{trips}] dynamic-update-slice(out, one_sum, i)
  ROOT t = (s32[], {name}[{trips},{lanes}], {name}[{trips}]) tuple(next, all, new)
}}
ENTRY main {{
  x = {name}[{trips},{lanes}] parameter(0)
  o = {name}[{trips}] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], {name}[{trips},{lanes}], {name}[{trips}]) tuple(zero, x, o)
  w = (s32[], {name}[{trips},{lanes}], {name}[{trips}]) while(t), condition=condition, body=body
  ROOT r = {name}[{trips}] get-tuple-element(w), index=2
}}
"
            );
            let out = vec![0; trips * ty(name).size_bytes()];
            compare(&source, &[&array, &out], &format!("{op} of {lanes} {name}"));
        }
    }
}

/// A loop of `trips` that replaces `x`, an array of type `a`, by what `lines` compute of it and of `y`,
/// of type `b`, as `r`.
fn repeated(a: &str, b: &str, trips: usize, computations: &str, lines: &str) -> String {
    format!(
        "HloModule repeated
{computations}condition {{
  p = (s32[], {a}, {b}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], {a}, {b}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = {a} get-tuple-element(p), index=1
  y = {b} get-tuple-element(p), index=2
{lines}
  ROOT t = (s32[], {a}, {b}) tuple(next, r, y)
}}
ENTRY main {{
  x = {a} parameter(0)
  y = {b} parameter(1)
  zero = s32[] constant(0)
  t = (s32[], {a}, {b}) tuple(zero, x, y)
  w = (s32[], {a}, {b}) while(t), condition=condition, body=body
  ROOT r = {a} get-tuple-element(w), index=1
}}
"
    )
}

/// Small numbers.
fn numbers(name: &str, n: usize) -> Vec<u8> {
    let value = |at: usize| (at * 37 % 23) as f64 * 0.125 - 1.25;
    let all = (0..n).map(value);
    match name {
        "f32" => all.flat_map(|x| (x as f32).to_ne_bytes()).collect(),
        _ => all.flat_map(f64::to_ne_bytes).collect(),
    }
}

#[test]
fn products() {
    for name in ["f32", "f64"] {
        for (m, k) in [(1, 1), (2, 2), (3, 3), (4, 4), (8, 8), (5, 7), (3, 8)] {
            let (a, b) = (format!("{name}[{m},{k}]"), format!("{name}[{k},{k}]"));
            let (x, y) = (numbers(name, m * k), numbers(name, k * k));
            for side in [0, 1] {
                let lines = format!(
                    "  r = {a} dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{side}}}"
                );
                let source = repeated(&a, &b, 3, "", &lines);
                compare(&source, &[&x, &y], &format!("{m}x{k}x{k} {name}"));
                let added = lines.replace("  r =", "  d =") + &format!("\n  r = {a} add(d, x)");
                let source = repeated(&a, &b, 3, "", &added);
                compare(&source, &[&x, &y], &format!("{m}x{k}x{k} {name} and a sum"));
            }
            let (a, b) = (format!("{name}[3,{m},{k}]"), format!("{name}[3,{k},{k}]"));
            let (x, y) = (numbers(name, 3 * m * k), numbers(name, 3 * k * k));
            let lines = format!(
                "  r = {a} dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
                 lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"
            );
            let source = repeated(&a, &b, 3, "", &lines);
            compare(&source, &[&x, &y], &format!("3 of {m}x{k}x{k} {name}"));
        }
        // A row that an index names.
        let (a, b) = (format!("{name}[4]"), format!("{name}[5,4,4]"));
        let lines = format!(
            "  zero = s32[] constant(0)
  part = {name}[1,4,4] dynamic-slice(y, i, zero, zero), dynamic_slice_sizes={{1,4,4}}
  matrix = {name}[4,4] reshape(part)
  r = {a} dot(matrix, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        );
        let source = repeated(&a, &b, 7, "", &lines);
        compare(
            &source,
            &[&numbers(name, 4), &numbers(name, 80)],
            "a matrix at an index",
        );
    }
}

#[test]
fn reductions_of_rows_columns_and_pairs() {
    let best = "best {
  a = f32[] parameter(0)
  k = s32[] parameter(1)
  b = f32[] parameter(2)
  l = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GE
  x = f32[] select(more, a, b)
  m = s32[] select(more, k, l)
  ROOT t = (f32[], s32[]) tuple(x, m)
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  h = f32[] constant(0.25)
  d = f32[] multiply(c, h)
  e = f32[] add(a, b)
  ROOT r = f32[] subtract(e, d)
}
";
    for (m, n) in [(1, 16), (3, 4), (4, 3), (2, 9), (16, 1), (5, 12), (3, 40)] {
        let (a, b) = (format!("f32[{m},{n}]"), format!("f32[{m},{n}]"));
        for (dimension, size) in [(0, n), (1, m)] {
            let back = format!("dimensions={{{}}}", 1 - dimension);
            let pair = format!("(f32[{size}], s32[{size}])");
            let shifted = "  z = s32[] constant(0)\n  least = f32[] constant(-inf)\n";
            let general = format!(
                "{shifted}  index = s32[{m},{n}] iota(), iota_dimension={dimension}
  found = {pair} reduce(x, index, least, z), dimensions={{{dimension}}}, to_apply=best
  top = f32[{size}] get-tuple-element(found), index=0
  at = s32[{size}] get-tuple-element(found), index=1
  at_f = f32[{size}] convert(at)
  both = f32[{size}] add(top, at_f)
  wide = {a} broadcast(both), {back}
  half = f32[] constant(0.5)
  halves = {a} broadcast(half), dimensions={{}}
  scaled = {a} multiply(wide, halves)
  r = {a} subtract(scaled, y)"
            );
            let source = repeated(&a, &b, 6, best, &general);
            let (x, y) = (numbers("f32", m * n), numbers("f32", m * n));
            compare(
                &source,
                &[&x, &y],
                &format!("best of {m}x{n} along {dimension}"),
            );
            for reducer in ["sum", "odd"] {
                let lines = format!(
                    "  start = f32[] constant(0.5)
  total = f32[{size}] reduce(x, start), dimensions={{{dimension}}}, to_apply={reducer}
  wide = {a} broadcast(total), {back}
  r = {a} add(wide, y)"
                );
                let source = repeated(&a, &b, 4, best, &lines);
                let what = format!("{reducer} of {m}x{n} along {dimension}");
                compare(&source, &[&x, &y], &what);
            }
        }
    }
}

/// Random straight-line bodies over scalars and short vectors, with an inner loop and a branch.
fn random_program(seed: u64) -> (String, Vec<Vec<u8>>) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let lanes = [1, 2, 3, 8, 9, 20, 40][random(7)];
    let (f, s) = (
        ["f32", "f64", "bf16"][random(3)],
        ["s32", "s64", "u8", "u32"][random(4)],
    );
    let (fv, sv) = (format!("{f}[{lanes}]"), format!("{s}[{lanes}]"));
    let types = format!("(s32[], {fv}, {sv}, {f}[], {s}[], {fv})");
    let mut lines = String::new();
    let (mut floats, mut ints) = (vec!["v".to_owned()], vec!["w".to_owned()]);
    for at in 0..4 + random(12) {
        let pick = |all: &[String], which: usize| all[which % all.len()].clone();
        let (a, b) = (pick(&floats, random(9)), pick(&floats, random(9)));
        let (c, d) = (pick(&ints, random(9)), pick(&ints, random(9)));
        match random(8) {
            0 | 1 => {
                let op = ["add", "subtract", "multiply", "divide", "maximum"][random(5)];
                let _ = writeln!(lines, "  f{at} = {fv} {op}({a}, {b})");
                floats.push(format!("f{at}"));
            }
            2 | 3 => {
                let op = [
                    "add",
                    "multiply",
                    "xor",
                    "remainder",
                    "shift-left",
                    "minimum",
                ][random(6)];
                let _ = writeln!(lines, "  w{at} = {sv} {op}({c}, {d})");
                ints.push(format!("w{at}"));
            }
            4 => {
                let _ = writeln!(
                    lines,
                    "  c{at} = pred[{lanes}] compare({a}, {b}), direction=LT\n  \
                     f{at} = {fv} select(c{at}, {b}, {a})"
                );
                floats.push(format!("f{at}"));
            }
            5 => {
                let _ = writeln!(lines, "  f{at} = {fv} convert({c})");
                floats.push(format!("f{at}"));
            }
            6 => {
                let _ = writeln!(
                    lines,
                    "  f{at} = {fv} {}({a})",
                    ["negate", "abs", "tanh"][random(3)]
                );
                floats.push(format!("f{at}"));
            }
            _ => {
                let _ = writeln!(lines, "  f{at} = {fv} reverse({a}), dimensions={{0}}");
                floats.push(format!("f{at}"));
            }
        }
    }
    let (last, int) = (floats.last().unwrap(), ints.last().unwrap());
    let trips = 3 + random(20);
    let source = format!(
        "HloModule random
sum {{
  a = {f}[] parameter(0)
  b = {f}[] parameter(1)
  ROOT r = {f}[] add(a, b)
}}
yes {{
  q = ({f}[], {s}[]) parameter(0)
  a = {f}[] get-tuple-element(q), index=0
  b = {s}[] get-tuple-element(q), index=1
  two = {s}[] constant(2)
  c = {s}[] add(b, two)
  ROOT r = ({f}[], {s}[]) tuple(a, c)
}}
no {{
  q = ({f}[], {s}[]) parameter(0)
  a = {f}[] get-tuple-element(q), index=0
  b = {s}[] get-tuple-element(q), index=1
  half = {f}[] constant(0.5)
  c = {f}[] multiply(a, half)
  ROOT r = ({f}[], {s}[]) tuple(c, b)
}}
inner_condition {{
  p = (s32[], {f}[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({inner})
  ROOT c = pred[] compare(i, n), direction=LT
}}
inner_body {{
  p = (s32[], {f}[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {f}[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  k = {f}[] convert(i)
  y = {f}[] add(x, k)
  ROOT t = (s32[], {f}[]) tuple(next, y)
}}
condition {{
  p = {types} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = {types} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = {fv} get-tuple-element(p), index=1
  w = {sv} get-tuple-element(p), index=2
  x = {f}[] get-tuple-element(p), index=3
  y = {s}[] get-tuple-element(p), index=4
  table = {fv} get-tuple-element(p), index=5
{lines}  zero = {f}[] constant(0)
  total = {f}[] reduce({last}, zero), dimensions={{0}}, to_apply=sum
  start = s32[] constant(0)
  it = (s32[], {f}[]) tuple(start, total)
  iw = (s32[], {f}[]) while(it), condition=inner_condition, body=inner_body
  ix = {f}[] get-tuple-element(iw), index=1
  is_more = pred[] compare(ix, x), direction=GT
  bt = ({f}[], {s}[]) tuple(ix, y)
  br = ({f}[], {s}[]) conditional(is_more, bt, bt), true_computation=yes, false_computation=no
  bx = {f}[] get-tuple-element(br), index=0
  by = {s}[] get-tuple-element(br), index=1
  where = s32[] convert(by)
  one_x = {f}[1] reshape(bx)
  put = {fv} dynamic-update-slice(table, one_x, where)
  ROOT t = {types} tuple(next, {last}, {int}, bx, by, put)
}}
ENTRY main {{
  v = {fv} parameter(0)
  w = {sv} parameter(1)
  x = {f}[] parameter(2)
  y = {s}[] parameter(3)
  z = {fv} parameter(4)
  zero = s32[] constant(0)
  t = {types} tuple(zero, v, w, x, y, z)
  ROOT r = {types} while(t), condition=condition, body=body
}}
",
        inner = random(4)
    );
    let mut elements = |name: &str, n: usize| -> Vec<u8> {
        let edges = edges(name);
        (0..n)
            .flat_map(|_| edges[random(edges.len().min(8))].clone())
            .collect()
    };
    let inputs = vec![
        elements(f, lanes),
        elements(s, lanes),
        elements(f, 1),
        elements(s, 1),
        elements(f, lanes),
    ];
    (source, inputs)
}

#[test]
fn random_programs() {
    for seed in 1..150 {
        let (source, inputs) = random_program(seed);
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        compare(&source, &inputs, &format!("program {seed}"));
    }
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
