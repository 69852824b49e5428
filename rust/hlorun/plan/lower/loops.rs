//! Clusters as fused loops and reductions.

use rustc_hash::FxHashMap;

use super::analysis::{ClusterId, Role};
use super::views::{self, Order};
use super::{Lowering, Scope, Value};
use crate::error::{HloError, Result};
use crate::module::{AttrKey, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::cost::{self, Way, Work};
use crate::plan::thunk::BufferKind;
use hlorun_kernels::vector_bytecode::Op;

use crate::plan::element::choice;
use crate::plan::element::elementwise::{binary_op, conversion};
use crate::plan::element::program::Meaning;
use crate::plan::element::program::{Program, ProgramBuilder, Register};
use crate::plan::element::scalar;
use crate::plan::element::vector_bytecode;
use crate::plan::error::unsupported;
use crate::plan::thunk::{
    FoldWay, Load, LoadKind, LoopThunk, Piece, ReduceThunk, Store, ThunkKind,
};
use crate::plan::view::{ArrayView, BufferSlice, Walk, is_one_run, major_to_minor};
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// The code of a cluster while it is put together.
struct Cluster {
    id: ClusterId,
    builder: ProgramBuilder,
    loads: Vec<Load>,
    known: FxHashMap<(InstructionId, Order), Register>,
    /// Whether its values are reduced.
    is_reduction: bool,
}

impl Cluster {
    fn new(id: ClusterId, is_reduction: bool) -> Cluster {
        Cluster {
            id,
            is_reduction,
            builder: ProgramBuilder::new(),
            loads: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    /// Several arrays as an input, whose shape is that of all of them.
    fn join(&mut self, whole: &ArrayShape, pieces: &[Piece]) -> Register {
        let register = self.builder.input(whole.element_type);
        self.loads.push(Load {
            register,
            is_dense: false,
            walk: Walk::from_slice(&[(whole.dims.iter().product(), 1)]).into(),
            kind: LoadKind::Joined(pieces.to_vec()),
        });
        register
    }
}

impl<'m> Lowering<'m> {
    /// Evaluates the cluster rooted at the instruction at `at` into a buffer of its own.
    pub(super) fn fused_loop(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let shape = views::array_shape(instruction)?;
        let order = scope.analysis.orders[at].clone();
        let view = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        let Some(cluster) = scope.analysis.clusters[at] else {
            return Err(HloError::execution("a fused loop without a cluster"));
        };
        self.loop_into(scope, instruction, cluster, &order, view.clone())?;
        Ok(view)
    }

    /// Evaluates `instruction` as part of `cluster` into `destination`, walking in `order`.
    pub(super) fn loop_into(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        cluster: ClusterId,
        order: &Order,
        destination: ArrayView,
    ) -> Result<()> {
        let mut cluster = Cluster::new(cluster, false);
        let root = self.evaluate(scope, &mut cluster, instruction, order)?;
        let walk = destination.walk(order);
        let store = Store {
            register: root,
            is_dense: is_one_run(&walk),
            covers_buffer: destination.is_dense(order)
                && destination.slice.size
                    == self.buffers[destination.slice.allocation as usize].size,
            walk: walk.into(),
            view: destination,
        };
        let count = store.view.count();
        let program = self.with_vector_bytecode(cluster.builder.finish(&[root]), count);
        scope.push(
            instruction.id,
            ThunkKind::Loop(Box::new(LoopThunk {
                count,
                program,
                loads: cluster.loads,
                stores: vec![store],
                is_shared: false,
                small: None,
                rows: None,
            })),
        );
        Ok(())
    }

    /// `program`, its steps joined into vector bytecode where it runs over that many elements.
    pub(super) fn with_vector_bytecode(&self, program: Program, elements: usize) -> Program {
        let is_enabled = !self.options.is_off(vector_bytecode::NAME);
        let steps = program.steps.len();
        if is_enabled && cost::choose(Work::Array { elements, steps }) == Way::VectorBytecode {
            program.with_vector_bytecode()
        } else {
            program
        }
    }

    /// The register holding `root` in the walk `order`; adds code and loads for what it reads.
    fn evaluate(
        &mut self,
        scope: &mut Scope<'_>,
        cluster: &mut Cluster,
        root: InstructionRef<'m>,
        order: &Order,
    ) -> Result<Register> {
        let mut stack = vec![(root, order.clone())];
        while let Some((instruction, order)) = stack.last().cloned() {
            let key = (instruction.id, order.clone());
            if cluster.known.contains_key(&key) {
                stack.pop();
                continue;
            }
            if !self.is_inside(scope, cluster.id, instruction) {
                let register = self.load(scope, cluster, root, instruction, &order)?;
                cluster.known.insert(key, register);
                stack.pop();
                continue;
            }
            // Operands first; those that are still unknown go on the stack.
            let is_alias = self.role(scope, instruction) == Some(Role::Alias);
            let mut registers: smallvec::SmallVec<[Register; 3]> = smallvec::SmallVec::new();
            let mut ready = true;
            for operand in instruction.operands() {
                let operand_order = if is_alias {
                    major_to_minor(views::array_shape(operand)?)
                } else {
                    order.clone()
                };
                if !is_alias && is_spread(instruction, operand) {
                    registers.push(self.spread(scope, cluster, instruction, operand, &order)?);
                    continue;
                }
                match cluster.known.get(&(operand.id, operand_order.clone())) {
                    Some(&register) => registers.push(register),
                    None => {
                        stack.push((operand, operand_order));
                        ready = false;
                    }
                }
            }
            if !ready {
                continue;
            }
            let shape = views::array_shape(instruction)?;
            let register = match instruction.opcode().class() {
                OpClass::Iota => iota(cluster, instruction, &order)?,
                _ if is_alias => match registers.first() {
                    Some(&register) if cluster.builder.ty(register) == shape.element_type => {
                        register
                    }
                    Some(&register) => cluster.builder.reinterpret(register, shape.element_type),
                    None => return Err(HloError::execution("a movement without operand")),
                },
                _ => scalar::emit(&mut cluster.builder, instruction, &registers)?,
            };
            cluster.known.insert(key, register);
            stack.pop();
        }
        cluster
            .known
            .get(&(root.id, order.clone()))
            .copied()
            .ok_or_else(|| HloError::execution("a cluster without a root"))
    }

    fn role(&self, scope: &Scope<'_>, instruction: InstructionRef<'_>) -> Option<Role> {
        let at = *scope.analysis.position.get(&instruction.id)?;
        Some(scope.analysis.roles[at as usize])
    }

    /// Whether `instruction` is evaluated inside the cluster: one of its own, or an iota.
    fn is_inside(
        &self,
        scope: &Scope<'_>,
        cluster: ClusterId,
        instruction: InstructionRef<'_>,
    ) -> bool {
        let Some(&at) = scope.analysis.position.get(&instruction.id) else {
            return false;
        };
        match scope.analysis.roles[at as usize] {
            Role::Iota => true,
            Role::Elementwise | Role::Alias => {
                scope.analysis.clusters[at as usize] == Some(cluster)
            }
            _ => false,
        }
    }

    /// A scalar operand of an array operation.
    fn spread(
        &self,
        scope: &Scope<'_>,
        cluster: &mut Cluster,
        instruction: InstructionRef<'m>,
        operand: InstructionRef<'m>,
        order: &Order,
    ) -> Result<Register> {
        let dims = &views::array_shape(instruction)?.dims;
        let view = self.stored(scope, operand)?.broadcast(dims, &[]);
        self.load_view(cluster, view, order)
    }

    /// `instruction` as an input of the loop that computes `root`.
    fn load(
        &mut self,
        scope: &mut Scope<'_>,
        cluster: &mut Cluster,
        root: InstructionRef<'m>,
        instruction: InstructionRef<'m>,
        order: &Order,
    ) -> Result<Register> {
        if let Some(pieces) = scope.joined.get(&instruction.id) {
            return Ok(cluster.join(views::array_shape(instruction)?, pieces));
        }
        let view = self.stored(scope, instruction)?;
        let view = self.along_memory(scope, root, view, order, cluster.is_reduction)?;
        self.load_view(cluster, view, order)
    }

    /// Where an instruction outside the cluster is stored.
    fn stored(&self, scope: &Scope<'_>, instruction: InstructionRef<'m>) -> Result<ArrayView> {
        match scope.values.get(&instruction.id) {
            Some(Value::Array(view)) => Ok(view.clone()),
            Some(_) => Err(unsupported(
                instruction,
                "a tuple or token where an array is expected".into(),
            )),
            None => Err(HloError::execution(format!(
                "{} is read before it is computed",
                instruction.name()
            ))),
        }
    }

    fn load_view(&self, cluster: &mut Cluster, view: ArrayView, order: &Order) -> Result<Register> {
        let walk = view.walk(order);
        if walk.iter().all(|step| step.1 == 0)
            && view.dynamic.is_empty()
            && view.count() > 0
            && let BufferKind::Constant(literal) = self.buffers[view.slice.allocation as usize].kind
            && let Some(bytes) = self.module.literal(literal).bytes()
        {
            let size = view.element_type.size_bytes();
            let at = view.offset as usize * size;
            if let Some(element) = bytes.get(at..at + size) {
                return Ok(cluster.builder.constant(view.element_type, element));
            }
        }
        for load in &cluster.loads {
            if let LoadKind::View(other) = &load.kind
                && *other == view
                && *load.walk == walk
            {
                return Ok(load.register);
            }
        }
        let register = cluster.builder.input(view.element_type);
        cluster.loads.push(Load {
            register,
            is_dense: is_one_run(&walk),
            walk: walk.into(),
            kind: LoadKind::View(view),
        });
        Ok(register)
    }

    /// A reduction, its operands' clusters fused into it.
    pub(super) fn reduce(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let count = instruction.operand_ids().len() / 2;
        let order = scope.analysis.orders[at].clone();
        let Some(cluster) = scope.analysis.clusters[at] else {
            return Err(HloError::execution("a reduction without a cluster"));
        };
        let missing = || HloError::execution("reduce without operands");
        let first = instruction.operand(0).ok_or_else(missing)?;
        let dims = views::array_shape(first)?.dims.clone();
        let reduced = |dim: u8| instruction.dimensions().contains(&i64::from(dim));
        let space = reduced_space(
            order
                .iter()
                .map(|&dim| (dims[usize::from(dim)], reduced(dim))),
        );
        let mut cluster = Cluster::new(cluster, true);
        let mut values = Vec::with_capacity(count);
        let mut inits = Vec::with_capacity(count);
        for k in 0..count {
            let operand = instruction.operand(k).ok_or_else(missing)?;
            values.push(self.evaluate(scope, &mut cluster, operand, &order)?);
            inits.push(self.array_operand(scope, instruction, count + k)?);
        }
        let types: Vec<PrimitiveType> = values.iter().map(|&r| cluster.builder.ty(r)).collect();
        let (combiner, way) = self.combiner(instruction, &types)?;
        if matches!(way, FoldWay::Kernels(_)) && is_low_float(types[0]) {
            values[0] = widened(&mut cluster.builder, values[0])?;
        }
        let kept: Dims = (0..dims.len() as u8)
            .filter(|&dim| !reduced(dim))
            .map(|dim| dims[usize::from(dim)])
            .collect();
        let out_order: Order = order
            .iter()
            .filter(|&&dim| !reduced(dim))
            .map(|&dim| (0..dim).filter(|&d| !reduced(d)).count() as u8)
            .collect();
        let types = combiner
            .outputs
            .iter()
            .map(|r| combiner.types[r.0 as usize]);
        let outputs = types
            .map(|ty| self.allocate(instruction, ty, &kept, &out_order))
            .collect::<Result<Vec<_>>>()?;
        let value = if instruction.array_shape().is_some() {
            Value::Array(outputs[0].clone())
        } else {
            Value::Tuple(outputs.iter().cloned().map(Value::Array).collect())
        };
        let program = cluster.builder.finish(&values);
        let elements = space.iter().map(|s| s.0.max(0) as usize).product();
        let program = self.with_vector_bytecode(program, elements);
        let is_selected = matches!(way, FoldWay::Lanes) && !self.options.is_off(choice::NAME);
        let choice = is_selected.then(|| choice::of(&combiner)).flatten();
        let combiner = match way {
            FoldWay::Kernels(_) => combiner,
            FoldWay::Lanes | FoldWay::OneByOne => self.with_vector_bytecode(combiner, elements),
        };
        scope.push(
            instruction.id,
            ThunkKind::Reduce(Box::new(ReduceThunk {
                space,
                program,
                loads: cluster.loads,
                combiner,
                choice,
                way,
                inits,
                outputs,
                columns: None,
                rows: None,
            })),
        );
        Ok(value)
    }

    /// The reducer as a program, and how it folds: by kernels where it is `f(x, y)` of its parameters.
    fn combiner(
        &self,
        instruction: InstructionRef<'m>,
        types: &[PrimitiveType],
    ) -> Result<(Program, FoldWay)> {
        let computation = instruction
            .computation_attribute(AttrKey::ToApply)
            .ok_or_else(|| HloError::execution("reduce without to_apply"))?;
        let program = scalar::compile(self.module, computation)?;
        let inputs: Vec<PrimitiveType> = program
            .inputs
            .iter()
            .map(|r| program.types[r.0 as usize])
            .collect();
        let outputs: Vec<PrimitiveType> = program
            .outputs
            .iter()
            .map(|r| program.types[r.0 as usize])
            .collect();
        let n = types.len();
        if inputs.len() != 2 * n
            || outputs.len() != n
            || inputs[n..] != *types
            || inputs[..n] != outputs[..]
        {
            return Err(unsupported(
                instruction,
                "a reducer whose types differ from its operands'".into(),
            ));
        }
        let root = self.module.computation(computation).root;
        let op = simple_combiner(root.map(|root| self.module.instruction(root)));
        let way = match op.filter(|_| n == 1 && inputs[0] == inputs[1]) {
            Some(op) => FoldWay::Kernels(op),
            None if inputs[..n] == inputs[n..] => FoldWay::Lanes,
            None => FoldWay::OneByOne,
        };
        Ok((program, way))
    }

    /// `replica-id` and `partition-id`: a scalar that each replica fills in.
    pub(super) fn device_id(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let view = self.allocate(instruction, PrimitiveType::U32, &[], &[])?;
        scope.push(
            instruction.id,
            ThunkKind::DeviceId(crate::plan::thunk::DeviceIdThunk {
                slice: view.slice,
                partition: instruction.opcode() == HloOpcode::PartitionId,
            }),
        );
        Ok(view)
    }
}

/// A narrow float as `f32`.
fn widened(builder: &mut ProgramBuilder, value: Register) -> Result<Register> {
    let f32 = PrimitiveType::F32;
    let widen = conversion(builder.ty(value), f32)?;
    Ok(builder.known_step(widen, Some(Meaning::of(Op::Convert)), &[value], f32))
}

/// The dimensions to walk, as size and whether it is reduced: neighbours that are both reduced or both kept are merged.
fn reduced_space(dims: impl Iterator<Item = (i64, bool)>) -> Vec<(i64, bool)> {
    let mut space: Vec<(i64, bool)> = Vec::new();
    for (size, is_reduced) in dims {
        match space.last_mut() {
            _ if size == 1 => {}
            Some(last) if last.1 == is_reduced => last.0 *= size,
            _ => space.push((size, is_reduced)),
        }
    }
    space
}

/// Floats narrower than `f32`, whose plain sums, products and extrema XLA:CPU accumulates in `f32`.
fn is_low_float(ty: PrimitiveType) -> bool {
    ty.is_floating() && ty.size_bytes() < 4
}

/// `op(parameter, other parameter)` of a commutative, associative operation.
pub(crate) fn simple_combiner(
    root: Option<InstructionRef<'_>>,
) -> Option<hlorun_kernels::BinaryOp> {
    let root = root?;
    let (a, b) = (root.operand(0)?, root.operand(1)?);
    let are_parameters =
        a.parameter_number().is_some() && b.parameter_number().is_some() && a.id != b.id;
    match root.opcode() {
        HloOpcode::Add
        | HloOpcode::Multiply
        | HloOpcode::Maximum
        | HloOpcode::Minimum
        | HloOpcode::And
        | HloOpcode::Or
        | HloOpcode::Xor
            if are_parameters =>
        {
            binary_op(root.opcode())
        }
        _ => None,
    }
}

/// Whether `operand` is a scalar that an array instruction repeats.
fn is_spread(instruction: InstructionRef<'_>, operand: InstructionRef<'_>) -> bool {
    match (operand.array_shape(), instruction.array_shape()) {
        (Some(from), Some(to)) => from.dims.is_empty() && !to.dims.is_empty(),
        _ => false,
    }
}

fn iota(cluster: &mut Cluster, instruction: InstructionRef<'_>, order: &Order) -> Result<Register> {
    let shape = views::array_shape(instruction)?;
    let dim = instruction.data().immediate as usize;
    let mut strides: Dims = smallvec::SmallVec::from_elem(0, shape.rank());
    match strides.get_mut(dim) {
        Some(stride) => *stride = 1,
        None => {
            return Err(unsupported(
                instruction,
                "iota_dimension out of range".into(),
            ));
        }
    }
    let slice = BufferSlice {
        allocation: 0,
        offset: 0,
        size: 0,
    };
    let mut view = ArrayView::dense(slice, shape.element_type, &shape.dims, order);
    view.strides = strides;
    let register = cluster.builder.input(shape.element_type);
    cluster.loads.push(Load {
        register,
        walk: view.walk(order).into(),
        is_dense: false,
        kind: LoadKind::Iota,
    });
    Ok(register)
}
