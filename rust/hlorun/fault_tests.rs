//! Deliberate faults: every condition under which a plan shares memory or moves work is made to lie,
//! one at a time, and something has to notice.
//!
//! The plan checker has to refuse the plan; where the plan itself is right and the code made from it
//! is not, a shadow run or a run without the pass has to differ.

mod loops;
mod machine_code;
mod products;
mod rewrites;

use hlorun_kernels::vector_bytecode::{Op, is_supported};
use hlorun_kernels::{BinaryOp, DType};

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::{DeviceArrays, RunOptions};
use crate::plan::faults::{self, Fault};
use crate::plan::options::{Check, CompileOptions};
use crate::plan::{Executable, compile};
use crate::text::{ParseOptions, parse};
use crate::verify::verify;

fn planned(text: &str, options: &CompileOptions) -> Result<Executable> {
    let module = parse(text.as_bytes().into(), &ParseOptions::default())?;
    compile(&verify(&module)?, options)
}

fn options(check: Check) -> CompileOptions {
    CompileOptions {
        check,
        threads: 1,
        ..CompileOptions::default()
    }
}

/// The plan checker accepts the module, and refuses it with the fault.
fn refused(fault: Fault, text: &str) {
    let options = options(Check::Plan);
    if let Err(error) = planned(text, &options) {
        panic!("{fault:?}: refused without the fault: {error}");
    }
    let (result, lies) = faults::with(fault, || planned(text, &options));
    assert!(lies > 0, "{fault:?}: the condition never matters here");
    let Err(error) = result else {
        panic!("{fault:?}: the plan checker sees nothing");
    };
    let message = error.to_string();
    assert!(message.contains("plan checker"), "{fault:?}: {message}");
}

/// The bytes of all outputs of all devices; inputs count up, other numbers on every device.
fn run(executable: &Executable, devices: usize) -> Result<Vec<Vec<u8>>> {
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for device in 0..devices {
        for leaf in executable.inputs() {
            let mut bytes = AlignedBytes::zeroed(leaf.byte_size())?;
            for (at, word) in bytes.as_mut_slice().chunks_exact_mut(4).enumerate() {
                let value = at as f32 / 64.0 + device as f32;
                word.copy_from_slice(&value.to_ne_bytes());
            }
            inputs.push(bytes);
        }
        for leaf in executable.outputs() {
            outputs.push(AlignedBytes::zeroed(leaf.byte_size())?);
        }
    }
    let (ins, outs) = (executable.inputs().len(), executable.outputs().len());
    let arrays: Vec<DeviceArrays> = (0..devices)
        .map(|device| DeviceArrays {
            inputs: inputs[device * ins..][..ins]
                .iter()
                .map(AlignedBytes::as_ptr)
                .collect(),
            outputs: outputs[device * outs..][..outs]
                .iter_mut()
                .map(AlignedBytes::as_mut_ptr)
                .collect(),
        })
        .collect();
    // SAFETY: every address has room for its leaf.
    unsafe {
        match &arrays[..] {
            [only] => executable.run(&only.inputs, &only.outputs, &RunOptions::default())?,
            _ => executable.run_devices(&arrays, None, &RunOptions::default())?,
        }
    }
    Ok(outputs
        .iter()
        .map(|bytes| bytes.as_slice().to_vec())
        .collect())
}

/// Runs with the fault and without it, and compares; an error counts as a difference.
fn differs(fault: Fault, text: &str, faulty: &CompileOptions, plain: &CompileOptions) {
    let devices = plain.replicas as usize;
    let right = run(&planned(text, plain).unwrap(), devices).unwrap();
    let same = run(&planned(text, faulty).unwrap(), devices).unwrap();
    assert!(right == same, "{fault:?}: other results without the fault");
    let (result, lies) = faults::with(fault, || {
        planned(text, faulty).and_then(|executable| run(&executable, devices))
    });
    assert!(lies > 0, "{fault:?}: the condition never matters here");
    assert!(
        result.is_err() || result.is_ok_and(|wrong| wrong != right),
        "{fault:?}: nobody notices"
    );
}

/// Whether the CPU has any: what depends on it cannot go wrong elsewhere.
fn has_vector_bytecode() -> bool {
    is_supported(Op::Binary(BinaryOp::Add), DType::F32, DType::F32)
}

/// A module whose entry has these lines; `p` is a vector and `q` a matrix.
fn entry(lines: &str) -> String {
    format!(
        "HloModule fault
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}}
ENTRY e {{
  one = f32[] constant(1)
  two = f32[] constant(2)
  ones = f32[524288] broadcast(one), dimensions={{}}
{lines}
}}
"
    )
}

#[test]
fn row_tiling() {
    let start = "  p = f32[524288] parameter(0)\n  x = f32[524288] add(p, ones)\n";
    let group = |rest: &str| entry(&format!("{start}{rest}"));
    refused(
        Fault::GroupReadsOtherRows,
        &group(
            "  r = f32[524288] reverse(x), dimensions={0}
  y = f32[524288] multiply(r, r)
  ROOT t = (f32[524288], f32[524288]) tuple(x, y)",
        ),
    );
    refused(
        Fault::GroupReadsIndex,
        "HloModule fault
ENTRY e {
  p = s32[524288] parameter(0)
  x = s32[524288] add(p, p)
  s = s32[1] slice(x), slice={[5:6]}
  at = s32[] reshape(s)
  u = s32[524288] multiply(x, x)
  z = s32[] constant(0)
  big = s32[1048576] broadcast(z), dimensions={}
  d = s32[1048576] dynamic-update-slice(big, u, at)
  ROOT t = (s32[1048576], s32[524288]) tuple(d, x)
}
",
    );
    refused(
        Fault::GroupReadsShared,
        &group(
            "  s = f32[1] slice(x), slice={[5:6]}
  f = f32[] reshape(s)
  m = f32[4096,128] reshape(x)
  r = f32[4096] reduce(m, f), dimensions={1}, to_apply=add
  ROOT t = (f32[4096], f32[524288]) tuple(r, x)",
        ),
    );
    refused(
        Fault::PrecedesItsOperand,
        &group(
            "  m = f32[1024,512] reshape(x)
  c = f32[512,1024] transpose(m), dimensions={1,0}
  r = f32[512,1024] reverse(c), dimensions={0}
  y = f32[524288] multiply(x, x)
  ROOT t = (f32[524288], f32[512,1024], f32[524288]) tuple(x, r, y)",
        ),
    );
    refused(
        Fault::ScratchReadOutside,
        &group(
            "  y = f32[524288] multiply(x, x)
  z = f32[524288] sort(x), dimensions={0}, to_apply=less
  ROOT t = (f32[524288], f32[524288]) tuple(y, z)",
        ),
    );
    refused(
        Fault::MergesDependentLoops,
        &group(
            "  a = f32[524288] multiply(p, p)
  b = f32[524288] add(a, p)
  c = f32[524288] multiply(b, a)
  d = f32[524288] subtract(c, p)
  k = f32[524288] add(d, x)
  a1 = f32[524288] multiply(p, p)
  b1 = f32[524288] add(a1, p)
  c1 = f32[524288] multiply(b1, a1)
  d1 = f32[524288] subtract(c1, p)
  g = f32[524288] negate(k)
  l = f32[524288] multiply(d1, g)
  ROOT t = (f32[524288], f32[524288], f32[524288], f32[524288]) tuple(x, k, l, g)",
        ),
    );
}

#[test]
fn loop_merging() {
    if !has_vector_bytecode() {
        return;
    }
    let module = |rest: &str| entry(rest).replace("524288", "5000");
    let (shadow, plain) = (options(Check::Shadow), options(Check::Plan));
    // The second loop reads elements that the first one has not written yet.
    let other_elements = module(
        "  p = f32[524288] parameter(0)
  a = f32[524288] multiply(p, p)
  r = f32[524288] reverse(a), dimensions={0}
  b = f32[524288] add(r, p)
  ROOT t = (f32[524288], f32[524288]) tuple(a, b)",
    );
    differs(Fault::JoinsDependentLoops, &other_elements, &shadow, &plain);
    let operand_between = module(
        "  p = f32[524288] parameter(0)
  a = f32[524288] multiply(p, p)
  n = f32[524288] negate(a)
  v = f32[524288] sort(n), dimensions={0}, to_apply=less
  b = f32[524288] add(v, p)
  ROOT t = (f32[524288], f32[524288]) tuple(a, b)",
    );
    differs(
        Fault::JoinsDependentLoops,
        &operand_between,
        &shadow,
        &plain,
    );
    // The result of the first loop is read again after both.
    let read_later = module(
        "  p = f32[524288] parameter(0)
  e = f32[524288] exponential(p)
  a = f32[524288] add(e, ones)
  b = f32[524288] multiply(a, p)
  c = f32[524288] sort(a), dimensions={0}, to_apply=less
  ROOT t = (f32[524288], f32[524288]) tuple(b, c)",
    );
    differs(Fault::ForgetsReadResult, &read_later, &shadow, &plain);
}

#[test]
fn reuse_in_place() {
    let start = "  p = f32[524288] parameter(0)
  v = f32[524288] sort(p), dimensions={0}, to_apply=less\n";
    let module = |rest: &str| entry(&format!("{start}{rest}"));
    refused(
        Fault::GroupReusesInput,
        &module(
            "  r = f32[524288] reverse(v), dimensions={0}
  x = f32[524288] add(r, ones)
  w = f32[524288] add(v, ones)
  ROOT t = (f32[524288], f32[524288]) tuple(x, w)",
        ),
    );
    refused(
        Fault::GroupReusesLiveInput,
        &module(
            "  x = f32[524288] add(v, ones)
  n = f32[524288] negate(v)
  w = f32[524288] multiply(x, n)
  ROOT t = (f32[524288], f32[524288]) tuple(x, w)",
        ),
    );
    refused(
        Fault::LoopReusesInput,
        &module(
            "  r = f32[524288] reverse(v), dimensions={0}
  ROOT x = f32[524288] multiply(r, v)",
        ),
    );
    refused(
        Fault::LoopReusesInput,
        &module(
            "  a = f32[524287] slice(v), slice={[1:524288]}
  b = f32[1] slice(v), slice={[0:1]}
  r = f32[524288] concatenate(a, b), dimensions={0}
  ROOT x = f32[524288] multiply(r, v)",
        ),
    );
    let keys = "HloModule fault
less {
  a = u32[] parameter(0)
  b = u32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}
ENTRY e {
  k = u32[64] parameter(0)
  p = u32[64] parameter(1)
  a = u32[64] sort(p), dimensions={0}, to_apply=less
  b = u32[64] sort(k), dimensions={0}, to_apply=less
  ROOT r = (u32[64], u32[64]) custom-call(k, k, a, b), custom_call_target=\"cuda_threefry2x32\"
}
";
    refused(Fault::LoopReadsAfterWrite, keys);
}

#[test]
fn assignment() {
    let module = |lines: &str| entry(lines);
    // The copy that an update in place needs.
    refused(
        Fault::JoinsLiveBuffers,
        &module(
            "  p = f32[256] parameter(0)
  u = f32[1] parameter(1)
  at = s32[] parameter(2)
  v = f32[256] sort(p), dimensions={0}, to_apply=less
  d = f32[256] dynamic-update-slice(v, u, at)
  w = f32[256] sort(d), dimensions={0}, to_apply=less
  x = f32[256] sort(v), dimensions={0}, to_apply=less
  ROOT t = (f32[256], f32[256]) tuple(w, x)",
        ),
    );
    refused(
        Fault::WritesForeignMemory,
        &module(
            "  p = f32[256] parameter(0)
  u = f32[1] parameter(1)
  at = s32[] parameter(2)
  d = f32[256] dynamic-update-slice(p, u, at)
  ROOT w = f32[256] sort(d), dimensions={0}, to_apply=less",
        ),
    );
    refused(
        Fault::PacksLiveBuffers,
        &module(
            "  p = f32[256] parameter(0)
  q = f32[256] parameter(1)
  v = f32[256] sort(p), dimensions={0}, to_apply=less
  w = f32[256] sort(q), dimensions={0}, to_apply=less
  x = f32[256] add(v, w)
  ROOT y = f32[256] sort(x), dimensions={0}, to_apply=less",
        ),
    );
    refused(
        Fault::ReusesLiveOutput,
        &module(
            "  p = f32[65536] parameter(0)
  q = f32[32768] parameter(1)
  v = f32[65536] sort(p), dimensions={0}, to_apply=less
  w = f32[32768] sort(q), dimensions={0}, to_apply=less
  g = f32[32768] reverse(w), dimensions={0}
  x = f32[32768] sort(g), dimensions={0}, to_apply=less
  ROOT t = (f32[65536], f32[32768]) tuple(v, x)",
        ),
    );
}

#[test]
fn declared_accesses() {
    let text = "HloModule fault
ENTRY e {
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  c = f32[8,8] parameter(2)
  ROOT d = f32[8,8] custom-call(a, b, c), custom_call_target=\"__cublas$gemm\", backend_config={\"alpha_real\":1,\"alpha_imag\":0,\"beta\":1,\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"0\"],\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]}}
}
";
    let shadow = options(Check::Shadow);
    differs(
        Fault::DeclaresUpdateAsWrite,
        text,
        &shadow,
        &options(Check::Off),
    );
}

#[test]
fn replication() {
    let of = |replicas, disable: &[&str]| CompileOptions {
        replicas,
        disable: disable.iter().map(|&name| name.to_owned()).collect(),
        ..options(Check::Plan)
    };
    let devices = |disable: &[&str]| of(2, disable);
    let own = entry(
        "  p = f32[524288] parameter(0)
  x = f32[524288] add(p, ones)
  ROOT y = f32[524288] all-reduce(x), replica_groups={}, to_apply=add",
    );
    let alone = devices(&["replicated-values"]);
    differs(Fault::SharesVaryingValue, &own, &devices(&[]), &alone);
    let groups = entry(
        "  p = f32[524288] parameter(0)
  x = f32[524288] all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=add
  ROOT y = f32[524288] add(x, ones)",
    );
    let (four, apart) = (of(4, &[]), of(4, &["replicated-values"]));
    differs(Fault::SharesGroupResult, &groups, &four, &apart);
    let number = entry(
        "  p = f32[524288] parameter(0)
  i = u32[] replica-id()
  n = f32[] convert(i)
  s = f32[524288] broadcast(n), dimensions={}
  x = f32[524288] all-reduce(p), replica_groups={}, to_apply=add
  ROOT y = f32[524288] add(x, s)",
    );
    differs(Fault::SharesDeviceId, &number, &devices(&[]), &alone);
}

/// A pass on HLO with the fault, and the module without the pass.
fn misleads(fault: Fault, text: &str, pass: &str) {
    let plain = CompileOptions {
        disable: vec![pass.to_owned()],
        ..options(Check::Plan)
    };
    differs(fault, text, &options(Check::Plan), &plain);
}

/// A loop of three trips over a counter, a sum and a matrix that changes or not.
fn summing(matrix: &str) -> String {
    format!(
        "HloModule sums
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
condition {{
  p = (s32[], f32[8], f32[64,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], f32[8], f32[64,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = f32[8] get-tuple-element(p), index=1
  m = f32[64,8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = f32[] constant(0)
  r = f32[8] reduce(m, zero), dimensions={{0}}, to_apply=add
  t = f32[8] add(s, r)
  ROOT w = (s32[], f32[8], f32[64,8]) tuple(next, t, {matrix})
}}
ENTRY main {{
  q = f32[64,8] parameter(0)
  start = s32[] constant(0)
  zero = f32[] constant(0)
  none = f32[8] broadcast(zero), dimensions={{}}
  t = (s32[], f32[8], f32[64,8]) tuple(start, none, q)
  w = (s32[], f32[8], f32[64,8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}}
"
    )
}

#[test]
fn simplification() {
    let changing = summing("d").replace("  one = s32", "  d = f32[64,8] add(m, m)\n  one = s32");
    misleads(Fault::MovesVaryingValue, &changing, "loop-invariants");
    // Arithmetic that a product reads.
    let scaled = loops::LOOP.replace(
        "BODY",
        "  s = f32[256] sine(x)
  d = f32[] dot(s, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  b = f32[256] broadcast(d), dimensions={}
  u = f32[256] multiply(x, b)
  ROOT o = (s32[], f32[256], f32[256]) tuple(j, u, y)",
    );
    misleads(Fault::MovesVaryingValue, &scaled, "loop-invariants");
    misleads(Fault::FixesChangingState, &changing, "loop-state");
    misleads(Fault::HandsOnChangedState, &changing, "state-in-place");
    let rounded = entry(
        "  p = f32[4096] parameter(0)
  b = bf16[4096] convert(p)
  ROOT f = f32[4096] convert(b)",
    );
    misleads(Fault::ForgetsRounding, &rounded, "simplify");
    let turned = entry(
        "  a = f32[16] parameter(0)
  b = f32[16] parameter(1)
  rows = f32[16,16] broadcast(a), dimensions={0}
  columns = f32[16,16] broadcast(b), dimensions={1}
  ROOT s = f32[16,16] subtract(rows, columns)",
    );
    misleads(Fault::RepeatsUnalike, &turned, "simplify");
    let sums = entry(
        "  p = f32[4096] parameter(0)
  ROOT s = f32[2048] reduce-window(p, one), window={size=2 stride=2}, to_apply=add",
    );
    misleads(Fault::ReadsOneOfMany, &sums, "simplify");
    let shared = entry(
        "  p = f32[4096] parameter(0)
  z = f32[] constant(0)
  w = f32[2048] reduce-window(p, z), window={size=4 stride=2 pad=0_2}, to_apply=add
  ROOT s = f32[] reduce(w, z), dimensions={0}, to_apply=add",
    );
    misleads(Fault::FoldsOverlappingWindows, &shared, "tree-reductions");
    let drawn = entry(
        "  a = f32[64] rng(one, two), distribution=rng_uniform
  b = f32[64] rng(one, two), distribution=rng_uniform
  ROOT d = f32[64] subtract(a, b)",
    );
    misleads(Fault::MergesEffects, &drawn, "common-subexpressions");
}

#[test]
fn windows_that_lie_in_pieces() {
    let text = "HloModule windows
condition {
  s = (s32[], f32[4,8], s32[3], f32[3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,8], s32[3], f32[3,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4,8] get-tuple-element(s), index=1
  at = s32[3] get-tuple-element(s), index=2
  sum = f32[3,2] get-tuple-element(s), index=3
  columns = f32[3,2] gather(x, at), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={2,1}
  more = f32[3,2] add(sum, columns)
  twice = f32[4,8] add(x, x)
  ROOT r = (s32[], f32[4,8], s32[3], f32[3,2]) tuple(next, twice, at, more)
}
ENTRY main {
  x = f32[4,8] parameter(0)
  zero = s32[] constant(0)
  at = s32[3] parameter(1)
  none = f32[] constant(0)
  sum = f32[3,2] broadcast(none), dimensions={}
  s = (s32[], f32[4,8], s32[3], f32[3,2]) tuple(zero, x, at, sum)
  w = (s32[], f32[4,8], s32[3], f32[3,2]) while(s), condition=condition, body=body
  ROOT r = f32[3,2] get-tuple-element(w), index=3
}
";
    misleads(Fault::GathersApart, text, "scalar-bytecode");
}

#[test]
fn coordinates() {
    // Rows up to 11 of six, and columns before the first one.
    let indices = "HloModule coordinates
put {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY main {
  x = f32[6,7] parameter(0)
  u = f32[12] parameter(1)
  rows = s32[12,1] iota(), iota_dimension=0
  five = s32[] constant(5)
  fives = s32[12,1] broadcast(five), dimensions={}
  columns = s32[12,1] subtract(fives, rows)
  at = s32[12,2] concatenate(rows, columns), dimensions={1}
";
    let read = "  ROOT g = f32[12] gather(x, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
}
";
    let write = "  ROOT s = f32[6,7] scatter(x, at, u), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=put
}
";
    for last in [read, write] {
        let text = format!("{indices}{last}");
        let pass = "gather-scatter-simplifier";
        misleads(Fault::JoinsLooseCoordinates, &text, pass);
    }
}
