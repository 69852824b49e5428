//! Collectives: what replicas do when they meet.
//!
//! In: a collective instruction and the devices that will run. Out: a [`CollectiveThunk`] that
//! knows who meets whom; `exec::collectives` runs it among the devices of one run.

use super::groups::{Devices, GroupMode, Groups, MAX_IDS};
use crate::error::Result;
use crate::module::attributes::ReplicaGroups;
use crate::module::mesh_groups::mesh_groups;
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionRef, OpClass,
};
use crate::plan::element::elementwise;
use crate::plan::element::program::{Program, ProgramBuilder};
use crate::plan::view::ArrayView;
use crate::types::PrimitiveType;
use crate::types::strided;

/// What is done with the participants' data.
#[derive(Clone, Debug)]
pub enum CollectiveKind {
    /// Combined element by element; everybody gets the result.
    AllReduce,
    /// Concatenated along a dimension.
    AllGather {
        /// The dimension.
        dimension: usize,
    },
    /// Combined, then each keeps its piece along a dimension.
    ReduceScatter {
        /// The dimension.
        dimension: usize,
    },
    /// Each sends a piece to each: pieces of one operand along a dimension, or one operand each.
    AllToAll {
        /// The dimension that is split, for the one-operand form.
        dimension: Option<usize>,
    },
    /// Along pairs; who receives nothing gets zeros.
    Permute {
        /// From whom each device receives.
        sources: Vec<Option<u32>>,
    },
    /// The first of each group sends to the others.
    Broadcast,
    /// Pieces of run-time sizes.
    RaggedAllToAll,
    /// Slices of operands, along pairs, into slices of the results, which are otherwise other
    /// operands.
    PermuteSlices(Box<super::permute_slices::PermuteSlices>),
    /// Operands of a `send` to the queues of a channel.
    Send {
        /// To whom each device sends, and in which executions.
        targets: Vec<Vec<(u32, Option<super::groups::Bounds>)>>,
        /// The executions of this are counted.
        instruction: crate::module::InstructionId,
    },
    /// Results of a `recv-done` from the queues of a channel.
    Receive {
        /// From whom each device receives.
        sources: Vec<Option<u32>>,
        /// Pairs of devices that do not run.
        absent: usize,
    },
}

/// How values of one operand are combined.
#[derive(Clone, Debug)]
pub struct Combiner {
    /// `(accumulator, value) -> accumulator`.
    pub program: Program,
    /// The type values are combined in.
    pub accumulator: PrimitiveType,
    /// It is a sum.
    pub is_sum: bool,
    /// To the accumulator's type and back, where it is another than the operand's.
    pub conversions: Option<(elementwise::Kernel, elementwise::Kernel)>,
}

/// A collective with its operands and results.
#[derive(Clone, Debug)]
pub struct CollectiveThunk {
    /// What it does.
    pub kind: CollectiveKind,
    /// Name of the instruction, without `%`.
    pub name: Box<str>,
    /// Its opcode.
    pub opcode: HloOpcode,
    /// Tells it from the other collectives of the module.
    pub key: u32,
    /// The devices it was planned for.
    pub devices: Devices,
    /// Who meets whom.
    pub groups: Groups,
    /// For every operand of a reduction.
    pub combiners: Vec<Combiner>,
    /// Operands.
    pub inputs: Vec<ArrayView>,
    /// Results; dense.
    pub outputs: Vec<ArrayView>,
    /// A [`CollectiveStartThunk`] before it has sent what other processes need.
    pub is_started: bool,
}

/// The first half of an asynchronous collective: what goes to other processes leaves here, and
/// travels while the steps up to the second half run.
#[derive(Clone, Debug)]
pub struct CollectiveStartThunk {
    /// The whole; its results are not touched yet.
    pub collective: Box<CollectiveThunk>,
}

/// How XLA reads the ids of an instruction's groups.
pub(crate) fn mode(instruction: InstructionRef<'_>) -> GroupMode {
    use HloOpcode as H;
    // An asynchronous pair may name channel 0 or less for none.
    let has_channel = instruction.int(AttrKey::ChannelId).is_some_and(|id| id > 0);
    let is_global = instruction.bool(AttrKey::UseGlobalDeviceIds) == Some(true);
    let spans_replicas = matches!(
        instruction.opcode(),
        H::AllReduce | H::AllReduceStart | H::AllGather | H::AllGatherStart | H::ReduceScatter
    );
    match (spans_replicas, has_channel) {
        (true, _) if is_global => GroupMode::FlattenedId,
        (true, true) => GroupMode::CrossReplicaAndPartition,
        (false, true) => GroupMode::CrossPartition,
        (_, false) => GroupMode::CrossReplica,
    }
}

/// The two-operand operation a reduction computation consists of, if it is one.
fn operation(module: &HloModule, computation: ComputationId) -> Option<InstructionRef<'_>> {
    let data = module.computation(computation);
    let root = module.instruction(data.root?);
    let is_pair = root.opcode().class() == OpClass::Binary
        && root.operand_ids().len() == 2
        && data.parameters.len() == 2
        && data
            .parameters
            .iter()
            .all(|p| root.operand_ids().contains(p));
    is_pair.then_some(root)
}

/// How values of type `operand` are combined by `computation`.
fn combiner(
    module: &HloModule,
    instruction: InstructionRef<'_>,
    computation: ComputationId,
    operand: PrimitiveType,
) -> Result<Combiner> {
    use PrimitiveType as P;
    let Some(root) = operation(module, computation) else {
        let program = crate::plan::element::scalar::compile(module, computation)?;
        let ty = |registers: &[crate::plan::element::program::Register]| -> Vec<P> {
            registers
                .iter()
                .map(|r| program.types[r.0 as usize])
                .collect()
        };
        if ty(&program.inputs) != [operand, operand] || ty(&program.outputs) != [operand] {
            return Err(crate::plan::error::unsupported(
                instruction,
                format!(
                    "its computation works on other types than its operand of {}",
                    operand.name()
                ),
            ));
        }
        return Ok(Combiner {
            program,
            accumulator: operand,
            is_sum: false,
            conversions: None,
        });
    };
    // Only the operation counts, not the type the computation is written for; a sum of bf16 is
    // rounded once, as XLA does it.
    let accumulator = if operand == P::BF16 { P::F32 } else { operand };
    let mut builder = ProgramBuilder::new();
    let inputs = [builder.input(accumulator), builder.input(accumulator)];
    let kernel = elementwise::kernel(root, &[accumulator, accumulator], accumulator)?;
    let result = builder.step(kernel, &inputs, accumulator);
    let conversions = if accumulator == operand {
        None
    } else {
        Some((
            elementwise::conversion(operand, accumulator)?,
            elementwise::conversion(accumulator, operand)?,
        ))
    };
    Ok(Combiner {
        program: builder.finish(&[result]),
        accumulator,
        is_sum: root.opcode() == HloOpcode::Add,
        conversions,
    })
}

/// Who meets whom, and who sends to whom in a permutation.
fn groups_of(
    module: &HloModule,
    instruction: InstructionRef<'_>,
    devices: Devices,
    is_in_place: bool,
) -> Result<(Groups, Option<Vec<Option<u32>>>)> {
    use HloOpcode as H;
    let refuse = |what: String| crate::plan::error::unsupported(instruction, what);
    let mode = mode(instruction);
    let mut sources = None;
    let groups = if matches!(
        instruction.opcode(),
        H::CollectivePermute | H::CollectivePermuteStart
    ) {
        let Some(AttrValue::Pairs(pairs)) = instruction.attribute(AttrKey::SourceTargetPairs)
        else {
            return Err(refuse("it has no source_target_pairs".into()));
        };
        let pairs = match is_in_place {
            true => super::permute_slices::pairs_once(instruction, pairs),
            false => pairs,
        };
        let (groups, found) = Groups::of_pairs(pairs, mode, devices).map_err(refuse)?;
        sources = Some(found);
        groups
    } else {
        let text = match instruction.attribute(AttrKey::ReplicaGroups) {
            Some(AttrValue::ReplicaGroups(groups)) => Some(&**groups),
            _ => None,
        };
        let spelled_out = match text {
            Some(ReplicaGroups::Mesh(text)) => {
                let groups = mesh_groups(module.text().bytes(*text), MAX_IDS)
                    .ok_or_else(|| refuse("its groups of mesh axes cannot be read".into()))?;
                Some(ReplicaGroups::List(groups))
            }
            _ => None,
        };
        Groups::of(spelled_out.as_ref().or(text), mode, devices).map_err(refuse)?
    };
    Ok((groups, sources))
}

/// What a collective does, unless it permutes slices in place.
fn kind_of(
    instruction: InstructionRef<'_>,
    sources: Option<Vec<Option<u32>>>,
    inputs: &[ArrayView],
) -> Result<CollectiveKind> {
    use HloOpcode as H;
    let refuse = |what: String| crate::plan::error::unsupported(instruction, what);
    let dimension = || match instruction.dimensions() {
        [dim] => usize::try_from(*dim)
            .ok()
            .filter(|&dim| inputs.iter().all(|input| dim < input.dims.len()))
            .ok_or_else(|| refuse("its dimension is none of its operand's".into())),
        _ => Err(refuse("it needs one dimension".into())),
    };
    Ok(match instruction.opcode() {
        H::AllReduce | H::AllReduceStart => CollectiveKind::AllReduce,
        H::AllGather | H::AllGatherStart => CollectiveKind::AllGather {
            dimension: dimension()?,
        },
        H::ReduceScatter => CollectiveKind::ReduceScatter {
            dimension: dimension()?,
        },
        H::AllToAll => CollectiveKind::AllToAll {
            dimension: match instruction.dimensions() {
                [] => None,
                _ => Some(dimension()?),
            },
        },
        H::CollectivePermute | H::CollectivePermuteStart => CollectiveKind::Permute {
            sources: sources.unwrap_or_default(),
        },
        H::CollectiveBroadcast => CollectiveKind::Broadcast,
        H::RaggedAllToAll => CollectiveKind::RaggedAllToAll,
        _ => {
            return Err(refuse(format!(
                "{} is not supported",
                instruction.opcode_name()
            )));
        }
    })
}

/// Plans a collective over `inputs` into `outputs`, both in the order of the instruction.
///
/// Errors: `HloError::Unsupported` naming the instruction, for groups that cannot be.
pub fn plan(
    module: &HloModule,
    instruction: InstructionRef<'_>,
    devices: Devices,
    inputs: Vec<ArrayView>,
    outputs: Vec<ArrayView>,
) -> Result<CollectiveThunk> {
    let refuse = |what: String| crate::plan::error::unsupported(instruction, what);
    let opcode = instruction.opcode();
    let is_in_place = super::permute_slices::is_in_place(instruction);
    let (groups, sources) = groups_of(module, instruction, devices, is_in_place)?;
    let kind = if is_in_place {
        let sources = sources.unwrap_or_default();
        let slices = super::permute_slices::plan(instruction, sources, &inputs, &outputs)?;
        CollectiveKind::PermuteSlices(Box::new(slices))
    } else {
        kind_of(instruction, sources, &inputs)?
    };
    let expected = match kind {
        CollectiveKind::RaggedAllToAll => 6,
        CollectiveKind::PermuteSlices(_) => inputs.len(),
        _ => outputs.len(),
    };
    if inputs.len() != expected {
        return Err(refuse(format!(
            "it has {} operands for {} results",
            inputs.len(),
            outputs.len()
        )));
    }
    let mut combiners = Vec::new();
    if matches!(
        kind,
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter { .. }
    ) {
        let computation = instruction
            .computation_attribute(AttrKey::ToApply)
            .ok_or_else(|| refuse("it has no to_apply".into()))?;
        for input in &inputs {
            combiners.push(combiner(
                module,
                instruction,
                computation,
                input.element_type,
            )?);
        }
    }
    let thunk = CollectiveThunk {
        kind,
        name: instruction.name().into(),
        opcode,
        key: instruction.id.index() as u32,
        devices,
        groups,
        combiners,
        inputs,
        outputs,
        is_started: false,
    };
    thunk.check_shapes().map_err(refuse)?;
    Ok(thunk)
}

/// Whether elements lie at the same places of both arrays' memory.
fn same_places(a: &ArrayView, b: &ArrayView) -> bool {
    strided::same_places(&a.dims, &a.strides, &b.strides)
}

impl CollectiveThunk {
    /// Whether its operands can be sent before there is room for its results: an all-reduce first
    /// puts operands into the order of the results.
    pub fn can_start_early(&self) -> bool {
        !matches!(self.kind, CollectiveKind::AllReduce)
            || self
                .inputs
                .iter()
                .zip(&self.outputs)
                .all(|(a, b)| same_places(a, b))
    }

    /// Whether every device meets only itself, so that its results are its operands, which lie as
    /// results do.
    pub fn is_identity(&self) -> bool {
        let is_same = match self.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather { .. }
            | CollectiveKind::ReduceScatter { .. }
            | CollectiveKind::AllToAll { .. }
            | CollectiveKind::Broadcast => true,
            CollectiveKind::Permute { .. }
            | CollectiveKind::PermuteSlices(_)
            | CollectiveKind::RaggedAllToAll
            | CollectiveKind::Send { .. }
            | CollectiveKind::Receive { .. } => false,
        };
        is_same
            && self.groups.place.iter().all(Option::is_some)
            && self.groups.members.iter().all(|group| group.len() == 1)
            && self
                .inputs
                .iter()
                .zip(&self.outputs)
                .all(|(a, b)| same_places(a, b))
    }

    /// Operands and results, by their buffers, that may be one piece of memory: every element of an
    /// all-reduce is read by everybody before it is written.
    pub fn in_place(&self) -> Vec<(u32, u32)> {
        if !matches!(self.kind, CollectiveKind::AllReduce) {
            return Vec::new();
        }
        let touching = |buffer: u32| {
            let uses = |input: &&ArrayView| {
                input.slice.allocation == buffer
                    || input
                        .dynamic
                        .iter()
                        .any(|index| index.slice.allocation == buffer)
            };
            self.inputs.iter().filter(uses).count()
        };
        let pairs = self.inputs.iter().zip(&self.outputs);
        pairs
            .filter(|(input, output)| {
                same_places(input, output)
                    && input.offset == 0
                    && input.dynamic.is_empty()
                    && input.slice.offset == 0
                    && input.slice.size == output.slice.size
                    && input.slice.size == input.count() * input.element_type.size_bytes()
                    && touching(input.slice.allocation) == 1
            })
            .map(|(input, output)| (input.slice.allocation, output.slice.allocation))
            .collect()
    }

    /// That operands and results have sizes the groups can have.
    fn check_shapes(&self) -> std::result::Result<(), String> {
        let size = self.groups.members.first().map_or(0, |m| m.len()) as i64;
        let is_uniform = self.groups.members.iter().all(|m| m.len() as i64 == size);
        let pairs = || self.inputs.iter().zip(&self.outputs);
        let too_few = |expected: i64| {
            Err(format!(
                "{} makes groups of {expected} devices, but {} of each run together; compile with \
                 replicas=N or partitions=N",
                self.opcode.name(),
                if is_uniform {
                    size.to_string()
                } else {
                    "different numbers".into()
                }
            ))
        };
        match self.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::Permute { .. }
            | CollectiveKind::Broadcast => match pairs().all(|(a, b)| a.dims == b.dims) {
                true => Ok(()),
                false => Err("its results have other sizes than its operands".into()),
            },
            CollectiveKind::AllGather { dimension } => {
                for (input, output) in pairs() {
                    if !is_uniform || input.dims[dimension] * size != output.dims[dimension] {
                        let step = input.dims[dimension].max(1);
                        return too_few(output.dims[dimension] / step);
                    }
                }
                Ok(())
            }
            CollectiveKind::ReduceScatter { dimension } => {
                for (input, output) in pairs() {
                    if !is_uniform || output.dims[dimension] * size != input.dims[dimension] {
                        let step = output.dims[dimension].max(1);
                        return too_few(input.dims[dimension] / step);
                    }
                }
                Ok(())
            }
            CollectiveKind::AllToAll { dimension: None } => {
                if !is_uniform || size != self.inputs.len() as i64 {
                    return too_few(self.inputs.len() as i64);
                }
                Ok(())
            }
            CollectiveKind::AllToAll {
                dimension: Some(dimension),
            } => {
                for (input, output) in pairs() {
                    if !is_uniform || size == 0 || input.dims[dimension] % size != 0 {
                        return Err(format!(
                            "its dimension {dimension} of {} elements does not divide among {size} \
                             devices",
                            input.dims[dimension]
                        ));
                    }
                    if input.dims != output.dims {
                        return Err("its result has other sizes than its operand".into());
                    }
                }
                Ok(())
            }
            CollectiveKind::PermuteSlices(_)
            | CollectiveKind::Send { .. }
            | CollectiveKind::Receive { .. } => Ok(()),
            CollectiveKind::RaggedAllToAll => {
                let count = self.inputs[2].count() as i64;
                if !is_uniform || size == 0 || count % size != 0 {
                    return too_few(count);
                }
                Ok(())
            }
        }
    }
}
