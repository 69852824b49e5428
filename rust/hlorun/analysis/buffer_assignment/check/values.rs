//! Values: does the module define them, are they where the dump says, and used as it says?

use foldhash::{HashMap, HashSet};

use super::FindingKind;
use super::context::Checker;
use crate::analysis::buffer_assignment::instruction_text::InstructionText;
use crate::analysis::buffer_assignment::model::*;
use crate::analysis::dataflow::{PositionId, ValueIndex};
use crate::module::{InstructionId, TextRef};

pub(super) fn check(checker: &mut Checker<'_>) {
    let dump = checker.dump;
    let mut by_id: HashMap<u32, &ValueName> = HashMap::default();
    let mut seen: HashSet<ValueIndex> = HashSet::default();
    for assigned in &dump.assigned {
        let value = name(checker, &assigned.name);
        if let Some(value) = value.filter(|&value| !seen.insert(value)) {
            let message = format!("`{}` is assigned twice", checker.value_name(value));
            checker.find(
                FindingKind::DuplicateValue,
                assigned.name.instruction,
                message,
            );
        }
        number(checker, &assigned.name, &mut by_id);
        checker.assigned.push(value);
    }
    missing(checker, &seen);
    if checker.has_section(&[SectionKind::UsedValues]) {
        used(checker, &mut by_id);
    }
}

/// Looks a value up and reports what is wrong with its name.
fn name(checker: &mut Checker<'_>, name: &ValueName) -> Option<ValueIndex> {
    let shown = checker.name_of(name);
    if checker.instruction(name.instruction).is_none() {
        let message = format!(
            "value <{} {shown}>: the module has no instruction `{}`",
            name.id,
            checker.dump.str(name.instruction)
        );
        checker.find(FindingKind::UnknownInstruction, name.instruction, message);
        return None;
    }
    let Some(value) = checker.value(name.instruction, name.index) else {
        let position = checker.position(name.instruction, name.index);
        let held = position.and_then(|position| checker.dataflow.value_at(position));
        let message = match held {
            Some(held) => format!(
                "value <{} {shown}>: the module defines no value there, it passes `{}` on",
                name.id,
                checker.value_name(held)
            ),
            None => format!(
                "value <{} {shown}>: the module defines no value there",
                name.id
            ),
        };
        checker.find(FindingKind::UnknownValue, name.instruction, message);
        return None;
    };
    let is_phi = checker.dataflow.value(value).is_phi;
    if is_phi != name.is_phi {
        let (ours, theirs) = (phi_word(is_phi), phi_word(name.is_phi));
        let message = format!(
            "value <{} {shown}>: the dump says it is {theirs}, in the module it is {ours}",
            name.id
        );
        checker.find(FindingKind::ValueAttribute, name.instruction, message);
    }
    Some(value)
}

fn phi_word(is_phi: bool) -> &'static str {
    if is_phi { "a phi" } else { "no phi" }
}

/// A number names one value, with one color, throughout a dump.
fn number<'a>(
    checker: &mut Checker<'a>,
    name: &'a ValueName,
    by_id: &mut HashMap<u32, &'a ValueName>,
) {
    let Some(&known) = by_id.get(&name.id) else {
        by_id.insert(name.id, name);
        return;
    };
    let dump = checker.dump;
    let same = dump.bytes(known.instruction) == dump.bytes(name.instruction)
        && dump.bytes(known.index) == dump.bytes(name.index);
    if !same {
        let message = format!(
            "value number {} stands for `{}` here and for `{}` elsewhere",
            name.id,
            checker.name_of(name),
            checker.name_of(known)
        );
        checker.find(FindingKind::DuplicateValue, name.instruction, message);
    } else if known.color != name.color {
        let message = format!(
            "value <{} {}> has color {} here and color {} elsewhere",
            name.id,
            checker.name_of(name),
            name.color,
            known.color
        );
        checker.find(FindingKind::ValueAttribute, name.instruction, message);
    }
}

/// Values of the module that no allocation holds.
fn missing(checker: &mut Checker<'_>, seen: &HashSet<ValueIndex>) {
    if !checker.has_section(&[SectionKind::Allocations]) {
        return;
    }
    // Some backends keep constants elsewhere.
    let constants = seen.iter().any(|&value| checker.is_constant(value));
    for value in checker.dataflow.indices() {
        let expected = checker.expects_memory(value) && (constants || !checker.is_constant(value));
        if expected && !seen.contains(&value) {
            let message = format!(
                "the module defines `{}`, no allocation holds it",
                checker.value_name(value)
            );
            checker.find(FindingKind::MissingValue, TextRef::default(), message);
        }
    }
}

fn used<'a>(checker: &mut Checker<'a>, by_id: &mut HashMap<u32, &'a ValueName>) {
    let dump = checker.dump;
    let allocated = checker.has_section(&[SectionKind::Allocations]);
    let assigned: HashSet<u32> = dump.assigned.iter().map(|a| a.name.id).collect();
    let mut seen: HashSet<u32> = HashSet::default();
    for entry in &dump.used_values {
        if !seen.insert(entry.name.id) {
            let message = format!(
                "value <{} {}> stands twice under used values",
                entry.name.id,
                checker.name_of(&entry.name)
            );
            checker.find(FindingKind::DuplicateValue, entry.name.instruction, message);
        }
        number(checker, &entry.name, by_id);
        if !assigned.contains(&entry.name.id) && allocated {
            let message = format!(
                "value <{} {}> is used, no allocation holds it",
                entry.name.id,
                checker.name_of(&entry.name)
            );
            checker.find(FindingKind::MissingValue, entry.name.instruction, message);
        }
        if let Some(value) = name(checker, &entry.name) {
            positions(checker, entry, value);
            uses(checker, entry, value);
            defining_instruction(checker, entry, value);
        }
    }
    for assigned in &dump.assigned {
        if !seen.contains(&assigned.name.id) {
            let message = format!(
                "value <{} {}> is assigned, the used values do not list it",
                assigned.name.id,
                checker.name_of(&assigned.name)
            );
            checker.find(
                FindingKind::MissingValue,
                assigned.name.instruction,
                message,
            );
        }
    }
}

fn positions(checker: &mut Checker<'_>, entry: &HloValueEntry, value: ValueIndex) {
    let dump = checker.dump;
    let shown = checker.name_of(&entry.name);
    let mut listed: HashSet<PositionId> = HashSet::default();
    for (nth, listing) in dump.positions_of(entry).iter().enumerate() {
        let place = dump.display_name(listing.instruction, listing.index);
        let position = checker.position(listing.instruction, listing.index);
        let held = position.and_then(|position| checker.dataflow.value_at(position));
        let message = match (position, held) {
            (None, _) => format!("`{shown}` is said to be at `{place}`, which the module has not"),
            (Some(_), Some(held)) if held == value => {
                let first = checker.dataflow.value(value).defining_position;
                if !position.is_some_and(|position| listed.insert(position)) {
                    format!("position `{place}` of `{shown}` is listed twice")
                } else if nth == 0 && position != Some(first) {
                    format!("the first position of `{shown}` is `{place}`, not its definition")
                } else {
                    continue;
                }
            }
            (Some(_), held) => {
                let held = held.map_or("nothing".into(), |held| checker.value_name(held));
                format!("`{shown}` is said to be at `{place}`, in the module `{held}` is there")
            }
        };
        checker.find(FindingKind::Position, listing.instruction, message);
    }
    for &position in &checker.dataflow.positions_of(value).to_vec() {
        if !listed.contains(&position) {
            let message = format!(
                "in the module `{shown}` is at `{}` too, the dump does not list it",
                checker.position_name(position)
            );
            checker.find(FindingKind::Position, entry.name.instruction, message);
        }
    }
}

fn uses(checker: &mut Checker<'_>, entry: &HloValueEntry, value: ValueIndex) {
    let dump = checker.dump;
    let shown = checker.name_of(&entry.name);
    let expected: HashSet<(InstructionId, u32, PositionId)> = checker
        .dataflow
        .uses_of(value)
        .iter()
        .map(|used| (used.instruction, used.operand, used.position))
        .collect();
    let mut listed = HashSet::default();
    for listing in dump.uses_of(entry) {
        let user = checker.instruction(listing.instruction);
        let operand = user.and_then(|user| {
            let operands = checker.module.operand_ids(user);
            operands.get(listing.operand as usize).copied()
        });
        let index = dump.shape_index(listing.index);
        let position = operand.and_then(|id| checker.dataflow.positions.at(id, &index));
        let place = format!(
            "{}, operand {}{}",
            dump.str(listing.instruction),
            listing.operand,
            dump.str(listing.index)
        );
        let problem = match (user, operand, position) {
            (None, ..) => "the module has no such instruction".to_string(),
            (Some(user), None, _) => format!(
                "it has {} operands in the module",
                checker.module.operand_ids(user).len()
            ),
            (Some(user), Some(operand), position) => {
                let used = position.map(|position| (user, listing.operand, position));
                match used.filter(|used| expected.contains(used)) {
                    Some(used) if listed.insert(used) => continue,
                    Some(_) => "it is listed twice".to_string(),
                    None => format!(
                        "in the module that operand is `{}`",
                        checker.module.instruction(operand).name()
                    ),
                }
            }
        };
        let message = format!("`{shown}` is said to be used by `{place}`: {problem}");
        checker.find(FindingKind::Use, listing.instruction, message);
    }
    for used in checker.dataflow.uses_of(value).to_vec() {
        if !listed.contains(&(used.instruction, used.operand, used.position)) {
            let message = format!(
                "in the module `{shown}` is used by `{}, operand {}`, the dump does not list it",
                checker.module.instruction(used.instruction).name(),
                used.operand
            );
            checker.find(FindingKind::Use, entry.name.instruction, message);
        }
    }
}

/// Compares name, shape, opcode and operands of `%x = f32[2] add(%a, %b), …`.
fn defining_instruction(checker: &mut Checker<'_>, entry: &HloValueEntry, value: ValueIndex) {
    let module = checker.module;
    let id = checker.dataflow.defining_instruction(value);
    let instruction = module.instruction(id);
    let text = entry.from_instruction;
    let source = checker.dump.bytes(text);
    let Some(parts) = InstructionText::split(source) else {
        let message = format!(
            "`{}`: this does not read as an instruction",
            checker.name_of(&entry.name)
        );
        checker.find(FindingKind::DefiningInstruction, text, message);
        return;
    };
    let say = |checker: &mut Checker<'_>, what: &str, theirs: &[u8], ours: &str| {
        let message = format!(
            "`{}`: the dump's {what} is `{}`, the module's `{ours}`",
            instruction.name(),
            String::from_utf8_lossy(theirs)
        );
        checker.find(FindingKind::DefiningInstruction, text, message);
    };
    if parts.name != instruction.name().as_bytes() {
        say(checker, "name", parts.name, &instruction.name());
    }
    let at = text.start as usize + parts.shape_at;
    let shape_text = TextRef::new(at, at + parts.shape.len());
    if !checker.same_shape(shape_text, instruction.shape_id(), true) {
        let ours = checker.shape_name(instruction.shape_id(), crate::types::ShapeStyle::FULL);
        say(checker, "shape", parts.shape, &ours);
    }
    let opcode = instruction.opcode_name();
    // Wrapped operations are written `copy-start(…)` and the like for `async-start`.
    let sugar = opcode.starts_with("async-");
    if parts.opcode != opcode.as_bytes() && !sugar {
        say(checker, "opcode", parts.opcode, &opcode);
    }
    let has_operands = !instruction.operand_ids().is_empty();
    let ours: Vec<_> = instruction.operands().map(|o| o.name()).collect();
    let theirs: Vec<&[u8]> = parts.operands().into_iter().map(|o| o.name).collect();
    let same = ours.len() == theirs.len()
        && ours
            .iter()
            .zip(&theirs)
            .all(|(ours, theirs)| ours.as_bytes() == *theirs);
    if has_operands && !same && !sugar {
        say(
            checker,
            "operand list",
            parts.operand_list,
            &ours.join(", "),
        );
    }
}
