//! What hlorun prints against what jaxlib prints: the goldens of `tests/data/print`, and of any
//! directory that `HLORUN_PRINT_CORPUS` names (see `tests/python/parse/goldens.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::module::HloModule;
use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::text::{ParseOptions, load, parse};

fn parse_text(text: &str) -> Result<HloModule, String> {
    parse(Arc::from(text.as_bytes()), &ParseOptions::default()).map_err(|error| error.to_string())
}

/// XLA's own options of a section: a preset and what is changed of it, `default+print_ids=False`.
/// The preset differs from hlorun's in one default.
fn xla_options(section: &str) -> PrintOptions {
    let mut parts = section.split('+');
    let preset = parts.next().unwrap_or_default();
    let mut options = PrintOptions::preset(preset).expect("a preset");
    if preset == "default" {
        options.print_large_constants = false;
    }
    for part in parts {
        let (name, value) = part.split_once('=').expect("name=value");
        assert!(options.set_switch(name, value == "True"), "{part}");
    }
    options
}

/// The sections of a golden file.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    for part in text.strip_prefix("//// ").unwrap_or(text).split("\n//// ") {
        let (head, body) = part.split_once('\n').unwrap_or((part, ""));
        // Several `//// a = b` lines may follow each other.
        match head.split_once(" = ") {
            Some((name, same)) => {
                let text = sections.get(same).cloned().unwrap_or_default();
                sections.insert(name.to_owned(), text);
            }
            None => {
                sections.insert(head.to_owned(), body.to_owned());
            }
        }
    }
    sections
}

/// Whether two lines say the same. jaxlib makes values up where the text has left them out; hlorun
/// prints that they are left out.
fn same_line(ours: &str, theirs: &str) -> bool {
    const ELIDED: &str = "constant({...})";
    ours == theirs
        || ours.find(ELIDED).is_some_and(|at| {
            let (before, after) = (&ours[..at], &ours[at + ELIDED.len()..]);
            theirs
                .strip_prefix(before)
                .is_some_and(|rest| rest.starts_with("constant(") && rest.ends_with(after))
        })
}

fn same_text(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (ours.trim_end_matches('\n'), theirs.trim_end_matches('\n'));
    ours == theirs
        || ours.matches('\n').count() == theirs.matches('\n').count()
            && ours
                .split('\n')
                .zip(theirs.split('\n'))
                .all(|(a, b)| same_line(a, b))
}

/// The first line in which two texts differ, from both.
fn first_difference(ours: &str, theirs: &str) -> String {
    let mut lines = ours.split('\n').zip(theirs.split('\n')).enumerate();
    match lines.find(|(_, (a, b))| !same_line(a, b)) {
        Some((number, (a, b))) => {
            let at = a
                .bytes()
                .zip(b.bytes())
                .position(|(x, y)| x != y)
                .unwrap_or(a.len().min(b.len()));
            let window = |line: &str| -> String {
                let start = at.saturating_sub(60);
                String::from_utf8_lossy(&line.as_bytes()[start..line.len().min(at + 100)])
                    .into_owned()
            };
            format!(
                "line {}:\n  ours …{}\n  xla  …{}",
                number + 1,
                window(a),
                window(b)
            )
        }
        None => format!("lengths {} and {}", ours.len(), theirs.len()),
    }
}

struct Tally {
    same: usize,
    different: Vec<(PathBuf, String)>,
}

fn compare_directory(directory: &Path) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut add = |name: &str, path: &Path, difference: Option<String>| {
        let tally = tallies.entry(name.to_owned()).or_insert(Tally {
            same: 0,
            different: Vec::new(),
        });
        match difference {
            None => tally.same += 1,
            Some(text) => tally.different.push((path.to_owned(), text)),
        }
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of goldens")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "golden"))
        .collect();
    paths.sort();
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("a golden");
        let sections = sections(&text);
        let module = match parse_text(&sections["input"]) {
            Ok(module) => module,
            Err(error) => {
                add("parse", path, Some(error));
                continue;
            }
        };
        add("parse", path, None);
        for (dialect, options) in [
            ("round trip", PrintOptions::default()),
            ("round trip, long dialect", PrintOptions::long()),
        ] {
            let printed = print_module(&module, &options);
            let difference = match parse_text(&printed) {
                Ok(again) => module
                    .structurally_equal(&again)
                    .err()
                    .map(|d| d.to_string()),
                Err(error) => Some(error),
            };
            add(dialect, path, difference);
        }
        for (section, theirs) in sections.iter().filter(|(name, _)| *name != "input") {
            let ours = print_module(&module, &xla_options(section));
            let tally = match section.split_once('+') {
                Some(_) => "changed options",
                None => section,
            };
            let difference = (!same_text(&ours, theirs))
                .then(|| format!("{section} {}", first_difference(&ours, theirs)));
            add(tally, path, difference);
        }
    }
    tallies
}

fn report(directory: &Path) -> usize {
    let mut wrong = 0;
    for (name, tally) in compare_directory(directory) {
        println!(
            "{name}: {} same, {} different",
            tally.same,
            tally.different.len()
        );
        for (path, difference) in tally.different.iter().take(40) {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            println!("{name} {file} {difference}");
        }
        wrong += tally.different.len();
    }
    wrong
}

#[test]
fn goldens_are_printed_as_jaxlib_prints_them() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/print");
    assert_eq!(report(&directory), 0);
}

#[test]
fn corpus_is_printed_as_jaxlib_prints_it() {
    let Some(directory) = std::env::var_os("HLORUN_PRINT_CORPUS") else {
        return;
    };
    assert_eq!(report(Path::new(&directory)), 0);
}

/// Real dumps come back from their print in both dialects.
#[test]
fn dumps_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dumps");
    for name in [
        "001_ff6c88b06f55b1d5",
        "003_31f0e50696cb742c",
        "004_83a80cec1e7cc5e6",
    ] {
        let path = folder.join(format!("{name}.txt.zst"));
        let module = load(&path, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        for options in [PrintOptions::default(), PrintOptions::long()] {
            let again = parse_text(&print_module(&module, &options))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            if let Err(difference) = module.structurally_equal(&again) {
                panic!("{name}: {difference}");
            }
        }
    }
}

/// A small generator of numbers; the same ones in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

#[test]
fn damaged_texts_that_parse_also_print() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/print");
    let rounds: usize = std::env::var("HLORUN_PRINT_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(2_000);
    let texts: Vec<Vec<u8>> = std::fs::read_dir(directory)
        .expect("the directory of texts")
        .filter_map(|entry| std::fs::read(entry.ok()?.path()).ok())
        .collect();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut parsed = 0;
    for _ in 0..rounds {
        let mut text = texts[numbers.below(texts.len())].clone();
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(text.len());
            match numbers.below(4) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, b"{}[](),=:\"0179-#%x"[numbers.below(18)]),
                2 => {
                    let other = numbers.below(text.len());
                    text.swap(at, other);
                }
                _ => {
                    let end = (at + numbers.below(12)).min(text.len());
                    let piece = text[at..end].to_vec();
                    let to = numbers.below(text.len());
                    text.splice(to..to, piece);
                }
            }
        }
        let Ok(module) = parse(Arc::from(text.as_slice()), &ParseOptions::default()) else {
            continue;
        };
        parsed += 1;
        for preset in PrintOptions::PRESETS {
            let options = PrintOptions::preset(preset).expect("a preset");
            assert!(print_module(&module, &options).starts_with("HloModule "));
        }
        let printed = print_module(&module, &PrintOptions::default());
        let again = parse_text(&printed).unwrap_or_else(|error| {
            panic!(
                "{error}\nprinted from\n{}\nas\n{printed}",
                String::from_utf8_lossy(&text)
            )
        });
        if let Err(difference) = module.structurally_equal(&again) {
            panic!(
                "{difference}\nprinted from\n{}",
                String::from_utf8_lossy(&text)
            );
        }
        let _ = module.fingerprint();
    }
    assert!(parsed > rounds / 20, "only {parsed} of {rounds} parse");
}

#[test]
fn frames_without_a_place_print() {
    for number in [i64::MIN, -1, 0, i64::MAX] {
        let text = format!(
            "HloModule m\nFileNames\n1 \"a\"\nFunctionNames\n1 \"f\"\nFileLocations\n\
             1 {{file_name_id={number} function_name_id=1 line={number}}}\nStackFrames\n\
             1 {{file_location_id=1 parent_frame_id={number}}}\n\
             ENTRY e {{ ROOT x = f32[] parameter(0), metadata={{stack_frame_id=1}} }}\n"
        );
        let module = parse_text(&text).unwrap_or_else(|error| panic!("{error}"));
        let printed = print_module(&module, &PrintOptions::default());
        assert!(parse_text(&printed).is_ok(), "{printed}");
    }
}

/// `count` computations of which each calls the one before it `calls` times.
fn chain(count: usize, calls: usize) -> String {
    let mut text = String::from("HloModule chain\nf0 { ROOT x = f32[] parameter(0) }\n");
    for i in 1..count {
        let callee = i - 1;
        text.push_str(&format!("f{i} {{ x0 = f32[] parameter(0)\n"));
        for call in 1..=calls {
            let operand = call - 1;
            let root = if call == calls { "ROOT " } else { "" };
            text.push_str(&format!(
                "{root}x{call} = f32[] call(x{operand}), to_apply=f{callee}\n"
            ));
        }
        text.push_str("}\n");
    }
    text
}

#[test]
fn nested_bodies_are_cut_at_a_limit() {
    for (count, calls) in [(60, 2), (5_000, 1)] {
        let module = parse_text(&chain(count, calls)).expect("a module");
        let text = print_module(&module, &PrintOptions::canonical());
        assert!(text.contains('…'));
        assert!(text.len() < 256 << 20, "{} bytes", text.len());
        assert_eq!(module.fingerprint().len(), 32);
    }
    let module = parse_text(&chain(5, 2)).expect("a module");
    assert!(!print_module(&module, &PrintOptions::canonical()).contains('…'));
}
