//! Calls that compute nothing: annotations for several devices, for layouts, for debugging.

/// Calls that pass on their operands.
const IDENTITIES: &[&str] = &[
    "Sharding",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
    "annotate_device_placement",
    "PinToDevice",
    "PinToDeviceSram",
    "OptimizationBarrier",
    "ResultAccuracy",
    "SetBound",
    "AssumeGatherIndicesInBound",
];

/// Calls that pass between the whole of an array and the part of one device.
const RESHARDINGS: &[&str] = &["SPMDFullToShardShape", "SPMDShardToFullShape"];

/// Calls without results that only tell or check something.
const SILENT: &[&str] = &["shape_assertion", "inspect_sharding"];

/// Calls whose result may be anything.
const ALLOCATIONS: &[&str] = &["AllocateBuffer", "CreateBuffer"];

/// What an annotation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Annotation {
    /// Results are the operands; some are written without a result.
    Identity,
    /// As [`Annotation::Identity`] where one device holds everything, else the part of a device.
    Resharding,
    /// There is no result.
    Silent,
    /// Memory nobody has written yet.
    Allocation,
}

/// Which annotation `target` is.
pub fn annotation(target: &str) -> Option<Annotation> {
    let is = |list: &[&str]| list.contains(&target);
    // The partitioner's own, whatever they are called this year.
    if is(RESHARDINGS) || target.starts_with("xla.sdy.") {
        Some(Annotation::Resharding)
    } else if is(IDENTITIES) {
        Some(Annotation::Identity)
    } else if is(SILENT) {
        Some(Annotation::Silent)
    } else {
        is(ALLOCATIONS).then_some(Annotation::Allocation)
    }
}
