//! Verifies every file of `tests/hlo/verify`, which are legal, and checks what is said about every
//! file of `tests/hlo/verify-fail` against the `.err` file beside it (`BLESS=1` rewrites those).
//!
//! A file may hold several modules, separated by lines `// -----`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::error::HloError;
use hlorun::text::{self, ParseOptions};
use hlorun::verify::{left_out_shape, verify};

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

/// The modules of a file, each with the lines before it blank so that line numbers hold.
fn modules(path: &Path) -> Vec<String> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut modules = vec![String::new()];
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("// -----") {
            modules.push("\n".repeat(number + 1));
            continue;
        }
        if let Some(last) = modules.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    modules.retain(|module| !module.trim().is_empty());
    modules
}

fn check(path: &Path, text: &str) -> Result<(), HloError> {
    let options = ParseOptions {
        filename: path.file_name().map(|name| name.to_string_lossy().into()),
        ..ParseOptions::default()
    };
    verify(&text::parse(Arc::from(text.as_bytes()), &options)?).map(drop)
}

#[test]
fn legal_modules_pass() {
    let mut folders = vec![folder("verify")];
    folders.extend(std::env::var_os("HLORUN_VERIFY_EXTRA").map(PathBuf::from));
    let mut failures = String::new();
    for path in folders.iter().flat_map(|folder| files(folder)) {
        for module in modules(&path) {
            if let Err(error) = check(&path, &module) {
                failures.push_str(&format!("{error}\n"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn broken_modules_are_explained() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = String::new();
    for path in files(&folder("verify-fail")) {
        let mut found = String::new();
        for module in modules(&path) {
            match check(&path, &module) {
                Err(error @ HloError::Verify(_)) => found.push_str(&format!("{error}\n\n")),
                Err(error) => failures.push_str(&format!("{}:\n{error}\n", path.display())),
                Ok(()) => failures.push_str(&format!(
                    "{}: this passes:\n{}\n",
                    path.display(),
                    module.trim()
                )),
            }
        }
        let expected = path.with_extension("err");
        if bless {
            std::fs::write(&expected, &found)
                .unwrap_or_else(|error| panic!("{}: {error}", expected.display()));
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != found {
            failures.push_str(&format!(
                "{} differs; now it is (BLESS=1 keeps it)\n{found}\n",
                expected.display()
            ));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn errors_are_capped_and_in_order() {
    let mut text = String::from("HloModule many\n\nENTRY e {\n  x = f32[3] parameter(0)\n");
    for k in 0..1_200 {
        text.push_str(&format!("  a{k} = f32[4] negate(x)\n"));
    }
    text.push_str("  ROOT r = f32[3] negate(x)\n}\n");
    let Err(HloError::Verify(errors)) = check(Path::new("many.hlo"), &text) else {
        panic!("this has errors");
    };
    assert_eq!(errors.len(), 1_001);
    for (k, error) in errors[..1_000].iter().enumerate() {
        assert_eq!(error.instruction, format!("a{k}"));
        let location = error.location.as_ref().unwrap();
        assert_eq!((location.line, location.column), (5 + k, 3));
    }
    assert_eq!(errors[1_000].message, "… and 200 errors more");
}

#[test]
fn long_chains_of_use_are_no_trouble() {
    // Every instruction uses the next, so each is used before it is defined and none is a cycle.
    let count = 20_000;
    let mut text = String::from("HloModule chain\n\nENTRY e {\n");
    for k in 0..count {
        text.push_str(&format!("  a{k} = f32[4] negate(a{})\n", k + 1));
    }
    text.push_str(&format!("  ROOT a{count} = f32[4] parameter(0)\n}}\n"));
    let Err(HloError::Verify(errors)) = check(Path::new("chain.hlo"), &text) else {
        panic!("this has errors");
    };
    assert_eq!(errors.len(), 1_001);
    assert!(errors[0].message.contains("before it is defined"));
}

#[test]
fn shapes_left_out_follow_from_the_rules() {
    let source = "HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  y = f32[8,3] parameter(1)\n  \
        d = dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  \
        s = slice(d), slice={[0:2], [0:3]}\n  ROOT r = concatenate(d, s), dimensions={0}\n}\n";
    let options = ParseOptions {
        infer_shape: Some(left_out_shape),
        ..ParseOptions::default()
    };
    let module = text::parse(Arc::from(source.as_bytes()), &options)
        .unwrap_or_else(|error| panic!("{error}"));
    let root = module
        .find_instruction("r")
        .map(|id| module.instruction(id));
    let dims = root.and_then(|r| r.array_shape()).map(|a| a.dims.to_vec());
    assert_eq!(dims, Some(vec![6, 3]));
    verify(&module).unwrap_or_else(|error| panic!("{error}"));
}
