//! `executable.explain()`: the plan in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use hlorun::plan::Executable;
use hlorun::plan::assign::AllocationKind;
use hlorun::plan::thunk::{Thunk, ThunkKind};

/// The name of a kind of step.
pub fn kind(thunk: &Thunk) -> &'static str {
    match &thunk.kind {
        ThunkKind::Copy(_) => "copy",
        ThunkKind::Loop(_) => "fused loop",
        ThunkKind::Reduce(_) => "fused reduction",
        ThunkKind::Gemm(_) => "matrix product",
        ThunkKind::PackPanels(_) => "matrix packing",
        ThunkKind::Op(_) => "operation",
        ThunkKind::While(_) => "while",
        ThunkKind::Conditional(_) => "conditional",
        ThunkKind::DeviceId(_) => "device id",
        ThunkKind::CollectiveStart(_) => "collective start",
        ThunkKind::Collective(_) => "collective",
        ThunkKind::Observe(_) => "observation",
        ThunkKind::Nop => "elided copy",
    }
}

fn bytes(count: usize) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// Steps by kind, memory by kind, and what collectives span.
pub fn explain(executable: &Executable) -> String {
    let module = executable.module();
    let mut steps: BTreeMap<&str, usize> = BTreeMap::new();
    let mut collectives: BTreeMap<String, usize> = BTreeMap::new();
    let mut pending: Vec<&[Thunk]> = vec![executable.thunks()];
    while let Some(thunks) = pending.pop() {
        for thunk in thunks {
            *steps.entry(kind(thunk)).or_default() += 1;
            match &thunk.kind {
                ThunkKind::While(body) => pending.extend([&body.condition[..], &body.body[..]]),
                ThunkKind::Conditional(choice) => {
                    pending.extend(choice.branches.iter().map(|branch| &branch[..]));
                }
                ThunkKind::Collective(_) => {
                    let name = module.instruction(thunk.instruction).opcode_name();
                    *collectives.entry(name.into_owned()).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    let mut out = String::new();
    let total: usize = steps.values().sum();
    let list: Vec<String> = steps
        .iter()
        .map(|(kind, n)| format!("{n} x {kind}"))
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "steps: {total}: {}", list.join(", "));
    let mut sizes = [
        ("temporaries", 0),
        ("arguments", 0),
        ("outputs", 0),
        ("constants", 0),
    ];
    for allocation in &executable.assignment().allocations {
        let row = match allocation.kind {
            AllocationKind::Temp => 0,
            AllocationKind::Parameter(_) => 1,
            AllocationKind::Output(_) => 2,
            AllocationKind::Constant(_) => 3,
        };
        sizes[row].1 += allocation.size;
    }
    let list: Vec<String> = sizes
        .iter()
        .map(|(name, n)| format!("{name} {}", bytes(*n)))
        .collect();
    let _ = writeln!(out, "memory: {}", list.join(", "));
    let options = executable.options();
    let replicas = options.replicas * options.partitions;
    for (name, count) in collectives {
        let devices = match replicas {
            1 => "the 1 replica that runs".into(),
            n => format!("the {n} that run"),
        };
        let _ = writeln!(
            out,
            "collectives: {count} x {name}, spanning {devices} of their groups"
        );
    }
    out
}
