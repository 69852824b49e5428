//! Collectives: what replicas do when they meet.
//!
//! In: a collective instruction. Out: a [`CollectiveThunk`]; `exec::collectives` runs it among the
//! replicas and partitions of one run.

use super::program::Program;
use super::view::ArrayView;
use crate::error::Result;
use crate::module::attributes::ReplicaGroups;
use crate::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionRef};

/// What is done with the participants' data.
#[derive(Clone, Debug)]
pub enum CollectiveKind {
    /// Combined element by element; everybody gets the result.
    AllReduce(Program),
    /// Concatenated along a dimension.
    AllGather {
        /// The dimension.
        dimension: usize,
    },
    /// Combined, then each keeps its piece along a dimension.
    ReduceScatter {
        /// The combination.
        combiner: Program,
        /// The dimension.
        dimension: usize,
    },
    /// Each sends a piece to each: pieces of one operand along a dimension, or one operand each.
    AllToAll {
        /// The dimension that is split, for the one-operand form.
        dimension: Option<usize>,
    },
    /// Along `source_target_pairs`; who receives nothing gets zeros.
    Permute {
        /// Sender and receiver.
        pairs: Box<[(i64, i64)]>,
    },
    /// The first of each group sends to the others.
    Broadcast,
    /// Pieces of run-time sizes.
    RaggedAllToAll,
}

/// How the ids in the groups are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupMode {
    /// Ids are replicas; each partition for itself.
    CrossReplica,
    /// Ids are partitions; each replica for itself.
    CrossPartition,
    /// Ids are replicas; all partitions of the named replicas take part.
    CrossReplicaAndPartition,
    /// Ids are `replica * partitions + partition`.
    FlattenedId,
}

/// A collective with its operands and results.
#[derive(Clone, Debug)]
pub struct CollectiveThunk {
    /// What it does.
    pub kind: CollectiveKind,
    /// Groups as the text has them, expanded; empty for one group of everybody.
    pub groups: Vec<Vec<i64>>,
    /// How ids are read.
    pub mode: GroupMode,
    /// `channel_id`, where there is one.
    pub channel: Option<i64>,
    /// Operands.
    pub inputs: Vec<ArrayView>,
    /// Results; dense.
    pub outputs: Vec<ArrayView>,
}

/// The groups of a collective, as lists of ids.
fn groups(instruction: InstructionRef<'_>) -> Result<Vec<Vec<i64>>> {
    match instruction.attribute(AttrKey::ReplicaGroups) {
        Some(AttrValue::ReplicaGroups(groups)) => expand(groups).ok_or_else(|| {
            super::unsupported(
                instruction,
                "replica groups given as named mesh axes".into(),
            )
        }),
        _ => Ok(Vec::new()),
    }
}

/// Groups as lists; `None` for named meshes.
pub fn expand(groups: &ReplicaGroups) -> Option<Vec<Vec<i64>>> {
    match groups {
        ReplicaGroups::List(list) => Some(list.clone()),
        ReplicaGroups::Iota {
            tile,
            reshape,
            transpose,
        } => {
            let total: i64 = reshape.iter().product();
            let per_group: i64 = tile.iter().skip(1).product();
            if total <= 0 || per_group <= 0 || total > 1 << 24 {
                return None;
            }
            let order: Vec<usize> = if transpose.is_empty() {
                (0..reshape.len()).collect()
            } else {
                transpose.iter().map(|&d| d as usize).collect()
            };
            let mut strides = vec![1i64; reshape.len()];
            for i in (0..reshape.len().saturating_sub(1)).rev() {
                strides[i] = strides[i + 1] * reshape[i + 1];
            }
            let ids: Vec<i64> = (0..total)
                .map(|mut flat| {
                    let mut id = 0;
                    for &dim in order.iter().rev() {
                        id += flat % reshape[dim] * strides[dim];
                        flat /= reshape[dim];
                    }
                    id
                })
                .collect();
            Some(
                ids.chunks(per_group as usize)
                    .map(<[i64]>::to_vec)
                    .collect(),
            )
        }
        ReplicaGroups::Mesh(_) => None,
    }
}

/// Plans a collective; operands and results are filled in by the caller.
pub fn plan(module: &HloModule, instruction: InstructionRef<'_>) -> Result<CollectiveThunk> {
    let combiner = || match instruction.computation_attribute(AttrKey::ToApply) {
        Some(computation) => super::scalar::compile(module, computation),
        None => Err(super::unsupported(instruction, "no to_apply".into())),
    };
    let dimension = instruction.dimensions().first().map(|&d| d as usize);
    let missing = || super::unsupported(instruction, "no dimensions".into());
    let kind = match instruction.opcode() {
        HloOpcode::AllReduce | HloOpcode::AllReduceStart => CollectiveKind::AllReduce(combiner()?),
        HloOpcode::AllGather | HloOpcode::AllGatherStart => CollectiveKind::AllGather {
            dimension: dimension.ok_or_else(missing)?,
        },
        HloOpcode::ReduceScatter => CollectiveKind::ReduceScatter {
            combiner: combiner()?,
            dimension: dimension.ok_or_else(missing)?,
        },
        HloOpcode::AllToAll => CollectiveKind::AllToAll { dimension },
        HloOpcode::CollectivePermute | HloOpcode::CollectivePermuteStart => {
            match instruction.attribute(AttrKey::SourceTargetPairs) {
                Some(AttrValue::Pairs(pairs)) => CollectiveKind::Permute {
                    pairs: pairs.clone(),
                },
                _ => {
                    return Err(super::unsupported(
                        instruction,
                        "no source_target_pairs".into(),
                    ));
                }
            }
        }
        HloOpcode::CollectiveBroadcast => CollectiveKind::Broadcast,
        HloOpcode::RaggedAllToAll => CollectiveKind::RaggedAllToAll,
        _ => {
            return Err(super::unsupported(
                instruction,
                format!("{} is not a collective", instruction.opcode_name()),
            ));
        }
    };
    let channel = instruction.int(AttrKey::ChannelId);
    let global = instruction.bool(AttrKey::UseGlobalDeviceIds) == Some(true);
    let permute = matches!(
        kind,
        CollectiveKind::Permute { .. }
            | CollectiveKind::Broadcast
            | CollectiveKind::AllToAll { .. }
    );
    let mode = match (channel.is_some(), global) {
        (_, true) => GroupMode::FlattenedId,
        (true, false) if permute => GroupMode::CrossPartition,
        (true, false) => GroupMode::CrossReplicaAndPartition,
        (false, false) => GroupMode::CrossReplica,
    };
    Ok(CollectiveThunk {
        kind,
        groups: groups(instruction)?,
        mode,
        channel,
        inputs: Vec::new(),
        outputs: Vec::new(),
    })
}
