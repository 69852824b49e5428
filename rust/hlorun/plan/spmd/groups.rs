//! Who meets whom in a collective: the groups of the text, as lists of running devices.
//!
//! In: `replica_groups`, how its ids are read, and how many replicas and partitions run. Out:
//! [`Groups`] over device numbers, `replica * partitions + partition`. Ids of devices that do not
//! run are left out, so that a program for eight replicas runs as one.

use crate::module::attributes::ReplicaGroups;
use crate::module::mesh_groups::{iota_devices, product_within};

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

/// The devices of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Devices {
    /// Replicas.
    pub replicas: u32,
    /// Partitions of each.
    pub partitions: u32,
}

/// Most devices that may run together.
pub const MAX_DEVICES: u32 = 1 << 14;
/// Most ids groups may name.
pub const MAX_IDS: i64 = 1 << 24;

impl std::fmt::Display for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.replicas, self.partitions) {
            (1, 1) => write!(f, "one device"),
            (replicas, 1) => write!(f, "{replicas} replicas"),
            (1, partitions) => write!(f, "{partitions} partitions"),
            (replicas, partitions) => {
                write!(f, "{replicas} replicas of {partitions} partitions each")
            }
        }
    }
}

impl Devices {
    /// How many there are.
    pub fn count(self) -> u32 {
        self.replicas.saturating_mul(self.partitions)
    }

    /// Number of the replica a device belongs to.
    pub fn replica(self, device: u32) -> u32 {
        device / self.partitions.max(1)
    }

    /// Number of a device among the partitions of its replica.
    pub fn partition(self, device: u32) -> u32 {
        device % self.partitions.max(1)
    }

    /// How messages call a device.
    pub fn name(self, device: u32) -> String {
        if self.partitions > 1 {
            format!(
                "replica {} partition {}",
                self.replica(device),
                self.partition(device)
            )
        } else {
            format!("replica {device}")
        }
    }

    /// Ids a mode knows: each is below this.
    fn ids(self, mode: GroupMode) -> u32 {
        match mode {
            GroupMode::CrossReplica | GroupMode::CrossReplicaAndPartition => self.replicas,
            GroupMode::CrossPartition => self.partitions,
            GroupMode::FlattenedId => self.count(),
        }
    }

    /// A group of ids as groups of devices.
    fn expand(self, ids: &[u32], mode: GroupMode) -> Vec<Vec<u32>> {
        let at = |replica: u32, partition: u32| replica * self.partitions + partition;
        match mode {
            GroupMode::CrossReplica => (0..self.partitions)
                .map(|partition| ids.iter().map(|&id| at(id, partition)).collect())
                .collect(),
            GroupMode::CrossPartition => (0..self.replicas)
                .map(|replica| ids.iter().map(|&id| at(replica, id)).collect())
                .collect(),
            GroupMode::CrossReplicaAndPartition => vec![
                ids.iter()
                    .flat_map(|&id| (0..self.partitions).map(move |partition| at(id, partition)))
                    .collect(),
            ],
            GroupMode::FlattenedId => vec![ids.to_vec()],
        }
    }
}

/// Groups of devices that run; no device is in two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups {
    /// Devices of each group, in the order in which they count.
    pub members: Vec<Box<[u32]>>,
    /// The group and place of each device, where it is in one.
    pub place: Vec<Option<(u32, u32)>>,
}

impl Groups {
    fn new(members: Vec<Vec<u32>>, devices: Devices) -> Result<Groups, String> {
        let mut place = vec![None; devices.count() as usize];
        let mut kept = Vec::new();
        for group in members {
            if group.is_empty() {
                continue;
            }
            for (rank, &device) in group.iter().enumerate() {
                let slot = &mut place[device as usize];
                if slot.is_some() {
                    return Err(format!("{} is in two groups", devices.name(device)));
                }
                *slot = Some((kept.len() as u32, rank as u32));
            }
            kept.push(group.into_boxed_slice());
        }
        Ok(Groups {
            members: kept,
            place,
        })
    }

    /// Every device for itself.
    pub fn alone(devices: Devices) -> Groups {
        let all = 0..devices.count();
        Groups {
            members: all.clone().map(|device| Box::from([device])).collect(),
            place: all.map(|device| Some((device, 0))).collect(),
        }
    }

    /// The groups `text` names; no groups mean one of everybody.
    ///
    /// Errors: what about the groups cannot be.
    pub fn of(
        text: Option<&ReplicaGroups>,
        mode: GroupMode,
        devices: Devices,
    ) -> Result<Groups, String> {
        let limit = devices.ids(mode);
        let known = |id: i64| u32::try_from(id).ok().filter(|&id| id < limit);
        let mut lists: Vec<Vec<u32>> = match text {
            None => Vec::new(),
            Some(ReplicaGroups::List(lists)) => lists
                .iter()
                .filter(|list| !list.is_empty())
                .map(|list| list.iter().filter_map(|&id| known(id)).collect())
                .collect(),
            Some(ReplicaGroups::Iota {
                tile,
                reshape,
                transpose,
            }) => iota(tile, reshape, transpose, &known)?,
            Some(ReplicaGroups::Mesh(_)) => {
                return Err("its replica groups are mesh axes that were not spelled out".into());
            }
        };
        if lists.is_empty() {
            lists.push((0..limit).collect());
        }
        let all = lists
            .iter()
            .flat_map(|ids| devices.expand(ids, mode))
            .collect();
        Groups::new(all, devices)
    }

    /// The senders of `source_target_pairs`, one slot for each device, and who waits for whom:
    /// devices that pairs connect.
    pub fn of_pairs(
        pairs: &[(i64, i64)],
        mode: GroupMode,
        devices: Devices,
    ) -> Result<(Groups, Vec<Option<u32>>), String> {
        let limit = devices.ids(mode);
        let mut sources = vec![None; devices.count() as usize];
        let mut leader: Vec<u32> = (0..devices.count()).collect();
        let find = |leader: &mut Vec<u32>, mut at: u32| {
            while leader[at as usize] != at {
                leader[at as usize] = leader[leader[at as usize] as usize];
                at = leader[at as usize];
            }
            at
        };
        for &(source, target) in pairs {
            let (Ok(source), Ok(target)) = (u32::try_from(source), u32::try_from(target)) else {
                return Err("its pairs name a negative device".into());
            };
            if source >= limit || target >= limit {
                continue;
            }
            for pair in devices.expand(&[source, target], mode) {
                let [source, target] = pair[..] else {
                    return Err("its pairs name whole replicas".into());
                };
                if sources[target as usize].replace(source).is_some() {
                    return Err(format!("{} receives twice", devices.name(target)));
                }
                let (a, b) = (find(&mut leader, source), find(&mut leader, target));
                leader[a.max(b) as usize] = a.min(b);
            }
        }
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); leader.len()];
        for device in 0..devices.count() {
            let of = find(&mut leader, device);
            members[of as usize].push(device);
        }
        Ok((Groups::new(members, devices)?, sources))
    }
}

/// The groups of `[2,4]<=[4,2]T(1,0)`, cut to the ids `known` passes on.
fn iota(
    tile: &[i64],
    reshape: &[i64],
    transpose: &[i64],
    known: &dyn Fn(i64) -> Option<u32>,
) -> Result<Vec<Vec<u32>>, String> {
    let (Some(total), Some(places)) = (
        product_within(reshape, MAX_IDS),
        product_within(tile, MAX_IDS),
    ) else {
        return Err(format!(
            "its replica groups name more than {MAX_IDS} devices"
        ));
    };
    if total != places || tile.is_empty() {
        return Err("its replica groups have other sizes than their devices".into());
    }
    let Some(ids) = iota_devices(reshape, transpose, MAX_IDS) else {
        return Err("the transpose of its replica groups is no permutation".into());
    };
    let groups = ids.chunks((total / tile[0]) as usize);
    Ok(groups
        .map(|group| group.iter().filter_map(|&id| known(id)).collect())
        .collect())
}

/// First and last execution in which a pair sends.
pub type Bounds = (i64, i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(mode: GroupMode, text: Option<&ReplicaGroups>, n: (u32, u32)) -> Vec<Vec<u32>> {
        let devices = Devices {
            replicas: n.0,
            partitions: n.1,
        };
        let found = Groups::of(text, mode, devices).unwrap();
        found.members.iter().map(|m| m.to_vec()).collect()
    }

    #[test]
    fn modes_read_ids_differently() {
        use GroupMode as M;
        let text = ReplicaGroups::List(vec![vec![1, 0]]);
        let cases: [(M, &[&[u32]]); 4] = [
            (M::CrossReplica, &[&[2, 0], &[3, 1]]),
            (M::CrossPartition, &[&[1, 0], &[3, 2]]),
            (M::CrossReplicaAndPartition, &[&[2, 3, 0, 1]]),
            (M::FlattenedId, &[&[1, 0]]),
        ];
        for (mode, want) in cases {
            assert_eq!(groups(mode, Some(&text), (2, 2)), want, "{mode:?}");
        }
        assert_eq!(groups(M::CrossPartition, None, (2, 2)), [[0, 1], [2, 3]]);
        assert_eq!(groups(M::FlattenedId, None, (2, 2)), [[0, 1, 2, 3]]);
    }

    #[test]
    fn iotas_transpose() {
        let text = ReplicaGroups::Iota {
            tile: vec![2, 4],
            reshape: vec![4, 2],
            transpose: vec![1, 0],
        };
        let mode = GroupMode::CrossReplica;
        assert_eq!(
            groups(mode, Some(&text), (8, 1)),
            [[0, 2, 4, 6], [1, 3, 5, 7]]
        );
        assert_eq!(groups(mode, Some(&text), (1, 1)), [[0]]);
    }

    #[test]
    fn pairs_connect() {
        let devices = Devices {
            replicas: 5,
            partitions: 1,
        };
        let (groups, sources) =
            Groups::of_pairs(&[(0, 1), (1, 3), (9, 0)], GroupMode::CrossReplica, devices).unwrap();
        assert_eq!(sources, [None, Some(0), None, Some(1), None]);
        let members: Vec<_> = groups.members.iter().map(|m| m.to_vec()).collect();
        assert_eq!(members, [vec![0, 1, 3], vec![2], vec![4]]);
        let twice = Groups::of_pairs(&[(0, 1), (2, 1)], GroupMode::CrossReplica, devices);
        assert!(twice.is_err());
    }
}
