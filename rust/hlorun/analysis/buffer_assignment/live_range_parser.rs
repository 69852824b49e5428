//! `HloLiveRange (max N):` → schedule, live ranges and peak.

use super::line::{Line, Parsed};
use super::model::*;
use super::parser::Parser;
use crate::module::TextRef;

impl<'a> Parser<'a, '_> {
    /// Reads the section.
    pub fn live_range(&mut self) -> Parsed<()> {
        let mut line = self.required("HloLiveRange (max ")?;
        let mut range = HloLiveRangeDump {
            max: line.small_number("the last moment")?,
            ..HloLiveRangeDump::default()
        };
        line.expect("):")?;
        line.finish()?;
        self.required("  InstructionSequence:")?.finish()?;
        while let Some(mut line) = self.deep_item() {
            let moment = line.small_number("the moment")?;
            line.expect(":")?;
            let instruction = line.word("an instruction's name", b"")?;
            range.instruction_sequence.push(ScheduledInstruction {
                moment,
                instruction,
            });
        }
        self.required("  BufferLiveRange:")?.finish()?;
        while let Some(mut line) = self.deep_item() {
            let instruction = line.word("an instruction's name", b"{:")?;
            let index = line.shape_index()?;
            line.expect(":")?;
            let start = line.small_number("the first moment")?;
            line.expect("-")?;
            let end = line.small_number("the last moment")?;
            line.finish()?;
            range.buffer_live_ranges.push(BufferLiveRange {
                instruction,
                index,
                start,
                end,
            });
        }
        self.peak(&mut range)?;
        self.dump.live_range = Some(range);
        Ok(())
    }

    fn deep_item(&mut self) -> Option<Line<'a>> {
        let mut line = self.lines.peek()?;
        if !line.eat("    ") {
            return None;
        }
        self.lines.advance();
        Some(line)
    }

    fn peak(&mut self, range: &mut HloLiveRangeDump) -> Parsed<()> {
        let Some(mut line) = self.lines.peek().filter(|l| l.starts_with("  ")) else {
            return Ok(());
        };
        self.lines.advance();
        let text = line.text();
        if !line.eat("  Live ranges at ") {
            line.expect("  Peak memory could not be determined")?;
            range.peak_unknown = text;
            return Ok(());
        }
        range.peak_moment = Some(line.small_number("the moment")?);
        line.expect(" (peak):")?;
        line.finish()?;
        while let Some(mut line) = self.deep_item() {
            let instruction = line.word("an instruction's name", b"{:")?;
            let index = line.shape_index()?;
            line.expect(": ")?;
            let bytes = line.number("the size in bytes")?;
            line.expect(" bytes")?;
            let mut cumulative = None;
            if line.eat(" (cumulative: ") {
                cumulative = Some(line.number("the sum in bytes")?);
                line.expect(" bytes)")?;
                self.dump.style.cumulative_peak = true;
            }
            line.finish()?;
            range.peak_values.push(PeakValue {
                instruction,
                index,
                bytes,
                cumulative,
            });
        }
        if let Some(first) = self.lines.peek().filter(|l| l.starts_with("  Stack trace")) {
            let mut end = first.end;
            self.lines.advance();
            while let Some(line) = self.lines.peek().filter(|l| l.starts_with("    ")) {
                end = line.end;
                self.lines.advance();
            }
            range.stack_trace = TextRef::new(first.at, end);
        }
        Ok(())
    }
}
