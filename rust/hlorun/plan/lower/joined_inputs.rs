//! `joined-inputs`: a loop reads the operands of a concatenation where they are, and nobody stores the concatenation. A roll
//! of an array, as stencils with periodic borders have it, is one of two slices.
//!
//! Applies to concatenations of few arrays, none of which is computed by a loop of its own, that are read by one loop of
//! many elements, in the order of their layout; the rows of each array have to be the same distance apart, and so have the
//! elements of a row. A small loop stays as it is: bytecode and machine code read arrays. So does a loop of one such
//! concatenation of parts of state that it writes: it writes it in place only where it reads nothing of it elsewhere.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::analysis::{Analysis, ClusterId, Role};
use super::transposed_inputs::is_across;
use super::{Lowering, Scope, views};
use crate::error::Result;
use crate::module::{HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::cost::joined_inputs::{MAX_PIECES, MIN_ELEMENTS};
use crate::plan::thunk::Piece;
use crate::plan::view::{ArrayView, PRIVATE, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "joined-inputs";

/// What a cluster does that reads concatenations piece by piece.
#[derive(Default)]
struct Reader {
    /// How many it reads.
    joins: usize,
    is_reduction: bool,
    /// Elements of the computation's result that it computes.
    state: SmallVec<[usize; 1]>,
}

impl Analysis {
    /// The cluster of the one loop that reads the concatenation at `at`, if nobody else does and its operands are there
    /// without it. Readers have been analysed.
    pub(super) fn joining(
        &self,
        module: &HloModule,
        at: usize,
        users: &[(u32, u32)],
        is_on: bool,
    ) -> Option<ClusterId> {
        let instruction = module.instruction(self.instructions[at]);
        let count = instruction.array_shape()?.element_count()?;
        let is_stored = |operand: InstructionRef<'_>| {
            let at = self.position.get(&operand.id);
            at.is_some_and(|&at| matches!(self.roles[at as usize], Role::View | Role::Other))
        };
        let is_read_by_loops =
            (users.iter()).all(|&(user, _)| self.roles[user as usize] == Role::Elementwise);
        let is_root = module.computation(instruction.computation()).root == Some(instruction.id);
        let applies = is_on
            && count >= MIN_ELEMENTS
            && !is_root
            && is_read_by_loops
            && (2..=MAX_PIECES).contains(&instruction.operand_ids().len())
            && instruction.operands().all(is_stored);
        let site = applies.then(|| self.common_site(module, at, users));
        let (cluster, order) = site.flatten()?;
        (order == self.orders[at]).then_some(cluster)
    }

    /// Lets those of the concatenations `joined`, with the clusters that read them, be stored that a reduction reads, or that
    /// are the only one of a loop which computes the state of which they have parts: the loop can then write the state in
    /// place, and would have to be copied to it otherwise.
    pub(super) fn store_others(
        &mut self,
        module: &HloModule,
        root: Option<InstructionId>,
        joined: &[(usize, ClusterId)],
    ) {
        if joined.is_empty() {
            return;
        }
        let mut readers: FxHashMap<ClusterId, Reader> = FxHashMap::default();
        for &(_, cluster) in joined {
            readers.entry(cluster).or_default().joins += 1;
        }
        for (role, cluster) in self.roles.iter().zip(&self.clusters) {
            if let Some(reader) = cluster.and_then(|cluster| readers.get_mut(&cluster)) {
                reader.is_reduction |= *role == Role::Reduce;
            }
        }
        let results = root.map(|root| module.operand_ids(root));
        for (k, id) in results.unwrap_or_default().iter().enumerate() {
            let cluster = self.position.get(id).map(|&at| self.clusters[at as usize]);
            let reader = cluster.flatten().and_then(|own| readers.get_mut(&own));
            reader.into_iter().for_each(|reader| reader.state.push(k));
        }
        for &(at, cluster) in joined {
            let reader = &readers[&cluster];
            let mut operands = module.operand_ids(self.instructions[at]).iter();
            let has_state = operands.any(|&id| {
                let state = self.state_of(module, id);
                state.is_some_and(|k| reader.state.contains(&k))
            });
            if reader.is_reduction || reader.joins == 1 && has_state {
                self.roles[at] = Role::Concatenate;
            }
        }
    }

    /// Which element of the computation's parameter a view is of.
    fn state_of(&self, module: &HloModule, mut id: InstructionId) -> Option<usize> {
        loop {
            let instruction = module.instruction(id);
            let at = *self.position.get(&id)? as usize;
            match instruction.tuple_index() {
                Some(k) => {
                    let whole = instruction.operand(0)?;
                    return (whole.opcode() == HloOpcode::Parameter).then_some(k);
                }
                None if self.roles[at] == Role::View => id = instruction.operand(0)?.id,
                None => return None,
            }
        }
    }
}

impl<'m> Lowering<'m> {
    /// Whether it is switched on.
    pub(super) fn joins_inputs(&self) -> bool {
        !self.options.is_off(NAME)
    }

    /// The operands of the concatenation at `at` as pieces of a joined input; `None` where they do not lie so.
    pub(super) fn joined(
        &self,
        scope: &Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<Option<Vec<Piece>>> {
        let [dim] = *instruction.dimensions() else {
            return Ok(None);
        };
        let order = &scope.analysis.orders[at];
        let Some(place) = order.iter().position(|&d| i64::from(d) == dim) else {
            return Ok(None);
        };
        let dims = &views::array_shape(instruction)?.dims;
        let rows = order[..place].iter().map(|&d| dims[usize::from(d)]);
        let rows = rows.product::<i64>() as usize;
        let mut pieces = Vec::new();
        for k in 0..instruction.operand_ids().len() {
            let view = self.array_operand(scope, instruction, k)?;
            let Some(piece) = piece(view, (&order[..place], &order[place..]), rows) else {
                return Ok(None);
            };
            pieces.push(piece);
        }
        Ok(Some(pieces))
    }
}

/// An operand as a piece, whose rows go along the dimensions `outer`, and elements of a row along `inner`.
fn piece(view: ArrayView, (outer, inner): (&[u8], &[u8]), rows: usize) -> Option<Piece> {
    let is_fixed = view.dynamic.is_empty() && view.slice.allocation < PRIVATE;
    if !is_fixed || view.count() == 0 {
        return None;
    }
    let step = |order: &[u8]| match *view.walk(order).as_slice() {
        [] => Some((1, 1)),
        [(size, step)] => Some((size as usize, step)),
        _ => None,
    };
    let (row_step, row) = (step(outer)?.1, step(inner)?);
    let walk = Walk::from_slice(&[(rows as i64, row_step), (row.0 as i64, row.1)]);
    if is_across(&walk, view.element_type.size_bytes()) {
        return None;
    }
    Some(Piece {
        view,
        rows: (rows, row_step),
        row,
    })
}
