//! `constant-folding`: what it computes while planning, what it leaves, and that numbers stay.

use hlorun::exec::evaluate::evaluate;
use hlorun::plan::{CompileOptions, Executable, compile};
use hlorun::types::Literal;

fn build(text: &str, disable: &[&str]) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &Default::default())
        .unwrap_or_else(|error| panic!("{error}"));
    hlorun::verify::verify(&module).unwrap_or_else(|error| panic!("{error}"));
    let options = CompileOptions {
        disable: disable.iter().map(|&name| name.to_owned()).collect(),
        evaluate: Some(evaluate),
        ..CompileOptions::default()
    };
    compile(&module, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn folded(executable: &Executable) -> usize {
    let mut rewrites = executable.rewrites().iter();
    let found = rewrites.find(|(name, _)| *name == "constant-folding");
    found.map_or(0, |found| found.1)
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
    let inputs: Vec<Vec<f32>> = executable
        .inputs()
        .iter()
        .map(|leaf| {
            (0..leaf.byte_size() / 4)
                .map(|i| (i + 1) as f32 / 2.0)
                .collect()
        })
        .collect();
    let mut outputs: Vec<Vec<u64>> = executable
        .outputs()
        .iter()
        .map(|leaf| vec![0; leaf.byte_size().div_ceil(8)])
        .collect();
    let sources: Vec<*const u8> = inputs.iter().map(|v| v.as_ptr().cast()).collect();
    let targets: Vec<*mut u8> = outputs.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
    // SAFETY: every address holds an array of its leaf's size.
    unsafe { executable.run(&sources, &targets, &Default::default()) }
        .unwrap_or_else(|error| panic!("{error}"));
    outputs
        .iter()
        .map(|words| words.iter().flat_map(|word| word.to_ne_bytes()).collect())
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
        evaluate: Some(evaluate),
        ..CompileOptions::default()
    };
    let error = compile(&module, &options).unwrap_err().to_string();
    assert!(error.contains("elides this constant's value"), "{error}");
    assert!(Literal::is_elided(module.literal(
        hlorun::module::Id::from_index(module.literal_count() - 1)
    )));
}

#[test]
fn nothing_is_folded_without_a_means_to_compute() {
    let module = module(CASES[0].0);
    let module = hlorun::text::parse(module.as_bytes().into(), &Default::default()).unwrap();
    let executable = compile(&module, &CompileOptions::default()).unwrap();
    assert_eq!(folded(&executable), 0);
}
