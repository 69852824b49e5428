//! Every elementwise operation on the edges of every type.

use super::*;

/// Elements at the edges of a type.
pub fn edges(name: &str) -> Vec<Vec<u8>> {
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

/// Compares `lines` on all pairs of edges of a type: one by one, and several at a time, of which fifteen are blocks of
/// machine code and single elements behind them.
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
    while n % 15 != 0 {
        for column in &mut columns {
            let element = column[..ty(from).size_bytes()].to_vec();
            column.extend(element);
        }
        n += 1;
    }
    let empty = vec![0; n * ty(to).size_bytes()];
    for lanes in [1, 3, 15] {
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

/// Truth values from before a branch are selected by in both of its computations, and after them.
#[test]
fn truth_values_across_branches() {
    let source = "HloModule branches
first {
  q = (pred[12], f32[12], f32[12]) parameter(0)
  c = pred[12] get-tuple-element(q), index=0
  x = f32[12] get-tuple-element(q), index=1
  y = f32[12] get-tuple-element(q), index=2
  ROOT s = f32[12] select(c, x, y)
}
second {
  q = (pred[12], f32[12], f32[12]) parameter(0)
  c = pred[12] get-tuple-element(q), index=0
  x = f32[12] get-tuple-element(q), index=1
  y = f32[12] get-tuple-element(q), index=2
  w = f32[12] select(c, y, x)
  ROOT s = f32[12] add(w, x)
}
condition {
  p = (s32[], f32[12], f32[12], pred[12], f32[12]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[12], f32[12], pred[12], f32[12]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[12] get-tuple-element(p), index=1
  y = f32[12] get-tuple-element(p), index=2
  c = pred[12] get-tuple-element(p), index=3
  z = f32[12] get-tuple-element(p), index=4
  one = s32[] constant(1)
  next = s32[] add(i, one)
  which = s32[] and(i, one)
  q = (pred[12], f32[12], f32[12]) tuple(c, x, y)
  b = f32[12] conditional(which, q, q), branch_computations={first, second}
  m = f32[12] select(c, b, z)
  less = pred[12] compare(m, y), direction=LT
  other = pred[12] xor(c, less)
  ROOT t = (s32[], f32[12], f32[12], pred[12], f32[12]) tuple(next, m, x, other, y)
}
ENTRY main {
  x = f32[12] parameter(0)
  y = f32[12] parameter(1)
  c = pred[12] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[12], f32[12], pred[12], f32[12]) tuple(zero, x, y, c, y)
  w = (s32[], f32[12], f32[12], pred[12], f32[12]) while(t), condition=condition, body=body
  ROOT r = f32[12] get-tuple-element(w), index=1
}
";
    let numbers = |by: f32| -> Vec<u8> {
        (0..12)
            .flat_map(|at| (at as f32 * by - 3.0).to_ne_bytes())
            .collect()
    };
    // Any byte but zero is true.
    let truths = [0u8, 1, 2, 255, 0, 1, 0, 4, 1, 0, 0, 1];
    compare(
        source,
        &[&numbers(0.5), &numbers(0.75), &truths],
        "branches",
    );
}
