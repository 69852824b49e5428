//! What a module costs by XLA's `HloCostAnalysis`: floating-point operations, transcendentals, bytes.
//!
//! Comes in: a module. Goes out: properties of every instruction, and their sum over the entry, under
//! XLA's keys. A loop counts as one trip, a conditional as its dearest branch, and a fusion touches
//! only what goes in and out of it; a custom call nobody knows has -1 of everything. Matrix products
//! of GPU libraries count as XLA:GPU counts them. Promise: linear in what the module holds.

use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;

use crate::error::{HloError, Result};
use crate::module::attributes::{ConvolutionDimensionNumbers, WindowDimension};
use crate::module::post_order::computation_post_order;
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionId, InstructionRef,
    OpClass,
};
use crate::types::{ArrayShape, Shape, ShapeId, ShapeIndex};

/// Bytes of a pointer, which is what a tuple holds for each element.
const POINTER: f64 = 8.0;
/// Most arrays of one shape that are told apart.
const MAX_LEAVES: usize = 1 << 20;

/// The name of a property.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Floating-point operations; integer ones count too.
    Flops,
    /// Elements of transcendental functions.
    Transcendentals,
    /// Bytes read and written.
    BytesAccessed,
    /// Seconds; only ever -1, for unknown.
    OptimalSeconds,
    /// Bytes read of an operand.
    OperandBytes(u32),
    /// Bytes written to a part of the result.
    OutputBytes(ShapeIndex),
    /// How often the elements of an operand are read, 1 for once each.
    OperandUtilization(u32),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Flops => f.write_str("flops"),
            Key::Transcendentals => f.write_str("transcendentals"),
            Key::BytesAccessed => f.write_str("bytes accessed"),
            Key::OptimalSeconds => f.write_str("optimal_seconds"),
            Key::OperandBytes(k) => write!(f, "bytes accessed{k}{{}}"),
            Key::OutputBytes(index) => write!(f, "bytes accessedout{index}"),
            Key::OperandUtilization(k) => write!(f, "utilization{k}{{}}"),
        }
    }
}

/// Properties by key; what is absent is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(BTreeMap<Key, f64>);

impl Properties {
    /// The value of `key`.
    pub fn get(&self, key: &Key) -> f64 {
        self.0.get(key).copied().unwrap_or(0.0)
    }

    /// All that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        self.0
            .iter()
            .map(|(k, v)| (k, *v))
            .filter(|(_, v)| *v != 0.0)
    }

    fn set(&mut self, key: Key, value: f64) {
        self.0.insert(key, value);
    }

    fn add(&mut self, key: Key, value: f64) {
        *self.0.entry(key).or_default() += value;
    }

    fn add_all(&mut self, other: &Properties) {
        for (key, value) in &other.0 {
            self.add(key.clone(), *value);
        }
    }

    /// What a function applied `count` times adds: everything but bytes.
    fn add_applied(&mut self, function: &Properties, count: f64) {
        for key in [Key::Flops, Key::Transcendentals] {
            if let Some(value) = function.0.get(&key) {
                self.add(key, value * count);
            }
        }
    }

    /// Sets the whole result's bytes, and `None` operands' to nothing.
    fn set_bytes(&mut self, output: f64, operands: &[f64]) {
        self.set(Key::OutputBytes(ShapeIndex::default()), output);
        for (k, &bytes) in operands.iter().enumerate() {
            self.set(Key::OperandBytes(k as u32), bytes);
        }
    }
}

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
    let order = computation_post_order(module).map_err(|id| {
        HloError::execution(format!(
            "computation {} calls itself",
            module.str(module.computation(id).name)
        ))
    })?;
    let mut users = vec![Vec::new(); module.instruction_count()];
    for id in (0..module.instruction_count()).map(InstructionId::from_index) {
        for (k, operand) in module.operand_ids(id).iter().enumerate() {
            users[operand.index()].push((id, k));
        }
    }
    let mut analysis = Analysis {
        module,
        users,
        sums: FxHashMap::default(),
        reads: FxHashMap::default(),
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
    users: Vec<Vec<(InstructionId, usize)>>,
    /// Sum of every computation done so far.
    sums: FxHashMap<ComputationId, Properties>,
    /// Bytes a computation reads of each of its parameters when it is fused.
    reads: FxHashMap<ComputationId, Vec<f64>>,
    instructions: Vec<Properties>,
}

/// Elements of an array, or of a tuple's first array.
fn elements(instruction: InstructionRef<'_>) -> f64 {
    let shapes = instruction.module.shapes();
    let mut id = instruction.shape_id();
    loop {
        match shapes.get(id) {
            Shape::Array(array) => return count(array),
            Shape::Tuple(parts) if !parts.is_empty() => id = parts[0],
            _ => return 0.0,
        }
    }
}

fn count(array: &ArrayShape) -> f64 {
    array.dims.iter().map(|&d| d as f64).product()
}

/// Bytes of a value itself: an array's elements, a tuple's table of pointers.
fn size(module: &HloModule, id: ShapeId) -> f64 {
    match module.shapes().get(id) {
        Shape::Array(array) => count(array) * array.element_type.size_bytes() as f64,
        Shape::Tuple(parts) => POINTER * parts.len() as f64,
        Shape::Opaque => POINTER,
        Shape::Buffer(inner) => match module.shapes().get(*inner) {
            Shape::Array(array) => count(array) * array.element_type.size_bytes() as f64,
            _ => POINTER,
        },
        Shape::Token => 0.0,
    }
}

fn size_of(instruction: InstructionRef<'_>) -> f64 {
    size(instruction.module, instruction.shape_id())
}

/// The arrays of a shape with their indices.
fn arrays(instruction: InstructionRef<'_>) -> Vec<(ShapeIndex, f64)> {
    let module = instruction.module;
    let leaves = module.shapes().leaves(instruction.shape_id(), MAX_LEAVES);
    leaves
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, id)| module.shapes().get(*id).as_array().is_some())
        .map(|(index, id)| (index, size(module, id)))
        .collect()
}

fn logarithm(value: f64, round: fn(f64) -> f64) -> f64 {
    if value < 2.0 {
        0.0
    } else {
        round(value.log2())
    }
}

impl<'m> Analysis<'m> {
    fn computation(&mut self, id: ComputationId) {
        let data = self.module.computation(id);
        let mut sum = Properties::default();
        for &instruction in &data.instructions {
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
            .unwrap_or_default()
    }

    fn callee(&self, instruction: InstructionRef<'_>, key: AttrKey) -> Properties {
        self.sum(instruction.computation_attribute(key))
    }

    /// Bytes a fused computation reads of `id`, a parameter or a part of one.
    fn read_bytes(&self, id: InstructionId) -> f64 {
        let whole = size_of(self.module.instruction(id));
        let mut bytes = 0.0;
        let mut is_counted = false;
        for &(user, k) in &self.users[id.index()] {
            let user = self.module.instruction(user);
            match user.opcode() {
                HloOpcode::Fusion => {
                    let callee = user.computation_attribute(AttrKey::Calls);
                    let reads = callee.and_then(|callee| self.reads.get(&callee));
                    bytes += reads.and_then(|r| r.get(k)).copied().unwrap_or(whole);
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
        let mut properties = Properties::default();
        let output: f64 = arrays(instruction).iter().map(|leaf| leaf.1).sum();
        let operands: Vec<f64> = instruction.operands().map(size_of).collect();
        properties.set(Key::BytesAccessed, output + operands.iter().sum::<f64>());
        properties.set_bytes(output, &operands);
        for k in 0..operands.len() as u32 {
            properties.set(Key::OperandUtilization(k), 1.0);
        }
        properties
    }

    fn instruction(&self, instruction: InstructionRef<'m>) -> Properties {
        use HloOpcode as Op;
        let mut p = self.default(instruction);
        let operand = |k: usize| instruction.operand(k);
        let operand_size = |k: usize| operand(k).map_or(0.0, size_of);
        let operand_elements = |k: usize| operand(k).map_or(0.0, elements);
        let operand_count = instruction.operand_ids().len();
        let result = size_of(instruction);
        let touches_nothing = |p: &mut Properties| {
            p.set(Key::BytesAccessed, 0.0);
            p.set_bytes(0.0, &vec![0.0; operand_count]);
        };
        match instruction.opcode() {
            Op::Parameter
            | Op::Constant
            | Op::GetTupleElement
            | Op::Domain
            | Op::AfterAll
            | Op::AddDependency
            | Op::Bitcast => touches_nothing(&mut p),
            Op::Transpose if is_bitcast(instruction) => touches_nothing(&mut p),
            Op::Tuple => {
                p.set(Key::BytesAccessed, result);
                p.set_bytes(result, &vec![0.0; operand_count]);
            }
            Op::Slice => {
                p.set(Key::BytesAccessed, 2.0 * result);
                p.set_bytes(result, &[result]);
                p.set(
                    Key::OperandUtilization(0),
                    elements(instruction) / operand_elements(0),
                );
            }
            Op::DynamicSlice => {
                p.set(Key::BytesAccessed, 2.0 * result + operand_size(1));
                p.set_bytes(result, &[result]);
                p.set(
                    Key::OperandUtilization(0),
                    elements(instruction) / operand_elements(0),
                );
            }
            Op::DynamicUpdateSlice => {
                let update = operand_size(1);
                p.set(Key::BytesAccessed, 2.0 * update + operand_size(2));
                p.set_bytes(update, &[0.0, update]);
                let rest = 1.0 - operand_elements(1) / elements(instruction);
                p.set(Key::OperandUtilization(0), rest);
            }
            Op::Gather => {
                p.set(Key::BytesAccessed, 2.0 * result + operand_size(1));
                p.set_bytes(result, &[result, operand_size(1)]);
                p.set(
                    Key::OperandUtilization(0),
                    elements(instruction) / operand_elements(0),
                );
            }
            Op::Scatter => self.scatter(instruction, &mut p),
            Op::Dot | Op::ScaledDot | Op::RaggedDot => {
                p.set(
                    Key::Flops,
                    dot_flops(instruction, instruction.ints(AttrKey::LhsContractingDims)),
                );
            }
            Op::Convolution => p.set(Key::Flops, convolution_flops(instruction)),
            Op::Map => {
                p.add_applied(
                    &self.callee(instruction, AttrKey::ToApply),
                    elements(instruction),
                );
            }
            Op::Reduce => {
                let applied = operand_elements(0) - elements(instruction);
                p.add_applied(&self.callee(instruction, AttrKey::ToApply), applied);
            }
            Op::ReduceWindow => {
                let function = self.callee(instruction, AttrKey::ToApply);
                p.add_applied(&function, window_reductions(instruction));
            }
            Op::SelectAndScatter => {
                let window: f64 = windows(instruction).iter().map(|d| d.size as f64).product();
                let select = self.callee(instruction, AttrKey::SelectComputation);
                p.add_applied(&select, operand_elements(1) * (window - 1.0));
                p.add_applied(
                    &self.callee(instruction, AttrKey::ScatterComputation),
                    operand_elements(1),
                );
            }
            Op::Fft => {
                let factors: f64 = instruction
                    .ints(AttrKey::FftLength)
                    .iter()
                    .map(|&length| logarithm(length as f64, f64::floor))
                    .product();
                // A complex multiplication is four multiply-adds.
                p.set(Key::Flops, 2.0 * 4.0 * factors * operand_elements(0));
            }
            Op::TriangularSolve => {
                let (a, b) = (operand_size(0), operand_size(1));
                p.set(Key::BytesAccessed, result + a / 2.0 + b);
                // XLA writes the second operand's bytes in the place of the first's.
                p.set_bytes(result, &[b, b]);
                p.set(
                    Key::Flops,
                    2.0 * last_dimension(operand(0)) * operand_elements(1),
                );
            }
            Op::Cholesky => {
                let half = operand_size(0) / 2.0;
                p.set(Key::BytesAccessed, 2.0 * half);
                p.set_bytes(half, &[half]);
                let work = last_dimension(operand(0)) * operand_elements(0);
                p.set(Key::Flops, (work / 3.0).floor());
            }
            Op::AllReduce | Op::AllReduceStart => {
                let module = self.module;
                let leaves = module.shapes().leaves(instruction.shape_id(), MAX_LEAVES);
                let leaves = leaves.unwrap_or_default();
                let arrays = leaves
                    .iter()
                    .filter_map(|l| module.shapes().get(l.1).as_array());
                p.set(Key::Flops, arrays.map(count).sum());
            }
            Op::Rng => p.set(Key::Transcendentals, elements(instruction)),
            Op::RngBitGenerator => {
                let leaves = self
                    .module
                    .shapes()
                    .leaves(instruction.shape_id(), MAX_LEAVES);
                let all = leaves.unwrap_or_default();
                let arrays = all
                    .iter()
                    .filter_map(|l| self.module.shapes().get(l.1).as_array());
                p.set(Key::Transcendentals, arrays.map(count).sum());
            }
            Op::Sort => {
                let n = operand_elements(0);
                p.set(Key::Flops, n * logarithm(n, f64::ceil));
            }
            Op::CopyStart => {
                // The leaves once more: what is copied is read and written.
                let leaves: f64 = arrays(instruction).iter().map(|leaf| leaf.1).sum();
                p.set(Key::BytesAccessed, leaves + operand_size(0));
            }
            Op::Call => p = self.callee(instruction, AttrKey::ToApply),
            Op::AsyncStart => {
                p = self.callee(instruction, AttrKey::Calls);
                p.0.remove(&Key::OptimalSeconds);
            }
            Op::While => {
                p = self.callee(instruction, AttrKey::Body);
                p.add_all(&self.callee(instruction, AttrKey::Condition));
            }
            Op::Conditional => p = self.conditional(instruction),
            Op::Fusion => p = self.fusion(instruction),
            Op::CustomCall => self.custom_call(instruction, &mut p),
            opcode => match opcode.class() {
                OpClass::Unary | OpClass::Binary if is_transcendental(opcode) => {
                    p.set(Key::Transcendentals, elements(instruction));
                }
                OpClass::Unary
                | OpClass::Binary
                | OpClass::Compare
                | OpClass::Select
                | OpClass::Clamp
                | OpClass::Convert
                | OpClass::BitcastConvert
                | OpClass::Complex => p.set(Key::Flops, elements(instruction)),
                _ => {}
            },
        }
        p
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
        let mut dearest: Option<Properties> = None;
        for branch in instruction.called_computations() {
            let branch = self.sum(Some(branch));
            match &mut dearest {
                None => dearest = Some(branch),
                Some(dearest) => {
                    for (key, value) in branch.0 {
                        let most = dearest.0.entry(key).or_insert(value);
                        *most = most.max(value);
                    }
                }
            }
        }
        dearest.unwrap_or_default()
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
        p.0.retain(|key, _| !matches!(key, Key::OutputBytes(index) if index.is_root()));
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
        for (k, &parameter) in data.parameters.iter().enumerate() {
            let bytes = self.parameter_bytes(parameter);
            total += bytes;
            p.set(Key::OperandBytes(k as u32), bytes);
            p.set(Key::OperandUtilization(k as u32), 1.0);
        }
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
                    self.users[id.index()]
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
        if matches!(
            &*target,
            "__cublas$gemm" | "__cublas$lt$matmul" | "__cublas$lt$matmul$f8"
        ) && let Some(config) = crate::plan::lower::gemm_config(call)
        {
            let contracting: Vec<i64> = config.dimensions.lhs_contracting.to_vec();
            p.set(Key::Flops, dot_flops(call, &contracting));
            return;
        }
        p.set(Key::Flops, -1.0);
        p.set(Key::BytesAccessed, -1.0);
        p.set(Key::OptimalSeconds, -1.0);
        p.set_bytes(-1.0, &vec![-1.0; call.operand_ids().len()]);
    }
}

fn is_transcendental(opcode: HloOpcode) -> bool {
    use HloOpcode as Op;
    matches!(
        opcode,
        Op::Acos
            | Op::Acosh
            | Op::Asin
            | Op::Asinh
            | Op::Atan2
            | Op::Atanh
            | Op::Cbrt
            | Op::Cos
            | Op::Cosh
            | Op::Erf
            | Op::Exp
            | Op::Expm1
            | Op::Log
            | Op::Log1p
            | Op::Logistic
            | Op::Power
            | Op::Rsqrt
            | Op::Sin
            | Op::Sinh
            | Op::Sqrt
            | Op::Tan
            | Op::Tanh
    )
}

/// Whether a transpose leaves every element where it is in memory.
fn is_bitcast(transpose: InstructionRef<'_>) -> bool {
    let (Some(from), Some(to)) = (
        transpose.operand(0).and_then(|o| o.array_shape()),
        transpose.array_shape(),
    ) else {
        return false;
    };
    let permutation = transpose.dimensions();
    if permutation.len() != to.rank() || from.rank() != to.rank() {
        return false;
    }
    let wide = |shape: &ArrayShape| -> Vec<usize> {
        let order = shape.minor_to_major();
        order
            .iter()
            .map(|&d| usize::from(d))
            .filter(|&d| shape.dims.get(d) != Some(&1))
            .collect()
    };
    let moved: Option<Vec<usize>> = wide(to)
        .into_iter()
        .map(|d| permutation.get(d).map(|&d| d as usize))
        .collect();
    moved == Some(wide(from))
}

fn last_dimension(instruction: Option<InstructionRef<'_>>) -> f64 {
    let shape = instruction.and_then(|i| i.array_shape());
    shape.and_then(|s| s.dims.last()).map_or(0.0, |&d| d as f64)
}

fn dot_flops(instruction: InstructionRef<'_>, contracting: &[i64]) -> f64 {
    let Some(lhs) = instruction.operand(0).and_then(|o| o.array_shape()) else {
        return 0.0;
    };
    let width: f64 = contracting
        .iter()
        .filter_map(|&d| lhs.dims.get(usize::try_from(d).ok()?))
        .map(|&size| size as f64)
        .product();
    2.0 * elements(instruction) * width
}

fn windows(instruction: InstructionRef<'_>) -> &[WindowDimension] {
    instruction.window().map_or(&[], |window| &window.0)
}

/// How often a reduce-window applies its function. A window that always covers a whole dimension is
/// a reduction whose result is broadcast.
fn window_reductions(instruction: InstructionRef<'_>) -> f64 {
    let window = windows(instruction);
    let outputs = elements(instruction);
    let size: f64 = window.iter().map(|d| d.size as f64).product();
    let reduced = window.iter().filter(|d| d.size != 1).count();
    let padded = window
        .iter()
        .filter(|d| d.padding_low != 0 || d.padding_high != 0)
        .count();
    let whole = window.iter().position(|d| {
        d.size != 1
            && d.padding_low > 0
            && d.padding_low == d.padding_high
            && (d.size - 1) / 2 == d.padding_low
            && d.size % 2 == 1
    });
    if let (1, 1, Some(dim), Some(shape)) = (reduced, padded, whole, instruction.array_shape())
        && shape
            .dims
            .get(dim)
            .is_some_and(|&d| window[dim].padding_low == d - 1)
    {
        let span = shape.dims[dim] as f64;
        return outputs / span + (span - 1.0);
    }
    (size - 1.0) * outputs
}

fn convolution_flops(instruction: InstructionRef<'_>) -> f64 {
    let Some(AttrValue::DimLabels(numbers)) = instruction.attribute(AttrKey::DimLabels) else {
        return 0.0;
    };
    let shape = |k: usize| instruction.operand(k).and_then(|o| o.array_shape());
    let (Some(lhs), Some(rhs), Some(out)) = (shape(0), shape(1), instruction.array_shape()) else {
        return 0.0;
    };
    let at = |shape: &ArrayShape, dim: i64| {
        usize::try_from(dim)
            .ok()
            .and_then(|d| shape.dims.get(d))
            .copied()
            .unwrap_or(1)
    };
    let numbers: &ConvolutionDimensionNumbers = numbers;
    let group = |key| instruction.int(key).unwrap_or(1).max(1);
    let input = at(lhs, numbers.input_feature) / group(AttrKey::FeatureGroupCount);
    let batch = at(lhs, numbers.input_batch) / group(AttrKey::BatchGroupCount);
    let mut products = input as f64 * at(out, numbers.output_feature) as f64 * batch as f64;
    for (k, dim) in windows(instruction).iter().enumerate() {
        let dims = |list: &[i64]| list.get(k).copied().unwrap_or(-1);
        products *= valid_positions(
            dim,
            at(lhs, dims(&numbers.input_spatial)),
            at(rhs, dims(&numbers.kernel_spatial)),
            at(out, dims(&numbers.output_spatial)),
        );
    }
    2.0 * products
}

/// Longest side of a spatial dimension that is walked; see [`valid_positions`].
const MAX_WALK: i64 = 1 << 22;

/// Pairs of a kernel and an output position along one dimension that meet an element of the input,
/// not padding or a hole. Where both sides are longer than [`MAX_WALK`], all pairs.
fn valid_positions(dim: &WindowDimension, input: i64, kernel: i64, output: i64) -> f64 {
    let (walked, counted, step, stride) = if kernel <= output {
        (kernel, output, dim.window_dilation, dim.stride)
    } else {
        (output, kernel, dim.stride, dim.window_dilation)
    };
    if walked > MAX_WALK {
        return kernel as f64 * output as f64;
    }
    let low = i128::from(dim.padding_low);
    (0..i128::from(walked))
        .map(|k| {
            let start = k * i128::from(step) - low;
            let count = hits(start, i128::from(stride), i128::from(counted), dim, input);
            count as f64
        })
        .sum()
}

/// How many of `start + i * stride`, `i < count`, are the place of an input element.
fn hits(start: i128, stride: i128, count: i128, dim: &WindowDimension, input: i64) -> i128 {
    let dilation = i128::from(dim.base_dilation.max(1));
    let stride = stride.max(1);
    let last = (i128::from(input) - 1) * dilation;
    let from = (-start).max(0).div_euclid(stride) + i128::from((-start).max(0) % stride != 0);
    let to = (last - start).div_euclid(stride).min(count - 1);
    if input <= 0 || last < start || from > to {
        return 0;
    }
    // Solutions of `start + i * stride ≡ 0` lie `period` apart, if there are any.
    let (divisor, inverse) = extended_gcd(stride.rem_euclid(dilation), dilation);
    if start % divisor != 0 {
        return 0;
    }
    let period = dilation / divisor;
    let residue = ((-start / divisor).rem_euclid(period) * inverse.rem_euclid(period)) % period;
    let first = from + (residue - from).rem_euclid(period);
    if first > to {
        0
    } else {
        (to - first) / period + 1
    }
}

/// The greatest common divisor of `a` and `b`, and what `a` is to be multiplied with to become it
/// modulo `b`.
fn extended_gcd(a: i128, b: i128) -> (i128, i128) {
    let (mut old, mut rest) = (a, b);
    let (mut old_factor, mut factor) = (1, 0);
    while rest != 0 {
        let quotient = old / rest;
        (old, rest) = (rest, old - quotient * rest);
        (old_factor, factor) = (factor, old_factor - quotient * factor);
    }
    (old.max(1), old_factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_as_a_walk_counts_them() {
        for (stride, dilation, base, low) in [
            (1, 1, 1, 0),
            (2, 1, 1, 1),
            (1, 2, 3, 2),
            (3, 1, 2, -1),
            (4, 3, 6, 5),
        ] {
            for (input, kernel, output) in [(8, 3, 8), (5, 7, 4), (1, 1, 1), (4, 9, 9)] {
                let dim = WindowDimension {
                    size: kernel,
                    stride,
                    padding_low: low,
                    window_dilation: dilation,
                    base_dilation: base,
                    ..WindowDimension::default()
                };
                let mut walked = 0;
                for k in 0..kernel {
                    for o in 0..output {
                        let at = o * stride - low + k * dilation;
                        walked += i64::from(at >= 0 && at % base == 0 && at / base < input);
                    }
                }
                let counted = valid_positions(&dim, input, kernel, output);
                assert_eq!(counted, walked as f64, "{dim:?} {input} {output}");
            }
        }
    }
}
