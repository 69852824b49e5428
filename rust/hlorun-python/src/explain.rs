//! `executable.explain()`: the plan in words.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use hlorun::module::{HloModule, HloOpcode, InstructionId, OpClass};
use hlorun::plan::Executable;
use hlorun::plan::memory::assign::AllocationKind;
use hlorun::plan::ops::OpKind;
use hlorun::plan::spmd::collective::CollectiveKind;
use hlorun::plan::thunk::{Thunk, ThunkKind};

fn bytes(count: usize) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// Collectives that can run, by opcode: those that are nothing for lone devices, too.
fn collectives(module: &HloModule) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut pending: Vec<_> = module
        .entry_computation()
        .map(|(id, _)| id)
        .into_iter()
        .collect();
    while let Some(computation) = pending.pop() {
        if !seen.insert(computation) {
            continue;
        }
        for &id in &module.computation(computation).instructions {
            let instruction = module.instruction(id);
            let opcode = instruction.opcode();
            let is_done = matches!(
                opcode,
                HloOpcode::AllGatherDone
                    | HloOpcode::AllReduceDone
                    | HloOpcode::CollectivePermuteDone
            );
            let is_transfer = matches!(opcode, HloOpcode::Send | HloOpcode::RecvDone);
            if is_transfer || opcode.class() == OpClass::Collective && !is_done {
                let name = instruction.opcode_name().into_owned();
                *found.entry(name).or_default() += 1;
            }
            if matches!(opcode, HloOpcode::While | HloOpcode::Conditional) {
                pending.extend(instruction.called_computations());
            }
        }
    }
    found
}

/// Every step, those inside loops and branches too.
fn all_steps(executable: &Executable) -> Vec<&Thunk> {
    let mut found = Vec::new();
    let mut pending: Vec<&[Thunk]> = vec![executable.thunks()];
    while let Some(thunks) = pending.pop() {
        for thunk in thunks {
            found.push(thunk);
            match &thunk.kind {
                ThunkKind::While(body) => pending.extend([&body.condition[..], &body.body[..]]),
                ThunkKind::Conditional(choice) => {
                    pending.extend(choice.branches.iter().map(|branch| &branch[..]));
                }
                _ => {}
            }
        }
    }
    found
}

/// Calls of targets that are not hlorun's own, as (instruction, target).
pub fn foreign_calls(executable: &Executable) -> Vec<(InstructionId, &str)> {
    all_steps(executable)
        .into_iter()
        .filter_map(|thunk| match &thunk.kind {
            ThunkKind::Op(op) => match &op.kind {
                OpKind::Custom(call) => Some((thunk.instruction, call.info.target.as_str())),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Steps by kind, memory by kind, and what collectives span.
pub fn explain(executable: &Executable) -> String {
    let module = executable.module();
    let mut steps: BTreeMap<&str, usize> = BTreeMap::new();
    let mut operations: BTreeMap<String, usize> = BTreeMap::new();
    let collectives = collectives(module);
    let mut absences = Vec::new();
    for thunk in all_steps(executable) {
        *steps.entry(thunk.kind.name()).or_default() += 1;
        match &thunk.kind {
            ThunkKind::Op(_) => {
                let instruction = module.instruction(thunk.instruction);
                let name = match instruction.custom_call_target() {
                    Some(target) => target,
                    None => instruction.opcode_name(),
                };
                *operations.entry(name.into_owned()).or_default() += 1;
            }
            ThunkKind::Collective(collective) => {
                if let CollectiveKind::Receive { absent, .. } = collective.kind
                    && absent > 0
                {
                    absences.push((&collective.name, absent));
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    let loops = steps.get("while").copied().unwrap_or(0);
    let total: usize = steps.values().sum();
    let list: Vec<String> = steps
        .iter()
        .map(|(kind, n)| format!("{n} x {kind}"))
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "steps: {total}{}: {}",
        if loops == 0 {
            ""
        } else {
            ", those in loops counted once"
        },
        list.join(", ")
    );
    let _ = writeln!(out, "memory: {}", memory(executable));
    let options = executable.options();
    let _ = writeln!(out, "passes: {}", passes(executable));
    let copies = steps.get("copy").copied().unwrap_or(0);
    let left = executable.assignment().copies_left;
    let _ = writeln!(
        out,
        "copies: {copies}, of which {left} between buffers of one form that could not become one"
    );
    let who = match (options.replicas, options.partitions) {
        (1, 1) => "the 1 replica that runs".to_owned(),
        (n, 1) => format!("the {n} replicas that run"),
        (n, m) => format!("the {n} x {m} devices that run (replicas x partitions)"),
    };
    for (name, count) in operations {
        let _ = writeln!(out, "operations: {count} x {name}");
    }
    for (name, count) in collectives {
        let _ = writeln!(out, "collectives: {count} x {name}, spanning {who}");
    }
    absences.sort_unstable();
    for (name, absent) in absences {
        let _ = writeln!(
            out,
            "{name}: {absent} of its pairs name devices that do not run; what they would send is zeros"
        );
    }
    out
}

/// Bytes of allocations by what they are for.
fn memory(executable: &Executable) -> String {
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
    list.join(", ")
}

/// What passes changed.
fn passes(executable: &Executable) -> String {
    let rewrites: Vec<String> = executable
        .passes()
        .iter()
        .filter(|pass| pass.changes > 0)
        .map(|pass| format!("{} (in {} places)", pass.name, pass.changes))
        .collect();
    let off = if executable.options().fuse {
        ""
    } else {
        "; fusion is off"
    };
    let passes = match &rewrites[..] {
        [] => "none changed anything".to_owned(),
        _ => rewrites.join(", "),
    };
    format!("{passes}{off}")
}
