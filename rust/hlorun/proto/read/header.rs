//! The head of a module: `HloModuleProto` → `HloModule name, key=value, …` and the tables of stack frames.

use super::{FieldList, Writer};
use crate::error::Result;
use crate::module::TextRef;
use crate::proto::schema::{
    DeviceAssignmentProto, FileLocation, HloBufferDonorProto, HloInputOutputAliasProto,
    ProgramShapeProto, StackFrame, StackFrameIndexProto, module as field,
};
use crate::proto::schema::{file_location, program_shape, stack_frame, stack_frames};
use crate::proto::wire::View;

impl Writer<'_> {
    /// Appends the attributes of the module.
    pub(super) fn header(&mut self, proto: View<'_, '_>, is_scheduled: bool) -> Result<()> {
        if is_scheduled {
            self.out.push_str(", is_scheduled=true");
        }
        if let Some(aliases) = self.message(proto, field::input_output_alias)? {
            self.aliases(&aliases);
        }
        if let Some(donors) = self.message(proto, field::buffer_donor)? {
            self.donors(&donors);
        }
        self.entry_layout(proto)?;
        let devices: Option<DeviceAssignmentProto> =
            self.message(proto, field::device_assignment)?;
        if let Some(devices) = devices {
            for (key, count) in [
                (", replica_count=", devices.replica_count),
                (", num_partitions=", devices.computation_count),
            ] {
                if count > 1 {
                    self.out.push_str(key);
                    self.put_int(count.into());
                }
            }
        }
        self.frontend_attributes(proto, field::frontend_attributes)
    }

    fn aliases(&mut self, aliases: &HloInputOutputAliasProto) {
        if aliases.entries.is_empty() {
            return;
        }
        self.out.push_str(", input_output_alias={ ");
        for (at, entry) in aliases.entries.iter().enumerate() {
            self.out.push_str(if at > 0 { ", {" } else { "{" });
            self.put_list(&entry.output_shape_index);
            self.put(format_args!("}}: ({}, {{", entry.parameter_number));
            self.put_list(&entry.parameter_shape_index);
            let kind = if entry.kind == 2 { "must" } else { "may" };
            self.put(format_args!("}}, {kind}-alias)"));
        }
        self.out.push_str(" }");
    }

    fn donors(&mut self, donors: &HloBufferDonorProto) {
        if donors.entries.is_empty() {
            return;
        }
        self.out.push_str(", buffer_donor={ ");
        for (at, entry) in donors.entries.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            self.put(format_args!("{comma}({}, {{", entry.parameter_number));
            self.put_list(&entry.parameter_shape_index);
            self.out.push_str("})");
        }
        self.out.push_str(" }");
    }

    fn entry_layout(&mut self, proto: View<'_, '_>) -> Result<()> {
        use program_shape as part;
        let parts = proto.each(field::host_program_shape);
        let mut fields = FieldList::new();
        let shape = self.fields::<ProgramShapeProto>(parts, &mut fields)?;
        let Some(result) = shape.find(part::result) else {
            return Ok(());
        };
        self.out.push_str(", entry_computation_layout={(");
        for (at, parameter) in shape.each(part::parameters).enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            self.put_layout_shape(parameter)?;
        }
        self.out.push_str(")->");
        self.put_layout_shape(result)?;
        self.out.push('}');
        Ok(())
    }

    fn put_layout_shape(&mut self, bytes: &[u8]) -> Result<()> {
        let start = self.out.len();
        let number = self.put_numbered_shape(bytes)?;
        let text = TextRef::new(start, self.out.len());
        self.prepared.layout.push((text, number));
        Ok(())
    }

    /// Appends the tables of stack frames that `stack_frame_id` refers to.
    pub(super) fn stack_frames(&mut self, proto: View<'_, '_>) -> Result<()> {
        use {file_location as place, stack_frame as frame, stack_frames as table};
        let parts = proto.each(field::stack_frame_index);
        let mut fields = FieldList::new();
        let index = self.fields::<StackFrameIndexProto>(parts, &mut fields)?;
        if index.find(table::stack_frames).is_none() {
            return Ok(());
        }
        for (title, number) in [
            ("FileNames\n", table::file_names),
            ("FunctionNames\n", table::function_names),
        ] {
            self.out.push_str(title);
            for (at, name) in index.each(number).enumerate() {
                self.put_int(at as i64 + 1);
                self.out.push(' ');
                self.put_string(name);
                self.out.push('\n');
            }
            self.out.push('\n');
        }
        self.out.push_str("FileLocations\n");
        for (at, bytes) in index.each(table::file_locations).enumerate() {
            let location: [i64; 8] = self.numbers::<FileLocation, 8>(bytes)?;
            let keys = [
                (" {file_name_id=", place::file_name_id),
                (" function_name_id=", place::function_name_id),
                (" line=", place::line),
                (" end_line=", place::end_line),
                (" column=", place::column),
                (" end_column=", place::end_column),
            ];
            self.numbered_row(
                at,
                keys.map(|(key, number)| (key, location[number as usize])),
            );
        }
        self.out.push_str("\nStackFrames\n");
        for (at, bytes) in index.each(table::stack_frames).enumerate() {
            let shown: [i64; 8] = self.numbers::<StackFrame, 8>(bytes)?;
            // In the text parents are one higher than in the proto, and 1 is none.
            let parent = shown[frame::parent_frame_id as usize] + 1;
            let location = shown[frame::file_location_id as usize];
            self.numbered_row(
                at,
                [
                    (" {file_location_id=", location),
                    (" parent_frame_id=", parent),
                ],
            );
        }
        self.out.push_str("\n\n");
        Ok(())
    }

    /// Appends `number {key=value …}`, numbered from 1.
    fn numbered_row<const N: usize>(&mut self, at: usize, fields: [(&str, i64); N]) {
        self.put_int(at as i64 + 1);
        for (key, value) in fields {
            self.out.push_str(key);
            self.put_int(value);
        }
        self.out.push_str("}\n");
    }
}
