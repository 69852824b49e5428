//! The folders of `rust/hlorun` use each other in one direction only, as `ARCHITECTURE.md` says.

#[path = "architecture/allowed.rs"]
mod allowed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use allowed::{ALLOWED, EXEC, PLAN};

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

/// `rustc-hash` has no seed: whoever chooses the keys can make them collide.
#[test]
fn what_reads_files_hashes_with_a_seed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/hlorun");
    let mut wrong = Vec::new();
    for folder in [
        "types",
        "module",
        "text",
        "proto",
        "stablehlo",
        "verify",
        "analysis",
        "replay",
    ] {
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        for file in files {
            let code = std::fs::read_to_string(&file).expect("a source");
            if code.contains("rustc_hash") {
                wrong.push(format!("{} uses rustc_hash", file.display()));
            }
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

/// A module's path inside the crate.
type Module = Vec<String>;

/// The modules of the crate and the code of each, without comments and without tests.
fn modules() -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/hlorun");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = BTreeMap::new();
    for file in files {
        let name = file
            .strip_prefix(&root)
            .expect("a source")
            .with_extension("");
        let mut path: Module = name
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        path.retain(|part| part != "mod" && part != "lib");
        let code = std::fs::read_to_string(&file).expect("a source");
        let code: String = without_modules(&code)
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .flat_map(|line| [line, "\n"])
            .collect();
        found.insert(path, code);
    }
    found
}

/// The code outside modules that are written inside the file, tests above all.
fn without_modules(code: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for line in code.lines() {
        let is_module = line.contains("mod ") && line.ends_with(" {") && !line.starts_with(' ');
        is_inside |= is_module;
        if !is_inside {
            kept.extend([line, "\n"]);
        }
        is_inside &= line != "}";
    }
    kept
}

/// Every path that begins with `crate`, `super` or a child of `module`, groups taken apart, from the
/// crate's root.
fn paths(module: &Module, children: &BTreeSet<String>, code: &str) -> BTreeSet<Module> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(start) = code[at..].find(is_word).map(|start| at + start) {
        let rest = &code[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        at = start + end;
        let first = &rest[..end];
        let before = code[..start].trim_end();
        let is_first = !before.ends_with("::") && !before.ends_with('.');
        let base = match first {
            "crate" => Some(Vec::new()),
            "super" => Some(module[..module.len().saturating_sub(1)].to_vec()),
            name if children.contains(name) => {
                let mut base = module.clone();
                base.push(name.to_owned());
                Some(base)
            }
            _ => None,
        };
        if let (Some(base), true, Some(rest)) = (base, is_first, rest[end..].strip_prefix("::")) {
            tree(base, rest, &mut found);
        }
    }
    found
}

/// Adds the paths of a `use` tree, or of an expression, that go on with `code`.
fn tree(mut base: Module, code: &str, found: &mut BTreeSet<Module>) {
    let code = code.trim_start();
    if let Some(group) = code.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    if !group[start..at].trim().is_empty() {
                        tree(base.clone(), &group[start..at], found);
                    }
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let end = code
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(code.len());
    match &code[..end] {
        "super" => drop(base.pop()),
        "self" | "" => {}
        name => base.push(name.to_owned()),
    }
    match code[end..].strip_prefix("::") {
        Some(rest) => tree(base, rest, found),
        None => drop(found.insert(base)),
    }
}

/// Which modules each module of `plan` and `exec` uses. A name that a folder passes on from one of
/// its files counts as that file's.
fn arrows() -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules();
    let mut children: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
    for path in modules.keys() {
        if let [folder @ .., name] = &path[..] {
            let names = children.entry(folder.to_vec()).or_default();
            names.insert(name.clone());
        }
    }
    let none = BTreeSet::new();
    let mut passed_on: BTreeMap<Module, Module> = BTreeMap::new();
    for (module, code) in &modules {
        let own = children.get(module).unwrap_or(&none);
        for (at, _) in code.match_indices("pub use ") {
            let statement = &code[at + "pub use ".len()..];
            let statement = &statement[..statement.find(';').unwrap_or(0)];
            for path in paths(module, own, statement) {
                let mut name = module.clone();
                name.extend(path.last().cloned());
                passed_on.insert(name, path);
            }
        }
    }
    let home = |path: &Module| -> Option<Module> {
        let mut path = path.clone();
        while let Some(longer) = passed_on.get(&path) {
            path = longer.clone();
        }
        (1..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|path| modules.contains_key(path))
    };
    let mut arrows = BTreeMap::new();
    for (module, code) in &modules {
        if !module
            .first()
            .is_some_and(|top| top == "plan" || top == "exec")
        {
            continue;
        }
        let own = children.get(module).unwrap_or(&none);
        let mut code = code.clone();
        // Passing a name on is no use of it.
        while let Some(at) = code.find("pub use ") {
            let end = code[at..].find(';').map_or(code.len(), |end| at + end);
            code.replace_range(at..end, "");
        }
        let used = paths(module, own, &code);
        let used = used.iter().filter_map(home).filter(|used| used != module);
        arrows.insert(module.clone(), used.collect::<BTreeSet<_>>());
    }
    arrows
}

#[test]
fn paths_are_found_in_every_form() {
    let module = ["plan", "a"].map(str::to_owned).to_vec();
    let children = BTreeSet::from(["child".to_owned()]);
    let code =
        "use super::{b::{self, C}, d};\nlet x = child::f(crate::exec::g(), other::child::h);";
    let found: Vec<String> = paths(&module, &children, code)
        .iter()
        .map(|path| path.join("/"))
        .collect();
    let expected = ["exec/g", "plan/a/child/f", "plan/b", "plan/b/C", "plan/d"];
    assert_eq!(found, expected);
}

#[test]
fn folders_of_plan_and_exec_depend_in_one_direction() {
    let mut wrong = BTreeSet::new();
    for (top, table) in [("plan", PLAN), ("exec", EXEC)] {
        for (at, (name, allowed)) in table.iter().enumerate() {
            for used in *allowed {
                if !table[..at].iter().any(|lower| lower.0 == *used) {
                    wrong.insert(format!("{top}/{name} may not come before {used}"));
                }
            }
        }
        for (module, used) in arrows() {
            let [first, name, ..] = &module[..] else {
                continue;
            };
            if first != top {
                continue;
            }
            let Some((_, allowed)) = table.iter().find(|row| row.0 == name) else {
                wrong.insert(format!("{top}/{name} has no row in this table"));
                continue;
            };
            for used in used {
                if let [first, other, ..] = &used[..]
                    && first == top
                    && other != name
                    && !allowed.contains(&other.as_str())
                {
                    wrong.insert(format!("{} uses {}", module.join("/"), used.join("/")));
                }
            }
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_of_plan_and_exec_use_each_other_in_no_circle() {
    let mut left = arrows();
    // What uses nothing that is left is in no circle.
    loop {
        let free: Vec<Module> = left
            .iter()
            .filter(|(_, used)| !used.iter().any(|used| left.contains_key(used)))
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        left.retain(|module, _| !free.contains(module));
    }
    let circles: Vec<String> = left
        .iter()
        .map(|(module, used)| {
            let used: Vec<String> = used
                .iter()
                .filter(|used| left.contains_key(*used))
                .map(|used| used.join("/"))
                .collect();
            format!("{} uses {}", module.join("/"), used.join(", "))
        })
        .collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}
