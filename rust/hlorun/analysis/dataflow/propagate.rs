//! Which value is at which position: values are created where they are defined and carried along
//! until nothing changes.
//!
//! The rules per opcode, the order of work and so the numbers of the values are those of XLA's
//! `HloDataflowAnalysis` in SSA form with bitcasts that define nothing.

use smallvec::smallvec;

use super::graph::{self, CallContext, CallGraph, PostOrder, Users};
use super::phi::PhiGraph;
use super::positions::{PositionId, Positions};
use super::queue::Queue;
use crate::error::{HloError, Result};
use crate::module::{
    CalledComputations, ComputationId, HloModule, HloOpcode, IdMap, InstructionId, InstructionRef,
};
use crate::types::{Shape, ShapeIndex};

/// No value is here yet.
pub(crate) const NONE: u32 = u32::MAX;

/// A value while it is being found.
pub(crate) struct RawValue {
    pub position: PositionId,
    pub is_phi: bool,
    pub is_deleted: bool,
}

pub(crate) struct Propagation<'m> {
    pub module: &'m HloModule,
    pub positions: Positions,
    pub users: Users,
    pub calls: CallGraph,
    pub order: PostOrder,
    /// Value number at each position.
    pub value_at: Vec<u32>,
    pub values: Vec<RawValue>,
    phi: PhiGraph,
}

/// Position ranges that may hold the same tree of values.
type Inputs = Vec<PositionId>;

impl<'m> Propagation<'m> {
    pub fn run(module: &'m HloModule) -> Result<Propagation<'m>> {
        let positions = Positions::new(module)?;
        let count = positions.len();
        let users = Users::new(module);
        let order = PostOrder::new(module, &users)?;
        let mut this = Propagation {
            module,
            positions,
            users,
            calls: CallGraph::new(module),
            order,
            value_at: vec![NONE; count],
            values: Vec::new(),
            phi: PhiGraph::default(),
        };
        this.initialize()?;
        this.propagate()?;
        this.phi.optimize();
        this.replace_phis();
        Ok(this)
    }

    /// Defines all values that are no phis.
    fn initialize(&mut self) -> Result<()> {
        for computation in self.module.computation_ids() {
            if self.calls.context(computation) == CallContext::Both {
                let name = self.module.str(self.module.computation(computation).name);
                return Err(HloError::unsupported(
                    format!("computation `{name}` is called both as control flow and per element"),
                    name,
                ));
            }
            for at in 0..self.order.of(computation).len() {
                self.define(self.order.of(computation)[at]);
            }
        }
        Ok(())
    }

    fn define_at(&mut self, position: PositionId, is_phi: bool) -> u32 {
        let value = self.values.len() as u32;
        self.values.push(RawValue {
            position,
            is_phi,
            is_deleted: false,
        });
        self.value_at[position.0 as usize] = value;
        value
    }

    fn define(&mut self, id: InstructionId) {
        use HloOpcode::*;
        let instruction = self.module.instruction(id);
        let is_tuple = |this: &Self, position| {
            let shape = this.module.shapes().get(this.positions.shape(position));
            matches!(shape, Shape::Tuple(_))
        };
        // The element of the outermost tuple a position lies in.
        let front = |this: &Self, position| this.positions.index(position).0.first().copied();
        for position in self.positions.of(id) {
            let root = self.positions.is_root(position);
            let defines = match instruction.opcode() {
                Bitcast | AddDependency | While | Call | Conditional | GetTupleElement | Domain
                | OptimizationBarrier | CopyDone | AllReduceDone => false,
                Parameter => matches!(
                    self.calls.context(instruction.computation()),
                    CallContext::None | CallContext::Embedded
                ),
                Copy | Tuple => root,
                AsyncStart => is_tuple(self, position) || front(self, position) > Some(1),
                AsyncUpdate | AsyncDone => is_tuple(self, position),
                CopyStart | Send => {
                    root || front(self, position) != Some(moved_element(instruction))
                }
                AllGatherStart => is_tuple(self, position) || front(self, position) == Some(1),
                AllGatherDone | CollectivePermuteDone => root && is_tuple(self, position),
                CollectivePermuteStart => root || front(self, position) != Some(0),
                RecvDone => root || front(self, position) != Some(0),
                _ => true,
            };
            if defines {
                self.define_at(position, false);
            }
        }
    }

    fn propagate(&mut self) -> Result<()> {
        let mut work = Queue::new(self.work_order());
        let mut wake: Vec<InstructionId> = self.order.all().to_vec();
        let count = self.module.instruction_count();
        // Far more rounds than nested loops need; a module that takes them is malformed.
        let mut budget = 1_000_000usize.saturating_add(count.saturating_mul(256));
        loop {
            for id in wake.drain(..) {
                work.push(id);
            }
            let Some(id) = work.pop() else {
                return Ok(());
            };
            budget = budget.checked_sub(1).ok_or_else(|| {
                let name = self.module.instruction(id).name();
                HloError::unsupported("the flow of values does not settle", name)
            })?;
            if self.update(id) {
                self.affected(id, &mut wake);
            }
        }
    }

    /// What may change when the values of `id` did.
    fn affected(&self, id: InstructionId, wake: &mut Vec<InstructionId>) {
        let module = self.module;
        for &(user, _) in self.users.of(id) {
            wake.push(user);
            let user = module.instruction(user);
            match user.opcode() {
                HloOpcode::Conditional => {
                    for (branch, computation) in
                        graph::branches(module, user.id).into_iter().enumerate()
                    {
                        if user.operand_ids().get(branch + 1) == Some(&id) {
                            wake.extend(module.computation(computation).parameters.first());
                        }
                    }
                }
                opcode if graph::is_control_flow(opcode) => {
                    for computation in user.called_computations() {
                        wake.extend(&module.computation(computation).parameters);
                    }
                }
                _ => {}
            }
        }
        let instruction = module.instruction(id);
        if !instruction.is_root() {
            return;
        }
        for &caller in self.calls.callers(instruction.computation()) {
            if !graph::is_control_flow(module.instruction(caller).opcode()) {
                continue;
            }
            wake.push(caller);
            if let Some((condition, body)) = graph::while_computations(module, caller) {
                for computation in [body, condition] {
                    wake.extend(module.computation(computation).parameters.first());
                }
            }
        }
    }

    /// The order of work: the entry in post order, called computations where they are called. What the
    /// entry does not reach counts as its first instruction, and of equals the one of the smaller id is first.
    fn work_order(&self) -> Vec<InstructionId> {
        enum Step {
            Enter(ComputationId),
            Emit(InstructionId),
        }
        let module = self.module;
        let mut reached = IdMap::new(module.instruction_count(), false);
        let mut order = Vec::with_capacity(module.instruction_count());
        let mut entered = IdMap::new(module.computation_count(), false);
        let mut stack: Vec<Step> = module.entry.map(Step::Enter).into_iter().collect();
        while let Some(step) = stack.pop() {
            match step {
                Step::Emit(id) => {
                    reached[id] = true;
                    order.push(id);
                }
                Step::Enter(computation) if !entered[computation] => {
                    entered[computation] = true;
                    for &id in self.order.of(computation).iter().rev() {
                        stack.push(Step::Emit(id));
                        let called: CalledComputations = match module.instruction(id).opcode() {
                            HloOpcode::Call | HloOpcode::AsyncStart => {
                                module.instruction(id).called_computations()
                            }
                            HloOpcode::Conditional => graph::branches(module, id).into(),
                            HloOpcode::While => graph::while_computations(module, id)
                                .map_or_else(CalledComputations::new, |(condition, body)| {
                                    smallvec![condition, body]
                                }),
                            _ => CalledComputations::new(),
                        };
                        stack.extend(called.into_iter().rev().map(Step::Enter));
                    }
                }
                Step::Enter(_) => {}
            }
        }
        let others = reached.iter().filter(|(_, is_reached)| !**is_reached);
        let mut others: Vec<InstructionId> = others.map(|(id, _)| id).collect();
        if let Some(&first) = order.first() {
            let at = others.partition_point(|&id| id < first);
            others.insert(at, first);
            order.remove(0);
        }
        others.append(&mut order);
        others
    }

    fn root_of(&self, computation: ComputationId) -> Option<PositionId> {
        let root = self.module.computation(computation).root?;
        Some(self.positions.root(root))
    }

    fn operand(&self, id: InstructionId, number: usize) -> Option<PositionId> {
        let operand = *self.module.operand_ids(id).get(number)?;
        Some(self.positions.root(operand))
    }

    /// Makes the subtree at `to` hold what the one at `from` does.
    fn forward(&mut self, to: PositionId, from: PositionId) -> bool {
        let count = self.positions.subtree(to).min(self.positions.subtree(from)) as usize;
        let (to, from) = (to.0 as usize, from.0 as usize);
        let same = self.value_at[to..to + count] == self.value_at[from..from + count];
        if !same {
            self.value_at.copy_within(from..from + count, to);
        }
        !same
    }

    /// [`Propagation::forward`] without the top, which the instruction defines itself.
    fn forward_elements(&mut self, to: PositionId, from: PositionId) -> bool {
        let mut changed = false;
        let mut element = 0;
        while let (Some(to), Some(from)) = (
            self.positions.child(to, element),
            self.positions.child(from, element),
        ) {
            changed |= self.forward(to, from);
            element += 1;
        }
        changed
    }

    fn forward_maybe(&mut self, to: Option<PositionId>, from: Option<PositionId>) -> bool {
        match (to, from) {
            (Some(to), Some(from)) => self.forward(to, from),
            _ => false,
        }
    }

    /// Carries the arrays of one subtree over, leaving tuples to who defines them.
    fn forward_arrays(&mut self, to: PositionId, from: PositionId) -> bool {
        let count = self.positions.subtree(to).min(self.positions.subtree(from));
        let mut changed = false;
        for i in 0..count {
            let shape = self.positions.shape(PositionId(from.0 + i));
            if matches!(self.module.shapes().get(shape), Shape::Tuple(_)) {
                continue;
            }
            let value = self.value_at[(from.0 + i) as usize];
            let at = &mut self.value_at[(to.0 + i) as usize];
            if value != NONE && *at != value {
                *at = value;
                changed = true;
            }
        }
        changed
    }

    fn update(&mut self, id: InstructionId) -> bool {
        use HloOpcode::*;
        let module = self.module;
        let instruction = module.instruction(id);
        let top = self.positions.root(id);
        let operand = self.operand(id, 0);
        match instruction.opcode() {
            Bitcast | AddDependency | Domain | OptimizationBarrier | AllReduceDone => {
                self.forward_maybe(Some(top), operand)
            }
            Copy => operand.is_some_and(|from| self.forward_elements(top, from)),
            GetTupleElement => {
                let element = instruction.tuple_index().unwrap_or(0);
                let from = operand.and_then(|at| self.positions.child(at, element));
                self.forward_maybe(Some(top), from)
            }
            Tuple => {
                let mut changed = false;
                for number in 0..instruction.operand_ids().len() {
                    let to = self.positions.child(top, number);
                    let from = self.operand(id, number);
                    changed |= self.forward_maybe(to, from);
                }
                changed
            }
            Parameter => self.update_parameter(id),
            Call => {
                let callee = instruction.called_computations().first().copied();
                let root = callee.and_then(|c| self.root_of(c));
                self.forward_maybe(Some(top), root)
            }
            While => {
                let Some((_, body)) = graph::while_computations(module, id) else {
                    return false;
                };
                let inputs: Inputs = self.root_of(body).into_iter().chain(operand).collect();
                self.merge(id, &inputs)
            }
            Conditional => {
                let inputs: Inputs = graph::branches(module, id)
                    .into_iter()
                    .filter_map(|branch| self.root_of(branch))
                    .collect();
                self.merge(id, &inputs)
            }
            AsyncStart => self.update_async_start(id),
            AsyncUpdate => operand.is_some_and(|from| self.forward_arrays(top, from)),
            AsyncDone => {
                let from = operand.and_then(|at| self.positions.child(at, 1));
                from.is_some_and(|from| self.forward_arrays(top, from))
            }
            Send | CopyStart => {
                let element = moved_element(instruction) as usize;
                let to = self.positions.child(top, element);
                self.forward_maybe(to, operand)
            }
            CopyDone => {
                let from = operand.and_then(|at| self.positions.child(at, 0));
                self.forward_maybe(Some(top), from)
            }
            RecvDone => {
                let from = operand.and_then(|at| self.positions.child(at, 0));
                let to = self.positions.child(top, 0);
                self.forward_maybe(to, from)
            }
            AllGatherStart | CollectivePermuteStart => self.update_collective_start(id),
            AllGatherDone | CollectivePermuteDone => {
                let from = operand.and_then(|at| self.positions.child(at, 1));
                from.is_some_and(|from| self.forward_arrays(top, from))
            }
            _ => false,
        }
    }

    fn update_async_start(&mut self, id: InstructionId) -> bool {
        let instruction = self.module.instruction(id);
        let top = self.positions.root(id);
        let mut changed = false;
        for number in 0..instruction.operand_ids().len() {
            let index = ShapeIndex::from(&[0, number as i64][..]);
            let to = self.positions.below(top, &index);
            if let (Some(to), Some(from)) = (to, self.operand(id, number)) {
                changed |= self.forward_arrays(to, from);
            }
        }
        let callee = instruction.called_computations().first().copied();
        let root = callee.and_then(|c| self.root_of(c));
        if let (Some(to), Some(from)) = (self.positions.child(top, 1), root) {
            changed |= self.forward_arrays(to, from);
        }
        changed
    }

    fn update_collective_start(&mut self, id: InstructionId) -> bool {
        let top = self.positions.root(id);
        let Some(sources) = self.positions.child(top, 0) else {
            return false;
        };
        let instruction = self.module.instruction(id);
        let count = instruction.operand_ids().len();
        // With four operands a permute works in place and names buffers and offsets.
        let in_place = instruction.opcode() == HloOpcode::CollectivePermuteStart && count == 4;
        if count == 1 || in_place {
            let from = self.operand(id, 0);
            return from.is_some_and(|from| self.forward_arrays(sources, from));
        }
        let mut changed = false;
        for number in 0..count {
            let to = self.positions.child(sources, number);
            let from = self.operand(id, number);
            changed |= self.forward_maybe(to, from);
        }
        changed
    }

    fn update_parameter(&mut self, id: InstructionId) -> bool {
        let module = self.module;
        let instruction = module.instruction(id);
        let computation = instruction.computation();
        if self.calls.context(computation) != CallContext::ControlFlow {
            return false;
        }
        let number = instruction.parameter_number().unwrap_or(0);
        let mut inputs: Inputs = Vec::new();
        let mut needs_phi = false;
        for &caller in self.calls.callers(computation) {
            match module.instruction(caller).opcode() {
                HloOpcode::While => {
                    needs_phi = true;
                    inputs.extend(self.operand(caller, 0));
                    let body = graph::while_computations(module, caller).map(|pair| pair.1);
                    let root = body.and_then(|body| module.computation(body).root);
                    inputs.extend(
                        root.filter(|&root| root != id)
                            .map(|root| self.positions.root(root)),
                    );
                }
                HloOpcode::Conditional => {
                    needs_phi = true;
                    let branch = graph::branches(module, caller)
                        .iter()
                        .position(|&branch| branch == computation);
                    inputs.extend(branch.and_then(|branch| self.operand(caller, branch + 1)));
                }
                HloOpcode::AsyncUpdate | HloOpcode::AsyncDone => {
                    let index = ShapeIndex::from(&[0, number as i64][..]);
                    let from = self
                        .operand(caller, 0)
                        .and_then(|at| self.positions.below(at, &index));
                    let top = self.positions.root(id);
                    return self.forward_maybe(Some(top), from);
                }
                _ => inputs.extend(self.operand(caller, number)),
            }
        }
        // Calls from several places need a phi too; XLA has flattened the call graph by then.
        match inputs.as_slice() {
            [from] if !needs_phi => {
                let top = self.positions.root(id);
                self.forward(top, *from)
            }
            _ => self.merge(id, &inputs),
        }
    }

    /// Lets several trees of values meet in an instruction's result.
    fn merge(&mut self, id: InstructionId, inputs: &[PositionId]) -> bool {
        let top = self.positions.root(id);
        let count = inputs
            .iter()
            .map(|&input| self.positions.subtree(input))
            .chain([self.positions.subtree(top)])
            .min()
            .unwrap_or(0);
        let mut changed = false;
        let mut incoming: Vec<u32> = Vec::with_capacity(inputs.len());
        for i in 0..count {
            let here = PositionId(top.0 + i);
            incoming.clear();
            let values = inputs.iter().map(|p| self.value_at[(p.0 + i) as usize]);
            incoming.extend(values.filter(|&value| value != NONE));
            let current = self.value_at[here.0 as usize];
            let defined_here = current != NONE && self.values[current as usize].position == here;
            match incoming.as_slice() {
                [] => {}
                [value] => {
                    if current != *value {
                        if defined_here {
                            self.values[current as usize].is_deleted = true;
                        }
                        self.value_at[here.0 as usize] = *value;
                        changed = true;
                    }
                }
                _ if defined_here && self.values[current as usize].is_phi => {
                    if !self.phi.inputs_equal(current, &incoming) {
                        self.phi.register(current, &incoming);
                        changed = true;
                    }
                }
                _ => {
                    let value = self.define_at(here, true);
                    self.phi.register(value, &incoming);
                    changed = true;
                }
            }
        }
        changed
    }

    fn replace_phis(&mut self) {
        for at in 0..self.value_at.len() {
            let value = self.value_at[at];
            if value == NONE || !self.values[value as usize].is_phi {
                continue;
            }
            let replacement = self.phi.replacement(value);
            if replacement != value {
                self.value_at[at] = replacement;
                self.values[value as usize].is_deleted = true;
            }
        }
    }
}

/// The element of a `send` or `copy-start` result that is its operand.
fn moved_element(instruction: InstructionRef<'_>) -> i64 {
    i64::from(instruction.opcode() == HloOpcode::CopyStart)
}
