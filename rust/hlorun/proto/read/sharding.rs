//! Shardings: `OpSharding` → `{devices=[2,1]<=[2]}`.

use super::Writer;
use crate::error::Result;
use crate::module::words;
use crate::proto::schema::OpSharding;

impl Writer<'_> {
    pub(super) fn sharding(&mut self, sharding: &OpSharding) -> Result<()> {
        if words::SHARDING.get(sharding.r#type as usize) != Some(&"tuple") {
            return self.single_sharding(sharding);
        }
        self.out.push('{');
        for (at, bytes) in sharding.tuple_shardings.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            let part: OpSharding = self.decode(bytes.clone(), "OpSharding")?;
            // Those of nested tuples stand in one list.
            self.single_sharding(&part)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn single_sharding(&mut self, sharding: &OpSharding) -> Result<()> {
        if sharding.named_sharding.is_some() {
            return Err(crate::HloError::unsupported(
                "shardings by named axes are not read from protos; from text they are",
                "",
            ));
        }
        self.out.push('{');
        match words::SHARDING.get(sharding.r#type as usize) {
            Some(&"devices") => self.tiles(sharding)?,
            Some(&"maximal") => {
                let device = sharding.tile_assignment_devices.first();
                self.put(format_args!("maximal device={}", device.unwrap_or(&0)));
            }
            Some(&word) if word != "tuple" => self.out.push_str(word),
            _ => {
                return Err(self.fault(format!(
                    "expected a sharding, found type {}",
                    sharding.r#type
                )));
            }
        }
        if sharding.is_shard_group {
            let word = if sharding.shard_group_type == 0 {
                "shard_as"
            } else {
                "shard_like"
            };
            self.put(format_args!(" {word} {}", sharding.shard_group_id));
        }
        match &sharding.metadata[..] {
            [] => {}
            [one] => self.metadata([&one[..]].into_iter(), " ")?,
            several => {
                self.out.push_str(" metadata={");
                for (at, metadata) in several.iter().enumerate() {
                    let start = self.out.len();
                    self.metadata([&metadata[..]].into_iter(), "")?;
                    let without_key = self.out.split_off(start).replacen("metadata=", "", 1);
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.out.push_str(&without_key);
                }
                self.out.push('}');
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn tiles(&mut self, sharding: &OpSharding) -> Result<()> {
        self.out.push_str("devices=[");
        self.put_list(&sharding.tile_assignment_dimensions);
        self.out.push(']');
        if sharding.iota_reshape_dims.is_empty() {
            self.put_list(&sharding.tile_assignment_devices);
        } else {
            self.out.push_str("<=[");
            self.put_list(&sharding.iota_reshape_dims);
            self.out.push(']');
            let permutation = &sharding.iota_transpose_perm;
            if !permutation.iter().copied().eq(0..permutation.len() as i32) {
                self.out.push_str("T(");
                self.put_list(permutation);
                self.out.push(')');
            }
        }
        if sharding.replicate_on_last_tile_dim {
            self.out.push_str(" last_tile_dim_replicate");
        }
        if !sharding.last_tile_dims.is_empty() {
            self.out.push_str(" last_tile_dims={");
            for (at, &kind) in sharding.last_tile_dims.iter().enumerate() {
                let comma = if at > 0 { ", " } else { "" };
                let Some(word) = words::SHARDING.get(kind as usize) else {
                    return Err(self.fault(format!(
                        "expected the type of a tile dimension, found {kind}"
                    )));
                };
                self.put(format_args!("{comma}{word}"));
            }
            self.out.push('}');
        }
        Ok(())
    }
}
