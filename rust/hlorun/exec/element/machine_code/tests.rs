//! Machine code of every operation on blocks computes what the interpreter does.

use std::fmt::Write;

use crate::fault_tests::{options, planned, run};
use crate::plan::options::{Check, CompileOptions, MachineCode};

/// Elements of each array: blocks, and single elements behind them.
const LENGTH: usize = 15;

const FLOATS: &str = "1.5, -2.5, 0, -0, inf, -inf, nan, 3e-3, 7, -7.75, 0.5, 1e30, -1, 2, nan";
const OTHER_FLOATS: &str = "1.5, 2, -0, 0, inf, 1, 1, nan, -7, -7.75, 2.5, -1e30, 4, -0, -nan";
const INTEGERS: &str = "0, 1, 2, 3, 100, 2147483647, 65536, 5, 7, 9, 11, 13, 1, 0, 77";
const OTHER_INTEGERS: &str = "3, 1, 0, 2, 100, 2147483647, 65537, 5, 6, 10, 31, 0, 2, 4, 78";
const TRUTHS: &str = "1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1";

/// Operations on values `x` and `y` of a type, and on the truth values `c` and `d`.
fn lines(ty: &str) -> Vec<(&'static str, String)> {
    let is_float = ty.starts_with('f');
    let own: &[&str] = match is_float {
        true => &[
            "add(x, y)",
            "subtract(x, y)",
            "multiply(x, y)",
            "divide(x, y)",
            "maximum(x, y)",
            "minimum(x, y)",
            "abs(x)",
            "negate(x)",
            "sqrt(y)",
            "rsqrt(y)",
            "floor(x)",
            "ceil(x)",
            "round-nearest-even(x)",
            "sign(x)",
            "tanh(x)",
            "select(c, x, y)",
            "clamp(y, x, y)",
            "add(x, one)",
            "divide(one, y)",
        ],
        false => &[
            "add(x, y)",
            "subtract(x, y)",
            "multiply(x, y)",
            "divide(x, y)",
            "remainder(x, y)",
            "maximum(x, y)",
            "minimum(x, y)",
            "and(x, y)",
            "or(x, y)",
            "xor(x, y)",
            "not(x)",
            "negate(x)",
            "shift-left(x, y)",
            "shift-right-logical(x, y)",
            "select(c, x, y)",
            "clamp(x, y, y)",
            "multiply(x, one)",
            "subtract(one, x)",
        ],
    };
    let mut lines: Vec<(&str, String)> = own.iter().map(|&line| ("own", line.to_owned())).collect();
    for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
        lines.push(("pred", format!("compare(x, y), direction={direction}")));
    }
    for line in [
        "and(c, d)",
        "or(c, d)",
        "xor(c, d)",
        "not(c)",
        "select(c, d, c)",
    ] {
        lines.push(("pred", line.to_owned()));
    }
    for to in ["f32", "f64", "s32", "u32", "s64", "bf16", "pred"] {
        // A float beyond the integers has no number there.
        if !(is_float && to.starts_with(['s', 'u'])) {
            lines.push((to, "convert(x)".to_owned()));
        }
        lines.push((to, "convert(c)".to_owned()));
    }
    lines
}

/// A loop of some trips, which turns its arrays around and computes all lines of them.
fn text(ty: &str) -> String {
    let (floats, n) = (ty.starts_with('f'), LENGTH);
    let lines = lines(ty);
    let shapes: Vec<String> = lines
        .iter()
        .map(|(to, _)| format!("{}[{n}]", if *to == "own" { ty } else { to }))
        .collect();
    let state = format!(
        "(s32[], {ty}[{n}], {ty}[{n}], pred[{n}], pred[{n}], {})",
        shapes.join(", ")
    );
    let mut body = format!(
        "body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {ty}[{n}] get-tuple-element(p), index=1
  y = {ty}[{n}] get-tuple-element(p), index=2
  c = pred[{n}] get-tuple-element(p), index=3
  d = pred[{n}] get-tuple-element(p), index=4
  step = s32[] constant(1)
  next = s32[] add(i, step)
  single = {ty}[] constant(1)
  one = {ty}[{n}] broadcast(single), dimensions={{}}
  turned = {ty}[{n}] reverse(x), dimensions={{0}}
  other = pred[{n}] reverse(c), dimensions={{0}}
"
    );
    let (mut entry, mut results, mut starts) = (String::new(), String::new(), String::new());
    for (at, ((_, line), shape)) in lines.iter().zip(&shapes).enumerate() {
        let _ = writeln!(body, "  r{at} = {shape} {line}");
        let of = shape.split('[').next().unwrap_or_default();
        let zero = if of == "pred" { "false" } else { "0" };
        let _ = writeln!(entry, "  z{at} = {of}[] constant({zero})");
        let _ = writeln!(entry, "  s{at} = {shape} broadcast(z{at}), dimensions={{}}");
        let _ = write!(results, ", r{at}");
        let _ = write!(starts, ", s{at}");
    }
    let (x, y) = if floats {
        (FLOATS, OTHER_FLOATS)
    } else {
        (INTEGERS, OTHER_INTEGERS)
    };
    format!(
        "HloModule blocks
condition {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}
{body}  ROOT t = {state} tuple(next, turned, y, other, d{results})
}}
ENTRY main {{
  unused = f32[] parameter(0)
  i = s32[] constant(0)
  x = {ty}[{n}] constant({{{x}}})
  y = {ty}[{n}] constant({{{y}}})
  c = pred[{n}] constant({{{TRUTHS}}})
  d = pred[{n}] reverse(c), dimensions={{0}}
{entry}  t = {state} tuple(i, x, y, c, d{starts})
  ROOT w = {state} while(t), condition=condition, body=body
}}
"
    )
}

#[test]
fn blocks_are_what_single_elements_are() {
    for ty in ["f32", "f64", "s32", "u32", "s64", "u64"] {
        let results = |machine_code| {
            let options = CompileOptions {
                machine_code,
                ..options(Check::Plan)
            };
            run(&planned(&text(ty), &options).unwrap(), 1).unwrap()
        };
        let (code, interpreted) = (results(MachineCode::AtOnce), results(MachineCode::Never));
        let lines = lines(ty);
        for (at, (a, b)) in code.iter().zip(&interpreted).enumerate() {
            let line = at.checked_sub(5).map(|at| &lines[at]);
            let size = a.len() / LENGTH;
            let is_float = match line {
                Some(("own", _)) => ty.starts_with('f'),
                Some((to, _)) => to.contains('f'),
                None => ty.starts_with('f'),
            };
            for (x, y) in a.chunks(size.max(1)).zip(b.chunks(size.max(1))) {
                assert!(
                    x == y || is_float && is_nan(x) && is_nan(y),
                    "{ty}, {line:?}: {x:?} instead of {y:?}"
                );
            }
        }
    }
}

/// Whether the bytes of a float, `bf16` by its size, are those of a NaN.
fn is_nan(bytes: &[u8]) -> bool {
    match *bytes {
        [a, b] => f32::from_le_bytes([0, 0, a, b]).is_nan(),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
        _ => bytes
            .try_into()
            .is_ok_and(|bytes| f64::from_le_bytes(bytes).is_nan()),
    }
}
