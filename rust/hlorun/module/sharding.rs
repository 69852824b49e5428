//! `sharding=…`: where the pieces of a value live.

use super::hlo_module::HloModule;
use super::metadata::OpMetadata;
use super::names::TextRef;
use super::scan::{ScanError, Scanner};
use std::ops::Range;

/// A sharding; what it says is read from its text when asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HloSharding {
    /// As written, braces included.
    pub text: TextRef,
}

impl HloSharding {
    /// What it says.
    ///
    /// # Errors
    /// Where the text is no sharding hlorun knows.
    pub fn read(&self, module: &HloModule) -> Result<Sharding, ScanError> {
        Sharding::read(module.text().bytes(self.text))
    }
}

/// What happens along the last dimensions of a tile assignment that are no dimensions of the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum SubgroupType {
    Replicated,
    Manual,
    Maximal,
    Unreduced,
}

/// Which device holds which tile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Devices {
    /// One per tile, row-major.
    List(Vec<i64>),
    /// `<=[dims]T(permutation)`; an empty permutation is the identity.
    Iota {
        /// Dimensions the iota is reshaped to.
        reshape: Vec<i64>,
        /// Permutation applied to it.
        transpose: Vec<i64>,
    },
}

/// A sharding by its meaning.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Sharding {
    /// The whole value on every device.
    Replicated,
    /// The program places the pieces itself.
    Manual,
    /// Not decided.
    Unknown,
    /// Partial results that are still to be added up.
    Unreduced,
    /// The whole value on one device.
    Maximal {
        /// Which.
        device: i64,
    },
    /// `devices=[2,2]…`.
    Tiled {
        /// Number of tiles along each dimension, and of subgroups.
        tile: Vec<i64>,
        /// Where they are.
        devices: Devices,
        /// What the last dimensions of `tile` mean that are no dimensions of the value.
        subgroups: Vec<SubgroupType>,
    },
    /// One per leaf of a tuple.
    Tuple(Vec<Sharding>),
    /// `mesh[a=2,b=4], [{a}, {b}]`: names, as written.
    Mesh(String),
}

impl Sharding {
    /// Reads a sharding, braces included.
    ///
    /// # Errors
    /// Where the text is no sharding.
    pub fn read(text: &[u8]) -> Result<Sharding, ScanError> {
        let mut scan = Scanner::new(text);
        scan.expect(b'{', "'{' of a sharding")?;
        let sharding = if matches!(scan.peek(), b'{' | b'}') {
            let mut parts = Vec::new();
            while scan.eat(b'{') {
                parts.push(read_single(&mut scan, &mut None)?);
                if !scan.eat(b',') {
                    break;
                }
            }
            scan.expect(b'}', "'}' or another sharding")?;
            Sharding::Tuple(parts)
        } else {
            read_single(&mut scan, &mut None)?
        };
        match scan.peek() {
            0 => Ok(sharding),
            _ => Err(scan.error("the end of the sharding")),
        }
    }
}

/// Places of `devices=` and of its value, in the text of a sharding.
type Places = (Range<usize>, Range<usize>);

/// Where `devices=` and its value stand in the text of a sharding without its first brace; other words may stand before
/// them.
pub(crate) fn devices_at(text: &[u8]) -> Option<Places> {
    let mut found = None;
    // Only the places matter: an error behind them is left to those who ask what the sharding says.
    let _ = read_single(&mut Scanner::new(text), &mut found);
    found
}

/// The rest of `{…}`, and where `devices=` stands in it.
fn read_single(scan: &mut Scanner<'_>, places: &mut Option<Places>) -> Result<Sharding, ScanError> {
    let mut kind = None;
    let mut tile = Vec::new();
    let mut devices = None;
    let mut subgroups = Vec::new();
    while !scan.eat(b'}') {
        let start = scan.at;
        match scan.word() {
            b"replicated" => kind = Some(Sharding::Replicated),
            b"manual" => kind = Some(Sharding::Manual),
            b"unknown" => kind = Some(Sharding::Unknown),
            b"unreduced" => kind = Some(Sharding::Unreduced),
            b"maximal" => kind = Some(Sharding::Maximal { device: -1 }),
            b"device" => {
                scan.expect(b'=', "'='")?;
                let device = scan.integer()?;
                devices = Some(Devices::List(vec![device]));
            }
            b"devices" if places.is_some() => {
                scan.at = start;
                return Err(scan.error("one 'devices='"));
            }
            b"devices" => {
                scan.expect(b'=', "'='")?;
                let key = start..scan.at;
                scan.expect(b'[', "'[' of the tiles")?;
                tile = scan.integers()?;
                scan.expect(b']', "']'")?;
                devices = Some(read_devices(scan)?);
                *places = Some((key.clone(), key.end..scan.at));
            }
            b"last_tile_dim_replicate" => subgroups.push(SubgroupType::Replicated),
            b"last_tile_dims" => {
                scan.expect(b'=', "'='")?;
                read_subgroups(scan, &mut subgroups)?;
            }
            b"shard_as" | b"shard_like" => {
                scan.integer()?;
            }
            b"metadata" => {
                scan.expect(b'=', "'='")?;
                OpMetadata::scan_list(scan)?;
            }
            b"mesh" | b"maximal_mesh" => return read_mesh(scan, start),
            _ => {
                scan.at = start;
                return Err(scan.error("a word of a sharding, such as 'replicated' or 'devices='"));
            }
        }
    }
    match (kind, devices) {
        (Some(Sharding::Maximal { .. }), Some(Devices::List(list))) if tile.is_empty() => {
            Ok(Sharding::Maximal { device: list[0] })
        }
        (Some(Sharding::Maximal { .. }), _) => {
            Err(scan.error("the one device of a maximal sharding"))
        }
        (Some(kind), None) => Ok(kind),
        (Some(_), Some(_)) => Err(scan.error("a sharding without devices")),
        (None, Some(devices)) if !tile.is_empty() => Ok(Sharding::Tiled {
            tile,
            devices,
            subgroups,
        }),
        (None, _) => Err(scan.error("the tiles of a sharding")),
    }
}

/// `0,1,2,3`, or `<=[2,2]T(1,0)`.
fn read_devices(scan: &mut Scanner<'_>) -> Result<Devices, ScanError> {
    if !scan.eat(b'<') {
        return Ok(Devices::List(scan.integers()?));
    }
    scan.expect(b'=', "'<='")?;
    scan.expect(b'[', "'['")?;
    let reshape = scan.integers()?;
    scan.expect(b']', "']'")?;
    let mut transpose = Vec::new();
    if scan.eat(b'T') {
        scan.expect(b'(', "'('")?;
        transpose = scan.integers()?;
        if transpose.len() != reshape.len() {
            return Err(scan.error("as many dimensions of the transpose as of the devices"));
        }
        scan.expect(b')', "')'")?;
    }
    Ok(Devices::Iota { reshape, transpose })
}

/// `{replicated, manual}`.
fn read_subgroups(
    scan: &mut Scanner<'_>,
    subgroups: &mut Vec<SubgroupType>,
) -> Result<(), ScanError> {
    scan.expect(b'{', "'{'")?;
    while !scan.eat(b'}') {
        subgroups.push(match scan.word() {
            b"replicated" => SubgroupType::Replicated,
            b"manual" => SubgroupType::Manual,
            b"maximal" => SubgroupType::Maximal,
            b"unreduced" => SubgroupType::Unreduced,
            _ => return Err(scan.error("'replicated', 'manual', 'maximal' or 'unreduced'")),
        });
        scan.eat(b',');
    }
    Ok(())
}

/// The axes as written, and metadata up to the closing brace.
fn read_mesh(scan: &mut Scanner<'_>, start: usize) -> Result<Sharding, ScanError> {
    scan.at = start;
    let text = String::from_utf8_lossy(scan.named_axes()?).into_owned();
    if scan.eat_metadata() {
        OpMetadata::scan_list(scan)?;
    }
    scan.expect(b'}', "'}' of the sharding")?;
    Ok(Sharding::Mesh(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_sharding() {
        let read = |text: &str| Sharding::read(text.as_bytes());
        assert_eq!(read("{replicated}"), Ok(Sharding::Replicated));
        assert_eq!(read("{manual}"), Ok(Sharding::Manual));
        assert_eq!(
            read("{maximal device=3}"),
            Ok(Sharding::Maximal { device: 3 })
        );
        assert_eq!(
            read("{devices=[2,1]0,1}"),
            Ok(Sharding::Tiled {
                tile: vec![2, 1],
                devices: Devices::List(vec![0, 1]),
                subgroups: vec![],
            })
        );
        assert_eq!(
            read("{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dims={manual, replicated}}"),
            Ok(Sharding::Tiled {
                tile: vec![2, 1, 4],
                devices: Devices::Iota {
                    reshape: vec![4, 2],
                    transpose: vec![1, 0],
                },
                subgroups: vec![SubgroupType::Manual, SubgroupType::Replicated],
            })
        );
        assert!(
            matches!(read("{{replicated}, {maximal device=0}}"), Ok(Sharding::Tuple(parts)) if parts.len() == 2)
        );
        assert!(matches!(read("{}"), Ok(Sharding::Tuple(parts)) if parts.is_empty()));
        assert!(matches!(
            read("{mesh[a=2,b=4], [{a}, {b, ?}], replicated={}}"),
            Ok(Sharding::Mesh(_))
        ));
        assert!(read("{replicated device=1}").is_err());
        assert!(read("{sideways}").is_err());
        assert!(read("{devices=[2]0,1").is_err());
        assert!(read("{replicated metadata={op_name=\"}\"}}").is_ok());
        assert!(read("{replicated metadata={op_name=\"a\"{1,0}}}").is_err());
        assert!(read("{replicated metadata={=1}}").is_err());
        assert!(
            read("{mesh['x'=2], [{'x'}], metadata={{op_name=\"\\\"a\\\", metadata=\"}, {}}}")
                .is_ok()
        );
        assert!(read("{mesh['x'=2], [{'x'}], metadata={{op_name=\"a\"{1,0}}}}").is_err());
    }
}
