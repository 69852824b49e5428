//! The modules in a profile: `XSpace`, which profilers write as `.xplane.pb`.
//!
//! Only the fields on the way to the modules are looked at: planes, metadata of their events, and
//! the statistics in it, of which some are the bytes of an `HloProto`.

use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

use super::sniff::{kind_of, length_delimited};
use crate::module::Source;

/// The protos of the modules that the profile in `source` holds, each once and in the order of the
/// file; `None` when it is no profile.
pub fn profile_modules(source: &Source) -> Option<Vec<Source>> {
    let mut modules: Vec<&[u8]> = Vec::new();
    let mut is_profile = false;
    for (number, plane) in Fields(source) {
        // Planes, errors, warnings and host names.
        let plane = plane.filter(|_| matches!(number, 1..=4))?;
        if number != 1 {
            continue;
        }
        let name = field(plane, 2)?;
        is_profile |= name.starts_with(b"/") || name == b"Task Environment";
        for event in Fields(plane).filter_map(|(number, event)| event.filter(|_| number == 4)) {
            let Some(metadata) = field(event, 2) else {
                continue;
            };
            let statistics = Fields(metadata).filter_map(|(n, bytes)| bytes.filter(|_| n == 5));
            let protos = statistics.filter_map(|statistic| field(statistic, 6));
            modules.extend(protos.filter(|proto| kind_of(proto).is_some()));
        }
    }
    let mut seen = foldhash::HashSet::default();
    modules.retain(|proto| seen.insert(*proto));
    let owned = modules.iter().map(|proto| Source::from(proto.to_vec()));
    is_profile.then(|| owned.collect())
}

/// The first length-delimited field called `number`.
fn field(message: &[u8], number: u32) -> Option<&[u8]> {
    Fields(message).find_map(|(at, bytes)| bytes.filter(|_| at == number))
}

/// Fields of a message: their numbers, and the bytes of those that are length-delimited. Broken bytes
/// end it with field 0.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = read_field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.unwrap_or((0, None)))
    }
}

fn read_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let (number, wire_type) = decode_key(bytes).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, number, bytes, DecodeContext::default()).ok()?;
        return Some((number, None));
    }
    Some((number, Some(length_delimited(bytes)?)))
}
