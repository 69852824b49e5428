//! [`BufferAssignmentDump`] → XLA's text.
//!
//! Promise: what the parser read is printed back byte for byte, as far as the text was laid out
//! alike throughout; log prefixes are not printed.

use std::fmt::Write;

use super::model::*;
use super::report::{AllocationLine, OomLine, ReportLine};
use crate::module::TextRef;

/// Prints all files of the dump, one behind the other.
pub fn print(dump: &BufferAssignmentDump) -> String {
    let mut out = String::with_capacity(dump.text.source().len());
    for file in 0..dump.style.tails.len().max(1) {
        print_file_into(dump, file as u32, &mut out);
    }
    out
}

/// Prints one of the files the dump was read from, counted from 0.
pub fn print_file(dump: &BufferAssignmentDump, file: u32) -> String {
    let mut out = String::new();
    print_file_into(dump, file, &mut out);
    out
}

fn print_file_into(dump: &BufferAssignmentDump, file: u32, out: &mut String) {
    let start = out.len();
    let mut printer = Printer { dump, out };
    for section in &dump.style.sections {
        if section.file == file {
            for _ in 0..section.blank_before {
                printer.out.push('\n');
            }
            printer.section(section.kind);
        }
    }
    match dump.style.tails.get(file as usize) {
        Some(None) if out.ends_with('\n') => {
            out.pop();
        }
        Some(Some(blank)) => (0..*blank).for_each(|_| out.push('\n')),
        Some(None) | None => {}
    }
    if dump.style.crlf {
        let lines = out[start..].replace('\n', "\r\n");
        out.truncate(start);
        out.push_str(&lines);
    }
}

struct Printer<'a> {
    dump: &'a BufferAssignmentDump,
    out: &'a mut String,
}

impl Printer<'_> {
    fn text(&mut self, text: TextRef) {
        self.out.push_str(&self.dump.str(text));
    }

    // Writing to a string cannot fail.
    fn put(&mut self, args: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(args);
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn section(&mut self, kind: SectionKind) {
        match kind {
            SectionKind::Allocations => {
                self.line("BufferAssignment:");
                self.allocations();
            }
            SectionKind::BareAllocations => self.allocations(),
            SectionKind::Total => {
                if let Some(total) = self.dump.total {
                    self.put(format_args!("Total bytes used: {}", total.bytes));
                    if total.human.len > 0 {
                        self.out.push_str(" (");
                        self.text(total.human);
                        self.out.push(')');
                    }
                    self.out.push('\n');
                }
            }
            SectionKind::UsedValues => self.used_values(),
            SectionKind::LiveRange => {
                if let Some(range) = &self.dump.live_range {
                    self.live_range(range);
                }
            }
            SectionKind::Report => {
                for line in &self.dump.report {
                    self.report_line(line);
                }
            }
            SectionKind::Oom => {
                self.line("BufferAssignment OOM Debugging.");
                for line in &self.dump.oom {
                    self.oom_line(line);
                }
            }
        }
    }

    fn allocations(&mut self) {
        for allocation in &self.dump.allocations {
            self.put(format_args!("allocation {}: ", allocation.index));
            if allocation.address.len > 0 {
                self.text(allocation.address);
                self.out.push_str(", ");
            }
            self.put(format_args!("size {}", allocation.size));
            self.allocation_attributes(allocation);
            for value in self.dump.values_of(allocation) {
                self.out.push_str(" value: ");
                self.value_name(&value.name);
                self.put(format_args!(
                    " (size={},offset={}): ",
                    value.size, value.offset
                ));
                self.text(value.shape);
                self.out.push('\n');
            }
        }
    }

    fn allocation_attributes(&mut self, allocation: &BufferAllocation) {
        if allocation.color != 0 {
            self.put(format_args!(", color {}", allocation.color));
        }
        if let Some(page) = allocation.page {
            self.put(format_args!(", page {page}"));
        }
        if let Some(parameter) = &allocation.parameter {
            self.put(format_args!(", parameter {}", parameter.number));
            if parameter.shape.len > 0 {
                self.out.push_str(", shape |");
                self.text(parameter.shape);
                self.out.push('|');
            }
            self.out.push_str(" at ShapeIndex ");
            self.text(parameter.index);
        }
        if let Some(shape) = allocation.output_shape {
            self.out.push_str(", output shape is |");
            self.text(shape);
            self.out.push('|');
        }
        let flags = allocation.flags;
        for (set, name) in [
            (flags.constant, ", constant"),
            (flags.thread_local, ", thread-local"),
            (flags.maybe_live_out, ", maybe-live-out"),
            (flags.preallocated_temp, ", preallocated-temp"),
        ] {
            if set {
                self.out.push_str(name);
            }
        }
        self.text(allocation.other);
        self.line(":");
    }

    fn value_name(&mut self, name: &ValueName) {
        self.put(format_args!("<{} ", name.id));
        self.text(name.instruction);
        self.text(name.index);
        if name.is_phi {
            self.out.push_str(" (phi)");
        }
        self.put(format_args!(" @{}>", name.color));
    }

    fn used_values(&mut self) {
        let style = &self.dump.style;
        self.line("Used values:");
        for value in &self.dump.used_values {
            self.value_name(&value.name);
            self.line("\n positions:");
            for position in self.dump.positions_of(value) {
                self.out.push_str("  ");
                self.text(position.instruction);
                self.index_after_space(position.index);
                self.out.push('\n');
            }
            self.line(" uses:");
            let uses = self.dump.uses_of(value);
            for usage in uses {
                self.out.push_str("  ");
                self.text(usage.instruction);
                self.put(format_args!(", operand {}", usage.operand));
                self.index_after_space(usage.index);
                self.out.push('\n');
            }
            if uses.is_empty() && style.uses_none_marker {
                self.line("  (none)");
            }
            self.out.push_str(" from instruction:");
            if style.space_before_instruction {
                self.out.push(' ');
            }
            self.text(value.from_instruction);
            if !style.no_line_after_instruction {
                self.out.push('\n');
            }
        }
        if style.no_line_after_instruction && !self.dump.used_values.is_empty() {
            self.out.push('\n');
        }
    }

    fn index_after_space(&mut self, index: TextRef) {
        if index.len > 0 {
            self.out.push(' ');
            self.text(index);
        }
    }

    fn live_range(&mut self, range: &HloLiveRangeDump) {
        self.put(format_args!("HloLiveRange (max {}):\n", range.max));
        self.line("  InstructionSequence:");
        for entry in &range.instruction_sequence {
            self.put(format_args!("    {}:", entry.moment));
            self.text(entry.instruction);
            self.out.push('\n');
        }
        self.line("  BufferLiveRange:");
        for entry in &range.buffer_live_ranges {
            self.out.push_str("    ");
            self.text(entry.instruction);
            self.text(entry.index);
            self.put(format_args!(":{}-{}\n", entry.start, entry.end));
        }
        if let Some(moment) = range.peak_moment {
            self.put(format_args!("  Live ranges at {moment} (peak):\n"));
            for value in &range.peak_values {
                self.out.push_str("    ");
                self.text(value.instruction);
                self.text(value.index);
                self.put(format_args!(": {} bytes", value.bytes));
                if let Some(sum) = value.cumulative {
                    self.put(format_args!(" (cumulative: {sum} bytes)"));
                }
                self.out.push('\n');
            }
        }
        for text in [range.peak_unknown, range.stack_trace] {
            if text.len > 0 {
                let text = self.dump.str(text).replace("\r\n", "\n");
                self.line(&text);
            }
        }
    }

    fn report_line(&mut self, line: &ReportLine) {
        match line {
            ReportLine::Blank => {}
            ReportLine::MemorySpace { name, color } => {
                self.out.push_str("Memory Space: ");
                self.text(*name);
                self.put(format_args!(" (color={color})"));
            }
            ReportLine::Total { used, bytes, human } => {
                let used = if *used { " used" } else { "" };
                self.put(format_args!("Total bytes{used}: {bytes} ("));
                self.text(*human);
                self.out.push(')');
            }
            ReportLine::AllocationRow {
                columns,
                allocation,
            } => {
                self.text(*columns);
                self.report_allocation(allocation);
                return;
            }
            ReportLine::Allocation(allocation) => {
                self.report_allocation(allocation);
                return;
            }
            ReportLine::ValueRow {
                indent,
                cumulative,
                percent,
                size,
                offset,
                count,
                shapes,
            } => {
                self.text(*indent);
                let dump = self.dump;
                self.put(format_args!(
                    "{:>9}({:>3}%); {:>10}; {offset:>12}; {count:>16}; ",
                    dump.str(*cumulative),
                    dump.str(*percent),
                    dump.str(*size),
                ));
                self.text(*shapes);
            }
            ReportLine::Open { indent, name } => {
                let (width, dump) = (*indent as usize, self.dump);
                self.put(format_args!("{:width$}{} {{", "", dump.str(*name)));
            }
            ReportLine::Field {
                indent,
                name,
                value,
            } => {
                let (width, dump) = (*indent as usize, self.dump);
                let (name, value) = (dump.str(*name), dump.str(*value));
                self.put(format_args!("{:width$}{name}: {value}", ""));
            }
            ReportLine::Close { indent } => {
                let width = *indent as usize;
                self.put(format_args!("{:width$}}}", ""));
            }
            ReportLine::Text(text) => self.text(*text),
        }
        self.out.push('\n');
    }

    fn report_allocation(&mut self, line: &AllocationLine) {
        self.put(format_args!("allocation {}: size ", line.allocation.index));
        self.text(line.size.human);
        self.allocation_attributes(&line.allocation);
    }

    fn oom_line(&mut self, line: &OomLine) {
        let dump = self.dump;
        match line {
            OomLine::Blank => {}
            OomLine::Stat {
                label,
                size,
                percent,
            } => {
                self.put(format_args!(
                    "{:>33}: {:>10}",
                    dump.str(*label),
                    dump.str(*size)
                ));
                if percent.len > 0 {
                    self.put(format_args!(" ({})", dump.str(*percent)));
                }
            }
            OomLine::Buffer(number) => self.put(format_args!("\tBuffer {number}:")),
            OomLine::Fact { key, value } => {
                self.put(format_args!("\t\t{}: {}", dump.str(*key), dump.str(*value)));
            }
            OomLine::Text(text) => self.text(*text),
        }
        self.out.push('\n');
    }
}
