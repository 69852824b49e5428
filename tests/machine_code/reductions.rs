//! Reductions and products of arrays that a loop replaces.

use super::operations::edges;
use super::*;

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
        for lanes in [1usize, 2, 5, 12, 32, 48, 300, 1000] {
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
fn rows_and_columns() {
    let sum = |name: &str| {
        format!(
            "sum {{
  a = {name}[] parameter(0)
  b = {name}[] parameter(1)
  ROOT s = {name}[] add(a, b)
}}
"
        )
    };
    for name in ["f32", "f64"] {
        for (m, n) in [(40, 4), (17, 31), (9, 60), (3, 400), (130, 2)] {
            for (kept, size, reduced) in [(0, m, 1), (1, n, 0)] {
                let (a, b) = (format!("{name}[{m},{n}]"), format!("{name}[{size}]"));
                let (x, y) = (numbers(name, m * n), numbers(name, size));
                let lines = format!(
                    "  zero = {name}[] constant(0.125)
  square = {a} multiply(x, x)
  sums = {b} reduce(square, zero), dimensions={{{reduced}}}, to_apply=sum
  part = {b} multiply(sums, y)
  wide = {a} broadcast(part), dimensions={{{kept}}}
  less = {a} subtract(x, wide)
  r = {a} tanh(less)"
                );
                let source = repeated(&a, &b, 3, &sum(name), &lines);
                compare(
                    &source,
                    &[&x, &y],
                    &format!("{m}x{n} {name} over {reduced}"),
                );
            }
        }
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
