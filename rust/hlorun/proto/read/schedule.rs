//! The order of a module that is scheduled: `HloScheduleProto` → the order of each computation.

use foldhash::HashMap;

use super::heads::Heads;
use super::{FieldList, Writer};
use crate::error::Result;
use crate::proto::schema::{
    HloScheduleProto, InstructionSequence, SequenceEntry, module as field, schedule, sequence,
    sequence_entry as entry,
};
use crate::proto::wire::View;
use crate::text::printer::Places;

/// The bytes of the schedule's entries by the ids of their computations.
pub(super) type Schedule<'p> = HashMap<i64, &'p [u8]>;

impl Writer<'_> {
    /// The schedule of a module; empty where it has none.
    pub(super) fn schedule<'p>(&self, proto: View<'_, 'p>) -> Result<Schedule<'p>> {
        let mut fields = FieldList::new();
        let parts = proto.each(field::schedule);
        let view = self.fields::<HloScheduleProto>(parts, &mut fields)?;
        let mut all = Schedule::default();
        for bytes in view.each(schedule::sequences) {
            let mut fields = FieldList::new();
            let parts = std::iter::once(bytes);
            let view = self.fields::<SequenceEntry>(parts, &mut fields)?;
            all.insert(view.int(entry::key), bytes);
        }
        Ok(all)
    }

    /// Places in the order of the entry in `bytes`; `None` unless that is each instruction once.
    pub(super) fn scheduled_order(
        &self,
        bytes: &[u8],
        heads: &Heads<'_>,
    ) -> Result<Option<Places>> {
        let mut fields = FieldList::new();
        let parts = std::iter::once(bytes);
        let view = self.fields::<SequenceEntry>(parts, &mut fields)?;
        let parts = view.each(entry::value);
        let mut fields = FieldList::new();
        let view = self.fields::<InstructionSequence>(parts, &mut fields)?;
        Ok(heads.scheduled_order(view, sequence::instruction_ids))
    }
}
