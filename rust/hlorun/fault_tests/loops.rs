//! Faults of loops: their state, and the code that replaces them.

use super::{differs, has_vector_bytecode, options, refused};
use crate::plan::faults::Fault;
use crate::plan::options::Check;

pub(super) const LOOP: &str = "HloModule fault
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}
cond {
  t = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  t = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[256] get-tuple-element(t), index=1
  y = f32[256] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
BODY
}
ENTRY e {
  p = f32[256] parameter(0)
  q = f32[256] parameter(1)
  z = s32[] constant(0)
  v = f32[256] sort(p), dimensions={0}, to_apply=less
  s = (s32[], f32[256], f32[256]) tuple(z, v, q)
  l = (s32[], f32[256], f32[256]) while(s), condition=cond, body=body
  a = f32[256] get-tuple-element(l), index=1
  b = f32[256] get-tuple-element(l), index=2
  ROOT r = (f32[256], f32[256]) tuple(a, b)
}
";

#[test]
fn loop_state() {
    let module = |body: &str| LOOP.replace("BODY", body);
    // The next trip's `x` is there before this trip's is read for the last time.
    let late = module(
        "  u = f32[256] sort(x), dimensions={0}, to_apply=less
  w = f32[256] reverse(x), dimensions={0}
  g = f32[256] sort(w), dimensions={0}, to_apply=less
  h = f32[256] add(g, y)
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, u, h)",
    );
    refused(Fault::StateDiesEarly, &late);
    // `v` is read in every trip, and temporaries come and go after that.
    let constant = module(
        "  u = f32[256] multiply(x, y)
  w = f32[256] sort(u), dimensions={0}, to_apply=less
  g = f32[256] reverse(w), dimensions={0}
  h = f32[256] sort(g), dimensions={0}, to_apply=less
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, x, h)",
    );
    // Nobody else needs `x`, so that it is a temporary.
    let constant = constant.replace("tuple(a, b)", "tuple(b, b)");
    refused(Fault::DiesInsideLoop, &constant);
    // What is sorted keeps the loop from being written out.
    let swap = module(
        "  u = f32[256] sort(x), dimensions={0}, to_apply=less
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, y, u)",
    );
    refused(Fault::JoinsLiveBuffers, &swap);
}

#[test]
fn branches() {
    // `v` is read after the conditional, and its first branch could compute in place of it.
    let text = "HloModule fault
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}
first {
  a = f32[256] parameter(0)
  m = f32[256] multiply(a, a)
  ROOT s = f32[256] sort(m), dimensions={0}, to_apply=less
}
second {
  a = f32[256] parameter(0)
  ROOT r = f32[256] reverse(a), dimensions={0}
}
ENTRY e {
  i = s32[] parameter(0)
  p = f32[256] parameter(1)
  v = f32[256] sort(p), dimensions={0}, to_apply=less
  c = f32[256] conditional(i, v, v), branch_computations={first, second}
  ROOT r = f32[256] divide(c, v)
}
";
    refused(Fault::DiesInsideBranch, text);
}

#[test]
fn scalar_code() {
    let text = LOOP.replace(
        "BODY",
        "  u = f32[256] negate(y)
  w = f32[256] sort(u), dimensions={0}, to_apply=less
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, x, w)",
    );
    let plain = options(Check::Shadow);
    differs(
        Fault::ScalarCodeSkipsThunk,
        &text,
        &options(Check::Plan),
        &plain,
    );
}

#[test]
fn scalar_code_of_an_entry() {
    // A sort between two steps keeps them apart; it is no scalar code.
    let steps: String = (0..9)
        .map(|i| {
            format!(
                "  n{i} = f32[4] negate(s{i})
  s{} = f32[4] sort(n{i}), dimensions={{0}}, to_apply=less\n",
                i + 1
            )
        })
        .collect();
    let text = format!(
        "HloModule entry
less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}}
ENTRY e {{
  s0 = f32[4] parameter(0)
{steps}  ROOT r = f32[4] negate(s9)
}}
"
    );
    let plain = options(Check::Shadow);
    differs(
        Fault::ScalarCodeSkipsThunk,
        &text,
        &options(Check::Plan),
        &plain,
    );
}

#[test]
fn prepared_thunks() {
    // So many elements are no scalar code; what is sorted keeps the loop from being written out.
    let text = LOOP.replace("256", "16384").replace(
        "BODY",
        "  a = f32[1] slice(y), slice={[3:4]}
  b = f32[] reshape(a)
  c = f32[16384] broadcast(b), dimensions={}
  d = f32[16384] multiply(y, c)
  f = f32[16384] subtract(d, x)
  w = f32[16384] sort(f), dimensions={0}, to_apply=less
  ROOT o = (s32[], f32[16384], f32[16384]) tuple(j, x, w)",
    );
    differs(
        Fault::HoldsOldInputs,
        &text,
        &options(Check::Plan),
        &options(Check::Shadow),
    );
}

#[test]
fn prepared_operations_at_places_that_indices_name() {
    // A gather of so many windows is no scalar code.
    let text = LOOP.replace(
        "BODY",
        "  h = f32[128] dynamic-slice(y, i), dynamic_slice_sizes={128}
  e = f32[128] slice(x), slice={[0:128]}
  c = s32[128] convert(e)
  k = s32[128,1] reshape(c)
  g = f32[128] gather(h, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  w = f32[256] concatenate(g, g), dimensions={0}
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, w, y)",
    );
    differs(
        Fault::HoldsOldInputs,
        &text,
        &options(Check::Plan),
        &options(Check::Shadow),
    );
}

#[test]
fn order_of_a_fold() {
    // Columns are folded half onto half, and not row onto row.
    let text = LOOP.replace(
        "BODY",
        "  zero = f32[] constant(0)
  third = f32[] constant(0.333)
  thirds = f32[256] broadcast(third), dimensions={}
  u = f32[256] multiply(y, thirds)
  m = f32[32,8] reshape(u)
  s = f32[8] reduce(m, zero), dimensions={0}, to_apply=sum
  w = f32[32,8] broadcast(s), dimensions={1}
  v = f32[256] reshape(w)
  d = f32[256] subtract(y, v)
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, x, d)",
    );
    let sum = "sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
cond {";
    let text = text.replacen("cond {", sum, 1);
    differs(
        Fault::FoldsInOtherOrder,
        &text,
        &options(Check::Plan),
        &options(Check::Shadow),
    );
}

#[test]
fn rows_where_they_lie() {
    if !has_vector_bytecode() {
        return;
    }
    // Every other element of a row is an operand.
    let text = "HloModule fault
ENTRY e {
  p = f32[200,60] parameter(0)
  q = f32[200,112] parameter(1)
  a = f32[150,56] slice(p), slice={[0:150], [0:56]}
  b = f32[150,56] slice(q), slice={[0:150], [0:112:2]}
  c = f32[150,56] multiply(a, b)
  d = f32[150,56] add(c, a)
  ROOT s = f32[150,56] subtract(d, b)
}
";
    let [faulty, plain] = [Check::Plan, Check::Shadow].map(options);
    differs(Fault::ReadsOtherRows, text, &faulty, &plain);
}

#[test]
fn rows_that_take_the_place_of_others() {
    if !has_vector_bytecode() {
        return;
    }
    // The last block of a row overlaps the one before it on every CPU.
    let text = "HloModule fault
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[12,368] parameter(0)
  p = f32[12,374] parameter(1)
  z = f32[12,368] sort(x), dimensions={0}, to_apply=less
  a = f32[12,368] slice(p), slice={[0:12], [0:368]}
  b = f32[12,368] slice(p), slice={[0:12], [6:374]}
  d = f32[12,368] subtract(a, b)
  s = f32[12,368] exponential(d)
  ROOT r = f32[12,368] add(s, z)
}
";
    let [faulty, plain] = [Check::Plan, Check::Shadow].map(options);
    differs(Fault::ReadsReplacedElements, text, &faulty, &plain);
}

#[test]
fn rows_of_planes() {
    if !has_vector_bytecode() {
        return;
    }
    // Every other element of a row is an operand.
    let text = "HloModule fault
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[20,4] parameter(0)
  w = f32[4,300] parameter(1)
  q = f32[4,150] slice(w), slice={[0:4], [0:300:2]}
  zero = f32[] constant(0)
  a = f32[20,4,150] broadcast(p), dimensions={0,1}
  b = f32[20,4,150] broadcast(q), dimensions={1,2}
  d = f32[20,4,150] subtract(b, a)
  s = f32[20,4,150] multiply(d, d)
  ROOT r = f32[20,150] reduce(s, zero), dimensions={1}, to_apply=sum
}
";
    let [mut faulty, mut plain] = [Check::Plan, Check::Shadow].map(options);
    for options in [&mut faulty, &mut plain] {
        options.disable.push("transposed-inputs".into());
    }
    differs(Fault::FoldsScatteredRows, text, &faulty, &plain);
}

/// Drops a value beside NaN, so that it matters which values meet.
const GREATEST: &str = "greatest {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  left = pred[] or(gt, tie)
  v = f32[] select(gt, a, b)
  w = s32[] select(left, i, j)
  ROOT r = (f32[], s32[]) tuple(v, w)
}
";

#[test]
fn order_of_the_pairs_of_a_row() {
    let text = format!(
        "HloModule fault
{GREATEST}ENTRY e {{
  p = f32[20,100] parameter(0)
  factor = f32[] constant(37)
  factors = f32[20,100] broadcast(factor), dimensions={{}}
  m = f32[20,100] multiply(p, factors)
  h = f32[20,100] cosine(m)
  q = f32[20,100] sqrt(h)
  k = s32[20,100] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[20], s32[20]) reduce(q, k, low, zero), dimensions={{1}}, to_apply=greatest
  ROOT at = s32[20] get-tuple-element(r), index=1
}}
"
    );
    let [faulty, plain] = [Check::Plan, Check::Shadow].map(options);
    differs(Fault::ChoosesInAnyOrder, &text, &faulty, &plain);
}

#[test]
fn order_of_a_selection() {
    let text = LOOP.replace(
        "BODY",
        "  factor = f32[] constant(37)
  factors = f32[256] broadcast(factor), dimensions={}
  e = f32[256] multiply(y, factors)
  h = f32[256] cosine(e)
  q = f32[256] sqrt(h)
  u = f32[64] slice(q), slice={[0:64]}
  k = s32[64] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[], s32[]) reduce(u, k, low, zero), dimensions={0}, to_apply=greatest
  at = s32[] get-tuple-element(r), index=1
  c = f32[] convert(at)
  d = f32[256] broadcast(c), dimensions={}
  v = f32[256] add(x, d)
  w = f32[256] negate(y)
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, v, w)",
    );
    let text = text.replacen("cond {", &format!("{GREATEST}cond {{"), 1);
    differs(
        Fault::FoldsInOtherOrder,
        &text,
        &options(Check::Plan),
        &options(Check::Shadow),
    );
}

#[test]
fn updates_in_place() {
    let module = |update: &str| {
        LOOP.replace(
            "BODY",
            &format!(
                "{update}
  to = s32[] constant(8)
  u = f32[256] dynamic-update-slice(x, w, to)
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, u, y)"
            ),
        )
    };
    // Elements that the copy may have written before it reads them.
    let moved = module("  w = f32[240] slice(x), slice={[0:240]}");
    refused(Fault::UpdatesWhatIsRead, &moved);
    // A loop that reads what an earlier tile has written.
    let sum = module(
        "  a = f32[240] slice(x), slice={[0:240]}
  b = f32[240] slice(x), slice={[8:248]}
  w = f32[240] add(a, b)",
    );
    refused(Fault::UpdatesWhatIsRead, &sum);
    let turned = module(
        "  a = f32[240] slice(x), slice={[8:248]}
  b = f32[240] reverse(a), dimensions={0}
  w = f32[240] add(a, b)",
    );
    refused(Fault::UpdatesWhatIsRead, &turned);
}
