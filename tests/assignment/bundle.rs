//! The stored dumps: the five of the project, and bundles of what JAX writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hlorun::analysis::buffer_assignment::{BufferAssignmentDump, parse, parse_files};
use hlorun::module::HloModule;
use hlorun::text;

pub const JAXLIBS: [&str; 4] = ["0.4.13", "0.4.30", "0.5.3", "0.10.2"];

/// The files of one module.
#[derive(Default)]
pub struct Dump {
    pub name: String,
    pub module: Vec<u8>,
    /// Assignment, values and live ranges, as many as that year has.
    pub assignment: Vec<Vec<u8>>,
    pub report: Option<Vec<u8>>,
}

fn read(path: &str) -> Arc<[u8]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(path);
    let bytes = text::read(&path, &text::ParseOptions::default()).expect("stored data");
    Arc::from(&*bytes)
}

/// One of the five dumps, by the start of its name.
pub fn text_of(start: &str) -> Arc<[u8]> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dumps");
    let file = std::fs::read_dir(folder)
        .expect("stored dumps")
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|name| name.starts_with(start))
        .expect("the dump");
    read(&format!("dumps/{file}"))
}

pub fn assignment_of(start: &str) -> BufferAssignmentDump {
    parse(text_of(start), Some(start.into())).unwrap_or_else(|error| panic!("{error}"))
}

pub fn module_of(start: &str) -> HloModule {
    module(&text_of(start), start)
}

pub fn module(bytes: &[u8], name: &str) -> HloModule {
    text::parse(bytes.into(), &text::ParseOptions::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Dump {
    pub fn parse(&self) -> BufferAssignmentDump {
        let mut joined = Vec::new();
        let mut ends = Vec::new();
        for file in &self.assignment {
            joined.extend_from_slice(file);
            ends.push(joined.len());
        }
        let names = vec![Some(self.name.as_str().into()); ends.len()];
        parse_files(joined.into(), &ends, &names).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// All modules that a jaxlib's bundle holds.
pub fn bundle(jaxlib: &str) -> Vec<Dump> {
    let bytes = read(&format!("assignments/jaxlib-{jaxlib}.bundle.zst"));
    let mut dumps: BTreeMap<String, Dump> = BTreeMap::new();
    let mut rest = &bytes[..];
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).expect("a heading");
        let mut words = line.strip_prefix("==== ").expect("a heading").split(' ');
        let (name, size) = (words.next().expect("a name"), words.next().expect("a size"));
        let size: usize = size.parse().expect("a size");
        let content = rest[end + 1..end + 1 + size].to_vec();
        rest = &rest[end + 2 + size..];
        let at = name.find(".cpu").expect("a stage") + 4;
        let dump = dumps.entry(name[..at].to_string()).or_default();
        dump.name = format!("jaxlib {jaxlib}, {}", &name[..at]);
        match &name[at..] {
            ".txt" => dump.module = content,
            "-memory-usage-report.txt" => dump.report = Some(content),
            _ => dump.assignment.push(content),
        }
    }
    dumps.into_values().collect()
}
