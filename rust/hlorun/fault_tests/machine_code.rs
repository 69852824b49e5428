//! Faults of machine code: a run of it differs from one without.

use super::{differs, options};
use crate::plan::faults::Fault;
use crate::plan::options::{Check, CompileOptions, MachineCode};

fn with(machine_code: MachineCode) -> CompileOptions {
    CompileOptions {
        machine_code,
        ..options(Check::Plan)
    }
}

#[test]
fn shifts_by_the_width() {
    let text = "HloModule shifts
condition {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = s32[] shift-left(one, i)
  y = s32[] add(s, x)
  ROOT t = (s32[], s32[]) tuple(next, y)
}
ENTRY main {
  p = f32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(zero, zero)
  w = (s32[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}
";
    let (faulty, plain) = (with(MachineCode::AtOnce), with(MachineCode::Never));
    differs(Fault::ShiftsByWidth, text, &faulty, &plain);
}

#[test]
fn blocks_that_overlap() {
    // The rows that are folded begin inside the blocks of the product.
    let text = "HloModule rows
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
condition {
  p = (s32[], f32[3,5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[3,5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3,5] get-tuple-element(p), index=1
  sum = f32[5] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[3,5] broadcast(half), dimensions={}
  y = f32[3,5] multiply(x, halves)
  zero = f32[] constant(0)
  column = f32[5] reduce(y, zero), dimensions={0}, to_apply=add
  more = f32[5] add(sum, column)
  changed = f32[3,5] add(x, halves)
  ROOT t = (s32[], f32[3,5], f32[5]) tuple(next, changed, more)
}
ENTRY main {
  p = f32[15] parameter(0)
  x = f32[3,5] reshape(p)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  sum = f32[5] broadcast(none), dimensions={}
  t = (s32[], f32[3,5], f32[5]) tuple(zero, x, sum)
  w = (s32[], f32[3,5], f32[5]) while(t), condition=condition, body=body
  ROOT r = f32[5] get-tuple-element(w), index=2
}
";
    let (faulty, plain) = (with(MachineCode::AtOnce), with(MachineCode::Never));
    differs(Fault::ReadsBehindRegisters, text, &faulty, &plain);
}
