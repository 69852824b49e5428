//! Lies about custom calls: every module of `tests/hlo/verify/custom_calls_*.hlo` with the shape of a result or
//! of an operand, or its configuration, changed at random.
//!
//! A result other than the one of the file is refused, unless a comment of the file says that it is legal too:
//! `// also: SHAPE` for a whole result without workspaces, `// free: 1 2` for elements in which the library
//! works. Whatever is believed about operands and configurations compiles and runs, or is refused with a typed
//! error.

use std::collections::BTreeSet;
use std::path::Path;

use hlorun::error::HloError;
use hlorun::module::HloModule;
use hlorun::plan::{Check, CompileOptions, compile};
use hlorun::text::{self, ParseOptions};
use hlorun::verify::verify;

/// Lies that are told.
const LIES: usize = 4_000;
/// Most bytes of an array of a module that is run.
const MOST_BYTES: usize = 1 << 20;

/// A small generator of numbers; the same ones for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn pick<'t, T: ?Sized>(&mut self, among: &[&'t T]) -> &'t T {
        among[self.below(among.len())]
    }
}

/// A module and what its comments say about its result.
struct Case {
    text: String,
    also: BTreeSet<String>,
    free: BTreeSet<usize>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/verify");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder of legal modules")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.to_string_lossy().contains("custom_calls_"))
        .collect();
    names.sort();
    let mut found = Vec::new();
    for path in names {
        let text = std::fs::read_to_string(path).expect("a file of modules");
        for module in text.split("// -----\n") {
            let comments = |prefix: &str| {
                let lines = module.lines().filter_map(|line| line.strip_prefix(prefix));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let also = comments("// also: ").iter().map(|s| plain(s)).collect();
            let free = comments("// free: ").join(" ");
            found.push(Case {
                text: module.to_owned(),
                also,
                free: free
                    .split_whitespace()
                    .filter_map(|n| n.parse().ok())
                    .collect(),
            });
        }
    }
    assert!(found.len() > 60, "only {} modules", found.len());
    found
}

/// Where the shape before `opcode(` stands, and the arrays in it.
struct Shape {
    start: usize,
    end: usize,
    arrays: Vec<String>,
    is_tuple: bool,
}

fn shape_before(line: &str, opcode: &str) -> Option<Shape> {
    let start = line.find(" = ")? + 3;
    let end = start + line[start..].find(&format!(" {opcode}("))?;
    let shape = &line[start..end];
    let inner = shape.strip_prefix('(').and_then(|s| s.strip_suffix(')'));
    Some(Shape {
        start,
        end,
        arrays: inner
            .unwrap_or(shape)
            .split(", ")
            .map(str::to_owned)
            .collect(),
        is_tuple: inner.is_some(),
    })
}

/// Without layouts and dynamic flags.
fn without_layout(array: &str) -> String {
    let dense = array.split('{').next().unwrap_or(array);
    dense.replace("<=", "")
}

/// A result without layouts, workspaces of bytes, and the parentheses of its tuple.
fn plain(shape: &str) -> String {
    let inner = shape.strip_prefix('(').and_then(|s| s.strip_suffix(')'));
    let arrays = inner.unwrap_or(shape).split(", ").map(without_layout);
    let is_bytes = |array: &String| {
        (array.starts_with("s8[") || array.starts_with("u8["))
            && !array.contains(',')
            && !array.contains("[]")
    };
    // A workspace never comes first.
    let kept = arrays
        .enumerate()
        .filter(|(at, array)| *at == 0 || !is_bytes(array));
    kept.map(|(_, array)| array).collect::<Vec<_>>().join(", ")
}

const TYPES: [&str; 14] = [
    "pred", "s4", "u4", "s8", "u8", "s32", "s64", "u32", "f16", "bf16", "f32", "f64", "c64", "c128",
];
const SIZES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "7", "8", "16", "193"];

/// Another array than this one.
fn other_array(array: &str, numbers: &mut Numbers) -> String {
    let array = without_layout(array);
    let Some((ty, dims)) = array.split_once('[') else {
        return array;
    };
    let mut dims: Vec<&str> = dims
        .trim_end_matches(']')
        .split(',')
        .filter(|d| !d.is_empty())
        .collect();
    let mut ty = ty;
    match numbers.below(5) {
        0 => ty = numbers.pick(&TYPES),
        1 if !dims.is_empty() => drop(dims.remove(numbers.below(dims.len()))),
        2 => dims.insert(numbers.below(dims.len() + 1), numbers.pick(&SIZES)),
        _ if !dims.is_empty() => {
            let at = numbers.below(dims.len());
            dims[at] = numbers.pick(&SIZES);
        }
        _ => dims.push(numbers.pick(&SIZES)),
    }
    // The layout says the same of any rank.
    format!("{ty}[{}]", dims.join(","))
}

/// The line with a lie about its shape; the element that is lied about, where it is one.
fn lie(line: &str, shape: &Shape, numbers: &mut Numbers) -> (String, Option<usize>) {
    let mut arrays = shape.arrays.clone();
    let at = numbers.below(arrays.len());
    let mut which = Some(at);
    let mut is_tuple = shape.is_tuple;
    match numbers.below(10) {
        0 if arrays.len() > 1 => {
            arrays.remove(at);
            which = None;
        }
        1 => {
            arrays.insert(at, arrays[at].clone());
            (is_tuple, which) = (true, None);
        }
        2 if arrays.len() > 1 => {
            arrays.swap(at, numbers.below(shape.arrays.len()));
            which = None;
        }
        _ => arrays[at] = other_array(&arrays[at], numbers),
    }
    let all = arrays.join(", ");
    let all = if is_tuple { format!("({all})") } else { all };
    let text = format!("{}{all}{}", &line[..shape.start], &line[shape.end..]);
    // What aliases a result that is lied about is another lie.
    let text = match text.find(", output_to_operand_aliasing") {
        Some(from) => text[..from].to_owned() + &after_braces(&text[from..]),
        None => text,
    };
    (text, which)
}

/// What follows the first balanced pair of braces.
fn after_braces(text: &str) -> String {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == '}' && depth == 0 {
            return text[at + 1..].to_owned();
        }
    }
    String::new()
}

/// Changes a number or a word of the configuration.
fn lie_about_config(line: &str, numbers: &mut Numbers) -> Option<String> {
    let start = line.find("backend_config=")? + "backend_config=".len();
    let config = &line[start..];
    let words: Vec<(usize, &str)> = config
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - config.as_ptr() as usize, word))
        .collect();
    let (at, word) = *words.get(numbers.below(words.len()))?;
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    let by = match numbers.below(3) {
        0 if is_number => numbers.pick(&SIZES),
        1 => numbers.pick(&["true", "false", "9223372036854775807", "-1", "BIAS", "null"]),
        _ => words[numbers.below(words.len())].1,
    };
    let (before, after) = (&config[..at], &config[at + word.len()..]);
    Some(format!("{}{before}{by}{after}", &line[..start]))
}

fn parse(text: &str) -> Option<HloModule> {
    text::parse(text.as_bytes().into(), &ParseOptions::default()).ok()
}

/// Runs a small module on zeros, each step on what it declares; a typed error is an answer.
fn run(module: &HloModule) {
    let is_small = module
        .shapes()
        .iter()
        .filter_map(|shape| shape.as_array())
        .all(|array| array.byte_size().is_some_and(|size| size <= MOST_BYTES));
    let options = CompileOptions {
        threads: 1,
        check: Check::Shadow,
        ..CompileOptions::default()
    };
    if !is_small {
        return;
    }
    let answer = verify(module)
        .and_then(|module| compile(&module, &options))
        .and_then(|executable| {
            let zeros: Vec<Vec<u8>> = executable
                .inputs()
                .iter()
                .map(|leaf| vec![0; leaf.byte_size()])
                .collect();
            let inputs: Vec<&[u8]> = zeros.iter().map(|bytes| &bytes[..]).collect();
            executable.call(&inputs, &Default::default())
        });
    if let Err(error) = answer {
        let message = error.to_string();
        let is_ours = message.contains("internal") || message.contains("a fault of hlorun");
        assert!(!is_ours && !message.is_empty(), "{message}");
    }
}

#[test]
fn lies_about_custom_calls_are_refused_or_harmless() {
    let cases = cases();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut believed) = (0, Vec::new());
    for told in 0..LIES {
        let case = &cases[told % cases.len()];
        let lines: Vec<&str> = case.text.lines().collect();
        let kind = numbers.below(10);
        let opcode = if kind < 6 { "custom-call" } else { "parameter" };
        let about: Vec<usize> = (0..lines.len())
            .filter(|&at| {
                lines[at].contains(&format!(
                    " {}(",
                    if kind < 9 { opcode } else { "custom-call" }
                ))
            })
            .collect();
        let Some(&at) = about.get(numbers.below(about.len())) else {
            continue;
        };
        let (line, which) = if kind == 9 {
            match lie_about_config(lines[at], &mut numbers) {
                Some(line) => (line, None),
                None => continue,
            }
        } else {
            match shape_before(lines[at], opcode) {
                Some(shape) => lie(lines[at], &shape, &mut numbers),
                None => continue,
            }
        };
        let mut all = lines.clone();
        all[at] = &line;
        let Some(module) = parse(&all.join("\n")) else {
            continue;
        };
        if let Err(error) = verify(&module) {
            assert!(matches!(error, HloError::Verify(_)), "{error}");
            refused += 1;
            continue;
        }
        if kind < 6 {
            let shape = |line: &str| {
                let shape = shape_before(line, "custom-call").expect("a shape");
                plain(&line[shape.start..shape.end])
            };
            let is_free = !case.free.is_empty() && which.is_none_or(|at| case.free.contains(&at));
            let now = shape(&line);
            if now != shape(lines[at]) && !case.also.contains(&now) && !is_free {
                believed.push(format!("{}\n  was {}", line.trim(), shape(lines[at])));
            }
        }
        // Shown when the run fails.
        println!("{}", all.join("\n"));
        run(&module);
    }
    assert!(refused > LIES / 3, "only {refused} refused");
    assert!(
        believed.is_empty(),
        "{} believed:\n{}",
        believed.len(),
        believed.join("\n")
    );
}
