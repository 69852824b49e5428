//! `replica_groups` and `source_target_pairs`: who takes part, none twice, nobody missing.

use foldhash::HashSet;

use super::common::*;
use crate::module::attributes::{AttrValue, ReplicaGroups};
use crate::module::mesh_groups::{mesh_groups, product_within};
use crate::module::{AttrKey, InstructionRef};

/// How many devices a group has, where the text says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupSize {
    /// Every group has this many.
    Uniform(i64),
    /// Sizes differ.
    Mixed,
    /// No groups, or groups of named axes: everybody, however many that is.
    Unknown,
}

/// More ids than any machine has; larger products are not enumerated.
const MAX_DEVICES: i64 = 1 << 40;

/// Most devices of a mesh whose groups are spelled out.
const MAX_LISTED: i64 = 1 << 20;

/// Checks the groups. `covering` says that the ids must be exactly 0..n.
pub fn check_groups(i: InstructionRef<'_>, covering: bool) -> Result<GroupSize, String> {
    match i.attribute(AttrKey::ReplicaGroups) {
        None => Ok(GroupSize::Unknown),
        Some(AttrValue::ReplicaGroups(groups)) => match &**groups {
            ReplicaGroups::Mesh(text) => {
                match mesh_groups(i.module.text().bytes(*text), MAX_LISTED) {
                    Some(groups) => check_list(&groups, covering),
                    None => Err(format!(
                        "replica_groups={} are no groups of axes of the mesh",
                        i.module.str(*text)
                    )),
                }
            }
            ReplicaGroups::Iota {
                tile,
                reshape,
                transpose,
            } => check_iota(tile, reshape, transpose),
            ReplicaGroups::List(groups) => check_list(groups, covering),
        },
        Some(_) => Err("attribute replica_groups is not of the form {{0,1},{2,3}}".to_owned()),
    }
}

fn check_iota(tile: &[i64], reshape: &[i64], transpose: &[i64]) -> Result<GroupSize, String> {
    let (Some(total), Some(reshaped)) = (
        product_within(tile, MAX_DEVICES),
        product_within(reshape, MAX_DEVICES),
    ) else {
        return Err(format!(
            "replica_groups [{}]<=[{}] has sizes below 1 or too large",
            list(tile),
            list(reshape)
        ));
    };
    if total != reshaped {
        return Err(format!(
            "replica_groups make {total} places for {reshaped} devices"
        ));
    }
    if !transpose.is_empty() {
        dim_set("the transpose of replica_groups", transpose, reshape.len())?;
        if transpose.len() != reshape.len() {
            return Err(format!(
                "the transpose {} of replica_groups is no permutation of {} dimensions",
                list(transpose),
                reshape.len()
            ));
        }
    }
    match tile {
        [groups, ..] => Ok(GroupSize::Uniform(total / groups)),
        [] => Ok(GroupSize::Unknown),
    }
}

fn check_list(groups: &[Vec<i64>], covering: bool) -> Result<GroupSize, String> {
    let mut seen = HashSet::default();
    for group in groups {
        // `{{}}` is how some texts write one group of everybody.
        if group.is_empty() && groups.len() > 1 {
            return Err("replica_groups has an empty group".to_owned());
        }
        for &id in group {
            if id < 0 {
                return Err(format!("replica_groups names device {id}"));
            }
            if !seen.insert(id) {
                return Err(format!("replica_groups names device {id} twice"));
            }
        }
    }
    let missing = (0..seen.len() as i64).find(|id| !seen.contains(id));
    if let (true, Some(missing)) = (covering, missing) {
        return Err(format!(
            "replica_groups names {} devices, but not device {missing}",
            seen.len()
        ));
    }
    match groups.first().map(Vec::len) {
        None | Some(0) => Ok(GroupSize::Unknown),
        Some(size) if groups.iter().all(|group| group.len() == size) => {
            Ok(GroupSize::Uniform(size as i64))
        }
        Some(_) => Ok(GroupSize::Mixed),
    }
}

/// Checks `source_target_pairs`: no source and no target more than `times`.
pub fn check_pairs(i: InstructionRef<'_>, times: usize) -> Result<(), String> {
    let AttrValue::Pairs(pairs) = need(i, AttrKey::SourceTargetPairs)? else {
        return Err("attribute source_target_pairs is not of the form {{0,1},{1,0}}".to_owned());
    };
    let mut counts = [
        ("source", foldhash::HashMap::default()),
        ("target", foldhash::HashMap::default()),
    ];
    for &(source, target) in pairs.iter() {
        for ((what, counts), id) in counts.iter_mut().zip([source, target]) {
            if id < 0 {
                return Err(format!("source_target_pairs names {what} {id}"));
            }
            let count = counts.entry(id).or_insert(0usize);
            *count += 1;
            if *count > times {
                return Err(format!(
                    "source_target_pairs names {what} {id} more than {}",
                    if times == 1 {
                        "once".to_owned()
                    } else {
                        format!("{times} times")
                    }
                ));
            }
        }
    }
    Ok(())
}
