//! Shardings for the tool that holds several devices against one.

use hlorun::module::Sharding;
use hlorun::module::mesh_groups::iota_devices;
use hlorun::module::sharding::Devices;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Of a leaf: tiles along each dimension of the value, and the devices in the row-major order of the
/// tiles, those that hold the same tile side by side.
type Tiles = (Vec<i64>, Vec<i64>);

/// How `text`, a sharding, lays the leaves of a value on `count` devices; no tiles mean that each holds
/// all of it.
///
/// Raises ValueError for what does not say where the pieces are.
#[pyfunction]
pub fn _tiles(text: &str, count: i64) -> PyResult<Vec<Tiles>> {
    let refused = |what: &str| PyValueError::new_err(format!("sharding {text}: {what}"));
    let sharding = Sharding::read(text.as_bytes()).map_err(|_| refused("not understood"))?;
    let leaf = |sharding: &Sharding| match sharding {
        Sharding::Replicated => Ok((Vec::new(), Vec::new())),
        Sharding::Tiled {
            tile,
            devices,
            subgroups,
        } => {
            let devices = match devices {
                Devices::List(list) => Some(list.clone()),
                Devices::Iota { reshape, transpose } => iota_devices(reshape, transpose, count),
            };
            let devices = devices.ok_or_else(|| refused("names more devices than there are"))?;
            let rank = tile.len().saturating_sub(subgroups.len());
            let tiles: i64 = tile.iter().product();
            if tiles != devices.len() as i64 || devices.iter().any(|&d| d < 0 || d >= count) {
                return Err(refused("its devices do not fit its tiles"));
            }
            Ok((tile[..rank].to_vec(), devices))
        }
        _ => Err(refused("does not say where the pieces are")),
    };
    match &sharding {
        Sharding::Tuple(parts) => parts.iter().map(leaf).collect(),
        other => Ok(vec![leaf(other)?]),
    }
}
