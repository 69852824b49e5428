//! Random straight-line bodies, with inner loops and branches.

use super::operations::edges;
use super::*;

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
