//! Which instructions of a computation run together.
//!
//! In: a flattened computation. Out: for every instruction its [`Role`], and the cluster it is
//! computed in. A cluster is one fused loop: a root that is stored (or reduced), and the elementwise
//! instructions that only it reads, evaluated tile by tile without ever being stored.
//!
//! An instruction joins a cluster only when every reader of it is in that cluster and reads it at
//! the position the loop is at. So joining never computes anything twice and never makes a cycle.

use rustc_hash::{FxHashMap, FxHashSet};

use smallvec::SmallVec;

use super::update_order;
use super::views::Order;
use crate::module::opcode::{elementwise_classes, operation_classes};
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::view::{ArrayView, BufferSlice, identity_order, major_to_minor};
use crate::types::PrimitiveType;

/// How an instruction gets its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Computed element by element.
    Elementwise,
    /// Inside a cluster: another name for its operand's elements.
    Alias,
    /// A view of its operand.
    View,
    /// Counts along a dimension; free wherever it is read.
    Iota,
    /// Reduces its operands.
    Reduce,
    /// A product that is computed by the one sum that reads it.
    Deferred,
    /// A sum of a deferred product, which is the operand of that number, and something else.
    DotPlus(u8),
    /// Stores operands side by side.
    Concatenate,
    /// The same, where one loop may read the operands themselves; see [`super::joined_inputs`].
    Joined,
    /// Stores its operand among padding.
    Pad,
    /// Stores its update into its operand.
    DynamicUpdateSlice,
    /// Anything else.
    Other,
}

/// A fused loop of the computation.
pub type ClusterId = u32;

/// Most instructions of one cluster: what keeps scratch in the first-level cache.
pub(super) const MAX_CLUSTER: u32 = 512;

/// Result of the analysis.
pub struct Analysis {
    /// Instructions in order; positions index the other lists.
    pub instructions: Vec<InstructionId>,
    /// Position of an instruction.
    pub position: FxHashMap<InstructionId, u32>,
    /// Role by position.
    pub roles: Vec<Role>,
    /// Cluster by position, for instructions evaluated inside one; roots included.
    pub clusters: Vec<Option<ClusterId>>,
    /// The order in which the cluster walks the instruction's dimensions.
    pub orders: Vec<Order>,
    /// Whether the instruction is the stored root of its cluster.
    pub is_root: Vec<bool>,
    /// Cluster that stores operand `k` of the instruction at a position.
    pub sites: FxHashMap<(u32, u32), ClusterId>,
}

/// Instructions whose walk is not chosen by their layout.
pub struct Walks<'w> {
    /// Those stored row-major.
    pub row_major: &'w FxHashSet<InstructionId>,
    /// Reductions with an order of their own.
    pub reductions: &'w FxHashMap<InstructionId, Order>,
    /// Whether loops may read the operands of concatenations.
    pub joins: bool,
    /// Whether updates of an array come after what reads it.
    pub updates_last: bool,
}

/// Analyses `computation`.
pub fn analyse(
    module: &HloModule,
    computation: ComputationId,
    fuse: bool,
    walks: &Walks<'_>,
) -> Analysis {
    let data = module.computation(computation);
    let instructions = match walks.updates_last {
        true => update_order::ordered(module, &data.instructions),
        false => data.instructions.clone(),
    };
    let count = instructions.len();
    let positions = instructions.iter().enumerate();
    let position: FxHashMap<InstructionId, u32> =
        positions.map(|(at, &id)| (id, at as u32)).collect();
    let mut analysis = Analysis {
        roles: instructions
            .iter()
            .map(|&id| role(module.instruction(id)))
            .collect(),
        clusters: vec![None; count],
        orders: vec![Order::new(); count],
        is_root: vec![false; count],
        sites: FxHashMap::default(),
        instructions,
        position,
    };
    let users = analysis.users(module);
    if fuse {
        analysis.find_sums_of_products(module, &users, data.root);
    }
    let mut sizes: Vec<u32> = Vec::new();
    let mut joined = Vec::new();
    for at in (0..count).rev() {
        let id = analysis.instructions[at];
        let instruction = module.instruction(id);
        analysis.orders[at] = walked(
            instruction,
            analysis.roles[at],
            walks.row_major.contains(&id),
        );
        let new = sizes.len() as ClusterId;
        match analysis.roles[at] {
            Role::Elementwise | Role::Alias | Role::Iota => {
                let is_computation_root = data.root == Some(id);
                let site = if is_computation_root || !fuse {
                    None
                } else {
                    analysis.common_site(module, at, &users[at])
                };
                analysis.join(at, site, &mut sizes);
            }
            Role::Reduce => {
                if let Some(shape) = instruction.operand(0).and_then(|o| o.array_shape()) {
                    let own = walks.reductions.get(&id).cloned();
                    analysis.orders[at] = own.unwrap_or_else(|| major_to_minor(shape));
                }
                analysis.clusters[at] = Some(new);
                sizes.push(1);
            }
            Role::Concatenate => match analysis.joining(module, at, &users[at], walks.joins) {
                Some(cluster) => {
                    analysis.roles[at] = Role::Joined;
                    joined.push((at, cluster));
                }
                None => {
                    let operands = instruction.operand_ids().len() as u32;
                    analysis.own_sites(at, 0..operands, &mut sizes);
                }
            },
            Role::Pad | Role::DynamicUpdateSlice => {
                let k = u32::from(analysis.roles[at] == Role::DynamicUpdateSlice);
                analysis.own_sites(at, k..k + 1, &mut sizes);
            }
            Role::View | Role::Other | Role::Deferred | Role::DotPlus(_) | Role::Joined => {}
        }
    }
    analysis.store_others(module, data.root, &joined);
    analysis
}

/// The order in which the loop of an instruction walks its result: row-major where it `is_result`, otherwise that of its
/// layout.
fn walked(instruction: InstructionRef<'_>, role: Role, is_result: bool) -> Order {
    let Some(shape) = instruction.array_shape() else {
        return Order::new();
    };
    match role {
        Role::Elementwise | Role::Iota | Role::Concatenate | Role::Pad if is_result => {
            identity_order(shape.rank()).into_iter().collect()
        }
        _ => major_to_minor(shape),
    }
}

impl Analysis {
    /// The readers of each instruction, and the number of the operand.
    pub(super) fn users(&self, module: &HloModule) -> Vec<SmallVec<[(u32, u32); 4]>> {
        let mut users = vec![SmallVec::new(); self.instructions.len()];
        for (at, &id) in self.instructions.iter().enumerate() {
            for (k, operand) in module.operand_ids(id).iter().enumerate() {
                if let Some(&from) = self.position.get(operand) {
                    users[from as usize].push((at as u32, k as u32));
                }
            }
        }
        users
    }

    /// Gives each of the operands `which` of the instruction at `at` a cluster of its own, which stores it.
    fn own_sites(&mut self, at: usize, which: std::ops::Range<u32>, sizes: &mut Vec<u32>) {
        for k in which {
            self.sites.insert((at as u32, k), sizes.len() as ClusterId);
            sizes.push(0);
        }
    }

    /// Makes the instruction at `at` part of the cluster `site`, which holds all its readers, or the root of a
    /// new one; `sizes` are those of all clusters.
    fn join(&mut self, at: usize, site: Option<(ClusterId, Order)>, sizes: &mut Vec<u32>) {
        // Another name for the same elements only where both are walked as they lie.
        let is_alias = self.roles[at] == Role::Alias;
        let site = site.filter(|s| !is_alias || s.1 == self.orders[at]);
        match site {
            Some((cluster, order)) if sizes[cluster as usize] < MAX_CLUSTER => {
                sizes[cluster as usize] += 1;
                self.clusters[at] = Some(cluster);
                self.orders[at] = order;
            }
            _ if is_alias => self.roles[at] = Role::View,
            _ => {
                self.clusters[at] = Some(sizes.len() as ClusterId);
                self.is_root[at] = true;
                sizes.push(1);
            }
        }
    }

    /// Whether `addend` is an array as large as `sum` that nothing else reads, and that is not a view of another one.
    fn is_taken_over(
        &self,
        mut addend: InstructionRef<'_>,
        sum: InstructionRef<'_>,
        users: &[SmallVec<[(u32, u32); 4]>],
    ) -> bool {
        if addend.array_shape().map(|s| &s.dims) != sum.array_shape().map(|s| &s.dims) {
            return false;
        }
        loop {
            let Some(&at) = self.position.get(&addend.id) else {
                return false;
            };
            if users[at as usize].len() != 1 {
                return false;
            }
            match addend.opcode() {
                HloOpcode::Broadcast
                | HloOpcode::Constant
                | HloOpcode::Iota
                | HloOpcode::Parameter
                | HloOpcode::Slice
                | HloOpcode::DynamicSlice
                | HloOpcode::Reverse
                | HloOpcode::Transpose => return false,
                HloOpcode::Bitcast | HloOpcode::Reshape => match addend.operand(0) {
                    Some(operand) => addend = operand,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// Marks sums whose one operand is a product that nobody else reads, and whose other one, too, is read by the sum alone:
    /// the product starts from that instead of zero, where it lies. Anything else would have to be copied first; it is added
    /// to the product's sums instead ([`crate::plan::schedule::product_epilogues`]).
    fn find_sums_of_products(
        &mut self,
        module: &HloModule,
        users: &[SmallVec<[(u32, u32); 4]>],
        root: Option<InstructionId>,
    ) {
        for at in 0..self.instructions.len() {
            let sum = module.instruction(self.instructions[at]);
            if sum.opcode() != HloOpcode::Add {
                continue;
            }
            for k in 0..2u8 {
                let Some(dot) = sum.operand(usize::from(k)) else {
                    continue;
                };
                let Some(&from) = self.position.get(&dot.id) else {
                    continue;
                };
                let is_sum = dot.opcode() == HloOpcode::Dot
                    && self.roles[from as usize] == Role::Other
                    && users[from as usize].len() == 1
                    && root != Some(dot.id)
                    && dot.array_shape().is_some_and(|shape| {
                        matches!(
                            shape.element_type,
                            PrimitiveType::F32
                                | PrimitiveType::F64
                                | PrimitiveType::C64
                                | PrimitiveType::C128
                        )
                    })
                    && dot.array_shape().map(|s| &s.dims) == sum.array_shape().map(|s| &s.dims)
                    && sum
                        .operand(usize::from(1 - k))
                        .is_some_and(|addend| self.is_taken_over(addend, sum, users));
                if is_sum {
                    self.roles[from as usize] = Role::Deferred;
                    self.roles[at] = Role::DotPlus(k);
                    break;
                }
            }
        }
    }

    /// The one cluster that holds every reader of the instruction at `at`, and the order in which
    /// they read it.
    pub(super) fn common_site(
        &self,
        module: &HloModule,
        at: usize,
        users: &[(u32, u32)],
    ) -> Option<(ClusterId, Order)> {
        let mut common: Option<(ClusterId, Order)> = None;
        for &(user, k) in users {
            let site = self.site(module, at, user as usize, k)?;
            match &common {
                None => common = Some(site),
                Some(first) if *first == site => {}
                Some(_) => return None,
            }
        }
        common
    }

    fn site(
        &self,
        module: &HloModule,
        at: usize,
        user: usize,
        k: u32,
    ) -> Option<(ClusterId, Order)> {
        let shape = module.instruction(self.instructions[at]).array_shape()?;
        let reader = module.instruction(self.instructions[user]);
        match self.roles[user] {
            Role::Elementwise => {
                let result = reader.array_shape()?;
                (result.dims == shape.dims)
                    .then(|| (self.clusters[user], self.orders[user].clone()))
                    .and_then(|(cluster, order)| Some((cluster?, order)))
            }
            Role::Alias => {
                let declared = major_to_minor(reader.array_shape()?);
                (self.orders[user] == declared)
                    .then(|| Some((self.clusters[user]?, major_to_minor(shape))))
                    .flatten()
            }
            Role::Reduce => {
                let operands = reader.operand_ids().len() / 2;
                let first = reader.operand(0)?.array_shape()?;
                ((k as usize) < operands && first.dims == shape.dims)
                    .then(|| Some((self.clusters[user]?, self.orders[user].clone())))
                    .flatten()
            }
            Role::Concatenate | Role::Pad | Role::DynamicUpdateSlice => {
                let cluster = *self.sites.get(&(user as u32, k))?;
                (self.roles[user] != Role::Pad || !cuts(reader))
                    .then(|| (cluster, self.orders[user].clone()))
            }
            Role::View
            | Role::Iota
            | Role::Other
            | Role::Deferred
            | Role::DotPlus(_)
            | Role::Joined => None,
        }
    }
}

/// Whether a `pad` drops elements of its operand.
pub fn cuts(pad: InstructionRef<'_>) -> bool {
    match pad.attribute(AttrKey::Padding) {
        Some(AttrValue::Padding(dims)) => dims.iter().any(|d| d.edge_low < 0 || d.edge_high < 0),
        _ => true,
    }
}

fn role(instruction: InstructionRef<'_>) -> Role {
    if instruction.array_shape().is_none() && instruction.opcode() != HloOpcode::Reduce {
        return Role::Other;
    }
    match instruction.opcode().class() {
        elementwise_classes!() => Role::Elementwise,
        OpClass::BitcastConvert => {
            let operand = instruction.operand(0).and_then(|o| o.array_shape());
            let result = instruction.array_shape();
            match (operand, result) {
                (Some(a), Some(b))
                    if a.element_type.size_bytes() == b.element_type.size_bytes()
                        && a.element_type.bit_width() == b.element_type.bit_width()
                        && a.dims == b.dims =>
                {
                    if major_to_minor(a) == major_to_minor(b) {
                        Role::Alias
                    } else {
                        Role::View
                    }
                }
                _ => Role::Other,
            }
        }
        OpClass::Iota => Role::Iota,
        OpClass::Movement => {
            if is_alias(instruction) {
                Role::Alias
            } else {
                Role::View
            }
        }
        OpClass::Reduce => Role::Reduce,
        OpClass::Assemble => match instruction.opcode() {
            HloOpcode::Pad => Role::Pad,
            _ => Role::Concatenate,
        },
        OpClass::DynamicIndex => match instruction.opcode() {
            HloOpcode::DynamicUpdateSlice => Role::DynamicUpdateSlice,
            _ => Role::View,
        },
        operation_classes!()
        | OpClass::Constant
        | OpClass::Parameter
        | OpClass::Tuple
        | OpClass::Random
        | OpClass::ControlFlow
        | OpClass::CustomCall
        | OpClass::Collective
        | OpClass::DeviceId
        | OpClass::Ordering
        | OpClass::AsyncCopy
        | OpClass::HostTransfer
        | OpClass::Unknown => Role::Other,
    }
}

/// Whether element `i` of the result, in the order of its layout, is element `i` of the operand in
/// the order of the operand's.
fn is_alias(instruction: InstructionRef<'_>) -> bool {
    let (Some(operand), Some(result)) = (
        instruction.operand(0).and_then(|o| o.array_shape()),
        instruction.array_shape(),
    ) else {
        return false;
    };
    if operand.element_count() != result.element_count()
        || operand.element_type.size_bytes() != result.element_type.size_bytes()
    {
        return false;
    }
    super::views::movement(
        instruction,
        &ArrayView::of_shape(BufferSlice::NOWHERE, operand),
    )
    .ok()
    .flatten()
    .is_some_and(|view| view.is_dense(&major_to_minor(result)))
}

/// The starts that the second halves among `instructions` belong to.
pub(super) fn starts_with_done(
    module: &HloModule,
    instructions: &[InstructionId],
) -> FxHashSet<InstructionId> {
    instructions
        .iter()
        .filter(|&&id| is_done(module.instruction_data(id).opcode))
        .filter_map(|&id| module.operand_ids(id).first().copied())
        .collect()
}

/// Whether an opcode is the second half of a collective.
pub(super) fn is_done(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::AllReduceDone | HloOpcode::AllGatherDone | HloOpcode::CollectivePermuteDone
    )
}
