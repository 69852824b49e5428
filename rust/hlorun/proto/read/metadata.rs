//! Metadata and frontend attributes: `OpMetadata` → `metadata={op_name="…" …}`.

use super::{FieldList, Writer};
use crate::error::Result;
use crate::proto::schema::{FrontendAttributes, OpMetadata, op_metadata};
use crate::proto::wire::{Value, View, read_field};
use crate::text::printer::write_string_or_dict;

/// What the text calls a field of the metadata.
const fn key(number: u32) -> &'static str {
    use op_metadata as field;
    match number {
        field::op_type => "op_type=",
        field::op_name => "op_name=",
        field::source_file => "source_file=",
        field::source_line => "source_line=",
        field::source_end_line => "source_end_line=",
        field::source_column => "source_column=",
        field::source_end_column => "source_end_column=",
        field::profile_type => "profile_type=",
        field::deduplicated_name => "deduplicated_name=",
        field::size_of_generated_code_in_bytes => "size_of_generated_code_in_bytes=",
        field::size_of_memory_working_set_in_bytes => "size_of_memory_working_set_in_bytes=",
        field::stack_frame_id => "stack_frame_id=",
        field::scheduling_name => "scheduling_name=",
        _ => "",
    }
}

impl Writer<'_> {
    /// The `metadata={…}` of a message, or nothing when it has no field. Several `parts` are one message.
    pub fn metadata<'p>(
        &mut self,
        mut parts: impl Iterator<Item = &'p [u8]>,
        separator: &str,
    ) -> Result<()> {
        match (parts.next(), parts.next()) {
            (None, _) => Ok(()),
            (Some(part), None) if self.plain_metadata(part, separator) => Ok(()),
            (first, second) => {
                let parts = first.into_iter().chain(second).chain(parts);
                self.any_metadata(parts, separator)
            }
        }
    }

    /// As [`Writer::metadata`], of the fields that most have, in the order in which they are written;
    /// `false` and nothing where there are others.
    fn plain_metadata(&mut self, part: &[u8], separator: &str) -> bool {
        use op_metadata as field;
        let start = self.out.len();
        self.out.push_str(separator);
        self.out.push_str("metadata={");
        let inside = self.out.len();
        let (mut rest, mut last) = (part, 0);
        while !rest.is_empty() {
            let (number, value) = match read_field(&mut rest) {
                Some((
                    number @ (field::op_type | field::op_name | field::source_file),
                    Value::Bytes(value),
                )) => (number, Ok(value)),
                Some((
                    number @ (field::source_line | field::stack_frame_id),
                    Value::Number(value),
                )) => (number, Err(value as i32)),
                _ => return self.take_back(start),
            };
            if number <= std::mem::replace(&mut last, number) {
                return self.take_back(start);
            }
            if matches!(value, Ok([]) | Err(0)) {
                continue;
            }
            if self.out.len() > inside {
                self.out.push(' ');
            }
            self.out.push_str(key(number));
            match value {
                Ok(text) => self.put_string(text),
                Err(number) => self.put_int(number.into()),
            }
        }
        match self.out.len() == inside {
            true => self.out.truncate(start),
            false => self.out.push('}'),
        }
        true
    }

    /// Takes what was written from `start` on back.
    #[cold]
    fn take_back(&mut self, start: usize) -> bool {
        self.out.truncate(start);
        false
    }

    fn any_metadata<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p [u8]>,
        separator: &str,
    ) -> Result<()> {
        use op_metadata as field;
        let mut fields = FieldList::new();
        let view = self.fields::<OpMetadata>(parts, &mut fields)?;
        let start = self.out.len();
        self.out.push_str(separator);
        self.out.push_str("metadata={");
        let inside = self.out.len();
        self.put_strings(view, &[field::op_type, field::op_name, field::source_file]);
        self.put_numbers(
            view,
            &[
                field::source_line,
                field::source_end_line,
                field::source_column,
                field::source_end_column,
            ],
        );
        let profile_type = view.numbers(field::profile_type);
        if !profile_type.is_empty() {
            self.put_key(field::profile_type);
            self.out.push('{');
            self.put_list(&profile_type);
            self.out.push('}');
        }
        self.put_strings(view, &[field::deduplicated_name]);
        self.put_numbers(
            view,
            &[
                field::size_of_generated_code_in_bytes,
                field::size_of_memory_working_set_in_bytes,
                field::stack_frame_id,
            ],
        );
        self.put_strings(view, &[field::scheduling_name]);
        match self.out.len() == inside {
            true => self.out.truncate(start),
            false => {
                self.out.remove(inside); // the blank before the first field
                self.out.push('}');
            }
        }
        Ok(())
    }

    /// The `frontend_attributes={…}` in a field, if it is there.
    pub fn frontend_attributes(&mut self, proto: View<'_, '_>, number: u32) -> Result<()> {
        let attributes: Option<FrontendAttributes> = self.message(proto, number)?;
        let Some(attributes) = attributes.filter(|attributes| !attributes.map.is_empty()) else {
            return Ok(());
        };
        self.out.push_str(", frontend_attributes={");
        for (at, entry) in attributes.map.iter().enumerate() {
            self.out.push_str(if at > 0 { "," } else { "" });
            self.put_name(&entry.key, "a frontend attribute")?;
            self.out.push('=');
            write_string_or_dict(&mut self.out, &entry.value);
        }
        self.out.push('}');
        Ok(())
    }

    fn put_key(&mut self, number: u32) {
        self.out.push(' ');
        self.out.push_str(key(number));
    }

    /// Strings, each behind its key.
    fn put_strings(&mut self, view: View<'_, '_>, fields: &[u32]) {
        for &number in fields {
            let value = view.bytes(number);
            if !value.is_empty() {
                self.put_key(number);
                self.put_string(value);
            }
        }
    }

    /// Numbers that are not 0, likewise.
    fn put_numbers(&mut self, view: View<'_, '_>, fields: &[u32]) {
        for &number in fields {
            let value = view.int(number);
            if value != 0 {
                self.put_key(number);
                self.put_int(value);
            }
        }
    }
}
