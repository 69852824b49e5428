//! `updated-parts`: slices of an array that are needed after an update of it are copied before, so that the update happens
//! where the array lies: the two elements that a trip swaps, two columns that it rotates.
//!
//! Applies to arrays in memory of the run of which, after the last update or inner loop that changes them, only slices taken
//! before are read, together at most half of the array. These conditions are about cost, not legality: a copy is legal
//! everywhere.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Lowering;
use super::analysis::{Analysis, ClusterId, Role};
use super::update_order::is_slice;
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::cost::loops::UPDATED_PARTS;

/// Name by which it is switched off.
pub const NAME: &str = "updated-parts";

impl Lowering<'_> {
    /// Slices that are to be copied.
    pub(super) fn updated_parts(
        &self,
        analysis: &Analysis,
        root: Option<InstructionId>,
        is_body: bool,
    ) -> FxHashSet<InstructionId> {
        let mut parts = FxHashSet::default();
        let module = self.module;
        // The last update of each array, and the instruction that hands the array to it.
        let mut updates: FxHashMap<InstructionId, [u32; 2]> = FxHashMap::default();
        for (at, &id) in analysis.instructions.iter().enumerate() {
            let instruction = module.instruction(id);
            let at = at as u32;
            let mut changes = |array: InstructionRef<'_>, taker| {
                if is_own(array, is_body) {
                    updates.insert(array.id, [at, taker]);
                }
            };
            for operand in instruction
                .updated_operands()
                .filter_map(|k| instruction.operand(k))
            {
                changes(operand, at);
            }
            if let Some((state, elements)) = changed_state(module, instruction)
                && let Some(&taker) = analysis.position.get(&state)
            {
                elements
                    .into_iter()
                    .for_each(|element| changes(element, taker));
            }
        }
        if updates.is_empty() || self.options.is_off(NAME) {
            return parts;
        }
        let readers = Readers {
            analysis,
            module,
            users: analysis.users(module),
            runs_at: runs_at(analysis),
            root,
        };
        for (whole, [update, taker]) in updates {
            let after = readers.parts_after(whole, update, taker);
            parts.extend(after.into_iter().flatten());
        }
        parts
    }
}

/// The tuple that a loop begins with, and those of its elements that trips change.
fn changed_state<'m>(
    module: &'m HloModule,
    instruction: InstructionRef<'m>,
) -> Option<(InstructionId, Vec<InstructionRef<'m>>)> {
    let state = instruction.operand(0)?;
    if instruction.opcode() != HloOpcode::While || state.opcode() != HloOpcode::Tuple {
        return None;
    }
    let body = module.computation(instruction.computation_attribute(AttrKey::Body)?);
    let next = module.instruction(body.root?);
    let is_handed_on = |k: usize| {
        let next = next.operand(k).filter(|next| next.tuple_index() == Some(k));
        next.and_then(|next| next.operand(0))
            .is_some_and(|whole| whole.opcode() == HloOpcode::Parameter)
    };
    let elements = state.operands().enumerate();
    let changed = elements.filter(|&(k, _)| !is_handed_on(k));
    Some((state.id, changed.map(|(_, element)| element).collect()))
}

/// Whether an update may change an array in place: no constant, view or parameter but the body's.
fn is_own(array: InstructionRef<'_>, is_body: bool) -> bool {
    let mut source = array;
    while source.tuple_index().is_some() {
        match source.operand(0) {
            Some(operand) => source = operand,
            None => return false,
        }
    }
    match source.opcode().class() {
        OpClass::Parameter => is_body,
        OpClass::Constant | OpClass::Movement | OpClass::Iota => false,
        _ => true,
    }
}

/// Where each cluster is computed.
fn runs_at(analysis: &Analysis) -> FxHashMap<ClusterId, u32> {
    let mut at: FxHashMap<ClusterId, u32> = FxHashMap::default();
    let clusters = analysis.clusters.iter().enumerate();
    for (position, cluster) in clusters {
        if let Some(cluster) = cluster {
            let last = at.entry(*cluster).or_default();
            *last = (position as u32).max(*last);
        }
    }
    for (&(user, _), &cluster) in &analysis.sites {
        let last = at.entry(cluster).or_default();
        *last = user.max(*last);
    }
    at
}

/// Who reads what, and when.
struct Readers<'a> {
    analysis: &'a Analysis,
    module: &'a HloModule,
    users: Vec<SmallVec<[(u32, u32); 4]>>,
    runs_at: FxHashMap<ClusterId, u32>,
    root: Option<InstructionId>,
}

impl Readers<'_> {
    /// The slices of `whole` that are read after its last update, at `update`, for which `taker` takes it; `None` where these
    /// are not all that is read then, or much of it.
    fn parts_after(
        &self,
        whole: InstructionId,
        update: u32,
        taker: u32,
    ) -> Option<Vec<InstructionId>> {
        let elements = |id| {
            let shape = self.module.instruction(id).array_shape();
            shape.and_then(|shape| shape.element_count())
        };
        let size = elements(whole)?;
        let mut left = size / UPDATED_PARTS;
        let mut parts = Vec::new();
        let at = *self.analysis.position.get(&whole)?;
        for &(user, k) in &self.users[at as usize] {
            if user == taker || self.last_read(user, k) <= update {
                continue;
            }
            let id = self.analysis.instructions[user as usize];
            let is_view = self.analysis.roles[user as usize] == Role::View;
            left -= elements(id)?;
            if user > update || !is_view || !is_slice(self.module.instruction(id)) || left < 0 {
                return None;
            }
            parts.push(id);
        }
        Some(parts)
    }

    /// When operand `k` of the instruction at `user` is read last; `u32::MAX` where that is not known.
    fn last_read(&self, user: u32, k: u32) -> u32 {
        let mut last = 0;
        let mut open = vec![(user, k)];
        let mut seen = FxHashSet::default();
        while let Some((user, k)) = open.pop() {
            if self.is_view(user) && seen.insert(user) {
                open.extend(&self.users[user as usize]);
            }
            last = last.max(self.read(user, k).unwrap_or(u32::MAX));
        }
        last
    }

    /// Whether the instruction at a position is a view, which its readers read.
    fn is_view(&self, at: u32) -> bool {
        let id = self.analysis.instructions[at as usize];
        self.analysis.roles[at as usize] == Role::View && self.root != Some(id)
    }

    /// When the instruction at `user` reads its operand `k` itself.
    fn read(&self, user: u32, k: u32) -> Option<u32> {
        let at = user as usize;
        let cluster = |cluster: Option<&ClusterId>| self.runs_at.get(cluster?).copied();
        match self.analysis.roles[at] {
            Role::View if self.is_view(user) => Some(user),
            Role::Elementwise | Role::Alias | Role::Reduce => {
                cluster(self.analysis.clusters[at].as_ref())
            }
            Role::Concatenate | Role::Pad | Role::DynamicUpdateSlice => {
                match self.analysis.sites.get(&(user, k)) {
                    Some(site) => cluster(Some(site)),
                    None => Some(user),
                }
            }
            Role::Other => match self
                .module
                .instruction(self.analysis.instructions[at])
                .opcode()
                .class()
            {
                OpClass::Tuple
                | OpClass::Ordering
                | OpClass::AsyncCopy
                | OpClass::Collective
                | OpClass::HostTransfer => None,
                _ => Some(user),
            },
            _ => None,
        }
    }
}
