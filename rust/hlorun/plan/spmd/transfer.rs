//! `send`, `recv` and their `-done` between devices.
//!
//! In: an instruction with the pairs of devices in its frontend attributes, as XLA writes them for
//! pipelines. Out: who sends to whom over which channel. A channel is a queue for each pair: what is
//! sent first is received first. A `recv-done` waits; nothing else does. A device no pair sends to
//! receives zeros, as it does where the sender does not run.

use super::collective::{CollectiveKind, CollectiveThunk, mode};
use super::groups::Bounds;
use super::groups::{Devices, GroupMode, Groups};
use super::permute_slices::nested_ints;
use crate::error::Result;
use crate::module::metadata::read_map;
use crate::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::view::ArrayView;

/// Tells the queues of channels from those of collectives.
pub const CHANNELS: u32 = 1 << 31;

/// The attribute that holds the pairs.
const PAIRS: &str = "_xla_send_recv_source_target_pairs";
/// The attribute that holds, for every pair, in which executions it sends.
const VALIDATION: &str = "_xla_send_recv_validation";

/// Who sends to whom.
struct Pairs {
    list: Vec<(i64, i64)>,
    /// Of each pair, where they are given.
    bounds: Option<Vec<Bounds>>,
    /// The text says that nothing is ever sent.
    is_invalid: bool,
}

/// Whether an opcode is one of these.
pub fn is_transfer(opcode: HloOpcode) -> bool {
    use HloOpcode as H;
    matches!(opcode, H::Send | H::SendDone | H::Recv | H::RecvDone)
}

/// `{{0,1},{1,2}}`.
fn pair_list(text: &str) -> Option<Vec<(i64, i64)>> {
    nested_ints(text.as_bytes())?
        .into_iter()
        .map(|pair| match pair[..] {
            [source, target] => Some((source, target)),
            _ => None,
        })
        .collect()
}

fn channel(instruction: InstructionRef<'_>) -> i64 {
    instruction.int(AttrKey::ChannelId).unwrap_or(0)
}

/// The pairs of a transfer: its own, or those of another on its channel, which a `recv-done` whose
/// `recv` is outside its loop may have to ask.
fn pairs(module: &HloModule, instruction: InstructionRef<'_>) -> Result<Pairs> {
    let own = attribute(instruction, PAIRS).map(|pairs| (pairs, instruction));
    let found = own.or_else(|| {
        let mut all = module
            .computation_ids()
            .flat_map(|computation| module.computation(computation).instructions.iter())
            .map(|&id| module.instruction(id));
        all.find_map(|other| {
            let is_partner = is_transfer(other.opcode()) && channel(other) == channel(instruction);
            let pairs = is_partner.then(|| attribute(other, PAIRS)).flatten()?;
            Some((pairs, other))
        })
    });
    let Some((text, holder)) = found else {
        return Err(unsupported(
            instruction,
            format!(
                "{} without {PAIRS} in its frontend_attributes: only transfers between devices \
                 that are named there are supported",
                instruction.opcode_name()
            ),
        ));
    };
    let unreadable = |what: &str| unsupported(instruction, format!("its {what} cannot be read"));
    let list = pair_list(&text).ok_or_else(|| unreadable(PAIRS))?;
    let validation = attribute(holder, VALIDATION);
    let is_invalid = validation.as_deref() == Some("invalid");
    let bounds = match validation {
        Some(text) if !is_invalid => {
            let bounds = pair_list(&text).ok_or_else(|| unreadable(VALIDATION))?;
            if bounds.len() != list.len() {
                return Err(unsupported(
                    instruction,
                    format!(
                        "its {VALIDATION} has {} bounds for {} pairs",
                        bounds.len(),
                        list.len()
                    ),
                ));
            }
            Some(bounds)
        }
        _ => None,
    };
    Ok(Pairs {
        list,
        bounds,
        is_invalid,
    })
}

fn attribute(instruction: InstructionRef<'_>, name: &str) -> Option<String> {
    let Some(AttrValue::Raw(text)) = instruction.attribute(AttrKey::FrontendAttributes) else {
        return None;
    };
    read_map(instruction.module.text().bytes(*text))
        .into_iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

/// Refuses what goes to or comes from the host.
pub fn check(instruction: InstructionRef<'_>) -> Result<()> {
    let name = instruction.opcode_name();
    if !is_transfer(instruction.opcode()) {
        return Err(unsupported(instruction, format!("{name} is not supported")));
    }
    if instruction.bool(AttrKey::IsHostTransfer) == Some(true) {
        return Err(unsupported(
            instruction,
            format!(
                "{name} with is_host_transfer=true is not supported: there is no host that takes part"
            ),
        ));
    }
    Ok(())
}

/// Plans a `send` of `inputs`, or a `recv-done` into `outputs`.
///
/// Errors: `HloError::Unsupported` naming the instruction, for pairs that cannot be.
pub fn plan(
    module: &HloModule,
    instruction: InstructionRef<'_>,
    devices: Devices,
    inputs: Vec<ArrayView>,
    outputs: Vec<ArrayView>,
) -> Result<CollectiveThunk> {
    let refuse = |what: String| unsupported(instruction, what);
    let pairs = pairs(module, instruction)?;
    let key = u32::try_from(channel(instruction).max(0))
        .ok()
        .filter(|&key| key < CHANNELS)
        .ok_or_else(|| refuse("its channel_id is too large".into()))?
        | CHANNELS;
    // Where there is one partition, ids above 0 can only mean replicas.
    let mode = match devices.partitions {
        1 => GroupMode::FlattenedId,
        _ => mode(instruction),
    };
    let (_, sources) = Groups::of_pairs(&pairs.list, mode, devices).map_err(refuse)?;
    let connected = sources.iter().flatten().count();
    let absent = pairs.list.len().saturating_sub(connected);
    let sources = match pairs.is_invalid {
        true => vec![None; sources.len()],
        false => sources,
    };
    let kind = if instruction.opcode() == HloOpcode::Send {
        let mut targets = vec![Vec::new(); sources.len()];
        for (target, source) in (0..).zip(&sources) {
            if let Some(source) = *source {
                let bounds = pairs.bounds.as_ref().and_then(|bounds| {
                    let of = |device: u32| id_of(device, mode, devices);
                    let pair = (of(source), of(target));
                    let at = pairs.list.iter().position(|&listed| listed == pair)?;
                    bounds.get(at).copied()
                });
                targets[source as usize].push((target, bounds));
            }
        }
        CollectiveKind::Send {
            targets,
            instruction: instruction.id,
        }
    } else {
        CollectiveKind::Receive { sources, absent }
    };
    Ok(CollectiveThunk {
        kind,
        name: instruction.name().into(),
        opcode: instruction.opcode(),
        key,
        devices,
        groups: Groups::alone(devices),
        combiners: Vec::new(),
        inputs,
        outputs,
        is_started: false,
    })
}

/// How the pairs call a device.
fn id_of(device: u32, mode: GroupMode, devices: Devices) -> i64 {
    i64::from(match mode {
        GroupMode::CrossReplica | GroupMode::CrossReplicaAndPartition => devices.replica(device),
        GroupMode::CrossPartition => devices.partition(device),
        GroupMode::FlattenedId => device,
    })
}
