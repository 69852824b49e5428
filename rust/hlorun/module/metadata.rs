//! `metadata={…}`: which operation of the user's program an instruction comes from.

use super::attributes::{AttrKey, AttrValue};
use super::instruction::InstructionRef;
use super::scan::{ScanError, Scanner};
use super::stack_frames::StackFrame;

/// The fields of an instruction's metadata; absent ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct OpMetadata {
    pub op_type: Option<String>,
    pub op_name: Option<String>,
    pub source_file: Option<String>,
    pub source_line: Option<i64>,
    pub source_end_line: Option<i64>,
    pub source_column: Option<i64>,
    pub source_end_column: Option<i64>,
    pub stack_frame_id: Option<i64>,
    pub deduplicated_name: Option<String>,
    pub scheduling_name: Option<String>,
    pub profile_type: Vec<i64>,
    /// Fields hlorun does not know, as written.
    pub other: Vec<(String, String)>,
    /// The stack, innermost frame first, where the module has tables of stack frames.
    pub stack_frames: Vec<StackFrame>,
}

impl OpMetadata {
    /// The fields that some version of XLA writes, and whether each is a quoted string.
    pub const FIELDS: [(&[u8], bool); 18] = [
        (b"op_name", true),
        (b"stack_frame_id", false),
        (b"op_type", true),
        (b"source_file", true),
        (b"source_line", false),
        (b"source_end_line", false),
        (b"source_column", false),
        (b"source_end_column", false),
        (b"scheduling_name", true),
        (b"deduplicated_name", true),
        (b"profile_type", false),
        (b"metadata_payload", true),
        (b"size_of_generated_code_in_bytes", false),
        (b"size_of_memory_working_set_in_bytes", false),
        (b"preserve_layout", false),
        (b"logical_creation_pass_id", false),
        (b"creation_pass_id", false),
        (b"profile_info", false),
    ];

    /// Reads `{op_type="…" op_name="…" source_line=1}`, braces included.
    ///
    /// # Errors
    /// Where the text stops being metadata.
    pub fn read(text: &[u8]) -> Result<OpMetadata, ScanError> {
        OpMetadata::scan(&mut Scanner::new(text))
    }

    /// Reads what [`OpMetadata::read`] does where `scan` is, or several in braces and with commas
    /// between them, as shardings have them.
    pub(super) fn scan_list(scan: &mut Scanner<'_>) -> Result<Vec<OpMetadata>, ScanError> {
        let start = scan.at;
        scan.expect(b'{', "'{'")?;
        if scan.peek() != b'{' {
            scan.at = start;
            return Ok(vec![OpMetadata::scan(scan)?]);
        }
        let mut list = vec![OpMetadata::scan(scan)?];
        while scan.eat(b',') {
            list.push(OpMetadata::scan(scan)?);
        }
        scan.expect(b'}', "'}' or more metadata")?;
        Ok(list)
    }

    fn scan(scan: &mut Scanner<'_>) -> Result<OpMetadata, ScanError> {
        let mut metadata = OpMetadata::default();
        scan.expect(b'{', "'{'")?;
        while !scan.eat(b'}') {
            let key = scan.word();
            if key.is_empty() {
                return Err(scan.error("the name of a field, or '}'"));
            }
            scan.expect(b'=', "'=' after the name of a field")?;
            match key {
                b"op_type" => metadata.op_type = Some(scan.string()?),
                b"op_name" => metadata.op_name = Some(scan.string()?),
                b"source_file" => metadata.source_file = Some(scan.string()?),
                b"source_line" => metadata.source_line = Some(scan.integer()?),
                b"source_end_line" => metadata.source_end_line = Some(scan.integer()?),
                b"source_column" => metadata.source_column = Some(scan.integer()?),
                b"source_end_column" => metadata.source_end_column = Some(scan.integer()?),
                b"stack_frame_id" => metadata.stack_frame_id = Some(scan.integer()?),
                b"deduplicated_name" => metadata.deduplicated_name = Some(scan.string()?),
                b"scheduling_name" => metadata.scheduling_name = Some(scan.string()?),
                b"profile_type" => {
                    scan.expect(b'{', "'{'")?;
                    if !scan.eat(b'}') {
                        metadata.profile_type = scan.integers()?;
                        scan.expect(b'}', "'}'")?;
                    }
                }
                _ => {
                    let value = String::from_utf8_lossy(scan.value()?).into_owned();
                    let key = String::from_utf8_lossy(key).into_owned();
                    metadata.other.push((key, value));
                }
            }
            scan.eat(b',');
        }
        Ok(metadata)
    }
}

impl InstructionRef<'_> {
    /// Where the instruction comes from. With tables of stack frames in the module, the frames are
    /// looked up, and the innermost fills in file and line when the metadata has none of its own.
    pub fn metadata(self) -> Option<OpMetadata> {
        let Some(AttrValue::Raw(text)) = self.attribute(AttrKey::Metadata) else {
            return None;
        };
        let mut metadata = OpMetadata::read(self.module.text().bytes(*text)).ok()?;
        if let Some(id) = metadata.stack_frame_id {
            metadata.stack_frames = self.module.stack_frames(id);
            if let (Some(frame), None) = (metadata.stack_frames.first(), &metadata.source_file) {
                metadata.source_file = Some(frame.file.clone());
                metadata.source_line = Some(frame.line);
                metadata.source_end_line = Some(frame.end_line);
                metadata.source_column = Some(frame.column);
                metadata.source_end_column = Some(frame.end_column);
            }
        }
        Some(metadata)
    }

    /// `frontend_attributes={key="value",…}`, in order; values that are no strings as written.
    pub fn frontend_attributes(self) -> Vec<(String, String)> {
        match self.attribute(AttrKey::FrontendAttributes) {
            Some(AttrValue::Raw(text)) => read_map(self.module.text().bytes(*text)),
            _ => Vec::new(),
        }
    }
}

/// `{key="value",key={…}}`; stops at what is no such map.
pub fn read_map(text: &[u8]) -> Vec<(String, String)> {
    let mut scan = Scanner::new(text);
    let mut map = Vec::new();
    if !scan.eat(b'{') {
        return map;
    }
    while !scan.eat(b'}') {
        let key = String::from_utf8_lossy(scan.word()).into_owned();
        if !scan.eat(b'=') {
            break;
        }
        let value = if matches!(scan.peek(), b'"' | b'\'') {
            scan.string()
        } else {
            scan.value()
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let Ok(value) = value else { break };
        map.push((key, value));
        scan.eat(b',');
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields() {
        let text = br#"{op_type="add" op_name="a\"b" source_file="f.py" source_line=3 profile_type={1,2} size=4 scheduling_name="x"}"#;
        let metadata = OpMetadata::read(text).unwrap_or_default();
        assert_eq!(metadata.op_type.as_deref(), Some("add"));
        assert_eq!(metadata.op_name.as_deref(), Some("a\"b"));
        assert_eq!(metadata.source_line, Some(3));
        assert_eq!(metadata.profile_type, [1, 2]);
        assert_eq!(metadata.other, [("size".to_owned(), "4".to_owned())]);
        assert_eq!(metadata.scheduling_name.as_deref(), Some("x"));
        assert!(OpMetadata::read(b"{op_type=3").is_err());
    }

    #[test]
    fn maps_hold_strings_and_objects() {
        let map = read_map(br#"{a="x",b={"c":"}"}}"#);
        assert_eq!(map.len(), 2);
        assert_eq!(map[1].1, r#"{"c":"}"}"#);
    }
}
