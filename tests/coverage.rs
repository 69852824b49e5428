//! What of the language the tests of this repository reach, as `docs/coverage-language.md`
//! (`BLESS=1` rewrites it): every opcode, every element type in literals, every attribute key.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::error::HloError;
use hlorun::module::{AttrKey, HloModule, HloOpcode};
use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::text::{ParseOptions, parse, parse_modules};
use hlorun::types::PrimitiveType;
use hlorun::types::primitive_type::NumberClass;
use hlorun::verify::verify;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn parse_text(text: &str) -> Result<HloModule, HloError> {
    parse(Arc::from(text.as_bytes()), &ParseOptions::default())
}

fn texts(folder: &Path) -> Vec<String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .expect("a folder of tests")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e == "hlo" || e == "golden")
        })
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).expect("a text");
            match text.strip_prefix("//// input\n") {
                Some(rest) => rest.split("\n//// ").next().unwrap_or(rest).to_owned(),
                None => text,
            }
        })
        .collect()
}

/// How many instructions of each opcode, and attributes of each key, some texts have.
#[derive(Default)]
struct Counts {
    opcodes: BTreeMap<&'static str, usize>,
    keys: BTreeMap<&'static str, usize>,
}

impl Counts {
    fn add(&mut self, module: &HloModule) {
        for id in module.computation_ids() {
            for &instruction in &module.computation(id).instructions {
                let instruction = module.instruction(instruction);
                *self.opcodes.entry(instruction.opcode().name()).or_default() += 1;
                for attribute in instruction.attributes() {
                    if let Some(name) = attribute.key.name() {
                        *self.keys.entry(name).or_default() += 1;
                    }
                }
            }
        }
    }
}

fn survives(module: &HloModule, options: &PrintOptions) -> bool {
    parse_text(&print_module(module, options))
        .is_ok_and(|again| module.structurally_equal(&again).is_ok())
}

#[derive(Default)]
struct Coverage {
    parsed: Counts,
    round_trip: Counts,
    golden: Counts,
    legal: Counts,
    /// Errors of `tests/hlo/verify-fail`, by the opcode of the instruction they name, and wrong uses.
    broken: BTreeMap<String, usize>,
}

fn coverage() -> Coverage {
    let mut coverage = Coverage::default();
    let folders = [
        "tests/hlo/parse",
        "tests/hlo/print",
        "tests/hlo/verify",
        "tests/data/print",
    ];
    for folder in folders {
        for text in texts(Path::new(folder)) {
            let modules = parse_modules(Arc::from(text.as_bytes()), &ParseOptions::default())
                .unwrap_or_else(|error| panic!("{folder}: {error}"));
            for module in &modules {
                coverage.parsed.add(module);
                if survives(module, &PrintOptions::default())
                    && survives(module, &PrintOptions::long())
                {
                    coverage.round_trip.add(module);
                }
                if folder == "tests/data/print" {
                    coverage.golden.add(module);
                }
                if verify(module).is_ok() {
                    coverage.legal.add(module);
                }
            }
        }
    }
    for text in texts(Path::new("tests/hlo/verify-fail")) {
        let modules = parse_modules(Arc::from(text.as_bytes()), &ParseOptions::default())
            .unwrap_or_else(|error| panic!("{error}"));
        for module in &modules {
            let Err(HloError::Verify(errors)) = verify(module) else {
                continue;
            };
            for error in errors {
                if let Some(id) = module.find_instruction(&error.instruction) {
                    let opcode = module.instruction(id).opcode().name();
                    *coverage.broken.entry(opcode.to_owned()).or_default() += 1;
                }
            }
        }
    }
    for opcode in HloOpcode::all() {
        let refused = wrong_uses(opcode)
            .filter(|text| {
                parse_text(text)
                    .and_then(|module| verify(&module).map(drop))
                    .is_err()
            })
            .count();
        if refused > 0 {
            *coverage.broken.entry(opcode.name().to_owned()).or_default() += refused;
        }
    }
    coverage
}

/// An operation with an operand too many, with one too few, and with a result that it cannot have.
fn wrong_uses(opcode: HloOpcode) -> impl Iterator<Item = String> {
    let arity = opcode.arity();
    let min = usize::from(arity.min);
    let too_many = arity.max.map(|max| usize::from(max) + 1);
    let counts = [Some(min), min.checked_sub(1), too_many];
    let shapes = ["s4[7]{0}", "f32[3]{0}", "f32[3]{0}"];
    let uses = counts.into_iter().zip(shapes);
    uses.filter_map(move |(count, shape)| {
        let operands = vec!["x"; count?].join(", ");
        let name = opcode.name();
        Some(format!(
            "HloModule m\nENTRY e {{\n  x = f32[3]{{0}} parameter(0)\n  ROOT y = {shape} {name}({operands})\n}}\n"
        ))
    })
}

fn cell(count: Option<&usize>) -> String {
    count.map_or_else(|| "–".to_owned(), usize::to_string)
}

fn opcode_table(coverage: &Coverage) -> String {
    let mut out = String::from(
        "| opcode | parsed | round trip | printed as jaxlib prints it | verified legal | refused |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for opcode in HloOpcode::all() {
        let name = opcode.name();
        let row = [
            &coverage.parsed,
            &coverage.round_trip,
            &coverage.golden,
            &coverage.legal,
        ]
        .map(|counts| cell(counts.opcodes.get(name)));
        let broken = cell(coverage.broken.get(name));
        writeln!(out, "| `{name}` | {} | {broken} |", row.join(" | ")).expect("a string");
    }
    out
}

fn key_table(coverage: &Coverage) -> String {
    let mut out = String::from(
        "| attribute | parsed | round trip | printed as jaxlib prints it |\n|---|---:|---:|---:|\n",
    );
    for key in AttrKey::all() {
        let name = key.name().expect("keys of the table have names");
        let row = [&coverage.parsed, &coverage.round_trip, &coverage.golden]
            .map(|counts| cell(counts.keys.get(name)));
        writeln!(out, "| `{name}` | {} |", row.join(" | ")).expect("a string");
    }
    out
}

/// Values that every type of the class writes.
fn values(ty: PrimitiveType) -> &'static [&'static str] {
    match (ty.class(), ty.bit_width()) {
        (NumberClass::Pred, _) => &["false", "true"],
        (NumberClass::Signed, 1) => &["0", "-1"],
        (NumberClass::Signed, _) => &["0", "1", "-2"],
        (NumberClass::Unsigned, 1) => &["0", "1"],
        (NumberClass::Unsigned, _) => &["0", "1", "3"],
        (NumberClass::Complex, _) => &["(0, 1)", "(-1.5, inf)", "(nan, 2)"],
        (NumberClass::Float, _) if ty == PrimitiveType::F8E8M0FNU => &["1", "0.5", "4"],
        (NumberClass::Float, _) => &["0", "1", "1.5"],
    }
}

/// What literals of a type can be: the text, and whether it parses, and comes back from its print
/// with the same bytes.
fn literal_comes_back(ty: PrimitiveType, dims: &str, value: &str) -> bool {
    let name = ty.name();
    let text =
        format!("HloModule m\nENTRY e {{\n  ROOT c = {name}[{dims}] constant({value})\n}}\n");
    parse_text(&text).is_ok_and(|module| {
        survives(&module, &PrintOptions::default()) && survives(&module, &PrintOptions::long())
    })
}

fn literal_table() -> (String, Vec<String>) {
    let mut out = String::from(
        "| type | scalar | vector | matrix | empty | inf | nan | elided |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut missing = Vec::new();
    for ty in PrimitiveType::all() {
        let values = values(ty);
        let row = values.join(", ");
        let count = values.len();
        let cases = [
            ("scalar", String::new(), values[1].to_owned()),
            ("vector", count.to_string(), format!("{{{row}}}")),
            (
                "matrix",
                format!("2,{count}"),
                format!("{{ {{{row}}}, {{{row}}} }}"),
            ),
            ("empty", "0".to_owned(), "{}".to_owned()),
            ("inf", String::new(), "inf".to_owned()),
            ("nan", String::new(), "nan".to_owned()),
            ("elided", "100".to_owned(), "{...}".to_owned()),
        ];
        write!(out, "| `{}`", ty.name()).expect("a string");
        for (what, dims, value) in &cases {
            let value = match (ty.class(), *what) {
                (NumberClass::Complex, "inf" | "nan") => format!("({value}, {value})"),
                _ => value.clone(),
            };
            let comes_back = literal_comes_back(ty, dims, &value);
            if !comes_back && !matches!(*what, "inf" | "nan") {
                missing.push(format!("{} {what}", ty.name()));
            }
            out.push_str(if comes_back { " | yes" } else { " | –" });
        }
        out.push_str(" |\n");
    }
    (out, missing)
}

#[test]
fn the_language_is_covered_as_recorded() {
    let coverage = coverage();
    let (literals, mut missing) = literal_table();
    for opcode in HloOpcode::all().map(HloOpcode::name) {
        for (what, counts) in [
            ("parsed", &coverage.parsed),
            ("round trip", &coverage.round_trip),
            ("verified", &coverage.legal),
        ] {
            if !counts.opcodes.contains_key(opcode) {
                missing.push(format!("{opcode} is not {what}"));
            }
        }
        if !coverage.broken.contains_key(opcode) {
            missing.push(format!("{opcode} is never refused"));
        }
    }
    for key in AttrKey::all().filter_map(AttrKey::name) {
        if !coverage.round_trip.keys.contains_key(key) {
            missing.push(format!("{key}= does not come back"));
        }
    }
    let document = format!(
        "# Coverage of the language\n\n\
         Made by `tests/coverage.rs` (`BLESS=1 cargo test --test coverage` writes it again) from the texts of \
         `tests/hlo` and `tests/data/print`. Numbers count instructions or attributes.\n\n\
         - *parsed*: in all texts that parse.\n\
         - *round trip*: of these, in modules that come back equal from their print in the short and in the long dialect.\n\
         - *printed as jaxlib prints it*: in texts whose print has the bytes of jaxlib's under every preset; \
         some operations have texts that jaxlib 0.10.2 does not read or print.\n\
         - *verified legal*: in modules that break no rule. *refused*: errors of `tests/hlo/verify-fail` that name \
         such an instruction, and uses with a wrong number of operands or an impossible result.\n\n\
         ## Opcodes\n\n{}\n## Element types in literals\n\n\
         Every literal named is parsed, printed in both dialects, and parsed to the same bytes. A dash under inf and nan: \
         the type has no such value.\n\n{literals}\n## Attributes\n\n{}",
        opcode_table(&coverage),
        key_table(&coverage)
    );
    let path = root().join("docs/coverage-language.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &document).expect("the document can be written");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(
        recorded == document,
        "docs/coverage-language.md is not what is covered now; run with BLESS=1"
    );
}
