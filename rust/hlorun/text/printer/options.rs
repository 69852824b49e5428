//! What of a module to print: the switches of XLA's `HloPrintOptions`, by their names, and its presets.

/// What to print of the computations an instruction calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrintSubcomputationMode {
    /// Nothing.
    Off,
    /// `to_apply=name`.
    #[default]
    NameOnly,
    /// The whole computation, nested, at every call.
    FullBodies,
    /// As `FullBodies`, except that what `call`, `conditional` and `while` call is left out.
    NonSequentialBodies,
}

/// The switches of XLA's `HloPrintOptions`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// Values of constants of more than 10 elements; `{...}` otherwise.
    pub print_large_constants: bool,
    /// Of constants only those that are all zero, all one or integers.
    pub print_only_essential_constants: bool,
    /// `origin={…}`.
    pub print_original_value: bool,
    /// `metadata={…}` and the stack-frame tables.
    pub print_metadata: bool,
    /// Of the metadata only `op_name`.
    pub print_metadata_only_op_name: bool,
    /// `backend_config=…`.
    pub print_backend_config: bool,
    /// JSON of backend configs with sorted keys and no white space.
    pub sort_backend_config: bool,
    /// `infeed_config` and `outfeed_config`.
    pub print_infeed_outfeed_config: bool,
    /// At most four operands, then `...(+n)`; such text does not parse.
    pub compact_operands: bool,
    /// `{1,0}` after shapes of results and operands.
    pub include_layout_in_shapes: bool,
    /// The shape before the opcode.
    pub print_result_shape: bool,
    /// The shape before each operand: the dialect of before 2025.
    pub print_operand_shape: bool,
    /// Names of operands.
    pub print_operand_names: bool,
    /// `(p: f32[2]) -> f32[2]` after names of computations.
    pub print_program_shape: bool,
    /// `%` before names.
    pub print_percent: bool,
    /// `control-predecessors={…}`.
    pub print_control_dependencies: bool,
    /// `tmp_0`, `tmp_1`, … instead of the names of instructions.
    pub canonicalize_instruction_names: bool,
    /// Whether an instruction printed on its own is to be printed as a part of a nested computation.
    pub is_in_nested_computation: bool,
    /// The module's name, names of computations, and what follows the first `.` of a name.
    pub print_ids: bool,
    /// Computations in the order of the module instead of a depth-first one.
    pub canonicalize_computations: bool,
    /// Attributes that only some opcodes have.
    pub print_extra_attributes: bool,
    /// `xxx-start(…)` for an asynchronous operation that wraps one instruction.
    pub syntax_sugar_async_ops: bool,
    /// `frontend_attributes={…}`.
    pub print_frontend_attributes: bool,
    /// `} // name` after computations of more than five instructions.
    pub print_name_after_closing_brace: bool,
    /// Replica groups as lists, never in the form `[2,4]<=[8]`.
    pub print_full_replica_group_list: bool,
    /// The number of a `parameter`.
    pub print_parameter_number: bool,
    /// The number of a channel; without it only that there is one.
    pub print_channel_id: bool,
    /// Stack frames resolved into `source_file` and `source_line`.
    pub print_inline_stack_frames: bool,
    /// `/*index=5*/` every so many operands; 0 for never.
    pub print_operand_index_annotation_interval: usize,
    /// What to print of called computations.
    pub print_subcomputation_mode: PrintSubcomputationMode,
    /// Levels of indentation, two spaces each.
    pub indent_amount: usize,
    /// Of each computation only so many instructions at its beginning and end; `None` for all.
    pub leading_and_trailing_instructions_number: Option<usize>,
}

impl Default for PrintOptions {
    /// XLA's default, except that large constants are printed, so that no value is lost.
    fn default() -> PrintOptions {
        PrintOptions {
            print_large_constants: true,
            print_only_essential_constants: false,
            print_original_value: true,
            print_metadata: true,
            print_metadata_only_op_name: false,
            print_backend_config: true,
            sort_backend_config: false,
            print_infeed_outfeed_config: true,
            compact_operands: false,
            include_layout_in_shapes: true,
            print_result_shape: true,
            print_operand_shape: false,
            print_operand_names: true,
            print_program_shape: true,
            print_percent: true,
            print_control_dependencies: true,
            canonicalize_instruction_names: false,
            is_in_nested_computation: false,
            print_ids: true,
            canonicalize_computations: false,
            print_extra_attributes: true,
            syntax_sugar_async_ops: true,
            print_frontend_attributes: true,
            print_name_after_closing_brace: false,
            print_full_replica_group_list: false,
            print_parameter_number: true,
            print_channel_id: true,
            print_inline_stack_frames: false,
            print_operand_index_annotation_interval: 5,
            print_subcomputation_mode: PrintSubcomputationMode::NameOnly,
            indent_amount: 0,
            leading_and_trailing_instructions_number: None,
        }
    }
}

impl PrintOptions {
    /// Names of the presets, as [`PrintOptions::preset`] takes them.
    pub const PRESETS: [&'static str; 5] = [
        "default",
        "short_parsable",
        "canonical",
        "fingerprint",
        "module_fingerprint",
    ];

    /// The preset of that name.
    pub fn preset(name: &str) -> Option<PrintOptions> {
        Some(match name {
            "default" => PrintOptions::default(),
            "short_parsable" => PrintOptions::short_parsable(),
            "canonical" => PrintOptions::canonical(),
            "fingerprint" => PrintOptions::fingerprint(),
            "module_fingerprint" => PrintOptions::module_fingerprint(),
            _ => return None,
        })
    }

    /// The default with operand shapes: what XLA wrote until March 2025.
    pub fn long() -> PrintOptions {
        PrintOptions {
            print_operand_shape: true,
            ..PrintOptions::default()
        }
    }

    /// Short text that still parses to the same computation, without metadata.
    pub fn short_parsable() -> PrintOptions {
        PrintOptions {
            print_metadata: false,
            print_operand_index_annotation_interval: 0,
            print_program_shape: false,
            print_percent: false,
            print_control_dependencies: false,
            ..PrintOptions::default()
        }
    }

    /// Equal for isomorphic computations: no names, called computations nested.
    pub fn canonical() -> PrintOptions {
        PrintOptions {
            print_large_constants: false,
            print_subcomputation_mode: PrintSubcomputationMode::FullBodies,
            print_metadata: false,
            print_backend_config: false,
            print_operand_names: false,
            print_operand_shape: true,
            print_operand_index_annotation_interval: 0,
            print_program_shape: false,
            print_percent: false,
            print_control_dependencies: false,
            canonicalize_instruction_names: true,
            ..PrintOptions::default()
        }
    }

    /// As canonical, without what does not affect optimizations.
    pub fn fingerprint() -> PrintOptions {
        PrintOptions {
            print_infeed_outfeed_config: false,
            print_only_essential_constants: true,
            print_ids: false,
            canonicalize_computations: true,
            print_full_replica_group_list: true,
            ..PrintOptions::canonical()
        }
    }

    /// The fingerprint without operand shapes, which follow from the rest.
    pub fn module_fingerprint() -> PrintOptions {
        PrintOptions {
            print_operand_shape: false,
            ..PrintOptions::fingerprint()
        }
    }

    /// Sets a switch by its name; `false` when there is none of that name.
    pub fn set_switch(&mut self, name: &str, value: bool) -> bool {
        match self.switch(name) {
            Some(switch) => {
                *switch = value;
                true
            }
            None => false,
        }
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "print_large_constants" => &mut self.print_large_constants,
            "print_only_essential_constants" => &mut self.print_only_essential_constants,
            "print_original_value" => &mut self.print_original_value,
            "print_metadata" => &mut self.print_metadata,
            "print_metadata_only_op_name" => &mut self.print_metadata_only_op_name,
            "print_backend_config" => &mut self.print_backend_config,
            "sort_backend_config" => &mut self.sort_backend_config,
            "print_infeed_outfeed_config" => &mut self.print_infeed_outfeed_config,
            "compact_operands" => &mut self.compact_operands,
            "include_layout_in_shapes" => &mut self.include_layout_in_shapes,
            "print_result_shape" => &mut self.print_result_shape,
            "print_operand_shape" => &mut self.print_operand_shape,
            "print_operand_names" => &mut self.print_operand_names,
            "print_program_shape" => &mut self.print_program_shape,
            "print_percent" => &mut self.print_percent,
            "print_control_dependencies" => &mut self.print_control_dependencies,
            "canonicalize_instruction_names" => &mut self.canonicalize_instruction_names,
            "is_in_nested_computation" => &mut self.is_in_nested_computation,
            "print_ids" => &mut self.print_ids,
            "canonicalize_computations" => &mut self.canonicalize_computations,
            "print_extra_attributes" => &mut self.print_extra_attributes,
            "syntax_sugar_async_ops" => &mut self.syntax_sugar_async_ops,
            "print_frontend_attributes" => &mut self.print_frontend_attributes,
            "print_name_after_closing_brace" => &mut self.print_name_after_closing_brace,
            "print_full_replica_group_list" => &mut self.print_full_replica_group_list,
            "print_parameter_number" => &mut self.print_parameter_number,
            "print_channel_id" => &mut self.print_channel_id,
            "print_inline_stack_frames" => &mut self.print_inline_stack_frames,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_by_name() {
        let mut options = PrintOptions::default();
        assert!(options.set_switch("print_operand_shape", true));
        assert_eq!(options, PrintOptions::long());
        assert!(!options.set_switch("print_nothing", true));
        for name in PrintOptions::PRESETS {
            assert!(PrintOptions::preset(name).is_some(), "{name}");
        }
    }
}
