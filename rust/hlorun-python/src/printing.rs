//! Presets and options of printing, by XLA's names.

use hlorun::text::printer::{PrintOptions, PrintSubcomputationMode};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Error, Result};

macro_rules! flags {
    ($($name:ident)*) => {
        const FLAGS: &[(&str, fn(&mut PrintOptions, bool))] =
            &[$((stringify!($name), |options, value| options.$name = value)),*];
    };
}

flags! {
    print_large_constants
    print_only_essential_constants
    print_original_value
    print_metadata
    print_metadata_only_op_name
    print_backend_config
    sort_backend_config
    print_infeed_outfeed_config
    compact_operands
    include_layout_in_shapes
    print_result_shape
    print_operand_shape
    print_operand_names
    print_program_shape
    print_percent
    print_control_dependencies
    canonicalize_instruction_names
    is_in_nested_computation
    print_ids
    canonicalize_computations
    print_extra_attributes
    syntax_sugar_async_ops
    print_frontend_attributes
    print_name_after_closing_brace
    print_full_replica_group_list
    print_parameter_number
    print_channel_id
    print_inline_stack_frames
}

const MODES: [(&str, PrintSubcomputationMode); 4] = [
    ("off", PrintSubcomputationMode::Off),
    ("name_only", PrintSubcomputationMode::NameOnly),
    ("full_bodies", PrintSubcomputationMode::FullBodies),
    (
        "non_sequential_bodies",
        PrintSubcomputationMode::NonSequentialBodies,
    ),
];

/// Deepest indentation, in levels; every line of the text pays for it.
const MOST_INDENTED: usize = 1000;

/// The options of `preset`, changed by keyword arguments.
///
/// # Errors
/// `ValueError` for an unknown preset or mode, `TypeError` for an unknown option.
pub fn print_options(preset: &str, changes: Option<&Bound<'_, PyDict>>) -> Result<PrintOptions> {
    let mut options = PrintOptions::preset(preset).ok_or_else(|| {
        let known = PrintOptions::PRESETS.join(", ");
        let message = format!("there is no preset {preset:?}; the presets are {known}");
        Error::Python(PyValueError::new_err(message))
    })?;
    for (key, value) in changes.into_iter().flatten() {
        let key: String = key.extract()?;
        match key.as_str() {
            "indent_amount" => {
                options.indent_amount = value.extract()?;
                if options.indent_amount > MOST_INDENTED {
                    return Err(Error::Python(PyValueError::new_err(format!(
                        "indent_amount is at most {MOST_INDENTED}"
                    ))));
                }
            }
            "print_operand_index_annotation_interval" => {
                options.print_operand_index_annotation_interval = value.extract()?;
            }
            "leading_and_trailing_instructions_number" => {
                options.leading_and_trailing_instructions_number = value.extract()?;
            }
            "print_subcomputation_mode" => {
                let mode: String = value.extract()?;
                options.print_subcomputation_mode = find(&MODES, &mode).ok_or_else(|| {
                    let known = MODES.map(|mode| mode.0).join(", ");
                    Error::Python(PyValueError::new_err(format!(
                        "print_subcomputation_mode is one of {known}, not {mode:?}"
                    )))
                })?;
            }
            flag => {
                let set = find(FLAGS, flag).ok_or_else(|| {
                    let message = format!("to_string() has no option {flag:?}");
                    Error::Python(PyTypeError::new_err(message))
                })?;
                set(&mut options, value.extract()?);
            }
        }
    }
    Ok(options)
}

fn find<T: Copy>(rows: &[(&str, T)], name: &str) -> Option<T> {
    rows.iter().find(|row| row.0 == name).map(|row| row.1)
}
