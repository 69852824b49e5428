//! Computations as graphs: roots, parameters, order of definition, cycles.

use super::report::Report;
use crate::module::attributes::AttrValue;
use crate::module::{ComputationId, HloModule, Id, IdMap, InstructionId};

/// Names of a cycle that a message shows.
const MAX_CYCLE_NAMES: usize = 12;

/// Where each instruction stands in its computation; filled one computation at a time.
pub struct Positions(IdMap<InstructionId, u32>);

impl Positions {
    /// Nothing filled in yet.
    pub fn new(module: &HloModule) -> Positions {
        Positions(IdMap::new(module.instruction_count(), u32::MAX))
    }
}

/// What an instruction must come after: operands, then control predecessors.
fn dependencies(module: &HloModule, id: InstructionId) -> impl Iterator<Item = InstructionId> {
    let i = module.instruction(id);
    i.operand_ids()
        .iter()
        .chain(i.control_predecessors())
        .copied()
}

/// Root, parameters and order.
pub fn check_computation(
    module: &HloModule,
    id: ComputationId,
    positions: &mut Positions,
    report: &mut Report<'_>,
) {
    let computation = module.computation(id);
    match computation.root {
        None => report.computation(id, "has no root"),
        Some(root) if module.instruction_data(root).computation != id => {
            report.computation(id, "has a root that stands in another computation");
        }
        Some(_) => {}
    }
    check_parameters(module, id, report);
    for (position, &instruction) in computation.instructions.iter().enumerate() {
        positions.0[instruction] = position as u32;
    }
    let mut forward = Vec::new();
    for (position, &instruction) in computation.instructions.iter().enumerate() {
        for dependency in dependencies(module, instruction) {
            if module.instruction_data(dependency).computation != id {
                let other = module.instruction_data(dependency).computation;
                report.instruction(
                    instruction,
                    &format!(
                        "depends on %{}, which stands in another computation, %{}",
                        module.instruction(dependency).name(),
                        module.str(module.computation(other).name)
                    ),
                );
            } else if positions.0[dependency] >= position as u32 {
                forward.push((instruction, dependency));
            }
        }
    }
    if forward.is_empty() {
        return;
    }
    let cycle = find_cycle(module, id, &positions.0);
    if let Some(&first) = cycle.iter().min_by_key(|&&i| positions.0[i]) {
        report.instruction(
            first,
            &format!(
                "depends on itself: {}",
                show_cycle(
                    cycle
                        .iter()
                        .map(|&i| { module.instruction(i).name().into_owned() })
                )
            ),
        );
    }
    let in_cycle: foldhash::HashSet<_> = cycle.into_iter().collect();
    for (user, used) in forward {
        if !(in_cycle.contains(&user) && in_cycle.contains(&used)) {
            report.instruction(
                user,
                &format!(
                    "uses %{} before it is defined",
                    module.instruction(used).name()
                ),
            );
        }
    }
}

fn check_parameters(module: &HloModule, id: ComputationId, report: &mut Report<'_>) {
    let computation = module.computation(id);
    for &instruction in &computation.instructions {
        let Some(number) = module.instruction(instruction).parameter_number() else {
            continue;
        };
        if computation.parameters.get(number) != Some(&instruction) {
            report.instruction(
                instruction,
                &format!(
                    "has number {number}, which another parameter has or which leaves a gap: \
                     there are {} parameters",
                    computation.parameters.len()
                ),
            );
        }
    }
    for (number, &parameter) in computation.parameters.iter().enumerate() {
        let found = module.instruction(parameter);
        if found.computation() != id || found.parameter_number() != Some(number) {
            report.computation(id, &format!("has no parameter {number}"));
        }
    }
}

/// The instructions of one cycle in the order of use; empty when there is none.
fn find_cycle(
    module: &HloModule,
    id: ComputationId,
    positions: &IdMap<InstructionId, u32>,
) -> Vec<InstructionId> {
    let instructions = &module.computation(id).instructions;
    let edges: Vec<Vec<usize>> = instructions
        .iter()
        .map(|&i| {
            dependencies(module, i)
                .filter(|&d| module.instruction_data(d).computation == id)
                .map(|d| positions[d] as usize)
                .filter(|&p| p < instructions.len())
                .collect()
        })
        .collect();
    cycle(instructions.len(), |node| &edges[node])
        .into_iter()
        .map(|position| instructions[position])
        .collect()
}

/// The nodes of one cycle of a graph, each followed by one it points to; empty when there is none.
fn cycle<'e>(count: usize, edges: impl Fn(usize) -> &'e [usize]) -> Vec<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..count {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        path.push((start, 0));
        while let Some((node, next)) = path.last_mut() {
            match edges(*node).get(*next).copied() {
                None => {
                    marks[*node] = Mark::Done;
                    path.pop();
                }
                Some(target) => {
                    *next += 1;
                    match marks[target] {
                        Mark::Done => {}
                        Mark::New => {
                            marks[target] = Mark::Open;
                            path.push((target, 0));
                        }
                        Mark::Open => {
                            let from = path.iter().position(|&(node, _)| node == target);
                            return path[from.unwrap_or(0)..]
                                .iter()
                                .map(|&(node, _)| node)
                                .collect();
                        }
                    }
                }
            }
        }
    }
    Vec::new()
}

/// `%a uses %b uses %a`.
fn show_cycle(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let mut names = names.peekable();
    let first = names.peek().cloned().unwrap_or_default();
    let mut out = String::new();
    for (k, name) in names.enumerate() {
        if k == MAX_CYCLE_NAMES {
            out.push_str(&format!("… {} more → ", count - k));
            break;
        }
        out.push_str(&format!("%{name} → "));
    }
    out + "%" + &first
}

/// That no computation calls itself.
pub fn check_calls(module: &HloModule, report: &mut Report<'_>) {
    let count = module.computation_count();
    let edges: Vec<Vec<usize>> = module
        .computation_ids()
        .map(|id| {
            let mut callees: Vec<usize> = Vec::new();
            for &instruction in &module.computation(id).instructions {
                for attribute in module.attributes_of(instruction) {
                    match &attribute.value {
                        AttrValue::Computation(callee) => callees.push(callee.index()),
                        AttrValue::Computations(several) => {
                            callees.extend(several.iter().map(|callee| callee.index()));
                        }
                        _ => {}
                    }
                }
            }
            callees
        })
        .collect();
    let cycle = cycle(count, |node| &edges[node]);
    if let Some(&first) = cycle.iter().min() {
        let names = cycle.iter().map(|&c| {
            let computation = module.computation(ComputationId::from_index(c));
            module.str(computation.name).into_owned()
        });
        report.computation(
            ComputationId::from_index(first),
            &format!("calls itself: {}", show_cycle(names)),
        );
    }
}
