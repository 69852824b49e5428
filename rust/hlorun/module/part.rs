//! Parts of a module as modules of their own.
//!
//! In: a module and a computation, or an instruction. Out: a module whose entry is that computation,
//! or what the instruction depends on. Promise: the header and the stack frames are kept, but for what
//! the header says of parameters and results that the part does not have.

use foldhash::{HashMap, HashSet};

use super::computation::HloComputation;
use super::config::{EntryComputationLayout, HloModuleConfig};
use super::copy::Copier;
use super::hlo_module::{HloModule, NewInstruction};
use super::ids::{ComputationId, InstructionId};
use super::opcode::HloOpcode;

/// Attributes of the header that speak of the entry's parameters and results.
const OF_THE_INTERFACE: [&str; 6] = [
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
];

/// The module whose entry is `computation`.
pub fn computation_part(module: &HloModule, computation: ComputationId) -> HloModule {
    let mut copier = Copier::new(module);
    let entry = copier.copy_computations(vec![computation]);
    let mut part = copier.to;
    part.entry = entry;
    if module.entry == Some(computation) {
        part.config = module.config.clone();
    } else {
        part.config = outer_config(module);
        name_after(&mut part, module.computation(computation).name);
    }
    part
}

/// The module that computes `root`, and that takes as parameters what lies more than `depth` steps of
/// operands before it.
pub fn instruction_part(
    module: &HloModule,
    root: InstructionId,
    depth: Option<usize>,
) -> HloModule {
    let (needed, cut) = slice(module, root, depth);
    let mut copier = Copier::new(module);
    let called = needed.iter().filter(|id| !cut.contains(id));
    copier.copy_computations(
        called
            .flat_map(|&id| module.instruction(id).called_computations())
            .collect(),
    );
    let name = copier.to.text_mut().add(b"main");
    let entry = copier.to.add_computation(HloComputation {
        name,
        ..HloComputation::default()
    });
    copier.to.entry = Some(entry);
    let (parameters, rest): (Vec<_>, Vec<_>) = needed.into_iter().partition(|id| cut.contains(id));
    for (number, &id) in parameters.iter().enumerate() {
        let data = module.instruction_data(id);
        let new = match data.opcode {
            HloOpcode::Parameter => copier.copy_instruction(id, entry, &[]),
            _ => copier.to.add_instruction(
                entry,
                NewInstruction {
                    name: data.name,
                    text: data.text,
                    opcode: HloOpcode::Parameter,
                    shape: data.shape,
                    operands: &[],
                    attributes: &[],
                    immediate: 0,
                },
            ),
        };
        copier.to.instruction_data_mut(new).immediate = number as u32;
        copier.instructions.insert(id, new);
        copier.to.computation_mut(entry).parameters.push(new);
    }
    copier.copy_instructions(&rest, entry);
    let mut part = copier.to;
    part.computation_mut(entry).root = copier.instructions.get(&root).copied();
    part.config = outer_config(module);
    part.config.entry_computation_layout = layout_of(module, root, &parameters);
    name_after(&mut part, module.instruction_data(root).name);
    part
}

/// What `root` depends on, in the order of the text, and those of them that become parameters.
fn slice(
    module: &HloModule,
    root: InstructionId,
    depth: Option<usize>,
) -> (Vec<InstructionId>, HashSet<InstructionId>) {
    let mut seen: HashSet<InstructionId> = HashSet::from_iter([root]);
    let mut cut = HashSet::default();
    let mut level = vec![root];
    let mut steps = 0;
    while !level.is_empty() {
        let mut following = Vec::new();
        for id in level {
            let opcode = module.instruction_data(id).opcode;
            // A constant is no operand worth a parameter.
            let is_far = depth.is_some_and(|depth| steps >= depth) && opcode != HloOpcode::Constant;
            if is_far || opcode == HloOpcode::Parameter {
                cut.insert(id);
                continue;
            }
            let operands = module.operand_ids(id).iter();
            following.extend(operands.copied().filter(|&operand| seen.insert(operand)));
        }
        level = following;
        steps += 1;
    }
    let computation = module.instruction_data(root).computation;
    let all = module.computation(computation).instructions.iter();
    (all.copied().filter(|id| seen.contains(id)).collect(), cut)
}

/// The header without what it says of the entry's parameters and results.
pub(super) fn outer_config(module: &HloModule) -> HloModuleConfig {
    let config = &module.config;
    let attributes = config.attributes.iter().copied();
    HloModuleConfig {
        is_scheduled: config.is_scheduled,
        replica_count: config.replica_count,
        num_partitions: config.num_partitions,
        attributes: attributes
            .filter(|&(key, _)| !OF_THE_INTERFACE.contains(&&*module.str(key)))
            .collect(),
        ..HloModuleConfig::default()
    }
}

/// The header's layouts of those parameters, and of the result where it is the module's.
fn layout_of(
    module: &HloModule,
    root: InstructionId,
    parameters: &[InstructionId],
) -> Option<EntryComputationLayout> {
    let layout = module.config.entry_computation_layout.as_ref()?;
    let (_, entry) = module.entry_computation()?;
    let stated: HashMap<_, _> = entry.parameters.iter().zip(&layout.parameters).collect();
    let own = |id: InstructionId| module.instruction_data(id).shape;
    Some(EntryComputationLayout {
        parameters: parameters
            .iter()
            .map(|id| stated.get(id).map_or(own(*id), |shape| **shape))
            .collect(),
        result: match entry.root == Some(root) {
            true => layout.result,
            false => own(root),
        },
    })
}

/// Adds what it is a part for to the name of the module.
fn name_after(part: &mut HloModule, of: super::names::TextRef) {
    let mut name = [part.text.bytes(part.name), b".", part.text.bytes(of)].concat();
    for byte in &mut name {
        if !byte.is_ascii_alphanumeric() && !b"_.-".contains(byte) {
            *byte = b'_';
        }
    }
    part.name = part.text_mut().add(&name);
}
