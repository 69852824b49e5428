//! Faults in the conditions of rewrites, which then compute other numbers.

use super::misleads;
use crate::plan::faults::Fault;

#[test]
fn ties_of_a_stable_sort() {
    let text = "HloModule ties
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  p = f32[16] parameter(0)
  zero = f32[] constant(0)
  all = f32[16] broadcast(zero), dimensions={}
  below = f32[16] negate(p)
  signed = f32[16] multiply(all, below)
  odd = f32[16] constant({0,-0,0,-0,0,-0,0,-0,0,-0,0,-0,0,-0,0,-0})
  zeros = f32[16] add(odd, signed)
  i = s32[16] iota(), iota_dimension=0
  s = (f32[16], s32[16]) sort(zeros, i), dimensions={0}, is_stable=true, to_apply=less
  places = s32[16] get-tuple-element(s), index=1
  ROOT r = s32[3] slice(places), slice={[0:3]}
}
";
    misleads(Fault::ReordersTies, text, "sort-top-k");
}

#[test]
fn indices_that_are_cut() {
    let text = "HloModule indices
last {
  a = f32[] parameter(0)
  i = s64[] parameter(1)
  b = f32[] parameter(2)
  j = s64[] parameter(3)
  more = pred[] compare(i, j), direction=GT
  x = f32[] select(more, a, b)
  k = s64[] select(more, i, j)
  ROOT r = (f32[], s64[]) tuple(x, k)
}
ENTRY main {
  p = f32[16] parameter(0)
  i = s64[16] iota(), iota_dimension=0
  zero = f32[] constant(0)
  beyond = s64[] constant(4294967296)
  all = (f32[], s64[]) reduce(p, i, zero, beyond), dimensions={0}, to_apply=last
  x = f32[] get-tuple-element(all), index=0
  k = s64[] get-tuple-element(all), index=1
  ROOT r = (f32[], s64[]) tuple(x, k)
}
";
    misleads(Fault::CutsIndices, text, "narrow-indices");
}

#[test]
fn updates_that_are_not_selected() {
    let text = "HloModule selected
ENTRY main {
  x = f32[16] parameter(0)
  i = s32[] parameter(1)
  a = f32[] parameter(2)
  p = pred[] compare(a, a), direction=NE
  u = f32[2] constant({700, 800})
  y = f32[16] dynamic-update-slice(x, u, i)
  ps = pred[16] broadcast(p), dimensions={}
  ROOT r = f32[16] select(ps, x, y)
}
";
    misleads(Fault::SelectsOldUpdates, text, "select-updates");
}

#[test]
fn an_index_outside() {
    let text = "HloModule outside
condition {
  s = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(259)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[256] get-tuple-element(s), index=1
  all = s32[256] iota(), iota_dimension=0
  at = s32[256] broadcast(i), dimensions={}
  is = pred[256] compare(all, at), direction=EQ
  twos = f32[256] add(x, x)
  z = f32[256] select(is, twos, x)
  ROOT r = (s32[], f32[256]) tuple(next, z)
}
ENTRY main {
  start = s32[] constant(250)
  one = f32[] constant(1)
  x = f32[256] broadcast(one), dimensions={}
  s = (s32[], f32[256]) tuple(start, x)
  w = (s32[], f32[256]) while(s), condition=condition, body=body
  ROOT r = f32[256] get-tuple-element(w), index=1
}
";
    misleads(Fault::UpdatesOutside, text, "one-hot-updates");
}

#[test]
fn windows_of_rows_that_overlap() {
    // The second window begins at the second row of the first one.
    let text = "HloModule overlap
put {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY main {
  x = f32[8,5] parameter(0)
  a = f32[2] parameter(1)
  p = pred[2] compare(a, a), direction=NE
  none = s32[2] convert(p)
  all = s32[2] iota(), iota_dimension=0
  i = s32[2] add(all, none)
  u = f32[2,2,3] constant({{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}})
  ROOT r = f32[8,5] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=put
}
";
    misleads(Fault::CombinesLooseParts, text, "gather-scatter-simplifier");
}

#[test]
fn rows_of_other_trips() {
    let text = "HloModule rows
condition {
  s = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(64)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  last = s32[] constant(63)
  back = s32[] subtract(last, i)
  x = f32[64] get-tuple-element(s), index=1
  y = f32[64] get-tuple-element(s), index=2
  row = f32[1] dynamic-slice(x, back), dynamic_slice_sizes={1}
  all = f32[64] dynamic-update-slice(y, row, i)
  ROOT r = (s32[], f32[64], f32[64]) tuple(next, x, all)
}
ENTRY main {
  p = f32[64] parameter(0)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  start = f32[64] broadcast(none), dimensions={}
  s = (s32[], f32[64], f32[64]) tuple(zero, p, start)
  w = (s32[], f32[64], f32[64]) while(s), condition=condition, body=body
  ROOT r = f32[64] get-tuple-element(w), index=2
}
";
    misleads(Fault::MapsOtherRows, text, "loop-map");
}

#[test]
fn pairs_that_a_reducer_does_not_select() {
    let text = "HloModule pairs
later {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  least = pred[] compare(a, b), direction=GE
  x = f32[] select(least, a, b)
  k = s32[] select(least, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k)
}
ENTRY main {
  p = f32[8,200] parameter(0)
  i = s32[8,200] iota(), iota_dimension=1
  none = f32[] constant(-1)
  nowhere = s32[] constant(-1)
  all = (f32[8], s32[8]) reduce(p, i, none, nowhere), dimensions={1}, to_apply=later
  x = f32[8] get-tuple-element(all), index=0
  k = s32[8] get-tuple-element(all), index=1
  ROOT r = (f32[8], s32[8]) tuple(x, k)
}
";
    misleads(Fault::SelectsOtherPair, text, "select-reducers");
}

#[test]
fn divisions_of_negative_numbers() {
    let text = "HloModule divisions
ENTRY main {
  i = s32[16] iota(), iota_dimension=0
  p = s32[] parameter(0)
  all = s32[16] broadcast(p), dimensions={}
  x = s32[16] subtract(all, i)
  c = s32[] constant(4)
  cs = s32[16] broadcast(c), dimensions={}
  ROOT q = s32[16] divide(x, cs)
}
";
    misleads(Fault::ShiftsNegativeNumbers, text, "integer-division");
}

#[test]
fn windows_whose_dimensions_change_places() {
    let text = "HloModule turned
ENTRY main {
  x = f32[9,3,3] parameter(0)
  i = s32[5,1] constant({{4}, {0}, {8}, {1}, {4}})
  g = f32[3,3,5] gather(x, i), offset_dims={0,1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1,3,3}
  ROOT t = f32[5,3,3] transpose(g), dimensions={2,1,0}
}
";
    misleads(Fault::TurnsWindows, text, "gather-scatter-simplifier");
}
