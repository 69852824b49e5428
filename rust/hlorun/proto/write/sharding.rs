//! Shardings: their text → `OpSharding`.

use prost::Message;
use prost::bytes::Bytes;

use super::Writer;
use crate::error::{HloError, Result};
use crate::module::sharding::{Devices, Sharding, SubgroupType};
use crate::module::words;
use crate::module::words::number_of;
use crate::proto::schema::OpSharding;
use crate::text::printer::braces;

impl Writer<'_> {
    /// The sharding `text` says, braces included.
    pub fn sharding(&self, text: &[u8]) -> Result<OpSharding> {
        let unknown = || {
            let text = String::from_utf8_lossy(text);
            HloError::unsupported(format!("the sharding {text} is not written to protos"), "")
        };
        let inside = braces::inside(text);
        if !matches!(inside.first(), None | Some(b'{')) {
            return self.single_sharding(text).ok_or_else(unknown);
        }
        let mut proto = self.kind("tuple");
        for part in braces::parts(inside, true) {
            let part = self.single_sharding(part).ok_or_else(unknown)?;
            proto
                .tuple_shardings
                .push(Bytes::from(part.encode_to_vec()));
        }
        Ok(proto)
    }

    fn kind(&self, word: &str) -> OpSharding {
        OpSharding {
            r#type: number_of(words::SHARDING, word.as_bytes()).unwrap_or(0),
            ..OpSharding::default()
        }
    }

    fn single_sharding(&self, text: &[u8]) -> Option<OpSharding> {
        let mut proto = match Sharding::read(text).ok()? {
            Sharding::Replicated => self.kind("replicated"),
            Sharding::Manual => self.kind("manual"),
            Sharding::Unknown => self.kind("unknown"),
            Sharding::Unreduced => self.kind("unreduced"),
            Sharding::Maximal { device } => OpSharding {
                tile_assignment_dimensions: vec![1],
                tile_assignment_devices: vec![device],
                ..self.kind("maximal")
            },
            Sharding::Tiled {
                tile,
                devices,
                subgroups,
            } => self.tiled(tile, devices, &subgroups),
            Sharding::Tuple(_) | Sharding::Mesh(_) => return None,
        };
        let mut words = braces::parts(braces::inside(text), false).into_iter();
        while let Some(word) = words.next() {
            if let b"shard_as" | b"shard_like" = word {
                let group = std::str::from_utf8(words.next()?).ok()?;
                proto.is_shard_group = true;
                proto.shard_group_id = group.parse().ok()?;
                proto.shard_group_type = i32::from(word == b"shard_like");
            }
            let Some((b"metadata", value)) = braces::key_value(word) else {
                continue;
            };
            let several = braces::inside(value);
            let each = match several.first() {
                Some(b'{') => braces::parts(several, true),
                _ => vec![value],
            };
            for one in each {
                let metadata = self.metadata(one)?.encode_to_vec();
                proto.metadata.push(metadata.into());
            }
        }
        Some(proto)
    }

    fn tiled(&self, tile: Vec<i64>, devices: Devices, subgroups: &[SubgroupType]) -> OpSharding {
        let mut proto = OpSharding {
            tile_assignment_dimensions: tile,
            ..self.kind("devices")
        };
        match devices {
            Devices::List(list) => proto.tile_assignment_devices = list,
            Devices::Iota { reshape, transpose } => {
                let identity = 0..reshape.len() as i32;
                proto.iota_transpose_perm = match transpose.is_empty() {
                    true => identity.collect(),
                    false => transpose.iter().map(|&dim| dim as i32).collect(),
                };
                proto.iota_reshape_dims = reshape;
            }
        }
        if let [SubgroupType::Replicated] = subgroups {
            proto.replicate_on_last_tile_dim = true;
        } else {
            let word = |kind: &SubgroupType| match kind {
                SubgroupType::Replicated => "replicated",
                SubgroupType::Manual => "manual",
                SubgroupType::Maximal => "maximal",
                SubgroupType::Unreduced => "unreduced",
            };
            proto.last_tile_dims = subgroups
                .iter()
                .map(|kind| self.kind(word(kind)).r#type)
                .collect();
        }
        proto
    }
}
