//! Shardings: `OpSharding` → `{devices=[2,1]<=[2]}`, `{mesh['x'=2], [{'x'}, {}]}`.

use prost::bytes::Bytes;

use super::Writer;
use crate::error::Result;
use crate::module::words;
use crate::proto::schema::{AxisRefProto, MeshAxis, MeshProto, NamedShardingProto, OpSharding};

/// Most axes of a mesh: more than devices can be counted along.
const MAX_AXES: usize = 64;

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
        if let Some(named) = sharding.named_sharding.as_deref() {
            return self.named_sharding(named);
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
        self.sharding_metadata(&sharding.metadata)?;
        self.out.push('}');
        Ok(())
    }

    fn sharding_metadata(&mut self, all: &[Bytes]) -> Result<()> {
        match all {
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
        Ok(())
    }

    /// A mesh: its axes, and its devices where they are in another order than their numbers.
    pub(super) fn mesh(&mut self, mesh: &MeshProto) -> Result<()> {
        if mesh.axes.len() > MAX_AXES {
            let found = mesh.axes.len();
            return Err(self.fault(format!(
                "expected up to {MAX_AXES} axes of a mesh, found {found}"
            )));
        }
        self.out.push_str("mesh[");
        for (at, axis) in mesh.axes.iter().enumerate() {
            let name = self.axis_name(axis)?;
            if mesh.axes[..at].iter().any(|other| other.name == axis.name) {
                return Err(self.fault(format!(
                    "expected axes of different names, found {name:?} twice"
                )));
            }
            let comma = if at > 0 { "," } else { "" };
            self.put(format_args!("{comma}'{name}'={}", axis.size));
        }
        self.out.push(']');
        if let Some(order) = mesh.iota_transform.as_deref() {
            self.out.push_str(", device_ids=([");
            self.put_list(&order.reshape_dims);
            self.out.push_str("]T(");
            self.put_list(&order.transpose_perm);
            self.out.push_str("))");
        } else if !mesh.device_ids.is_empty() {
            self.out.push_str(", device_ids=(");
            self.put_list(&mesh.device_ids);
            self.out.push(')');
        }
        self.check_length()
    }

    /// The name of an axis, which stands between quotes in a text.
    fn axis_name<'a>(&self, axis: &'a MeshAxis) -> Result<&'a str> {
        let name = std::str::from_utf8(&axis.name).ok();
        let is_plain =
            |name: &&str| !name.contains(|c: char| c.is_control() || "'\"\\".contains(c));
        name.filter(is_plain).ok_or_else(|| {
            let found = String::from_utf8_lossy(&axis.name[..axis.name.len().min(64)]).into_owned();
            self.fault(format!(
                "expected the name of an axis, without quotes, found {found:?}"
            ))
        })
    }

    /// Axes of a mesh in braces, and what follows them there.
    pub(super) fn axes(
        &mut self,
        mesh: &MeshProto,
        axes: &[AxisRefProto],
        rest: &str,
    ) -> Result<()> {
        self.out.push('{');
        for (at, axis) in axes.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let index = axis.mesh_axis_index;
            let Some(whole) = usize::try_from(index).ok().and_then(|i| mesh.axes.get(i)) else {
                return Err(self.fault(format!(
                    "expected an axis of the mesh, found number {index}"
                )));
            };
            let name = self.axis_name(whole)?;
            self.put(format_args!("{comma}'{name}'"));
            if let Some(part) = axis.sub_axis_info.as_deref() {
                self.put(format_args!(":({}){}", part.pre_size, part.size));
            }
            // Each may be as long as its name.
            self.check_length()?;
        }
        if !rest.is_empty() && !axes.is_empty() {
            self.out.push_str(", ");
        }
        self.out.push_str(rest);
        self.out.push('}');
        Ok(())
    }

    /// A sharding by names. Its metadata is left out: it says where the sharding was written, not what it is.
    fn named_sharding(&mut self, sharding: &NamedShardingProto) -> Result<()> {
        let mesh = sharding.mesh.as_deref().cloned().unwrap_or_default();
        self.out.push('{');
        self.mesh(&mesh)?;
        self.out.push_str(", [");
        for (at, dimension) in sharding.dim_shardings.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            let open = if dimension.is_closed { "" } else { "?" };
            self.axes(&mesh, &dimension.axes, open)?;
        }
        self.out.push(']');
        let kinds = [
            ("replicated", &sharding.replicated_axes),
            ("unreduced", &sharding.unreduced_axes),
            ("manual", &sharding.manual_axes),
        ];
        for (kind, axes) in kinds.into_iter().filter(|(_, axes)| !axes.is_empty()) {
            self.put(format_args!(", {kind}="));
            self.axes(&mesh, axes, "")?;
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
