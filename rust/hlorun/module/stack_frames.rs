//! The tables after the module's header that `stack_frame_id` in metadata refers to.

use super::hlo_module::HloModule;
use super::scan::{ScanError, Scanner};

/// One frame of a Python stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StackFrame {
    pub file: String,
    pub function: String,
    pub line: i64,
    pub end_line: i64,
    pub column: i64,
    pub end_column: i64,
}

/// The four tables; ids count from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrameTables {
    /// `FileNames`.
    pub file_names: Vec<String>,
    /// `FunctionNames`.
    pub function_names: Vec<String>,
    locations: Vec<[i64; 6]>,
    /// Location and parent; the parent is 0 for the outermost frame.
    frames: Vec<(i64, i64)>,
}

impl StackFrameTables {
    /// Reads `FileNames … FunctionNames … FileLocations … StackFrames …`.
    ///
    /// # Errors
    /// Where the text stops being tables.
    pub fn read(text: &[u8]) -> Result<StackFrameTables, ScanError> {
        let mut scan = Scanner::new(text);
        let mut tables = StackFrameTables::default();
        loop {
            match scan.word() {
                b"" => return Ok(tables),
                b"FileNames" => tables.file_names = strings(&mut scan)?,
                b"FunctionNames" => tables.function_names = strings(&mut scan)?,
                b"FileLocations" => {
                    const FIELDS: [&[u8]; 6] = [
                        b"file_name_id",
                        b"function_name_id",
                        b"line",
                        b"end_line",
                        b"column",
                        b"end_column",
                    ];
                    tables.locations = rows(&mut scan, FIELDS)?;
                }
                b"StackFrames" => {
                    const FIELDS: [&[u8]; 2] = [b"file_location_id", b"parent_frame_id"];
                    // The text counts parents from 1 for "none".
                    tables.frames = rows(&mut scan, FIELDS)?
                        .into_iter()
                        .map(|[location, parent]| (location, parent.saturating_sub(1)))
                        .collect();
                }
                _ => return Err(scan.error("a table of stack frames")),
            }
        }
    }

    /// The frames from `id` outwards.
    pub fn stack(&self, id: i64) -> Vec<StackFrame> {
        self.outwards(id).collect()
    }

    /// The frames from `id` outwards, made one at a time.
    pub fn outwards(&self, id: i64) -> impl Iterator<Item = StackFrame> + '_ {
        fn row<T>(table: &[T], id: i64) -> Option<&T> {
            table.get(usize::try_from(id).ok()?.checked_sub(1)?)
        }
        let text = |table: &[String], id| row(table, id).cloned().unwrap_or_default();
        let mut next = id;
        let frames = std::iter::from_fn(move || {
            let &(location, parent) = row(&self.frames, next)?;
            let &[file, function, line, end_line, column, end_column] =
                row(&self.locations, location)?;
            next = parent;
            Some(StackFrame {
                file: text(&self.file_names, file),
                function: text(&self.function_names, function),
                line,
                end_line,
                column,
                end_column,
            })
        });
        // A stack has no more frames than the table; a cycle stops there.
        frames.take(self.frames.len())
    }
}

fn strings(scan: &mut Scanner<'_>) -> Result<Vec<String>, ScanError> {
    let mut list = Vec::new();
    while scan.peek().is_ascii_digit() {
        scan.integer()?;
        list.push(scan.string()?);
    }
    Ok(list)
}

fn rows<const N: usize>(
    scan: &mut Scanner<'_>,
    fields: [&[u8]; N],
) -> Result<Vec<[i64; N]>, ScanError> {
    let mut list = Vec::new();
    while scan.peek().is_ascii_digit() {
        scan.integer()?;
        scan.expect(b'{', "'{' of a row")?;
        let mut row = [0; N];
        while !scan.eat(b'}') {
            let key = scan.word();
            scan.expect(b'=', "'='")?;
            let value = scan.integer()?;
            if let Some(at) = fields.iter().position(|&field| field == key) {
                row[at] = value;
            }
            scan.eat(b',');
        }
        list.push(row);
    }
    Ok(list)
}

impl HloModule {
    /// The tables of stack frames; empty when the module has none.
    pub fn stack_frame_tables(&self) -> StackFrameTables {
        StackFrameTables::read(self.text().bytes(self.trailer)).unwrap_or_default()
    }

    /// The stack of frame `id`, innermost first; empty when there is no such frame.
    pub fn stack_frames(&self, id: i64) -> Vec<StackFrame> {
        self.stack_frame_tables().stack(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lead_outwards_and_cycles_end() {
        let text = br#"FileNames
1 "a.py"
FunctionNames
1 "main"
2 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}
2 {file_name_id=1 function_name_id=2 line=7 end_line=8 column=2 end_column=4}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=2 parent_frame_id=4}
"#;
        let tables = StackFrameTables::read(text).unwrap_or_default();
        let stack = tables.stack(2);
        let names: Vec<&str> = stack.iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(names, ["f", "main"]);
        assert_eq!(tables.stack(3).len(), 3);
        assert!(tables.stack(9).is_empty());
    }
}
