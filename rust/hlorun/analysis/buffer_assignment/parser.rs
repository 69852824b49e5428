//! Text → [`BufferAssignmentDump`].
//!
//! Comes in: one file, or the several files of one dump, of any year; log prefixes may stand
//! before the lines. Goes out: the model. Promises: time and memory are linear in the text, and a
//! mistake is reported with line, column and what was expected.

use std::sync::Arc;

use super::line::{Line, Lines, LogPrefix, Mistake, Parsed};
use super::model::*;
use super::names::{allocation_parameter, glued_name, value_name, value_use};
use super::report::{self, AllocationLine, AllocationSize};
use crate::error::{HloError, Result};
use crate::module::{ModuleText, PoolRange, Source, TextRef};

/// Parses one text. `filename` is shown in errors.
///
/// # Errors
/// [`HloError::Parse`] with the place of the first mistake.
pub fn parse(
    source: impl Into<Source>,
    filename: Option<Arc<str>>,
) -> Result<BufferAssignmentDump> {
    let source = source.into();
    let length = source.len();
    parse_files(source, &[length], &[filename])
}

/// Parses several files of one dump, such as `-buffer-assignment.txt`,
/// `-buffer-assignment-values.txt` and `-live-range.txt`, joined in `source`. `ends` are the byte
/// offsets where the files end, `filenames` their names in the same order.
///
/// # Errors
/// [`HloError::Parse`] with the place of the first mistake.
pub fn parse_files(
    source: Source,
    ends: &[usize],
    filenames: &[Option<Arc<str>>],
) -> Result<BufferAssignmentDump> {
    let name_of = |file: usize| filenames.get(file).cloned().flatten();
    if source.len() > u32::MAX as usize {
        let mistake = Mistake::new(0, "the dump is larger than 4 GiB");
        return Err(mistake.into_error(&source[..1], name_of(0)));
    }
    let mut dump = BufferAssignmentDump::default();
    let mut start = 0;
    for (file, &end) in ends.iter().enumerate() {
        let end = end.clamp(start, source.len());
        let parser = Parser {
            lines: Lines {
                source: &source,
                next: start,
                end,
                prefix: LogPrefix::default(),
            },
            dump: &mut dump,
            file: file as u32,
        };
        parser.file().map_err(|mut mistake| {
            mistake.at = mistake.at.saturating_sub(start);
            mistake.into_error(&source[start..end], name_of(file))
        })?;
        start = end;
    }
    if dump.style.sections.is_empty() {
        return Err(nothing_found(&source, name_of(0)));
    }
    dump.text = ModuleText::new(source, name_of(0));
    Ok(dump)
}

#[cold]
fn nothing_found(source: &[u8], filename: Option<Arc<str>>) -> HloError {
    let mut mistake = Mistake::new(
        0,
        "expected a buffer assignment: a line `BufferAssignment:`, `allocation 0: …`, \
         `Total bytes used:`, `Used values:`, `HloLiveRange (max …):` or `Memory Space:`",
    );
    if memchr::memmem::find(source, b"HloModule").is_some() {
        mistake.notes.push(
            "this text holds an HLO module; buffer assignments are in files of their own".into(),
        );
    }
    mistake.into_error(source, filename)
}

/// What a line that starts a section looks like; the longest first where one is part of another.
const HEADINGS: &[(&str, SectionKind)] = &[
    ("BufferAssignment OOM Debugging.", SectionKind::Oom),
    ("BufferAssignment:", SectionKind::Allocations),
    ("Total bytes used:", SectionKind::Total),
    ("Used values:", SectionKind::UsedValues),
    ("HloLiveRange (max ", SectionKind::LiveRange),
    ("Memory Space: ", SectionKind::Report),
    ("memory_space_allocation_entries {", SectionKind::Report),
];

pub(super) struct Parser<'a, 'd> {
    pub lines: Lines<'a>,
    pub dump: &'d mut BufferAssignmentDump,
    file: u32,
}

fn heading(line: &Line<'_>) -> Option<SectionKind> {
    let rest = line.rest();
    if rest.starts_with(b"allocation ") {
        return Some(SectionKind::BareAllocations);
    }
    HEADINGS
        .iter()
        .find(|(text, _)| rest.starts_with(text.as_bytes()))
        .map(|row| row.1)
}

impl<'a> Parser<'a, '_> {
    fn file(mut self) -> Parsed<()> {
        self.find_prefix();
        if let Some(end) = memchr::memchr(b'\n', &self.lines.source[self.lines.next..]) {
            let end = self.lines.next + end;
            self.dump.style.crlf |= end > 0 && self.lines.source[end - 1] == b'\r';
        }
        let mut blank = 0u32;
        while let Some(line) = self.lines.peek() {
            if line.is_blank() {
                blank += 1;
                self.lines.advance();
                continue;
            }
            let Some(kind) = heading(&line) else {
                // In a log, other lines of the same source file may stand around the dump.
                if !self.lines.prefix.is_empty() || self.dump.style.sections.is_empty() {
                    self.lines.advance();
                    blank = 0;
                    continue;
                }
                return Err(line.unexpected("a section of a buffer assignment"));
            };
            let kind = self.refine(kind);
            self.start(kind, blank, &line)?;
            blank = 0;
            match kind {
                SectionKind::Allocations => {
                    self.lines.advance();
                    self.allocations()?;
                }
                SectionKind::BareAllocations => self.allocations()?,
                SectionKind::Total => self.total(line)?,
                SectionKind::UsedValues => {
                    self.lines.advance();
                    self.used_values()?;
                }
                SectionKind::LiveRange => self.live_range()?,
                SectionKind::Report => blank = self.report()?,
                SectionKind::Oom => blank = self.oom()?,
            }
        }
        let source = self.lines.source;
        let ended = self.lines.end == 0 || source.get(self.lines.end - 1) == Some(&b'\n');
        self.dump.style.tails.push(ended.then_some(blank));
        Ok(())
    }

    /// A report of 2024 starts like the total of an assignment; what follows tells them apart.
    fn refine(&mut self, kind: SectionKind) -> SectionKind {
        if kind != SectionKind::Total {
            return kind;
        }
        let here = self.lines.next;
        self.lines.advance();
        let mut found = SectionKind::Total;
        while let Some(line) = self.lines.peek() {
            if line.is_blank() {
                self.lines.advance();
                continue;
            }
            if line.starts_with("Allocations sorted by size") {
                found = SectionKind::Report;
            }
            break;
        }
        self.lines.next = here;
        found
    }

    fn start(&mut self, kind: SectionKind, blank_before: u32, line: &Line<'_>) -> Parsed<()> {
        let file = self.file;
        let sections = &mut self.dump.style.sections;
        let same = |s: &Section| match kind {
            SectionKind::Allocations | SectionKind::BareAllocations => matches!(
                s.kind,
                SectionKind::Allocations | SectionKind::BareAllocations
            ),
            _ => s.kind == kind,
        };
        if sections.iter().any(same) {
            let mut mistake = Mistake::new(line.at, "this section stands twice");
            mistake
                .notes
                .push("a dump of several modules has to be split before it is read".into());
            return Err(mistake);
        }
        sections.push(Section {
            kind,
            blank_before,
            file,
        });
        Ok(())
    }

    /// When the first heading does not start its line, what is before it is a log prefix.
    fn find_prefix(&mut self) {
        let here = self.lines.next;
        while let Some(line) = self.lines.take() {
            let rest = line.rest();
            let found = HEADINGS
                .iter()
                .filter_map(|(text, _)| memchr::memmem::find(rest, text.as_bytes()))
                .min();
            match found {
                Some(0) => break,
                Some(at) => {
                    self.lines.prefix = LogPrefix::before(rest, at);
                    break;
                }
                None if rest.starts_with(b"allocation ") => break,
                None => {}
            }
        }
        self.lines.next = here;
    }

    fn allocations(&mut self) -> Parsed<()> {
        while let Some(mut line) = self.lines.peek() {
            if !line.starts_with("allocation ") {
                break;
            }
            self.lines.advance();
            let mut allocation = self.allocation(&mut line, |line| {
                let size = line.number("the size in bytes")?;
                Ok((size, TextRef::default()))
            })?;
            let start = self.dump.assigned.len();
            while let Some(mut line) = self.lines.peek() {
                if !line.eat(" value: ") {
                    break;
                }
                self.lines.advance();
                let name = value_name(&mut line)?;
                line.expect(" (size=")?;
                let size = line.number("the size in bytes")?;
                line.expect(",offset=")?;
                let offset = line.number("the offset in bytes")?;
                line.expect("): ")?;
                let shape = line.word("a shape", b"")?;
                self.dump.assigned.push(AssignedValue {
                    name,
                    size,
                    offset,
                    shape,
                });
            }
            allocation.0.values = pool_range(start, self.dump.assigned.len());
            self.dump.allocations.push(allocation.0);
        }
        Ok(())
    }

    fn allocation(
        &self,
        line: &mut Line<'a>,
        size: impl Fn(&mut Line<'a>) -> Parsed<(u64, TextRef)>,
    ) -> Parsed<(BufferAllocation, TextRef)> {
        let text = line.text();
        line.expect("allocation ")?;
        let index = line.small_number("the allocation's number")?;
        line.expect(": ")?;
        let mut address = TextRef::new(line.at, line.at);
        if line.starts_with("0x") {
            address = line.word("an address", b",")?;
            line.expect(", ")?;
        }
        line.expect("size ")?;
        let (size, human) = size(line)?;
        let mut allocation = BufferAllocation {
            index,
            address,
            size,
            color: 0,
            page: None,
            parameter: None,
            output_shape: None,
            flags: AllocationFlags::default(),
            other: TextRef::default(),
            values: PoolRange::default(),
            text,
        };
        while line.starts_with(", ") {
            let start = line.at;
            line.at += 2;
            if line.eat("color ") {
                allocation.color = line.signed("the color")?;
            } else if line.eat("page ") {
                allocation.page = Some(line.number("the page")?);
            } else if line.eat("parameter ") {
                allocation.parameter = Some(allocation_parameter(line)?);
            } else if line.eat("output shape is |") {
                let shape = line.word("a shape", b"|")?;
                line.expect("|")?;
                allocation.output_shape = Some(shape);
            } else if line.eat("constant") {
                allocation.flags.constant = true;
            } else if line.eat("thread-local") {
                allocation.flags.thread_local = true;
            } else if line.eat("maybe-live-out") {
                allocation.flags.maybe_live_out = true;
            } else if line.eat("preallocated-temp") {
                allocation.flags.preallocated_temp = true;
            } else {
                line.word("an attribute of the allocation", b",:")?;
                let from = match allocation.other.len {
                    0 => start,
                    _ => allocation.other.start as usize,
                };
                allocation.other = TextRef::new(from, line.at);
            }
        }
        line.expect(":")?;
        line.finish()?;
        Ok((allocation, human))
    }

    fn total(&mut self, mut line: Line<'a>) -> Parsed<()> {
        self.lines.advance();
        line.expect("Total bytes used: ")?;
        let bytes = line.number("the total in bytes")?;
        let mut human = TextRef::new(line.at, line.at);
        if line.eat(" (") {
            human = line.word("the total for people", b")")?;
            line.expect(")")?;
        }
        line.finish()?;
        self.dump.total = Some(TotalBytes { bytes, human });
        Ok(())
    }

    fn used_values(&mut self) -> Parsed<()> {
        // Where instructions end without a line end, the next name was already seen.
        let mut pending: Option<Line<'a>> = None;
        loop {
            let mut line = match pending.take() {
                Some(line) => line,
                None => match self.lines.peek() {
                    Some(line) if line.starts_with("<") => {
                        self.lines.advance();
                        line
                    }
                    _ => return Ok(()),
                },
            };
            let name = value_name(&mut line)?;
            line.finish()?;
            self.required(" positions:")?;
            let positions_start = self.dump.positions.len();
            while let Some(mut line) = self.item() {
                let instruction = line.word("an instruction's name", b" ")?;
                let index = match line.eat(" ") {
                    true => line.shape_index()?,
                    false => TextRef::new(line.at, line.at),
                };
                line.finish()?;
                self.dump
                    .positions
                    .push(ValuePosition { instruction, index });
            }
            self.required(" uses:")?;
            let uses_start = self.dump.uses.len();
            while let Some(line) = self.item() {
                if line.rest() == b"(none)" {
                    self.dump.style.uses_none_marker = true;
                    continue;
                }
                self.dump.uses.push(value_use(line)?);
            }
            let (from_instruction, next) = self.defining_text()?;
            pending = next;
            self.dump.used_values.push(HloValueEntry {
                name,
                positions: pool_range(positions_start, self.dump.positions.len()),
                uses: pool_range(uses_start, self.dump.uses.len()),
                from_instruction,
            });
        }
    }

    /// An entry of a list: a line two spaces in.
    fn item(&mut self) -> Option<Line<'a>> {
        let mut line = self.lines.peek()?;
        if !line.eat("  ") {
            return None;
        }
        self.lines.advance();
        Some(line)
    }

    pub fn required(&mut self, text: &str) -> Parsed<Line<'a>> {
        match self.lines.peek() {
            Some(mut line) => {
                line.expect(text)?;
                self.lines.advance();
                Ok(line)
            }
            None => Err(Mistake::new(
                self.lines.end,
                format!("expected `{text}`, found the end of the text"),
            )),
        }
    }

    /// The instruction, and the next value's line when it stands behind it.
    fn defining_text(&mut self) -> Parsed<(TextRef, Option<Line<'a>>)> {
        let mut line = self.required(" from instruction:")?;
        if line.eat(" ") {
            self.dump.style.space_before_instruction = true;
        }
        let start = line.at;
        loop {
            if let Some(at) = glued_name(line) {
                self.dump.style.no_line_after_instruction = true;
                let text = TextRef::new(start, at);
                return Ok((text, Some(Line { at, ..line })));
            }
            // Literals of old dumps go over several lines.
            match self.lines.peek() {
                Some(next)
                    if !next.is_blank() && !next.starts_with("<") && heading(&next).is_none() =>
                {
                    self.lines.advance();
                    line = next;
                }
                _ => return Ok((TextRef::new(start, line.end), None)),
            }
        }
    }

    fn report(&mut self) -> Parsed<u32> {
        let first = self.dump.report.len();
        while let Some(line) = self.lines.peek() {
            if !report::belongs_to_report(&line) {
                break;
            }
            self.lines.advance();
            let read = report::report_line(line, |line| self.report_allocation(line))?;
            self.dump.report.push(read);
        }
        let blank = |line: &report::ReportLine| *line == report::ReportLine::Blank;
        Ok(drop_trailing(&mut self.dump.report, first, blank))
    }

    fn report_allocation(&self, line: &mut Line<'_>) -> Parsed<AllocationLine> {
        let mut own = Line {
            source: self.lines.source,
            at: line.at,
            end: line.end,
        };
        let (allocation, human) = self.allocation(&mut own, |line| {
            let human = line.word("the size", b",:")?;
            Ok((0, human))
        })?;
        line.at = own.at;
        Ok(AllocationLine {
            allocation,
            size: AllocationSize { human },
        })
    }

    fn oom(&mut self) -> Parsed<u32> {
        self.lines.advance();
        let first = self.dump.oom.len();
        while let Some(line) = self.lines.peek() {
            if !report::belongs_to_oom(&line) {
                break;
            }
            self.lines.advance();
            let read = report::oom_line(line)?;
            self.dump.oom.push(read);
        }
        let blank = |line: &report::OomLine| *line == report::OomLine::Blank;
        Ok(drop_trailing(&mut self.dump.oom, first, blank))
    }
}

/// Takes empty lines off the end, which belong to what comes next, and counts them.
fn drop_trailing<T>(lines: &mut Vec<T>, first: usize, blank: impl Fn(&T) -> bool) -> u32 {
    let mut count = 0;
    while lines.len() > first && lines.last().is_some_and(&blank) {
        lines.pop();
        count += 1;
    }
    count
}

fn pool_range(start: usize, end: usize) -> PoolRange {
    PoolRange {
        start: start as u32,
        len: (end - start) as u32,
    }
}
