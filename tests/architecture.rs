//! The folders of `rust/hlorun` use each other in one direction only, as `ARCHITECTURE.md` says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each folder or file of the crate's root, and what it may use of the others.
const ALLOWED: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("types", &[]),
    ("buffers", &["error"]),
    ("module", &["error", "types"]),
    ("text", &["error", "module", "types"]),
    ("verify", &["error", "module", "types"]),
    ("plan", &["buffers", "error", "module", "types"]),
    ("exec", &["buffers", "error", "module", "plan", "types"]),
    ("analysis", &["error", "module", "plan", "text", "types"]),
    (
        "replay",
        &[
            "analysis", "buffers", "error", "exec", "module", "plan", "types",
        ],
    ),
];

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).expect("a folder of the sources") {
        sources(&entry.expect("an entry of the folder").path(), found);
    }
}

/// The names right after every `crate::`, also of groups `crate::{a, b::c}`.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let name_of = |text: &str| -> String {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        text[..end].to_owned()
    };
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(name_of(rest));
            continue;
        };
        let mut depth = 0;
        let mut is_start = true;
        for (at, c) in group.char_indices() {
            if is_start && depth == 0 && !c.is_whitespace() {
                found.insert(name_of(&group[at..]));
                is_start = false;
            }
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' => is_start = true,
                _ => {}
            }
        }
    }
    // Types and functions of the crate's root are `error`'s.
    found.retain(|name| name.starts_with(char::is_lowercase));
    found
}

#[test]
fn uses_are_found_in_every_form() {
    let code =
        "use crate::a::b;\nuse crate::{c, d::{e, f},\n g};\nlet x = crate::h::i(); crate::Result";
    let expected = ["a", "c", "d", "g", "h"].map(str::to_owned);
    assert_eq!(uses(code), BTreeSet::from(expected));
}

#[test]
fn folders_depend_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/hlorun");
    let mut wrong = Vec::new();
    let mut known = BTreeSet::from(["lib".to_owned()]);
    for (name, allowed) in ALLOWED {
        known.insert((*name).to_owned());
        let folder = root.join(name);
        let path = if folder.is_dir() {
            folder
        } else {
            root.join(format!("{name}.rs"))
        };
        let mut files = Vec::new();
        sources(&path, &mut files);
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let code = std::fs::read_to_string(&file).expect("a source");
            // Documentation may name anything.
            let code: String = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .flat_map(|line| [line, "\n"])
                .collect();
            for used in uses(&code) {
                if used != *name && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{} uses {used}", file.display()));
                }
            }
        }
    }
    for entry in std::fs::read_dir(&root).expect("the sources") {
        let path = entry.expect("an entry of the folder").path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if !known.contains(stem.as_ref()) {
            wrong.push(format!("{stem} has no row in this table"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kernels_know_no_hlo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/hlorun-kernels");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    assert!(!manifest.lines().any(|line| line.starts_with("hlorun")));
}
