//! The modules in a profile: `XSpace`, which profilers write as `.xplane.pb`.
//!
//! Only the fields on the way to the modules are looked at: planes, metadata of their events, and
//! the statistics in it, of which some are the bytes of an `HloProto`.

use super::sniff::kind_of;
use super::wire::{Fields, Value};
use crate::module::Source;

/// The protos of the modules that the profile in `source` holds, each once and in the order of the
/// file; `None` when it is no profile.
pub fn profile_modules(source: &Source) -> Option<Vec<Source>> {
    let mut modules: Vec<&[u8]> = Vec::new();
    let mut is_profile = false;
    for (number, plane) in Fields(source) {
        // Planes, errors, warnings and host names.
        let (1..=4, Value::Bytes(plane)) = (number, plane) else {
            return None;
        };
        if number != 1 {
            continue;
        }
        let name = Fields(plane).bytes(2)?;
        is_profile |= name.starts_with(b"/") || name == b"Task Environment";
        for event in Fields(plane).all_bytes(4) {
            let Some(metadata) = Fields(event).bytes(2) else {
                continue;
            };
            let statistics = Fields(metadata).all_bytes(5);
            let protos = statistics.filter_map(|statistic| Fields(statistic).bytes(6));
            modules.extend(protos.filter(|proto| kind_of(proto).is_some()));
        }
    }
    let mut seen = foldhash::HashSet::default();
    modules.retain(|proto| seen.insert(*proto));
    let owned = modules.iter().map(|proto| Source::from(proto.to_vec()));
    is_profile.then(|| owned.collect())
}
