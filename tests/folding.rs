//! Passes that simplify: what constants, counters and single windows make known, and that numbers stay.

use hlorun::exec::EVALUATE;
use hlorun::plan::{Check, CompileOptions, Executable, compile};
use hlorun::types::Literal;
use hlorun::verify::verify;

fn build(text: &str, disable: &[&str]) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &Default::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let module = verify(&module).unwrap_or_else(|error| panic!("{error}"));
    let options = CompileOptions {
        // These leave less for the passes that are counted here.
        disable: ["simplify", "loop-state"]
            .iter()
            .chain(disable)
            .map(|&name| name.to_owned())
            .collect(),
        evaluate: Some(EVALUATE),
        check: Check::Plan,
        ..CompileOptions::default()
    };
    compile(&module, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn folded(executable: &Executable) -> usize {
    let mut passes = executable.passes().iter();
    let found = passes.find(|pass| pass.name == "constant-folding");
    found.map_or(0, |found| found.changes)
}

/// Bytes of all constants the module has.
fn literals(executable: &Executable) -> usize {
    let module = executable.module();
    let ids = (0..module.literal_count()).map(hlorun::module::Id::from_index);
    ids.map(|id| module.literal(id).bytes().map_or(0, <[u8]>::len))
        .sum()
}

/// Runs with elements 0.5, 1, 1.5, … for every input.
fn run(executable: &Executable) -> Vec<Vec<u8>> {
    let inputs: Vec<Vec<u8>> = executable
        .inputs()
        .iter()
        .map(|leaf| {
            let elements = (0..leaf.byte_size() / 4).map(|i| (i + 1) as f32 / 2.0);
            elements.flat_map(f32::to_ne_bytes).collect()
        })
        .collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let outputs = executable
        .call(&inputs, &Default::default())
        .unwrap_or_else(|error| panic!("{error}"));
    outputs
        .iter()
        .map(|bytes| bytes.as_slice().to_vec())
        .collect()
}

const HELPERS: &str = "
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
few { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5)  ROOT r = pred[] compare(i, n), direction=LT }
many { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5000)  ROOT r = pred[] compare(i, n), direction=LT }
open { p = (s32[], f32[]) parameter(0)  x = f32[] get-tuple-element(p), index=1  n = f32[] constant(9)  ROOT r = pred[] compare(x, n), direction=LT }
step { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  x = f32[] get-tuple-element(p), index=1  one = s32[] constant(1)  j = s32[] add(i, one)  h = f32[] constant(1.5)  y = f32[] multiply(x, h)  ROOT r = (s32[], f32[]) tuple(j, y) }
body { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  x = f32[] get-tuple-element(p), index=1  one = s32[] constant(1)  j = s32[] add(i, one)  h = f32[] constant(1.5)  e = f32[] exponential(h)  y = f32[] multiply(x, e)  ROOT r = (s32[], f32[]) tuple(j, y) }
";

fn module(entry: &str) -> String {
    let entry = entry.replace("; ", "\n");
    format!("HloModule m\n{HELPERS}\nENTRY e {{\np = f32[8] parameter(0)\n{entry}\n}}\n")
        .replace("  ", "\n")
}

/// What stands in the entry after its parameter `p`, and how many instructions become constants.
const CASES: &[(&str, usize)] = &[
    // Scalars; the broadcast stays one.
    (
        "a = f32[] constant(2); b = f32[] constant(3); c = f32[] add(a, b); w = f32[8] broadcast(c), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        1,
    ),
    (
        "a = f32[] constant(2); b = f32[] exponential(a); c = f32[] divide(a, b); w = f32[8] broadcast(c), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        1,
    ),
    // Two readers, one constant; and a second one that is part of another.
    (
        "a = f32[] constant(2); b = f32[] exponential(a); c = f32[] divide(a, b); w = f32[8] broadcast(c), dimensions={}; x = f32[8] broadcast(b), dimensions={}; y = f32[8] multiply(p, w); ROOT r = f32[8] add(y, x)",
        2,
    ),
    // A small mask.
    (
        "i = s32[8] iota(), iota_dimension=0; a = s32[] constant(3); w = s32[8] broadcast(a), dimensions={}; c = pred[8] compare(i, w), direction=LT; n = f32[8] negate(p); ROOT r = f32[8] select(c, p, n)",
        1,
    ),
    // The caller reads it.
    (
        "a = f32[] constant(2); b = f32[] exponential(a); ROOT r = (f32[], f32[8]) tuple(b, p)",
        1,
    ),
    (
        "a = f32[4] constant({4, 2, 3, 1}); ROOT r = f32[4] sort(a), dimensions={0}, to_apply=less",
        1,
    ),
    (
        "a = f32[4] constant({4, 2, 3, 1}); b = f32[4] constant({1, 2, 3, 4}); s = (f32[4], f32[4]) sort(a, b), dimensions={0}, to_apply=less2; t = f32[4] get-tuple-element(s), index=1; w = f32[8] concatenate(t, t), dimensions={0}; ROOT r = f32[8] add(p, w)",
        1,
    ),
    // Large, but a sum of it is not; large and cheap.
    (
        "i = f32[65536] iota(), iota_dimension=0; z = f32[] constant(0); s = f32[] reduce(i, z), dimensions={0}, to_apply=plus; w = f32[8] broadcast(s), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        1,
    ),
    (
        "i = f32[65536] iota(), iota_dimension=0; w = f32[65536] add(i, i); k = f32[] constant(0); x = f32[] reduce(p, k), dimensions={0}, to_apply=plus; y = f32[65536] broadcast(x), dimensions={}; ROOT r = f32[65536] add(y, w)",
        0,
    ),
    // Only views.
    (
        "a = f32[2,4] constant({{1, 2, 3, 4}, {5, 6, 7, 8}}); t = f32[4,2] transpose(a), dimensions={1,0}; w = f32[8] reshape(t); ROOT r = f32[8] multiply(p, w)",
        0,
    ),
    // Too much work, and more than is stored.
    (
        "i = f32[2097152] iota(), iota_dimension=0; z = f32[] constant(0); s = f32[] reduce(i, z), dimensions={0}, to_apply=plus; w = f32[8] broadcast(s), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        0,
    ),
    (
        "i = f32[524288] iota(), iota_dimension=0; e = f32[524288] exponential(i); ROOT r = (f32[524288], f32[8]) tuple(e, p)",
        0,
    ),
    // Loops: few trips, many, and any number.
    (
        "n = s32[] constant(0); a = f32[] constant(2); t = (s32[], f32[]) tuple(n, a); l = (s32[], f32[]) while(t), condition=few, body=step; x = f32[] get-tuple-element(l), index=1; w = f32[8] broadcast(x), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        1,
    ),
    (
        "n = s32[] constant(0); a = f32[] constant(2); t = (s32[], f32[]) tuple(n, a); l = (s32[], f32[]) while(t), condition=many, body=step; x = f32[] get-tuple-element(l), index=1; w = f32[8] broadcast(x), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        0,
    ),
    (
        "n = s32[] constant(0); a = f32[] constant(2); t = (s32[], f32[]) tuple(n, a); l = (s32[], f32[]) while(t), condition=open, body=step; x = f32[] get-tuple-element(l), index=1; w = f32[8] broadcast(x), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        0,
    ),
    // Inside the body of a loop that is not known.
    (
        "n = s32[] constant(0); s = f32[1] slice(p), slice={[2:3]}; a = f32[] reshape(s); t = (s32[], f32[]) tuple(n, a); l = (s32[], f32[]) while(t), condition=few, body=body; x = f32[] get-tuple-element(l), index=1; w = f32[8] broadcast(x), dimensions={}; ROOT r = f32[8] multiply(p, w)",
        1,
    ),
    // Never: random numbers, devices.
    (
        "a = f32[] constant(0); b = f32[] constant(0); g = f32[8] rng(a, b), distribution=rng_uniform; ROOT r = f32[8] multiply(p, g)",
        0,
    ),
    (
        "d = u32[] replica-id(); c = f32[] convert(d); w = f32[8] broadcast(c), dimensions={}; ROOT r = f32[8] add(p, w)",
        0,
    ),
];

#[test]
fn constants_are_folded_where_it_pays() {
    for &(entry, count) in CASES {
        let less2 = "less2 { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)  ROOT r = pred[] compare(a, b), direction=LT }";
        let text = module(entry).replacen(
            "\nENTRY",
            &format!("\n{}\nENTRY", less2.replace("  ", "\n")),
            1,
        );
        let tried = build(&text, &[]);
        let plain = build(&text, &["constant-folding"]);
        assert_eq!(folded(&tried), count, "{entry}");
        assert_eq!(folded(&plain), 0, "{entry}");
        assert_eq!(run(&tried), run(&plain), "{entry}");
    }
}

#[test]
fn broadcasts_stay_small() {
    let text = module(
        "a = f32[] constant(2); b = f32[] exponential(a); w = f32[1048576] broadcast(b), dimensions={}; x = f32[] reduce(p, a), dimensions={0}, to_apply=plus; y = f32[1048576] broadcast(x), dimensions={}; ROOT r = f32[1048576] add(w, y)",
    );
    let tried = build(&text, &[]);
    assert_eq!(folded(&tried), 1);
    assert!(literals(&tried) < 1024);
    assert_eq!(run(&tried), run(&build(&text, &["constant-folding"])));
}

#[test]
fn elided_constants_and_their_like_are_left() {
    let text =
        module("a = f32[8] constant({...}); b = f32[8] exponential(a); ROOT r = f32[8] add(p, b)");
    let module = hlorun::text::parse(text.as_bytes().into(), &Default::default()).unwrap();
    let options = CompileOptions {
        evaluate: Some(EVALUATE),
        check: Check::Plan,
        ..CompileOptions::default()
    };
    let error = compile(&verify(&module).unwrap(), &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("elides this constant's value"), "{error}");
    assert!(Literal::is_elided(module.literal(
        hlorun::module::Id::from_index(module.literal_count() - 1)
    )));
}

#[test]
fn nothing_is_folded_without_a_means_to_compute() {
    let module = module(CASES[0].0);
    let module = hlorun::text::parse(module.as_bytes().into(), &Default::default()).unwrap();
    let executable = compile(&verify(&module).unwrap(), &CompileOptions::default()).unwrap();
    assert_eq!(folded(&executable), 0);
}

fn count_of(executable: &Executable, name: &str) -> usize {
    let mut passes = executable.passes().iter();
    let found = passes.find(|pass| pass.name == name);
    found.map_or(0, |found| found.changes)
}

/// `s` is an `s32` scalar computed from the parameter, which is 0 at first.
const WINDOWS: &[(&str, usize)] = &[
    (
        "u = f32[] constant(7); x = s32[1] reshape(s); ROOT r = f32[8] scatter(p, x, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=put",
        1,
    ),
    (
        "u = f32[] constant(7); x = s32[1] reshape(s); ROOT r = f32[8] scatter(p, x, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=plus",
        1,
    ),
    (
        "u = f32[3] constant({7, 8, 9}); x = s32[1] reshape(s); ROOT r = f32[8] scatter(p, x, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=put",
        1,
    ),
    (
        "q = f32[2,4] reshape(p); u = f32[2] constant({7, 8}); x = s32[1] reshape(s); ROOT r = f32[2,4] scatter(q, x, u), update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=plus",
        1,
    ),
    (
        "q = f32[2,4] reshape(p); u = f32[] constant(7); y = s32[1] reshape(s); x = s32[2] concatenate(y, y), dimensions={0}; ROOT r = f32[2,4] scatter(q, x, u), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=put",
        1,
    ),
    (
        "u = f32[1] constant({7}); x = s32[1,1] reshape(s); ROOT r = f32[8] scatter(p, x, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=put",
        1,
    ),
    // Two windows.
    (
        "u = f32[2] constant({7, 8}); x = s32[2,1] broadcast(s), dimensions={}; ROOT r = f32[8] scatter(p, x, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus",
        0,
    ),
    (
        "x = s32[1] reshape(s); ROOT r = f32[3] gather(p, x), offset_dims={0}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={3}",
        1,
    ),
    (
        "q = f32[2,4] reshape(p); y = s32[1] reshape(s); x = s32[2] concatenate(y, y), dimensions={0}; ROOT r = f32[2] gather(q, x), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,2}",
        1,
    ),
    (
        "x = s32[2,1] broadcast(s), dimensions={}; ROOT r = f32[2] gather(p, x), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
        0,
    ),
];

#[test]
fn single_windows_are_slices_that_are_not_outside() {
    let put =
        "\nput { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT r = f32[] copy(b) }\nENTRY";
    for &(entry, count) in WINDOWS {
        for start in [-9, -1, 0, 1, 3, 5, 6, 7, 8, 100, i32::MIN, i32::MAX] {
            let index = format!(
                "h = f32[1] slice(p), slice={{[0:1]}}; f = f32[] reshape(h); z = s32[] convert(f); o = s32[] constant({start}); s = s32[] add(z, o); {entry}"
            );
            let text = module(&index).replacen("\nENTRY", put, 1);
            let tried = build(&text, &[]);
            assert_eq!(
                count_of(&tried, "gather-scatter-simplifier"),
                count,
                "{entry}"
            );
            let plain = build(&text, &["gather-scatter-simplifier"]);
            assert_eq!(run(&tried), run(&plain), "{start}: {entry}");
        }
    }
}

/// What the body makes of the counter `i`, which goes from 0 to 4, and whether it is decided.
const RANGES: &[(&str, usize)] = &[
    (
        "z = s32[] constant(0); c = pred[] compare(i, z), direction=LT; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        1,
    ),
    (
        "z = s32[] constant(4); c = pred[] compare(i, z), direction=LE; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        1,
    ),
    (
        "z = s32[] constant(4); c = pred[] compare(i, z), direction=LT; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        0,
    ),
    (
        "z = s32[] constant(2); m = s32[] subtract(i, z); y = s32[] constant(0); c = pred[] compare(m, y), direction=LT; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        0,
    ),
    (
        "z = s32[] constant(2147483647); m = s32[] add(i, z); c = pred[] compare(m, i), direction=GE; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        0,
    ),
    (
        "z = s32[] constant(3); m = s32[] remainder(i, z); c = pred[] compare(m, z), direction=LT; w = s32[] add(i, one); k = s32[] select(c, w, i)",
        1,
    ),
    (
        "z = s32[] constant(9); c = pred[] compare(i, z), direction=LT; y = s32[] constant(2); d = pred[] compare(i, y), direction=GT; a = pred[] and(c, d); w = s32[] add(i, one); k = s32[] select(a, w, i)",
        1,
    ),
];

#[test]
fn what_a_counter_decides_is_decided_before() {
    for &(body, count) in RANGES {
        let text = format!(
            "HloModule m\nbody {{ p = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = f32[] get-tuple-element(p), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n {}\n e = f32[] convert(k)\n sum = f32[] add(x, e)\n twice = f32[] add(sum, sum)\n ROOT r = (s32[], f32[]) tuple(j, twice) }}\ncondition {{ p = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(5)\n ROOT q = pred[] compare(i, n), direction=LT }}\nENTRY e {{ a = f32[] parameter(0)\n zero = s32[] constant(0)\n t = (s32[], f32[]) tuple(zero, a)\n ROOT w = (s32[], f32[]) while(t), condition=condition, body=body }}\n",
            body.replace("; ", "\n")
        );
        let tried = build(&text, &[]);
        assert_eq!(count_of(&tried, "range-analysis"), count, "{body}");
        assert_eq!(
            run(&tried),
            run(&build(&text, &["range-analysis"])),
            "{body}"
        );
    }
}

#[test]
fn leaves_that_grow_by_a_constant_are_counters_too() {
    for (start, step, count) in [
        (8, -2, 1),
        (7, -2, 0),
        (-8, 2, 0),
        (0, 3, 1),
        (2147483636, 3, 0),
    ] {
        let text = format!(
            "HloModule m\nbody {{ p = (s32[], s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n m = s32[] get-tuple-element(p), index=1\n x = f32[] get-tuple-element(p), index=2\n one = s32[] constant(1)\n j = s32[] add(i, one)\n by = s32[] constant({step})\n n = s32[] add(by, m)\n z = s32[] constant(0)\n c = pred[] compare(m, z), direction=LT\n w = s32[] subtract(m, i)\n k = s32[] select(c, w, m)\n e = f32[] convert(k)\n sum = f32[] add(x, e)\n ROOT r = (s32[], s32[], f32[]) tuple(j, n, sum) }}\ncondition {{ p = (s32[], s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(5)\n ROOT q = pred[] compare(i, n), direction=LT }}\nENTRY e {{ a = f32[] parameter(0)\n zero = s32[] constant(0)\n s = s32[] constant({start})\n t = (s32[], s32[], f32[]) tuple(zero, s, a)\n ROOT w = (s32[], s32[], f32[]) while(t), condition=condition, body=body }}\n"
        );
        let tried = build(&text, &[]);
        assert_eq!(count_of(&tried, "range-analysis"), count, "{start} {step}");
        assert_eq!(
            run(&tried),
            run(&build(&text, &["range-analysis"])),
            "{start} {step}"
        );
    }
}

/// What counts the trips of a loop that is written out is known in each of them.
#[test]
fn trips_that_are_written_out_begin_with_constants() {
    let text = "HloModule m
cond { p = (s32[], f32[4096]) parameter(0)
i = s32[] get-tuple-element(p), index=0
n = s32[] constant(3)
ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4096]) parameter(0)
i = s32[] get-tuple-element(p), index=0
x = f32[4096] get-tuple-element(p), index=1
one = s32[] constant(1)
j = s32[] add(i, one)
h = f32[] convert(j)
w = f32[4096] broadcast(h), dimensions={}
y = f32[4096] multiply(x, w)
ROOT r = (s32[], f32[4096]) tuple(j, y) }
ENTRY e { x = f32[4096] parameter(0)
z = s32[] constant(0)
s = (s32[], f32[4096]) tuple(z, x)
l = (s32[], f32[4096]) while(s), condition=cond, body=body
ROOT r = f32[4096] get-tuple-element(l), index=1 }
";
    let counts = |disable: &[&str]| {
        let executable = build(text, disable);
        let module = executable.module();
        let all = module.computation_ids();
        let all = all.flat_map(|id| module.computation(id).instructions.clone());
        let counts = all
            .filter(|&id| module.instruction_data(id).opcode == hlorun::module::HloOpcode::Convert);
        (counts.count(), run(&executable))
    };
    let (left, results) = counts(&[]);
    let (unknown, same) = counts(&["constant-folding"]);
    assert_eq!((left, unknown), (0, 3));
    assert_eq!(results, same);
}
