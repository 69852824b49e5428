//! The `HloModule` line: name, flags, aliasing, donation and the entry's layout.

use super::error::{Fault, Parsed};
use super::parser::Parser;
use crate::module::TextRef;
use crate::module::config::{AliasKind, BufferDonor, EntryComputationLayout, InputOutputAlias};
use crate::types::ShapeIndex;

impl Parser<'_> {
    /// `, key=value` after the module's name.
    pub(super) fn header(&mut self) -> Parsed<()> {
        while self.cursor.eat(b',') {
            let key = self.cursor.word("an attribute of the module")?;
            let name = self.cursor.bytes(key);
            let given = &self.module.config.attributes;
            if given.len() >= self.limits.attributes {
                return Err(Fault::new(
                    key.start as usize,
                    format!("more than {} attributes", self.limits.attributes),
                ));
            }
            if given.iter().any(|&(k, _)| self.cursor.bytes(k) == name) {
                return Err(Fault::new(
                    key.start as usize,
                    format!("attribute '{}' is given twice", self.module.str(key)),
                ));
            }
            self.cursor.expect(b'=', "'=' after the attribute's name")?;
            self.cursor.skip_space();
            let start = self.cursor.position;
            match name {
                b"is_scheduled" => self.module.config.is_scheduled = self.boolean()?,
                b"alias_passthrough_params" => {
                    self.module.config.alias_passthrough_params = self.boolean()?;
                }
                b"replica_count" => {
                    let count = self.cursor.integer("the number of replicas")?;
                    self.module.config.replica_count = Some(count);
                }
                b"num_partitions" => {
                    let count = self.cursor.integer("the number of partitions")?;
                    self.module.config.num_partitions = Some(count);
                }
                b"input_output_alias" => self.input_output_alias()?,
                b"buffer_donor" => self.buffer_donor()?,
                b"entry_computation_layout" => self.entry_computation_layout()?,
                b"frontend_attributes" => {
                    self.frontend_attributes()?;
                }
                b"allow_spmd_sharding_propagation_to_parameters"
                | b"allow_spmd_sharding_propagation_to_output" => {
                    if self.cursor.peek() == b'{' {
                        self.bools()?;
                    } else {
                        self.boolean()?;
                    }
                }
                b"origin_recovery_table" => {
                    self.raw_value()?;
                }
                _ => {
                    self.raw_value()?;
                    self.warn_unknown_key(key, "attribute")?;
                }
            }
            let value = TextRef::new(start, self.cursor.position);
            self.module.config.attributes.push((key, value));
        }
        Ok(())
    }

    /// `{ {0}: (0, {}, may-alias), … }`; before 2020 without the kind.
    fn input_output_alias(&mut self) -> Parsed<()> {
        let mut list = Vec::new();
        self.braced("'{' of the aliasing", |p| {
            let output = p.shape_index()?;
            p.cursor.expect(b':', "':' after the output's index")?;
            p.cursor.expect(b'(', "'('")?;
            let parameter = p.cursor.integer("the number of a parameter")?;
            p.cursor.expect(b',', "','")?;
            let parameter_index = p.shape_index()?;
            let mut kind = AliasKind::MayAlias;
            if p.cursor.eat(b',') {
                let word = p.cursor.word("'may-alias' or 'must-alias'")?;
                kind = match p.cursor.bytes(word) {
                    b"may-alias" => AliasKind::MayAlias,
                    b"must-alias" => AliasKind::MustAlias,
                    other => {
                        return Err(Fault::new(
                            word.start as usize,
                            format!(
                                "expected 'may-alias' or 'must-alias', found '{}'",
                                super::lexer::snippet(other)
                            ),
                        ));
                    }
                };
            }
            p.cursor.expect(b')', "')'")?;
            list.push(InputOutputAlias {
                output,
                parameter,
                parameter_index,
                kind,
            });
            Ok(())
        })?;
        self.module.config.input_output_alias = list;
        Ok(())
    }

    /// `{ (0, {}), (1, {0}) }`.
    fn buffer_donor(&mut self) -> Parsed<()> {
        let mut list = Vec::new();
        self.braced("'{' of the buffer donors", |p| {
            p.cursor.expect(b'(', "'('")?;
            let parameter = p.cursor.integer("the number of a parameter")?;
            let mut parameter_index = ShapeIndex::default();
            if p.cursor.eat(b',') {
                parameter_index = p.shape_index()?;
            }
            p.cursor.expect(b')', "')'")?;
            list.push(BufferDonor {
                parameter,
                parameter_index,
            });
            Ok(())
        })?;
        self.module.config.buffer_donor = list;
        Ok(())
    }

    /// `{(f32[2]{0}, …)->f32[2]{0}}`.
    fn entry_computation_layout(&mut self) -> Parsed<()> {
        self.cursor.expect(b'{', "'{' of the layout")?;
        self.cursor.expect(b'(', "'(' before the parameters")?;
        let mut parameters = Vec::new();
        if !self.cursor.eat(b')') {
            loop {
                parameters.push(self.layout_shape()?);
                if !self.cursor.eat(b',') {
                    break;
                }
            }
            self.cursor.expect(b')', "',' or ')'")?;
        }
        if !self.cursor.eat_text(b"->") {
            return Err(self.cursor.expected("'->' before the result"));
        }
        let result = self.layout_shape()?;
        self.cursor.expect(b'}', "'}' after the layout")?;
        self.module.config.entry_computation_layout =
            Some(EntryComputationLayout { parameters, result });
        Ok(())
    }
}
