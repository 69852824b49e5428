//! Memory-usage reports and out-of-memory messages: what they say, read and written line by line.
//!
//! These are tables for people: numbers stay as written (`1.0KiB`), and only what is exact in the
//! text (offsets, counts, bytes) becomes a number.

use super::line::{Line, Parsed};
use super::model::{BufferAllocation, BufferAssignmentDump};
use crate::module::TextRef;

/// One line of a memory-usage report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportLine {
    /// An empty line.
    Blank,
    /// `Memory Space: default (color=0)` (2025 and later).
    MemorySpace {
        /// Its name.
        name: TextRef,
        /// Its number.
        color: i64,
    },
    /// `Total bytes: 1056 (1.0KiB)`, before 2025 `Total bytes used: …`.
    Total {
        /// Whether the line says `used`.
        used: bool,
        /// Bytes.
        bytes: u64,
        /// For people.
        human: TextRef,
    },
    /// `     512B( 48%);       544B; allocation 7: size 512B, …`.
    AllocationRow {
        /// Everything before `allocation`, as written.
        columns: TextRef,
        /// The allocation; its size is [`AllocationSize`]'s.
        allocation: AllocationLine,
    },
    /// `allocation 7: size 512B, …` above its values.
    Allocation(AllocationLine),
    /// `     256B( 50%);       256B;     256;      1; f32[8,8]`.
    ValueRow {
        /// What stands before the columns: spaces or a tab.
        indent: TextRef,
        /// Sum of sizes up to here, for people.
        cumulative: TextRef,
        /// The same in percent.
        percent: TextRef,
        /// Bytes, for people.
        size: TextRef,
        /// Bytes from the start of the allocation.
        offset: u64,
        /// How many values share the place.
        count: u64,
        /// Their shapes, with counts: `5×f32[8,8]`.
        shapes: TextRef,
    },
    /// `  allocation_entries {` of a report in protocol-buffer text (2025).
    Open {
        /// Spaces before it.
        indent: u32,
        /// The field.
        name: TextRef,
    },
    /// `    size: 512` of a report in protocol-buffer text.
    Field {
        /// Spaces before it.
        indent: u32,
        /// The field.
        name: TextRef,
        /// Its value, strings with their quotes.
        value: TextRef,
    },
    /// `  }` of a report in protocol-buffer text.
    Close {
        /// Spaces before it.
        indent: u32,
    },
    /// A heading, a rule, or a closing remark, as written.
    Text(TextRef),
}

/// A size as a report writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationSize {
    /// `1.0KiB`, as written.
    pub human: TextRef,
}

/// `allocation 7: size 512B, preallocated-temp:` of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationLine {
    /// The allocation; its `size` is 0, because a report rounds it.
    pub allocation: BufferAllocation,
    /// The size.
    pub size: AllocationSize,
}

/// One line of an out-of-memory message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OomLine {
    /// An empty line.
    Blank,
    /// `             parameter allocation:         0B`.
    Stat {
        /// `parameter allocation`.
        label: TextRef,
        /// Bytes for people.
        size: TextRef,
        /// `(0.00%)` without the parentheses; empty when absent.
        percent: TextRef,
    },
    /// `Buffer 1:`, one tab in.
    Buffer(u64),
    /// `Size: 3.73GiB`, two tabs in, and the other facts of a buffer.
    Fact {
        /// `Size`, `Operator`, `XLA Label`, `Shape` or `Entry Parameter Subshape`.
        key: TextRef,
        /// What it says.
        value: TextRef,
    },
    /// A heading or a rule, as written.
    Text(TextRef),
}

const COLUMNS: &str = "cumulative_size;";

/// Whether a report continues with this line.
pub(super) fn belongs_to_report(line: &Line<'_>) -> bool {
    let text = line.rest().trim_ascii_start();
    line.is_blank()
        || text.starts_with(b"allocation ")
        || text.starts_with(b"Allocations sorted")
        || text.starts_with(COLUMNS.as_bytes())
        || text.starts_with(b"-----")
        || text.starts_with(b"Total bytes")
        || text.starts_with(b"Memory Space:")
        || text.starts_with(b"The rest ")
        || text.first().is_some_and(u8::is_ascii_digit)
        || is_proto_line(text)
}

/// Whether a line is protocol-buffer text: `name {`, `name: value` or `}`.
fn is_proto_line(text: &[u8]) -> bool {
    let name = text
        .iter()
        .take_while(|b| b.is_ascii_lowercase() || **b == b'_')
        .count();
    let rest = &text[name..];
    text == b"}" || name > 0 && (rest == b" {" || rest.starts_with(b": "))
}

fn proto_line(mut line: Line<'_>) -> Parsed<ReportLine> {
    let start = line.at;
    skip_spaces(&mut line);
    let indent = (line.at - start) as u32;
    if line.eat("}") {
        line.finish()?;
        return Ok(ReportLine::Close { indent });
    }
    let name = line.word("the name of a field", b" :")?;
    if line.eat(" {") {
        line.finish()?;
        return Ok(ReportLine::Open { indent, name });
    }
    line.expect(": ")?;
    let value = line.text();
    Ok(ReportLine::Field {
        indent,
        name,
        value,
    })
}

/// Reads one line of a report; `allocation` reads what follows `allocation `.
pub(super) fn report_line(
    mut line: Line<'_>,
    allocation: impl Fn(&mut Line<'_>) -> Parsed<AllocationLine>,
) -> Parsed<ReportLine> {
    let text = line.text();
    if line.rest().is_empty() {
        return Ok(ReportLine::Blank);
    }
    if line.eat("Memory Space: ") {
        let name = line.word("the memory space's name", b" (")?;
        line.expect(" (color=")?;
        let color = line.signed("the color")?;
        line.expect(")")?;
        line.finish()?;
        return Ok(ReportLine::MemorySpace { name, color });
    }
    if line.eat("Total bytes") {
        let used = line.eat(" used");
        line.expect(": ")?;
        let bytes = line.number("the total")?;
        line.expect(" (")?;
        let human = line.word("the total for people", b")")?;
        line.expect(")")?;
        line.finish()?;
        return Ok(ReportLine::Total { used, bytes, human });
    }
    if line.starts_with("allocation ") {
        return allocation(&mut line).map(ReportLine::Allocation);
    }
    if is_proto_line(line.rest().trim_ascii_start()) {
        return proto_line(line);
    }
    let indent = line
        .rest()
        .iter()
        .take_while(|b| b.is_ascii_whitespace())
        .count();
    let row = line.rest()[indent..]
        .first()
        .is_some_and(u8::is_ascii_digit);
    if !row {
        return Ok(ReportLine::Text(text));
    }
    if let Some(at) = memchr::memmem::find(line.rest(), b"; allocation ") {
        let columns = TextRef::new(line.at, line.at + at + 2);
        line.at += at + 2;
        let allocation = allocation(&mut line)?;
        return Ok(ReportLine::AllocationRow {
            columns,
            allocation,
        });
    }
    value_row(line)
}

fn skip_spaces(line: &mut Line<'_>) {
    while line.eat(" ") {}
}

fn value_row(mut line: Line<'_>) -> Parsed<ReportLine> {
    let start = line.at;
    while line.rest().first().is_some_and(u8::is_ascii_whitespace) {
        line.at += 1;
    }
    let number_at = line.at;
    let cumulative = line.word("the cumulative size", b"(")?;
    // The column is nine wide; what is before it is the indentation.
    let indent = TextRef::new(
        start,
        (cumulative.end().saturating_sub(9)).clamp(start, number_at),
    );
    line.expect("(")?;
    skip_spaces(&mut line);
    let percent = line.word("the percentage", b"%")?;
    line.expect("%);")?;
    skip_spaces(&mut line);
    let size = line.word("the size", b";")?;
    line.expect(";")?;
    skip_spaces(&mut line);
    let offset = line.number("the offset")?;
    line.expect(";")?;
    skip_spaces(&mut line);
    let count = line.number("the number of values")?;
    line.expect(";")?;
    line.expect(" ")?;
    let shapes = line.text();
    Ok(ReportLine::ValueRow {
        indent,
        cumulative,
        percent,
        size,
        offset,
        count,
        shapes,
    })
}

/// Whether an out-of-memory message continues with this line.
pub(super) fn belongs_to_oom(line: &Line<'_>) -> bool {
    line.is_blank()
        || line.starts_with("BufferAssignment stats:")
        || line.starts_with("Peak buffers:")
        || line.starts_with("\t")
        || line.starts_with("  ")
        || line.starts_with("Buffer ")
}

/// Reads one line of an out-of-memory message.
pub(super) fn oom_line(mut line: Line<'_>) -> Parsed<OomLine> {
    let text = line.text();
    if line.rest().is_empty() {
        return Ok(OomLine::Blank);
    }
    if line.eat("\t\t") {
        if let Some(at) = memchr::memmem::find(line.rest(), b": ") {
            let key = TextRef::new(line.at, line.at + at);
            line.at += at + 2;
            return Ok(OomLine::Fact {
                key,
                value: line.text(),
            });
        }
        return Ok(OomLine::Text(text));
    }
    if line.eat("\tBuffer ") {
        let number = line.number("the buffer's number")?;
        line.expect(":")?;
        line.finish()?;
        return Ok(OomLine::Buffer(number));
    }
    if line.starts_with("  ") {
        skip_spaces(&mut line);
        let label = line.word("the kind of allocation", b":")?;
        line.expect(":")?;
        skip_spaces(&mut line);
        let size = line.word("the size", b" ")?;
        let mut percent = TextRef::new(line.at, line.at);
        if line.eat(" (") {
            percent = line.word("the percentage", b")")?;
            line.expect(")")?;
        }
        line.finish()?;
        return Ok(OomLine::Stat {
            label,
            size,
            percent,
        });
    }
    Ok(OomLine::Text(text))
}

/// What a usage report says of one memory space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySpaceUsage {
    /// Its name; empty where the report has none.
    pub name: TextRef,
    /// Its number.
    pub color: i64,
    /// Bytes of all its allocations.
    pub bytes: u64,
    /// Its allocations, as far as the report lists them.
    pub allocations: usize,
}

/// The memory spaces of the usage report, in its order; none without a report.
pub fn usage(dump: &BufferAssignmentDump) -> Vec<MemorySpaceUsage> {
    let mut spaces: Vec<MemorySpaceUsage> = Vec::new();
    // Reports before 2025 are of one space and have no heading.
    let last = |spaces: &mut Vec<MemorySpaceUsage>| {
        if spaces.is_empty() {
            spaces.push(MemorySpaceUsage::default());
        }
        spaces.len() - 1
    };
    let number = |text: TextRef| dump.str(text).parse::<i64>().unwrap_or(0);
    for line in &dump.report {
        match *line {
            ReportLine::MemorySpace { name, color } => spaces.push(MemorySpaceUsage {
                name,
                color,
                ..MemorySpaceUsage::default()
            }),
            ReportLine::Open { indent: 0, .. } => spaces.push(MemorySpaceUsage::default()),
            ReportLine::Total { bytes, .. } => {
                let at = last(&mut spaces);
                spaces[at].bytes = bytes;
            }
            // Since 2025 each allocation has a table of its own, before that a line.
            ReportLine::Text(text) => {
                let heads = dump
                    .bytes(text)
                    .trim_ascii_start()
                    .starts_with(COLUMNS.as_bytes());
                let at = last(&mut spaces);
                spaces[at].allocations += usize::from(heads && spaces[at].name.len > 0);
            }
            ReportLine::AllocationRow { .. } | ReportLine::Open { indent: 2, .. } => {
                let at = last(&mut spaces);
                spaces[at].allocations += 1;
            }
            ReportLine::Field {
                indent: 2,
                name,
                value,
            } => {
                let at = last(&mut spaces);
                match dump.bytes(name) {
                    b"total_bytes" => spaces[at].bytes = number(value).max(0) as u64,
                    b"memory_space_color" => spaces[at].color = number(value),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    spaces
}
