//! What hlorun prints against what jaxlib prints: the goldens of `tests/data/print`, and of any
//! directory that `HLORUN_PRINT_CORPUS` names (see `tests/python/parse/goldens.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::module::HloModule;
use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::text::{ParseOptions, parse};

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

/// The first line in which two texts differ, from both.
fn first_difference(ours: &str, theirs: &str) -> String {
    let mut lines = ours.split('\n').zip(theirs.split('\n')).enumerate();
    match lines.find(|(_, (a, b))| a != b) {
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
            let difference = (ours.trim_end_matches('\n') != theirs.trim_end_matches('\n'))
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
