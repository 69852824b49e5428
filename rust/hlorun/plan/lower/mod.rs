//! From instructions to thunks over logical buffers.
//!
//! In: a flattened module. Out: the entry's thunks, the logical buffers they name, and where the
//! results are. Every copy that semantics could need is written down here as a thunk of its own;
//! `assign` drops the ones whose two sides can share memory. So this stage never has to know what
//! is alive.

mod analysis;
pub mod control_flow;
mod gemm;
pub mod joined_inputs;
mod loops;
mod observe;
mod operation;
pub mod packed_operand;
pub mod parts_of_state;
pub mod reduced_outward;
pub mod result_order;
mod starts;
pub mod state_in_place;
mod structure;
mod threefry;
mod transfer;
pub mod transposed_inputs;
pub mod update_order;
pub mod updated_parts;
pub mod updates;
pub mod views;

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use analysis::{Analysis, Role};
pub use views::Order;

use super::error::{elided_constant, unsupported};
use super::limits::MAX_NESTING;
use super::ops::{OpKind, OpThunk};
use super::options::CompileOptions;
use super::thunk::{CopyThunk, Thunk, ThunkKind, ThunkSequence};
use super::view::{ArrayView, BufferSlice};
use crate::error::{HloError, Result};
use crate::module::opcode::{elementwise_classes, operation_classes};
use crate::module::{
    ComputationId, Effects, HloModule, HloOpcode, Id, InstructionId, InstructionRef, LiteralId,
    OpClass,
};
use crate::plan::thunk::BufferKind;
use crate::plan::thunk::LogicalBuffer;
use crate::plan::thunk::Piece;
use crate::types::PrimitiveType;
use crate::types::strided::same_places;

/// Where the value of an instruction is.
#[derive(Clone, Debug)]
pub enum Value {
    /// An array.
    Array(ArrayView),
    /// A tuple; its elements are where they are, nothing is gathered.
    Tuple(Rc<[Value]>),
    /// Nothing: tokens, and workspaces that are never allocated.
    Nothing,
}

/// The stage's state.
pub struct Lowering<'m> {
    module: &'m HloModule,
    options: &'m CompileOptions,
    /// All buffers so far.
    pub buffers: Vec<LogicalBuffer>,
    constants: FxHashMap<LiteralId, u32>,
    nesting: u32,
    effects: Effects,
    /// When values are observed: the calls whose value an instruction has.
    observed: Option<FxHashMap<InstructionId, Vec<InstructionId>>>,
}

/// One computation being lowered.
struct Scope<'a> {
    analysis: &'a Analysis,
    values: FxHashMap<InstructionId, Value>,
    thunks: ThunkSequence,
    /// Collectives whose second half is still to come.
    started: FxHashMap<InstructionId, super::spmd::collective::CollectiveThunk>,
    /// Starts of collectives whose second half is an instruction of its own.
    with_done: FxHashSet<InstructionId>,
    /// Slices that are copied.
    copied: FxHashSet<InstructionId>,
    /// Concatenations that are read piece by piece.
    joined: FxHashMap<InstructionId, Vec<Piece>>,
}

impl<'m> Lowering<'m> {
    /// A lowering of `module`.
    pub fn new(module: &'m HloModule, options: &'m CompileOptions) -> Lowering<'m> {
        Lowering {
            module,
            options,
            buffers: Vec::new(),
            constants: FxHashMap::default(),
            nesting: 0,
            effects: Effects::default(),
            observed: None,
        }
    }

    /// A new buffer.
    pub fn buffer(
        &mut self,
        size: usize,
        kind: BufferKind,
        instruction: Option<InstructionId>,
    ) -> BufferSlice {
        self.buffers.push(LogicalBuffer {
            size,
            kind,
            instruction,
        });
        BufferSlice {
            allocation: self.buffers.len() as u32 - 1,
            offset: 0,
            size,
        }
    }

    /// A dense array of its own for (a leaf of) an instruction, in the order `order`.
    fn allocate(
        &mut self,
        instruction: InstructionRef<'_>,
        ty: PrimitiveType,
        dims: &[i64],
        order: &[u8],
    ) -> Result<ArrayView> {
        let size = dense_size(instruction, &crate::types::ArrayShape::new(ty, dims))?;
        let slice = self.buffer(size, BufferKind::Temp, Some(instruction.id));
        Ok(ArrayView::dense(slice, ty, dims, order))
    }

    /// Lowers `computation` with its parameters at `parameters`.
    pub fn computation(
        &mut self,
        computation: ComputationId,
        parameters: &[Value],
    ) -> Result<(ThunkSequence, Value)> {
        self.computation_or_body(computation, parameters, false)
    }

    /// Lowers the body of a loop with its state at `state`.
    fn body(&mut self, body: ComputationId, state: &Value) -> Result<(ThunkSequence, Value)> {
        self.computation_or_body(body, std::slice::from_ref(state), true)
    }

    fn computation_or_body(
        &mut self,
        computation: ComputationId,
        parameters: &[Value],
        is_body: bool,
    ) -> Result<(ThunkSequence, Value)> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(HloError::unsupported(
                format!("control flow nests deeper than {MAX_NESTING}"),
                self.module.str(self.module.computation(computation).name),
            ));
        }
        let module = self.module;
        let results = self.row_major_results(computation);
        let reductions = self.reduced_outward(computation);
        let walks = analysis::Walks {
            row_major: &results,
            reductions: &reductions,
            joins: self.joins_inputs(),
            updates_last: !self.options.is_off(update_order::NAME),
        };
        let analysis = analysis::analyse(module, computation, self.options.fuse, &walks);
        let mut copied =
            self.updated_parts(&analysis, module.computation(computation).root, is_body);
        if is_body {
            copied.extend(self.parts_of_state(computation, &analysis));
        }
        let mut scope = Scope {
            copied,
            analysis: &analysis,
            values: FxHashMap::default(),
            thunks: Vec::new(),
            joined: FxHashMap::default(),
            started: FxHashMap::default(),
            with_done: analysis::starts_with_done(module, &analysis.instructions),
        };
        for at in 0..analysis.instructions.len() {
            let instruction = module.instruction(analysis.instructions[at]);
            let value = self
                .instruction(&mut scope, at, instruction, parameters)
                .or_else(|error| self.refuse(&mut scope, instruction, error).map(Some))?;
            if let Some(value) = value {
                self.push_observation(&mut scope, instruction, &value);
                scope.values.insert(instruction.id, value);
            }
        }
        self.nesting -= 1;
        let root = module
            .computation(computation)
            .root
            .and_then(|root| scope.values.get(&root).cloned())
            .ok_or_else(|| HloError::execution("a computation has no root"))?;
        Ok((scope.thunks, root))
    }

    fn instruction(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
        parameters: &[Value],
    ) -> Result<Option<Value>> {
        self.check_called(instruction)?;
        let array = |view| Ok(Some(Value::Array(view)));
        match scope.analysis.roles[at] {
            Role::Elementwise | Role::Iota => {
                if scope.analysis.is_root[at] {
                    array(self.fused_loop(scope, at, instruction)?)
                } else {
                    Ok(None)
                }
            }
            Role::Alias | Role::Deferred => Ok(None),
            Role::DotPlus(k) => array(self.dot_plus(scope, instruction, usize::from(k))?),
            Role::View => array(self.view_or_copy(scope, instruction)?),
            Role::Reduce => self.reduce(scope, at, instruction).map(Some),
            Role::Joined => match self.joined(scope, at, instruction)? {
                Some(pieces) => {
                    scope.joined.insert(instruction.id, pieces);
                    Ok(None)
                }
                None => array(self.concatenate(scope, at, instruction)?),
            },
            Role::Concatenate => array(self.concatenate(scope, at, instruction)?),
            Role::Pad => array(self.pad(scope, at, instruction)?),
            Role::DynamicUpdateSlice => array(self.dynamic_update_slice(scope, at, instruction)?),
            Role::Other => self.other(scope, instruction, parameters).map(Some),
        }
    }

    /// Refuses side effects in computations that are applied to elements: how often and in which
    /// order they run is not defined.
    fn check_called(&mut self, instruction: InstructionRef<'m>) -> Result<()> {
        if matches!(
            instruction.opcode().class(),
            OpClass::ControlFlow | OpClass::CustomCall
        ) {
            return Ok(());
        }
        for callee in instruction.called_computations() {
            if self.effects.of_computation(self.module, callee).must_run() {
                let name = self.module.str(self.module.computation(callee).name);
                return Err(unsupported(
                    instruction,
                    format!(
                        "{name} has side effects; {} does not say how often it runs",
                        instruction.opcode_name()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// A step that gives `error` when it is reached, for a call in a branch or a loop: it may never
    /// be. Every other error is given now.
    fn refuse(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        error: HloError,
    ) -> Result<Value> {
        let is_call = instruction.opcode().class() == OpClass::CustomCall
            || self.effects.of(self.module, instruction.id).must_run();
        let is_nested = self.nesting > 1;
        match error {
            HloError::Unsupported(why) if is_call && is_nested => {
                let mut outputs = Vec::new();
                let shape = instruction.shape_id();
                let value = self.allocate_value(instruction, shape, &mut outputs)?;
                let op = OpThunk {
                    kind: OpKind::Refused(why),
                    inputs: Vec::new(),
                    outputs,
                };
                scope.push(instruction.id, ThunkKind::Op(Box::new(op)));
                Ok(value)
            }
            error => Err(error),
        }
    }

    fn other(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        parameters: &[Value],
    ) -> Result<Value> {
        match instruction.opcode().class() {
            OpClass::Parameter => instruction
                .parameter_number()
                .and_then(|number| parameters.get(number).cloned())
                .ok_or_else(|| HloError::execution("a parameter has no value")),
            OpClass::Constant => self.constant(instruction),
            OpClass::Tuple => match instruction.tuple_index() {
                Some(index) => match self.operand(scope, instruction, 0)? {
                    Value::Tuple(elements) if index < elements.len() => Ok(elements[index].clone()),
                    _ => Err(HloError::execution("get-tuple-element of no tuple")),
                },
                None => (0..instruction.operand_ids().len())
                    .map(|k| self.operand(scope, instruction, k))
                    .collect::<Result<Vec<_>>>()
                    .map(|elements| Value::Tuple(elements.into())),
            },
            OpClass::Dot if instruction.opcode() == HloOpcode::Dot => {
                self.dot(scope, instruction).map(Value::Array)
            }
            OpClass::ControlFlow => match instruction.opcode() {
                HloOpcode::While => self.while_loop(scope, instruction),
                HloOpcode::Conditional => self.conditional(scope, instruction),
                _ => Err(unsupported(
                    instruction,
                    format!("{} was not flattened", instruction.opcode_name()),
                )),
            },
            OpClass::Collective => self.collective(scope, instruction),
            OpClass::CustomCall => self.custom_call(scope, instruction),
            OpClass::DeviceId => Ok(Value::Array(self.device_id(scope, instruction)?)),
            OpClass::Ordering => match instruction.opcode() {
                HloOpcode::AfterAll => Ok(Value::Nothing),
                _ => self.operand(scope, instruction, 0),
            },
            OpClass::AsyncCopy => self.operand(scope, instruction, 0),
            OpClass::HostTransfer => self.transfer(scope, instruction),
            OpClass::Unknown => Err(unsupported(
                instruction,
                format!("{} is not supported", instruction.opcode_name()),
            )),
            elementwise_classes!()
            | operation_classes!()
            | OpClass::BitcastConvert
            | OpClass::Iota
            | OpClass::Movement
            | OpClass::Assemble
            | OpClass::DynamicIndex
            | OpClass::Reduce
            | OpClass::Random => self.operation(scope, instruction),
        }
    }

    fn constant(&mut self, instruction: InstructionRef<'m>) -> Result<Value> {
        let shape = views::array_shape(instruction)?;
        let literal = instruction
            .literal()
            .ok_or_else(|| HloError::execution("a constant has no literal"))?;
        let Some(bytes) = literal.bytes() else {
            return Err(elided_constant(instruction));
        };
        if shape.byte_size() != Some(bytes.len()) {
            return Err(HloError::execution(format!(
                "constant {} has {} bytes, its shape {} does not",
                instruction.name(),
                bytes.len(),
                shape
            )));
        }
        let id = literal_id(instruction);
        let buffer = match self.constants.get(&id) {
            Some(&buffer) => BufferSlice {
                allocation: buffer,
                offset: 0,
                size: bytes.len(),
            },
            None => {
                let slice =
                    self.buffer(bytes.len(), BufferKind::Constant(id), Some(instruction.id));
                self.constants.insert(id, slice.allocation);
                slice
            }
        };
        // Literals are row-major whatever the layout of their shape is.
        let order = super::view::identity_order(shape.rank());
        Ok(Value::Array(ArrayView::dense(
            buffer,
            shape.element_type,
            &shape.dims,
            &order,
        )))
    }

    /// The value of operand `k`.
    fn operand(
        &self,
        scope: &Scope<'_>,
        instruction: InstructionRef<'_>,
        k: usize,
    ) -> Result<Value> {
        instruction
            .operand_ids()
            .get(k)
            .and_then(|id| scope.values.get(id).cloned())
            .ok_or_else(|| {
                HloError::execution(format!(
                    "{}: operand {k} has no value yet",
                    instruction.name()
                ))
            })
    }

    /// Operand `k`, which must be an array.
    fn array_operand(
        &self,
        scope: &Scope<'_>,
        instruction: InstructionRef<'_>,
        k: usize,
    ) -> Result<ArrayView> {
        match self.operand(scope, instruction, k)? {
            Value::Array(view) => Ok(view),
            Value::Tuple(_) => Err(unsupported(
                instruction,
                format!("operand {k} is a tuple where an array is expected"),
            )),
            Value::Nothing => Err(unsupported(
                instruction,
                format!("operand {k} is a token or a workspace, which hold nothing"),
            )),
        }
    }

    /// The result of a movement instruction: a view, or a copy where that is wanted.
    fn view_or_copy(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let view = self.view(scope, instruction)?;
        if !scope.copied.contains(&instruction.id) {
            return Ok(view);
        }
        let order = super::view::identity_order(view.dims.len());
        self.copy_dense(scope, instruction, &view, &order)
    }

    /// The result of a movement instruction; copies its operand only when no view exists.
    fn view(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let operand = self.array_operand(scope, instruction, 0)?;
        if instruction.opcode() == HloOpcode::DynamicSlice {
            let dims = &views::array_shape(instruction)?.dims;
            let ones: crate::types::Dims = dims.iter().map(|_| 1).collect();
            let zeros: crate::types::Dims = dims.iter().map(|_| 0).collect();
            let mut view = operand.slice(&zeros, &ones, dims);
            let starts = self.starts(scope, instruction, 1, dims.len())?;
            for (dim, start) in starts.into_iter().enumerate() {
                self.begin_at(
                    &mut view,
                    start,
                    [operand.strides[dim], operand.dims[dim] - dims[dim]],
                );
            }
            return Ok(view);
        }
        if let Some(view) = views::movement(instruction, &operand)? {
            return Ok(view);
        }
        let order = super::view::identity_order(operand.dims.len());
        let dense = self.copy_dense(scope, instruction, &operand, &order)?;
        views::movement(instruction, &dense)?
            .ok_or_else(|| unsupported(instruction, "its operand cannot be viewed this way".into()))
    }

    /// A dense copy of `view` in the order `order`.
    fn copy_dense(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'_>,
        view: &ArrayView,
        order: &[u8],
    ) -> Result<ArrayView> {
        let dense = self.allocate(instruction, view.element_type, &view.dims, order)?;
        self.copy(scope, instruction.id, view.clone(), dense.clone());
        Ok(dense)
    }

    /// A copy thunk; elidable where the two sides could be one buffer.
    fn copy(
        &self,
        scope: &mut Scope<'_>,
        instruction: InstructionId,
        source: ArrayView,
        destination: ArrayView,
    ) {
        let elidable = self.interchangeable(&source, &destination);
        scope.push(
            instruction,
            ThunkKind::Copy(Box::new(CopyThunk::new(source, destination, elidable))),
        );
    }

    /// Whether both views are whole buffers of one size, with elements at the same places.
    pub fn interchangeable(&self, a: &ArrayView, b: &ArrayView) -> bool {
        let whole = |view: &ArrayView| {
            view.offset == 0
                && view.dynamic.is_empty()
                && view.slice.offset == 0
                && view.slice.size == self.buffers[view.slice.allocation as usize].size
                && view.slice.size == view.count() * view.element_type.size_bytes()
        };
        let same_places = || same_places(&a.dims, &a.strides, &b.strides);
        a.slice.size == b.slice.size && a.dims == b.dims && same_places() && whole(a) && whole(b)
    }
}

impl Scope<'_> {
    fn push(&mut self, instruction: InstructionId, kind: ThunkKind) {
        self.thunks.push(Thunk { instruction, kind });
    }
}

/// Appends the arrays of a value, in order.
pub fn collect_leaves(value: &Value, leaves: &mut Vec<ArrayView>) {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        match value {
            Value::Array(view) => leaves.push(view.clone()),
            Value::Tuple(parts) => stack.extend(parts.iter().rev()),
            Value::Nothing => {}
        }
    }
}

/// Bytes of a dense array of that shape.
fn dense_size(instruction: InstructionRef<'_>, shape: &crate::types::ArrayShape) -> Result<usize> {
    shape.byte_size().ok_or_else(|| {
        let why = if shape.dims.iter().any(|&size| size < 0) {
            "a dimension without a bound (?)"
        } else {
            "its size overflows"
        };
        unsupported(instruction, why.into())
    })
}

/// The literal of a `constant`.
fn literal_id(instruction: InstructionRef<'_>) -> LiteralId {
    LiteralId::from_index(instruction.data().immediate as usize)
}
