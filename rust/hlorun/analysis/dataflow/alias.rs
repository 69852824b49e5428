//! Values that must share memory: loops, branches, in-place operations and donated parameters.

use super::graph;
use super::positions::PositionId;
use super::{HloDataflowAnalysis, ValueIndex};
use crate::module::{
    AttrKey, AttrValue, HloModule, HloOpcode, IdMap, InstructionId,
    post_order::computation_post_order,
};
use crate::types::{Shape, ShapeIndex};

/// A part of an operand that is overwritten to become a part of the result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InPlacePair {
    /// Which operand.
    pub operand: u32,
    /// Which part of it.
    pub operand_index: ShapeIndex,
    /// Which part of the result.
    pub output: ShapeIndex,
}

/// Groups of values that must lie in the same bytes: XLA's `HloAliasAnalysis`.
#[derive(Clone, Debug)]
pub struct HloAliasAnalysis {
    buffer_of: Vec<u32>,
    /// Where the values of each group begin, and their number.
    starts: Vec<u32>,
    values: Vec<ValueIndex>,
    in_place: IdMap<InstructionId, Vec<InPlacePair>>,
}

impl HloAliasAnalysis {
    /// Finds the groups.
    pub fn run(module: &HloModule, dataflow: &HloDataflowAnalysis) -> HloAliasAnalysis {
        let in_place = in_place_pairs(module);
        let mut sets = Sets::new(dataflow.values().len());
        for value in dataflow.indices() {
            let mut join = |other: Option<PositionId>| {
                if let Some(other) = other.and_then(|position| dataflow.value_at(position)) {
                    sets.join(value.0, other.0);
                }
            };
            join_while_and_conditional(module, dataflow, value, &mut join);
            join_in_place(module, dataflow, value, &in_place, &mut join);
        }
        join_parameters(module, dataflow, &mut |a, b| {
            if let (Some(a), Some(b)) = (dataflow.value_at(a), dataflow.value_at(b)) {
                sets.join(a.0, b.0);
            }
        });
        let mut sizes: Vec<u32> = Vec::new();
        let mut number = vec![u32::MAX; dataflow.values().len()];
        let mut buffer_of = Vec::with_capacity(dataflow.values().len());
        for value in dataflow.indices() {
            let next = sizes.len() as u32;
            let found = &mut number[sets.find(value.0) as usize];
            if *found == u32::MAX {
                *found = next;
                sizes.push(0);
            }
            sizes[*found as usize] += 1;
            buffer_of.push(*found);
        }
        let mut starts = vec![0];
        starts.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        let mut next = starts.clone();
        let mut values = vec![ValueIndex(0); buffer_of.len()];
        for (value, &buffer) in dataflow.indices().zip(&buffer_of) {
            let at = &mut next[buffer as usize];
            values[*at as usize] = value;
            *at += 1;
        }
        HloAliasAnalysis {
            buffer_of,
            starts,
            values,
            in_place,
        }
    }

    /// How many groups there are.
    pub fn buffer_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The values of a group, by number.
    pub fn buffer(&self, buffer: usize) -> &[ValueIndex] {
        let (start, end) = (self.starts[buffer], self.starts[buffer + 1]);
        &self.values[start as usize..end as usize]
    }

    /// The groups; each has its values by number.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = &[ValueIndex]> {
        (0..self.buffer_count()).map(|buffer| self.buffer(buffer))
    }

    /// Which group a value is in.
    pub fn buffer_of(&self, value: ValueIndex) -> usize {
        self.buffer_of[value.0 as usize] as usize
    }

    /// What an instruction overwrites.
    pub fn in_place_pairs(&self, id: InstructionId) -> &[InPlacePair] {
        &self.in_place[id]
    }
}

struct Sets(Vec<u32>);

impl Sets {
    fn new(count: usize) -> Sets {
        Sets((0..count as u32).collect())
    }

    fn find(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            let up = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = up;
            at = up;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        // The smaller number leads, so that numbering is stable.
        self.0[a.max(b) as usize] = a.min(b);
    }
}

fn join_while_and_conditional(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    value: ValueIndex,
    join: &mut dyn FnMut(Option<PositionId>),
) {
    let positions = &dataflow.positions;
    for used in dataflow.uses_of(value) {
        if module.instruction(used.instruction).opcode() == HloOpcode::While {
            join(positions.at(used.instruction, &positions.index(used.position)));
        }
    }
    let defining = module.instruction(dataflow.defining_instruction(value));
    if defining.opcode() == HloOpcode::Parameter {
        let index = positions.index(dataflow.value(value).defining_position);
        for &caller in dataflow.calls.callers(defining.computation()) {
            if module.instruction(caller).opcode() == HloOpcode::While {
                join(positions.at(caller, &index));
            }
        }
    }
    for &position in dataflow.positions_of(value) {
        let instruction = module.instruction(positions.instruction(position));
        if !instruction.is_root() {
            continue;
        }
        let computation = instruction.computation();
        for &caller in dataflow.calls.callers(computation) {
            let flows_back = match module.instruction(caller).opcode() {
                HloOpcode::While => graph::while_computations(module, caller)
                    .is_some_and(|(_, body)| body == computation),
                HloOpcode::Conditional => true,
                _ => false,
            };
            if flows_back {
                join(positions.at(caller, &positions.index(position)));
            }
        }
    }
}

fn join_in_place(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    value: ValueIndex,
    in_place: &IdMap<InstructionId, Vec<InPlacePair>>,
    join: &mut dyn FnMut(Option<PositionId>),
) {
    let positions = &dataflow.positions;
    for &position in dataflow.positions_of(value) {
        let id = positions.instruction(position);
        for pair in &in_place[id] {
            if positions.at(id, &pair.output) == Some(position) {
                let operand = module.operand_ids(id).get(pair.operand as usize);
                join(operand.and_then(|&operand| positions.at(operand, &pair.operand_index)));
            }
        }
    }
    for used in dataflow.uses_of(value) {
        for pair in &in_place[used.instruction] {
            if pair.operand == used.operand && positions.index(used.position) == pair.operand_index
            {
                join(positions.at(used.instruction, &pair.output));
            }
        }
    }
}

fn join_parameters(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    join: &mut dyn FnMut(PositionId, PositionId),
) {
    let Some((_, entry)) = module.entry_computation() else {
        return;
    };
    let positions = &dataflow.positions;
    for alias in &module.config.input_output_alias {
        let parameter = usize::try_from(alias.parameter)
            .ok()
            .and_then(|number| entry.parameters.get(number));
        let output = entry
            .root
            .and_then(|root| positions.at(root, &alias.output));
        let input = parameter.and_then(|&id| positions.at(id, &alias.parameter_index));
        if let (Some(output), Some(input)) = (output, input) {
            join(output, input);
        }
    }
}

/// What every instruction overwrites. Callees are looked at first, so that a fusion knows what the
/// instructions inside it overwrite.
pub fn in_place_pairs(module: &HloModule) -> IdMap<InstructionId, Vec<InPlacePair>> {
    let mut all = IdMap::new(module.instruction_count(), Vec::new());
    let order =
        computation_post_order(module).unwrap_or_else(|_| module.computation_ids().collect());
    for computation in order {
        for &id in &module.computation(computation).instructions {
            let pairs = pairs_of(module, id, &all);
            if !pairs.is_empty() {
                all[id] = pairs;
            }
        }
    }
    all
}

fn pairs_of(
    module: &HloModule,
    id: InstructionId,
    known: &IdMap<InstructionId, Vec<InPlacePair>>,
) -> Vec<InPlacePair> {
    use HloOpcode::*;
    let instruction = module.instruction(id);
    let whole = |operand: u32, output: &[i64]| InPlacePair {
        operand,
        operand_index: ShapeIndex::default(),
        output: ShapeIndex::from(output),
    };
    let operands = instruction.operand_ids().len();
    let each = |count: usize| -> Vec<InPlacePair> {
        match count {
            0 => Vec::new(),
            1 => vec![whole(0, &[])],
            _ => (0..count).map(|i| whole(i as u32, &[i as i64])).collect(),
        }
    };
    match instruction.opcode() {
        DynamicUpdateSlice => each(1),
        // Operands, indices, updates: as many operands as updates.
        Scatter => each(operands.saturating_sub(1) / 2),
        AllReduceStart => each(operands),
        SetDimensionSize => each(1),
        RaggedAllToAll => vec![whole(1, &[])],
        CollectivePermute | CollectivePermuteStart if operands == 4 => {
            let start = instruction.opcode() == CollectivePermuteStart;
            let prefix: &[i64] = if start { &[1] } else { &[] };
            let mut pairs = vec![whole(1, prefix)];
            if let Some(Shape::Tuple(parts)) = instruction.operand(1).map(|o| o.shape()) {
                for part in 0..parts.len() as i64 {
                    pairs.push(InPlacePair {
                        operand: 1,
                        operand_index: ShapeIndex::from(&[part][..]),
                        output: ShapeIndex::from(prefix).child(part),
                    });
                }
            }
            pairs
        }
        CustomCall | AsyncStart => annotated(module, id),
        Fusion => {
            let mut pairs = fusion_pairs(module, id, known);
            for pair in annotated(module, id) {
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
            pairs
        }
        _ => Vec::new(),
    }
}

/// `output_to_operand_aliasing`.
fn annotated(module: &HloModule, id: InstructionId) -> Vec<InPlacePair> {
    let instruction = module.instruction(id);
    let Some(AttrValue::Aliasing(pairs)) = instruction.attribute(AttrKey::OutputOperandAliasing)
    else {
        return Vec::new();
    };
    pairs
        .iter()
        .filter_map(|pair| {
            Some(InPlacePair {
                operand: u32::try_from(pair.operand).ok()?,
                operand_index: pair.operand_index.clone(),
                output: pair.output.clone(),
            })
        })
        .collect()
}

/// A fusion overwrites a parameter where the instruction that makes an output does.
fn fusion_pairs(
    module: &HloModule,
    id: InstructionId,
    known: &IdMap<InstructionId, Vec<InPlacePair>>,
) -> Vec<InPlacePair> {
    const MOST_OUTPUTS: usize = 1 << 16;
    let instruction = module.instruction(id);
    let root = instruction
        .computation_attribute(AttrKey::Calls)
        .and_then(|callee| module.computation(callee).root);
    let Some(root) = root else {
        return Vec::new();
    };
    let outputs = module.shapes().leaves(instruction.shape_id(), MOST_OUTPUTS);
    let mut pairs = Vec::new();
    for (output, _) in outputs.unwrap_or_default() {
        let (source, source_index) = follow(module, root, output.clone());
        let Some(pair) = known[source].iter().find(|p| p.output == source_index) else {
            continue;
        };
        let Some(&operand) = module.operand_ids(source).get(pair.operand as usize) else {
            continue;
        };
        let (mut source, mut index) = follow(module, operand, pair.operand_index.clone());
        if module.instruction(source).opcode() == HloOpcode::Fusion
            && let Some(inner) = known[source].iter().find(|p| p.output == index)
            && let Some(&operand) = module.operand_ids(source).get(inner.operand as usize)
        {
            (source, index) = follow(module, operand, inner.operand_index.clone());
        }
        if let Some(number) = module.instruction(source).parameter_number() {
            pairs.push(InPlacePair {
                operand: number as u32,
                operand_index: index,
                output,
            });
        }
    }
    pairs
}

/// Where a part of a result really comes from, through tuples and bitcasts.
fn follow(
    module: &HloModule,
    mut id: InstructionId,
    mut index: ShapeIndex,
) -> (InstructionId, ShapeIndex) {
    // The path from the outside in, kept backwards so that both ends are cheap.
    index.0.reverse();
    loop {
        let instruction = module.instruction(id);
        let next = match instruction.opcode() {
            HloOpcode::Tuple if !index.0.is_empty() => {
                let element = index.0.pop().unwrap_or(0);
                usize::try_from(element)
                    .ok()
                    .and_then(|e| instruction.operand_ids().get(e))
            }
            HloOpcode::GetTupleElement => {
                index.0.push(instruction.tuple_index().unwrap_or(0) as i64);
                instruction.operand_ids().first()
            }
            HloOpcode::Bitcast if index.0.is_empty() => instruction.operand_ids().first(),
            _ => break,
        };
        match next {
            Some(&next) => id = next,
            None => break,
        }
    }
    index.0.reverse();
    (id, index)
}
