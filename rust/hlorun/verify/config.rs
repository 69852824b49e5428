//! The `HloModule` line against the entry computation.

use foldhash::HashSet;

use super::inferred::{show, subshape};
use super::report::Report;
use super::rules::Context;
use crate::module::InstructionId;
use crate::types::{Shape, ShapeId, ShapeIndex};

/// Rules 1 to 3.
pub(super) fn check(cx: &Context<'_>, report: &mut Report<'_>) {
    let module = cx.module;
    let config = &module.config;
    for (key, count) in [
        ("replica_count", config.replica_count),
        ("num_partitions", config.num_partitions),
    ] {
        if let Some(count) = count.filter(|&count| count < 1) {
            report.module(&format!("{key}={count}, expected at least 1"));
        }
    }
    let Some((_, entry)) = module.entry_computation() else {
        report.module("the module has no entry computation");
        return;
    };
    let Some(root) = entry.root else {
        // Reported with the computation.
        return;
    };
    let result = module.instruction(root).shape_id();
    if let Some(layout) = &config.entry_computation_layout {
        check_layout(cx, report, &entry.parameters, &layout.parameters);
        if !cx.same(layout.result, result) {
            report.module(&format!(
                "entry_computation_layout has the result {}, but the entry computation returns {}",
                show(module.shapes(), layout.result),
                show(module.shapes(), result)
            ));
        }
    }
    check_aliases(cx, report, &entry.parameters, result);
}

fn check_layout(
    cx: &Context<'_>,
    report: &mut Report<'_>,
    parameters: &[InstructionId],
    declared: &[ShapeId],
) {
    let module = cx.module;
    if declared.len() != parameters.len() {
        report.module(&format!(
            "entry_computation_layout has {} parameters, but the entry computation has {}",
            declared.len(),
            parameters.len()
        ));
        return;
    }
    for (number, (&id, &declared)) in parameters.iter().zip(declared).enumerate() {
        let found = module.instruction(id);
        if !cx.same(found.shape_id(), declared) {
            report.module(&format!(
                "entry_computation_layout has {} for parameter {number}, but %{} is {}",
                show(module.shapes(), declared),
                found.name(),
                show(module.shapes(), found.shape_id())
            ));
        }
    }
}

fn check_aliases(
    cx: &Context<'_>,
    report: &mut Report<'_>,
    parameters: &[InstructionId],
    result: ShapeId,
) {
    let module = cx.module;
    let table = module.shapes();
    let part = |number: i64, index: &ShapeIndex| {
        let id = *parameters.get(usize::try_from(number).ok()?)?;
        subshape(table, module.instruction(id).shape_id(), index)
    };
    let bytes = |id: ShapeId| match table.get(id) {
        Shape::Array(array) => array.byte_size(),
        _ => None,
    };
    let mut outputs = HashSet::default();
    let mut inputs = HashSet::default();
    for alias in &module.config.input_output_alias {
        let what = format!(
            "input_output_alias of output {} with {} of parameter {}",
            alias.output, alias.parameter_index, alias.parameter
        );
        let Some(output) = subshape(table, result, &alias.output) else {
            report.module(&format!(
                "{what}: there is no such output in {}",
                show(table, result)
            ));
            continue;
        };
        let Some(input) = part(alias.parameter, &alias.parameter_index) else {
            report.module(&format!(
                "{what}: there is no such part of a parameter; the entry computation has {} \
                 parameters",
                parameters.len()
            ));
            continue;
        };
        if !cx.same(output, input) && (bytes(output).is_none() || bytes(output) != bytes(input)) {
            report.module(&format!(
                "{what}: {} and {} differ in size",
                show(table, output),
                show(table, input)
            ));
        }
        if !outputs.insert(&alias.output) {
            report.module(&format!("{what}: the output is named twice"));
        }
        if !inputs.insert((alias.parameter, &alias.parameter_index)) {
            report.module(&format!("{what}: the parameter's part is named twice"));
        }
    }
    for donor in &module.config.buffer_donor {
        let what = format!(
            "buffer_donor {} of parameter {}",
            donor.parameter_index, donor.parameter
        );
        if part(donor.parameter, &donor.parameter_index).is_none() {
            report.module(&format!("{what}: there is no such part of a parameter"));
        } else if !inputs.insert((donor.parameter, &donor.parameter_index)) {
            report.module(&format!("{what}: it is named twice, or aliased already"));
        }
    }
}
