//! A `while` whose trips are known, taken apart.
//!
//! In: a `while` of a flattened module. Out: its counter, the number of trips (from the condition,
//! never from what the text merely claims), which leaves never change, and the means to add leaves.

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::induction_variable;
use crate::error::{HloError, Result};
use crate::module::post_order::instruction_post_order;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, Id, IdMap, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::hlo::product::Product;
use crate::types::{ArrayShape, ShapeId};

/// Most bytes that a pass keeps for all trips of a loop.
pub const MAX_BYTES: i64 = 1 << 29;
/// Fewest trips that make it worth the while to change a loop.
pub const MIN_TRIPS: usize = 4;
/// Most trips that are looked through.
const MAX_TRIPS: i64 = 1 << 16;

/// Who reads an instruction.
type Users = SmallVec<[InstructionId; 4]>;

/// A loop and what is known of it.
pub struct LoopInfo {
    /// The `while`.
    pub id: InstructionId,
    /// The computation it stands in.
    pub parent: ComputationId,
    /// Its body.
    pub body: ComputationId,
    condition: ComputationId,
    parameter: InstructionId,
    /// Values in the parent that the leaves start with.
    pub initial: Vec<InstructionId>,
    /// Values in the body that the leaves get.
    pub results: Vec<InstructionId>,
    /// `get-tuple-element` of each leaf in the body, where there is one.
    pub elements: Vec<Option<InstructionId>>,
    /// The counter's element in the body.
    pub counter: InstructionId,
    /// Values of the counter, one per trip.
    pub trips: Vec<i64>,
    /// Uses of every instruction of the body, operand by operand; filled by [`LoopInfo::find_users`].
    users: Option<FxHashMap<InstructionId, Users>>,
    /// Leaves whose value after the loop is another instruction of the parent.
    replaced: Vec<Option<InstructionId>>,
    /// Leaves that collect a value, by value and row index.
    stacks: FxHashMap<(InstructionId, InstructionId), usize>,
    /// Instructions from this index on were made by the pass.
    first_new: usize,
    changed: bool,
}

/// The loops of a computation, in its order.
pub fn loops_in(module: &HloModule, computation: ComputationId) -> Vec<InstructionId> {
    let is_loop = |id: &InstructionId| module.instruction_data(*id).opcode == HloOpcode::While;
    let instructions = module.computation(computation).instructions.iter();
    instructions.copied().filter(is_loop).collect()
}

impl LoopInfo {
    /// The products of the body that `is_wanted`, of loops with enough trips to make a large one of them.
    pub fn products(
        &self,
        module: &HloModule,
        is_wanted: impl Fn(&Product) -> bool,
    ) -> Vec<Product> {
        if self.trips.len() < MIN_TRIPS {
            return Vec::new();
        }
        let instructions = module.computation(self.body).instructions.iter();
        let products = instructions.filter_map(|&id| Product::of(module, id, &|_| false));
        products
            .filter(|product| product.is_uniform(module) && is_wanted(product))
            .collect()
    }

    /// Takes a loop apart; `None` where its trips are not known or its parts are used elsewhere.
    ///
    /// `callers` counts the module's, as it is or was before passes that add no calls of old
    /// computations.
    pub fn of(module: &HloModule, callers: &Callers, id: InstructionId) -> Option<LoopInfo> {
        let mut info = LoopInfo::of_any(module, callers, id)?;
        (info.counter, info.trips) = count_trips(module, &info)?;
        Some(info)
    }

    /// As [`LoopInfo::of`], of a loop of any number of trips: `counter` is no leaf and `trips` is empty.
    pub fn of_any(module: &HloModule, callers: &Callers, id: InstructionId) -> Option<LoopInfo> {
        let instruction = module.instruction(id);
        let body = instruction.computation_attribute(AttrKey::Body)?;
        let condition = instruction.computation_attribute(AttrKey::Condition)?;
        if body == condition || callers.of(body) != 1 || callers.of(condition) != 1 {
            return None;
        }
        let init = instruction.operand(0)?;
        let body_data = module.computation(body);
        let parameter = *body_data.parameters.first()?;
        let root = module.instruction(body_data.root?);
        if init.opcode() != HloOpcode::Tuple || root.opcode() != HloOpcode::Tuple {
            return None;
        }
        let initial = init.operand_ids().to_vec();
        let results = root.operand_ids().to_vec();
        if initial.len() != results.len() {
            return None;
        }
        let mut elements: Vec<Option<InstructionId>> = vec![None; results.len()];
        for &i in &body_data.instructions {
            if module.operand_ids(i).contains(&parameter) {
                let k = module.instruction(i).tuple_index()?;
                // Several elements of one leaf would need every rule twice.
                if elements.get_mut(k)?.replace(i).is_some() {
                    return None;
                }
            }
        }
        Some(LoopInfo {
            id,
            parent: instruction.computation(),
            body,
            condition,
            parameter,
            replaced: vec![None; initial.len()],
            initial,
            results,
            elements,
            counter: parameter,
            trips: Vec::new(),
            users: None,
            stacks: FxHashMap::default(),
            first_new: module.instruction_count(),
            changed: false,
        })
    }

    /// Whether the loop surely has a trip: the condition compares a leaf, which starts as a constant,
    /// with another.
    pub fn has_a_trip(&self, module: &HloModule) -> bool {
        count_limit(module, self).is_some_and(|count| count.start < count.limit)
    }

    /// How many trips there are if all of them count as the first one does.
    pub fn expected_trips(&self, module: &HloModule) -> Option<i64> {
        count_steps(module, self).map(|steps| steps.count)
    }

    /// Whether leaf `k` has its initial value in every trip.
    pub fn is_invariant(&self, k: usize) -> bool {
        self.elements[k].is_some_and(|e| self.results[k] == e)
    }

    /// The leaf that `id` is an element of.
    pub fn leaf_of(&self, id: InstructionId) -> Option<usize> {
        self.elements.iter().position(|&e| e == Some(id))
    }

    /// The leaf that never changes and that `id` is an element of.
    pub fn invariant_leaf(&self, id: InstructionId) -> Option<usize> {
        self.leaf_of(id).filter(|&k| self.is_invariant(k))
    }

    /// Notes who reads what in the body, before anything is added to it.
    pub fn find_users(&mut self, module: &HloModule) {
        let instructions = &module.computation(self.body).instructions;
        let mut users: FxHashMap<InstructionId, Users> =
            FxHashMap::with_capacity_and_hasher(instructions.len(), FxBuildHasher);
        for &id in instructions {
            for &operand in module.operand_ids(id) {
                users.entry(operand).or_default().push(id);
            }
        }
        self.users = Some(users);
    }

    /// Uses of a value of the body, operand by operand, the root's included. Of a loop whose users were noted.
    pub fn users(&self, id: InstructionId) -> &[InstructionId] {
        debug_assert!(self.users.is_some(), "nobody asked for the users");
        let users = self.users.as_ref().and_then(|users| users.get(&id));
        users.map_or(&[], |users| users)
    }

    /// How many [`LoopInfo::users`] there are.
    pub fn use_count(&self, id: InstructionId) -> usize {
        self.users(id).len()
    }

    /// `id` as row `index(t)` of a leaf that never changes, where the rows of all trips are all
    /// rows: `(leaf, index)`. The row may have lost its own dimension.
    pub fn row_of_invariant(
        &self,
        module: &HloModule,
        id: InstructionId,
    ) -> Option<(usize, InstructionId)> {
        let shape = module.instruction(id).array_shape()?;
        let mut at = module.instruction(id);
        if at.opcode() == HloOpcode::Reshape {
            at = at.operand(0)?;
        }
        if at.opcode() != HloOpcode::DynamicSlice {
            return None;
        }
        let leaf = self.invariant_leaf(at.operand(0)?.id)?;
        let from = at.operand(0)?.array_shape()?;
        let sizes = &at.array_shape()?.dims;
        if from.rank() < 1
            || from.dims[0] != self.trips.len() as i64
            || sizes[0] != 1
            || sizes[1..] != from.dims[1..]
            || shape.dims[..] != from.dims[1..]
            || at.operand_ids().len() != from.rank() + 1
        {
            return None;
        }
        let index = at.operand(1)?.id;
        self.is_row_index(module, index).then_some((leaf, index))
    }

    /// Whether an index visits every row `0..trips` once.
    pub fn is_row_index(&self, module: &HloModule, index: InstructionId) -> bool {
        induction_variable::evaluate(module, index, self.counter, &self.trips)
            .is_some_and(|values| induction_variable::is_permutation(&values))
    }

    /// Whether two indices are the same in every trip.
    pub fn same_index(&self, module: &HloModule, a: InstructionId, b: InstructionId) -> bool {
        a == b || {
            let values = |i| induction_variable::evaluate(module, i, self.counter, &self.trips);
            let of_a = values(a);
            of_a.is_some() && of_a == values(b)
        }
    }

    /// Whether all instructions of the condition pass a test.
    pub fn condition_has_only(
        &self,
        module: &HloModule,
        is_wanted: impl FnMut(&InstructionId) -> bool,
    ) -> bool {
        let condition = module.computation(self.condition);
        condition.instructions.iter().all(is_wanted)
    }

    /// Whether the condition reads leaf `k`.
    pub fn is_read_by_condition(&self, module: &HloModule, k: usize) -> bool {
        module
            .computation(self.condition)
            .instructions
            .iter()
            .any(|&i| module.instruction(i).tuple_index() == Some(k))
    }

    /// An index that is 0 in the first trip and grows by one: the counter, where it is that.
    pub fn trip_number(&self, module: &HloModule) -> Option<InstructionId> {
        self.is_row_index(module, self.counter)
            .then_some(self.counter)
    }

    /// Lets everything in the body that reads `old` read `new`.
    pub fn replace_in_body(
        &mut self,
        module: &mut HloModule,
        old: InstructionId,
        new: InstructionId,
    ) {
        // What `new` itself is made of must keep reading `old` where it does.
        debug_assert!(self.users.is_some(), "nobody asked for the users");
        let readers = self.users.as_mut().and_then(|users| users.remove(&old));
        let readers = readers.unwrap_or_default();
        for &reader in &readers {
            for operand in module.operand_ids_mut(reader) {
                if *operand == old {
                    *operand = new;
                }
            }
        }
        for result in &mut self.results {
            if *result == old {
                *result = new;
            }
        }
        if let Some(users) = &mut self.users {
            users.insert(new, readers);
        }
        self.changed = true;
    }

    /// A builder in the parent.
    pub fn outside<'m>(&self, module: &'m mut HloModule, like: InstructionId) -> Builder<'m> {
        Builder {
            module,
            computation: self.parent,
            like,
        }
    }

    /// A builder in the body.
    pub fn inside<'m>(&self, module: &'m mut HloModule, like: InstructionId) -> Builder<'m> {
        Builder {
            module,
            computation: self.body,
            like,
        }
    }

    /// Adds a leaf that starts as `initial`; returns its number and its element in the body. Its
    /// result is the element until [`LoopInfo::set_result`].
    pub fn add_leaf(
        &mut self,
        module: &mut HloModule,
        initial: InstructionId,
    ) -> (usize, InstructionId) {
        let k = self.initial.len();
        let shape = module.instruction_data(initial).shape;
        let parameter = self.parameter;
        let element = self.inside(module, initial).add(
            HloOpcode::GetTupleElement,
            shape,
            &[parameter],
            &[],
            k as u32,
        );
        self.initial.push(initial);
        self.results.push(element);
        self.elements.push(Some(element));
        self.replaced.push(None);
        self.changed = true;
        (k, element)
    }

    /// Sets what leaf `k` becomes after a trip.
    pub fn set_result(&mut self, k: usize, value: InstructionId) {
        self.results[k] = value;
        self.changed = true;
    }

    /// Sets what leaf `k` is after the loop.
    pub fn replace_leaf(&mut self, k: usize, value: InstructionId) {
        self.replaced[k] = Some(value);
        self.changed = true;
    }

    /// The value of leaf `k` after the loop, for passes that build on it.
    pub fn after(&self, module: &mut HloModule, k: usize) -> InstructionId {
        let shape = module.instruction_data(self.initial[k]).shape;
        let id = self.id;
        self.outside(module, id)
            .add(HloOpcode::GetTupleElement, shape, &[id], &[], k as u32)
    }

    /// A leaf that collects `value` at row `index` of every trip.
    pub fn stack_of(
        &mut self,
        module: &mut HloModule,
        value: InstructionId,
        index: InstructionId,
    ) -> usize {
        let known: Vec<_> = self.stacks.iter().map(|(&key, &k)| (key, k)).collect();
        for ((stacked, at), k) in known {
            if stacked == value && self.same_index(module, at, index) {
                return k;
            }
        }
        let shape = match module.instruction(value).array_shape() {
            Some(shape) => ArrayShape::new(shape.element_type, &shape.dims),
            None => ArrayShape::new(crate::types::PrimitiveType::Pred, &[]),
        };
        let mut dims = vec![self.trips.len() as i64];
        dims.extend_from_slice(&shape.dims);
        let initial = self
            .outside(module, self.id)
            .zeros(shape.element_type, &dims);
        let (k, element) = self.add_leaf(module, initial);
        let updated = self.inside(module, value).set_row(element, value, index);
        self.set_result(k, updated);
        self.stacks.insert((value, index), k);
        k
    }

    /// Whether a pass has changed the loop.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Writes leaves that were added or replaced into the module.
    pub fn finish(self, module: &mut HloModule) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let old = module.instruction_data(self.id).shape;
        let old_count = module.shapes().get(old).as_tuple().map_or(0, <[_]>::len);
        let init = self.outside(module, self.id).tuple(&self.initial);
        // The body's parameter, its results and the initial values have the same shapes up to layout, and the layouts that
        // the body reads are the loop's.
        let mut shapes: Vec<ShapeId> = Vec::with_capacity(self.initial.len());
        let known = module.instruction_data(self.parameter).shape;
        shapes.extend(module.shapes().get(known).as_tuple().into_iter().flatten());
        let added = self.initial.iter().skip(shapes.len());
        shapes.extend(added.map(|&id| module.instruction_data(id).shape));
        let shape = module.shapes_mut().tuple(&shapes);
        let root_like = module.computation(self.body).root.unwrap_or(self.id);
        let root = self.inside(module, root_like).tuple(&self.results);
        module.instruction_data_mut(root).shape = shape;
        module.computation_mut(self.body).root = Some(root);
        module.instruction_data_mut(self.parameter).shape = shape;
        if let Some(&parameter) = module.computation(self.condition).parameters.first() {
            module.instruction_data_mut(parameter).shape = shape;
        }
        module.instruction_data_mut(self.id).shape = shape;
        module.set_operands(self.id, &[init]);
        self.redirect(module, old_count);
        for computation in [self.body, self.parent] {
            let order = instruction_post_order(module, computation)
                .map_err(|_| HloError::execution("a rewrite made a cycle"))?;
            module.computation_mut(computation).instructions = order;
            inline::remove_dead(module, computation);
        }
        Ok(())
    }

    /// Lets users of replaced leaves, and of the loop as a whole, read the right thing.
    fn redirect(&self, module: &mut HloModule, old_count: usize) {
        let instructions = module.computation(self.parent).instructions.clone();
        let replacement: Vec<InstructionId> = self.replaced.iter().flatten().copied().collect();
        let mut whole = None;
        let reads_loop = |module: &HloModule, id: InstructionId| {
            module.instruction_data(id).opcode == HloOpcode::GetTupleElement
                && module.operand_ids(id).first() == Some(&self.id)
        };
        // Instructions that make up the replacements keep reading the loop itself.
        let mut own: Vec<InstructionId> = Vec::new();
        let mut work = replacement;
        while let Some(id) = work.pop() {
            if id.index() >= self.first_new && !own.contains(&id) {
                own.push(id);
                work.extend_from_slice(module.operand_ids(id));
            }
        }
        for &id in &instructions {
            if own.contains(&id) {
                continue;
            }
            for k in 0..module.operand_ids(id).len() {
                let operand = module.operand_ids(id)[k];
                if reads_loop(module, operand) && !own.contains(&operand) {
                    let leaf = module.instruction_data(operand).immediate as usize;
                    if let Some(Some(value)) = self.replaced.get(leaf) {
                        module.operand_ids_mut(id)[k] = *value;
                    }
                } else if operand == self.id && !reads_loop(module, id) {
                    let tuple = *whole.get_or_insert_with(|| self.whole(module, old_count));
                    module.operand_ids_mut(id)[k] = tuple;
                }
            }
        }
        match module.computation(self.parent).root {
            Some(root) if root == self.id => {
                let tuple = whole.unwrap_or_else(|| self.whole(module, old_count));
                module.computation_mut(self.parent).root = Some(tuple);
            }
            Some(root) if reads_loop(module, root) => {
                let leaf = module.instruction_data(root).immediate as usize;
                if let Some(Some(value)) = self.replaced.get(leaf) {
                    module.computation_mut(self.parent).root = Some(*value);
                }
            }
            _ => {}
        }
    }

    /// The loop's original tuple, put together again.
    fn whole(&self, module: &mut HloModule, old_count: usize) -> InstructionId {
        let mut elements = Vec::with_capacity(old_count);
        for k in 0..old_count {
            elements.push(match self.replaced[k] {
                Some(value) => value,
                None => self.outside(module, self.id).get_tuple_element(self.id, k),
            });
        }
        self.outside(module, self.id).tuple(&elements)
    }
}

/// How often each computation is called, counted once for all loops.
pub struct Callers(IdMap<ComputationId, u32>);

impl Callers {
    /// Those of the module as it is.
    pub fn new(module: &HloModule) -> Callers {
        let mut callers = IdMap::new(module.computation_count(), 0u32);
        for id in module.computation_ids() {
            for &instruction in &module.computation(id).instructions {
                for called in module.instruction(instruction).called_computations() {
                    callers[called] = callers[called].saturating_add(1);
                }
            }
        }
        Callers(callers)
    }

    /// Of one computation; none of one made since.
    pub fn of(&self, computation: ComputationId) -> u32 {
        if computation.index() < self.0.len() {
            self.0[computation]
        } else {
            0
        }
    }
}

/// A condition `counter < limit`, and the constant that the counter starts at.
struct Count {
    leaf: usize,
    start: i64,
    limit: i64,
}

fn count_limit(module: &HloModule, info: &LoopInfo) -> Option<Count> {
    let data = module.computation(info.condition);
    let root = module.instruction(data.root?);
    if root.opcode() != HloOpcode::Compare {
        return None;
    }
    let (a, b) = (root.operand(0)?, root.operand(1)?);
    let direction = root.enumeration(AttrKey::Direction)?;
    let (element, limit) = match direction.as_ref() {
        "LT" => (a, induction_variable::constant(module, b.id)?),
        "GT" => (b, induction_variable::constant(module, a.id)?),
        _ => return None,
    };
    if element.operand_ids() != [*data.parameters.first()?] {
        return None;
    }
    let leaf = element.tuple_index()?;
    // Nothing of the parent is the body's parameter, so this only succeeds for constants and copies
    // of them.
    let initial = *info.initial.get(leaf)?;
    let start = induction_variable::evaluate(module, initial, info.parameter, &[0])?[0];
    Some(Count { leaf, start, limit })
}

/// How a counter counts: the condition is `counter < limit`, and the counter starts at a constant and grows by `step` from its
/// first value on.
struct Steps {
    counter: InstructionId,
    /// Its value in the next trip.
    next: InstructionId,
    start: i64,
    step: i64,
    count: i64,
}

fn count_steps(module: &HloModule, info: &LoopInfo) -> Option<Steps> {
    let Count { leaf, start, limit } = count_limit(module, info)?;
    let counter = (*info.elements.get(leaf)?)?;
    let next = *info.results.get(leaf)?;
    let step =
        induction_variable::evaluate(module, next, counter, &[start])?[0].checked_sub(start)?;
    if step <= 0 {
        return None;
    }
    let count = limit.checked_sub(start)?.max(0).checked_add(step - 1)? / step;
    Some(Steps {
        counter,
        next,
        start,
        step,
        count,
    })
}

/// The counter and its values, where it grows by the same constant in all trips.
fn count_trips(module: &HloModule, info: &LoopInfo) -> Option<(InstructionId, Vec<i64>)> {
    let steps = count_steps(module, info).filter(|steps| steps.count <= MAX_TRIPS)?;
    let trips = (0..steps.count).map(|t| steps.start + t * steps.step);
    let trips: Vec<i64> = trips.collect();
    let nexts = induction_variable::evaluate(module, steps.next, steps.counter, &trips)?;
    let regular = nexts.iter().zip(&trips).all(|(n, t)| *n == t + steps.step);
    regular.then_some((steps.counter, trips))
}

/// The loops of all computations that can run.
pub(crate) fn while_loops(module: &HloModule) -> Vec<InstructionId> {
    let mut found = Vec::new();
    for computation in module.computation_ids() {
        for &id in &module.computation(computation).instructions {
            if module.instruction_data(id).opcode == HloOpcode::While {
                found.push(id);
            }
        }
    }
    found
}
