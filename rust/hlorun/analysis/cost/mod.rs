//! What a module costs by XLA's `HloCostAnalysis`: floating-point operations, transcendentals, bytes.
//!
//! Comes in: a module. Goes out: properties of every instruction, and their sum over the entry, under
//! XLA's keys. A loop counts as one trip, a conditional as its most expensive branch, and a fusion touches
//! only what goes in and out of it; a custom call nobody knows has -1 of everything. Matrix products
//! of GPU libraries count as XLA:GPU counts them. Promise: linear in what the module holds.

mod counts;
mod properties;

use foldhash::HashMap;

use counts::{
    MAX_LEAVES, arrays, convolution_flops, count, dot_flops, elements, is_bitcast, last_dimension,
    logarithm, size_of, window_reductions, windows,
};
pub use properties::{Key, Properties};

use crate::analysis::dataflow::Users;
use crate::error::{HloError, Result};
use crate::library::{GemmConfig, gemm};
use crate::module::opcode::elementwise_classes;
use crate::module::post_order::computation_post_order;
use crate::module::{
    AttrKey, ComputationId, HloModule, HloOpcode, Id, InstructionId, InstructionRef, OpClass,
};
use crate::types::{Shape, ShapeIndex};

/// The result of an analysis.
#[derive(Clone, Debug)]
pub struct CostAnalysis {
    /// The sum over the entry computation.
    pub total: Properties,
    instructions: Vec<Properties>,
}

impl CostAnalysis {
    /// Properties of one instruction.
    pub fn instruction(&self, id: InstructionId) -> &Properties {
        &self.instructions[id.index()]
    }
}

/// Analyses a module.
///
/// Errors: `HloError::Execution` when a computation calls itself.
pub fn cost_analysis(module: &HloModule) -> Result<CostAnalysis> {
    analyse(module, false)
}

/// As [`cost_analysis`], without the bytes of each operand and result.
///
/// Errors: `HloError::Execution` when a computation calls itself.
pub fn cost_sums(module: &HloModule) -> Result<CostAnalysis> {
    analyse(module, true)
}

fn analyse(module: &HloModule, is_brief: bool) -> Result<CostAnalysis> {
    let order = computation_post_order(module).map_err(|id| {
        HloError::execution(format!(
            "computation {} calls itself",
            module.str(module.computation(id).name)
        ))
    })?;
    let mut analysis = Analysis {
        module,
        users: Users::new(module),
        is_brief,
        whole_sizes: vec![None; module.shapes().len() + 1],
        sums: HashMap::default(),
        reads: HashMap::default(),
        instructions: vec![Properties::default(); module.instruction_count()],
    };
    for id in order {
        analysis.computation(id);
    }
    let total = module
        .entry
        .and_then(|entry| analysis.sums.remove(&entry))
        .unwrap_or_default();
    Ok(CostAnalysis {
        total,
        instructions: analysis.instructions,
    })
}

struct Analysis<'m> {
    module: &'m HloModule,
    /// Users of every instruction, and which operand of theirs it is.
    users: Users,
    is_brief: bool,
    /// Bytes of all arrays of a shape, by shape.
    whole_sizes: Vec<Option<f64>>,
    /// Sum of every computation done so far.
    sums: HashMap<ComputationId, Properties>,
    /// Bytes a computation reads of each of its parameters when it is fused.
    reads: HashMap<ComputationId, Vec<f64>>,
    instructions: Vec<Properties>,
}

impl<'m> Analysis<'m> {
    fn computation(&mut self, id: ComputationId) {
        let data = self.module.computation(id);
        let mut sum = Properties::new(self.is_brief);
        for &instruction in &data.instructions {
            let shape = self.module.instruction_data(instruction).shape;
            self.whole_sizes[shape.index()].get_or_insert_with(|| {
                let leaves = arrays(self.module.instruction(instruction));
                leaves.iter().map(|leaf| leaf.1).sum()
            });
            let properties = self.instruction(self.module.instruction(instruction));
            sum.add_all(&properties);
            self.instructions[instruction.index()] = properties;
        }
        let reads = data
            .parameters
            .iter()
            .map(|&p| self.read_bytes(p))
            .collect();
        self.reads.insert(id, reads);
        self.sums.insert(id, sum);
    }

    fn sum(&self, id: Option<ComputationId>) -> Properties {
        id.and_then(|id| self.sums.get(&id).cloned())
            .unwrap_or_else(|| Properties::new(self.is_brief))
    }

    fn callee(&self, instruction: InstructionRef<'_>, key: AttrKey) -> Properties {
        self.sum(instruction.computation_attribute(key))
    }

    /// Bytes a fused computation reads of `id`, a parameter or a part of one.
    fn read_bytes(&self, id: InstructionId) -> f64 {
        let whole = size_of(self.module.instruction(id));
        let mut bytes = 0.0;
        let mut is_counted = false;
        for &(user, k) in self.users.of(id) {
            let user = self.module.instruction(user);
            match user.opcode() {
                HloOpcode::Fusion => {
                    let callee = user.computation_attribute(AttrKey::Calls);
                    let reads = callee.and_then(|callee| self.reads.get(&callee));
                    bytes += reads
                        .and_then(|r| r.get(k as usize))
                        .copied()
                        .unwrap_or(whole);
                }
                HloOpcode::Slice => bytes += size_of(user),
                HloOpcode::DynamicSlice if k == 0 => bytes += size_of(user),
                HloOpcode::DynamicUpdateSlice if k == 0 => {}
                HloOpcode::Broadcast | HloOpcode::Reshape => bytes += whole,
                // Everything else shares one read.
                _ if is_counted => {}
                _ => {
                    is_counted = true;
                    bytes += whole;
                }
            }
        }
        bytes
    }

    /// Sizes of inputs and outputs, which is what an instruction touches unless it is known better.
    fn default(&self, instruction: InstructionRef<'_>) -> Properties {
        let mut properties = Properties::new(self.is_brief);
        let output = self.whole_sizes[instruction.shape_id().index()].unwrap_or(0.0);
        let operands = || instruction.operands().map(size_of);
        properties.set(Key::BytesAccessed, output + operands().sum::<f64>());
        properties.set_bytes(output, operands());
        properties.set_read_once(instruction.operand_ids().len());
        properties
    }

    fn instruction(&self, instruction: InstructionRef<'m>) -> Properties {
        use HloOpcode as Op;
        match instruction.opcode() {
            Op::Call => self.callee(instruction, AttrKey::ToApply),
            Op::AsyncStart => {
                let mut p = self.callee(instruction, AttrKey::Calls);
                p.remove_seconds();
                p
            }
            Op::While => {
                let mut p = self.callee(instruction, AttrKey::Body);
                p.add_all(&self.callee(instruction, AttrKey::Condition));
                p
            }
            Op::Conditional => self.conditional(instruction),
            Op::Fusion => self.fusion(instruction),
            _ => {
                let mut p = self.default(instruction);
                touched(instruction, &mut p);
                self.operations(instruction, &mut p);
                p
            }
        }
    }

    /// What is computed, and what a computation that is applied costs each time.
    fn operations(&self, instruction: InstructionRef<'m>, p: &mut Properties) {
        use HloOpcode as Op;
        let operand_elements = |k: usize| instruction.operand(k).map_or(0.0, elements);
        let applied = |key: AttrKey| self.callee(instruction, key);
        match instruction.opcode() {
            Op::Scatter => self.scatter(instruction, p),
            Op::Dot | Op::ScaledDot | Op::RaggedDot => {
                let contracting = instruction.ints(AttrKey::LhsContractingDims);
                p.set(Key::Flops, dot_flops(instruction, contracting));
            }
            Op::Convolution => p.set(Key::Flops, convolution_flops(instruction)),
            Op::Map => p.add_applied(&applied(AttrKey::ToApply), elements(instruction)),
            Op::Reduce => {
                let times = operand_elements(0) - elements(instruction);
                p.add_applied(&applied(AttrKey::ToApply), times);
            }
            Op::ReduceWindow => {
                p.add_applied(&applied(AttrKey::ToApply), window_reductions(instruction));
            }
            Op::SelectAndScatter => {
                let window: f64 = windows(instruction).iter().map(|d| d.size as f64).product();
                let (windows, select) = (operand_elements(1), applied(AttrKey::SelectComputation));
                p.add_applied(&select, windows * (window - 1.0));
                p.add_applied(&applied(AttrKey::ScatterComputation), windows);
            }
            Op::Fft => {
                let lengths = instruction.ints(AttrKey::FftLength).iter();
                let factors: f64 = lengths
                    .map(|&length| logarithm(length as f64, f64::floor))
                    .product();
                // A complex multiplication is four multiply-adds.
                p.set(Key::Flops, 2.0 * 4.0 * factors * operand_elements(0));
            }
            Op::TriangularSolve => {
                let size = last_dimension(instruction.operand(0));
                p.set(Key::Flops, 2.0 * size * operand_elements(1));
            }
            Op::Cholesky => {
                let work = last_dimension(instruction.operand(0)) * operand_elements(0);
                p.set(Key::Flops, (work / 3.0).floor());
            }
            Op::AllReduce | Op::AllReduceStart => p.set(Key::Flops, leaf_elements(instruction)),
            Op::Rng => p.set(Key::Transcendentals, elements(instruction)),
            Op::RngBitGenerator => p.set(Key::Transcendentals, leaf_elements(instruction)),
            Op::Sort => {
                let n = operand_elements(0);
                p.set(Key::Flops, n * logarithm(n, f64::ceil));
            }
            Op::CustomCall => self.custom_call(instruction, p),
            opcode => match opcode.class() {
                OpClass::Unary | OpClass::Binary if opcode.is_transcendental() => {
                    p.set(Key::Transcendentals, elements(instruction));
                }
                elementwise_classes!() | OpClass::BitcastConvert => {
                    p.set(Key::Flops, elements(instruction))
                }
                _ => {}
            },
        }
    }

    fn scatter(&self, instruction: InstructionRef<'_>, p: &mut Properties) {
        let n = instruction.operand_ids().len() / 2;
        let update = |k: usize| instruction.operand(n + 1 + k);
        let mut updates = 0.0;
        for k in 0..n {
            let bytes = update(k).map_or(0.0, size_of);
            p.set(Key::OperandBytes(k as u32), bytes);
            updates += bytes;
        }
        let indices = instruction.operand(n).map_or(0.0, size_of);
        p.set(Key::BytesAccessed, 3.0 * updates + indices);
        p.set(Key::OutputBytes(ShapeIndex::default()), updates);
        let function = self.callee(instruction, AttrKey::ToApply);
        p.add_applied(&function, update(0).map_or(0.0, elements));
    }

    fn conditional(&self, instruction: InstructionRef<'_>) -> Properties {
        let mut most_expensive: Option<Properties> = None;
        for branch in instruction.called_computations() {
            let branch = self.sum(Some(branch));
            match &mut most_expensive {
                None => most_expensive = Some(branch),
                Some(most_expensive) => most_expensive.raise_to(&branch),
            }
        }
        most_expensive.unwrap_or_else(|| Properties::new(self.is_brief))
    }

    fn fusion(&self, fusion: InstructionRef<'m>) -> Properties {
        let module = self.module;
        let Some(callee) = fusion.computation_attribute(AttrKey::Calls) else {
            return self.default(fusion);
        };
        let data = module.computation(callee);
        let mut p = self.sum(Some(callee));
        let root = data.root.map(|root| module.instruction(root));
        let mut total = 0.0;
        let mut output = 0.0;
        p.remove_output();
        // In the order of the keys, so that each is put at the end.
        for (k, &parameter) in data.parameters.iter().enumerate() {
            let bytes = self.parameter_bytes(parameter);
            total += bytes;
            p.set(Key::OperandBytes(k as u32), bytes);
        }
        for (index, whole) in arrays(fusion) {
            let from = match index.0[..] {
                [] => root,
                [k] => root
                    .filter(|r| r.opcode() == HloOpcode::Tuple)
                    .and_then(|r| r.operand(k as usize)),
                _ => None,
            };
            let bytes = match from {
                Some(from) if from.opcode() == HloOpcode::DynamicUpdateSlice => {
                    from.operand(1).map_or(0.0, size_of)
                }
                _ => whole,
            };
            output += bytes;
            if !index.is_root() {
                p.set(Key::OutputBytes(index), bytes);
            }
        }
        p.set(Key::OutputBytes(ShapeIndex::default()), output);
        total += output;
        for &id in &data.instructions {
            let inner = module.instruction(id);
            if inner.opcode() == HloOpcode::Constant && elements(inner) > 1.0 {
                total += size_of(inner);
            }
        }
        p.set_read_once(data.parameters.len());
        p.set(Key::BytesAccessed, total);
        p
    }

    /// Bytes a fusion reads of a parameter; of a tuple, of the parts that are taken.
    fn parameter_bytes(&self, parameter: InstructionId) -> f64 {
        let mut bytes = 0.0;
        let mut pending = vec![parameter];
        while let Some(id) = pending.pop() {
            match self.module.instruction(id).shape() {
                Shape::Tuple(_) => pending.extend(
                    self.users
                        .of(id)
                        .iter()
                        .map(|user| user.0)
                        .filter(|&user| self.module.instruction(user).tuple_index().is_some()),
                ),
                _ => bytes += self.read_bytes(id),
            }
        }
        bytes
    }

    fn custom_call(&self, call: InstructionRef<'_>, p: &mut Properties) {
        let target = call.custom_call_target().unwrap_or_default();
        if matches!(&*target, gemm::GEMM | gemm::LT_MATMUL | gemm::LT_MATMUL_F8)
            && let Some(config) = GemmConfig::of(call)
        {
            let contracting: Vec<i64> = config.dimensions.lhs_contracting.to_vec();
            p.set(Key::Flops, dot_flops(call, &contracting));
            return;
        }
        p.set(Key::Flops, -1.0);
        p.set(Key::BytesAccessed, -1.0);
        p.set(Key::OptimalSeconds, -1.0);
        p.set_bytes(-1.0, call.operand_ids().iter().map(|_| -1.0));
    }
}

/// Elements of all arrays of the result.
fn leaf_elements(instruction: InstructionRef<'_>) -> f64 {
    let shapes = instruction.module.shapes();
    let leaves = shapes.leaves(instruction.shape_id(), MAX_LEAVES);
    let leaves = leaves.unwrap_or_default();
    let arrays = leaves.iter().filter_map(|l| shapes.get(l.1).as_array());
    arrays.map(count).sum()
}

/// Bytes that are touched, where they are not the sizes of operands and results.
fn touched(instruction: InstructionRef<'_>, p: &mut Properties) {
    use HloOpcode as Op;
    let size = |k: usize| instruction.operand(k).map_or(0.0, size_of);
    let share = |k: usize| {
        let part = instruction.operand(k).map_or(0.0, elements);
        (part, elements(instruction))
    };
    let nothing = instruction.operand_ids().iter().map(|_| 0.0);
    let result = size_of(instruction);
    match instruction.opcode() {
        Op::Transpose if !is_bitcast(instruction) => {}
        Op::Parameter
        | Op::Constant
        | Op::GetTupleElement
        | Op::Domain
        | Op::AfterAll
        | Op::AddDependency
        | Op::Transpose
        | Op::Bitcast => {
            p.set(Key::BytesAccessed, 0.0);
            p.set_bytes(0.0, nothing);
        }
        Op::Tuple => {
            p.set(Key::BytesAccessed, result);
            p.set_bytes(result, nothing);
        }
        opcode @ (Op::Slice | Op::DynamicSlice | Op::Gather) => {
            let indices = if opcode == Op::Slice { 0.0 } else { size(1) };
            p.set(Key::BytesAccessed, 2.0 * result + indices);
            match opcode {
                Op::Gather => p.set_bytes(result, [result, indices]),
                _ => p.set_bytes(result, [result]),
            }
            let (operand, result) = share(0);
            p.set(Key::OperandUtilization(0), result / operand);
        }
        Op::DynamicUpdateSlice => {
            let bytes = size(1);
            p.set(Key::BytesAccessed, 2.0 * bytes + size(2));
            p.set_bytes(bytes, [0.0, bytes]);
            let (update, result) = share(1);
            p.set(Key::OperandUtilization(0), 1.0 - update / result);
        }
        Op::TriangularSolve => {
            let (a, b) = (size(0), size(1));
            p.set(Key::BytesAccessed, result + a / 2.0 + b);
            // XLA writes the second operand's bytes in the place of the first's.
            p.set_bytes(result, [b, b]);
        }
        Op::Cholesky => {
            let half = size(0) / 2.0;
            p.set(Key::BytesAccessed, 2.0 * half);
            p.set_bytes(half, [half]);
        }
        Op::CopyStart => {
            // The leaves once more: what is copied is read and written.
            let leaves: f64 = arrays(instruction).iter().map(|leaf| leaf.1).sum();
            p.set(Key::BytesAccessed, leaves + size(0));
        }
        _ => {}
    }
}
