//! Loops over the same rows that compute the same steps become one loop with several results.
//!
//! In: the groups [`super::row_tiling`] made. Out: groups of fewer members. A compiler that fuses by results repeats in every
//! fusion what the results have in common; members of a group have the same rows, so what two of them compute alike can
//! be computed once. Steps are alike when the same kernel reads the same elements; what is computed stays the same to
//! the bit.

use rustc_hash::FxHashMap;

use crate::plan::cost::loop_merging::{MAX_RESULTS, MIN_SHARED};
use crate::plan::element::elementwise::Kernel;
use crate::plan::element::program::{Home, Program, ProgramBuilder, Register, Step, Task};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{
    Load, LoadKind, LoopThunk, RowTiledThunk, Store, Thunk, ThunkKind, ThunkSequence,
};
use crate::types::PrimitiveType;

/// Joins what `thunks` and everything nested in them allow.
///
/// Recursion is bounded by the nesting the lowering allows.
pub fn run(thunks: &mut ThunkSequence) {
    for thunk in thunks {
        for nested in thunk.nested_mut() {
            run(nested);
        }
        let ThunkKind::RowTiled(tiled) = &mut thunk.kind else {
            continue;
        };
        join(tiled);
        if tiled.members.len() == 1 && tiled.privates.is_empty() {
            *thunk = tiled.members.remove(0);
        }
    }
}

fn join(tiled: &mut RowTiledThunk) {
    let mut at = 1;
    while at < tiled.members.len() {
        match (0..at).rev().find_map(|first| joined(tiled, first, at)) {
            Some((first, both)) => {
                tiled.members[first].kind = ThunkKind::Loop(Box::new(both));
                tiled.members.remove(at);
            }
            None => at += 1,
        }
    }
}

/// Members `first` and `second` as one loop in the place of the first, if they may be and it pays.
fn joined(tiled: &RowTiledThunk, first: usize, second: usize) -> Option<(usize, LoopThunk)> {
    let (ThunkKind::Loop(a), ThunkKind::Loop(b)) =
        (&tiled.members[first].kind, &tiled.members[second].kind)
    else {
        return None;
    };
    if a.count != b.count || a.stores.len() + b.stores.len() > MAX_RESULTS {
        return None;
    }
    // The members of a group write what none before them touches; so it is only to be seen that the second reads
    // nothing that the first or one between them writes.
    let reader = &tiled.members[second];
    let mut written = tiled.members[first..second].iter().flat_map(writes);
    let is_independent = !written.any(|allocation| reader.reads(allocation));
    if !faults::holds(Fault::MergesDependentLoops, is_independent) {
        return None;
    }
    merge(a, b).map(|both| (first, both))
}

/// Allocations that a member writes, scratch of the group included.
fn writes(member: &Thunk) -> Vec<u32> {
    let mut written = Vec::new();
    member.each_access(&mut |access| {
        if access.effect.writes() {
            written.push(access.slice.allocation);
        }
    });
    written
}

/// What makes two steps the same: kernel, constant, operands, type of the result.
type Key = (u8, usize, [u8; 16], [Register; 3], PrimitiveType);

fn key(step: &Step, operands: [Register; 3], ty: PrimitiveType) -> Option<Key> {
    let none = [0; 16];
    let (kind, kernel, value) = match step.kernel {
        Kernel::Unary(f) => (0, f as usize, none),
        Kernel::Binary(f) => (1, f as usize, none),
        Kernel::WithScalar(f, value) => (2, f as usize, value),
        Kernel::Ternary(f) => (3, f as usize, none),
        Kernel::Copy(size) => (4, size, none),
        Kernel::ReducePrecision(_) => return None,
    };
    Some((kind, kernel, value, operands, ty))
}

/// Two loops being put together.
#[derive(Default)]
struct Merge {
    builder: ProgramBuilder,
    loads: Vec<Load>,
    stores: Vec<Store>,
    known: FxHashMap<Key, Register>,
    results: Vec<Register>,
    shared: usize,
}

impl Merge {
    fn load(&mut self, load: &Load, ty: PrimitiveType) -> Register {
        for known in &self.loads {
            let is_same = match (&known.kind, &load.kind) {
                (LoadKind::View(a), LoadKind::View(b)) => a == b,
                (LoadKind::Iota, LoadKind::Iota) => self.builder.ty(known.register) == ty,
                _ => false,
            };
            if is_same && known.walk == load.walk {
                return known.register;
            }
        }
        let register = self.builder.input(ty);
        self.loads.push(Load {
            register,
            ..load.clone()
        });
        register
    }

    fn add(&mut self, fused: &LoopThunk) -> Option<()> {
        let program = &fused.program;
        let mut registers: FxHashMap<Register, Register> = FxHashMap::default();
        for load in &fused.loads {
            let ty = program.types[load.register.0 as usize];
            registers.insert(load.register, self.load(load, ty));
        }
        for &(register, index) in &program.values {
            let ty = program.types[register.0 as usize];
            let value = &program.constants[index as usize];
            registers.insert(register, self.builder.constant(ty, value));
        }
        for step in &program.steps {
            let reads = step
                .reads()
                .iter()
                .map(|read| registers.get(read).copied())
                .collect::<Option<Vec<_>>>()?;
            let ty = program.types[step.result.0 as usize];
            let mut operands = [*reads.first()?; 3];
            operands[..reads.len()].copy_from_slice(&reads);
            let key = key(step, operands, ty);
            let register = match key.and_then(|key| self.known.get(&key)) {
                Some(&register) => {
                    self.shared += 1;
                    register
                }
                None => {
                    let register = self
                        .builder
                        .known_step(step.kernel, step.meaning, &reads, ty);
                    self.known.extend(key.map(|key| (key, register)));
                    register
                }
            };
            registers.insert(step.result, register);
        }
        for store in &fused.stores {
            let register = *registers.get(&store.register)?;
            // One register is one place in memory.
            if self.results.contains(&register) {
                return None;
            }
            self.results.push(register);
            self.stores.push(Store {
                register,
                ..store.clone()
            });
        }
        Some(())
    }
}

fn merge(a: &LoopThunk, b: &LoopThunk) -> Option<LoopThunk> {
    let mut merge = Merge::default();
    merge.add(a)?;
    // What a loop repeats itself is none of this.
    merge.shared = 0;
    merge.add(b)?;
    let fewest = a.program.steps.len().min(b.program.steps.len());
    if merge.shared < MIN_SHARED || 2 * merge.shared < fewest {
        return None;
    }
    let has_vector_bytecode = |program: &Program| {
        let is_vector = |task: &Task| matches!(task, Task::Vector(_));
        program.tasks.iter().any(is_vector)
    };
    let is_input = |register: &Register| merge.loads.iter().any(|l| l.register == *register);
    if merge.results.iter().any(is_input) {
        return None;
    }
    let mut program = merge.builder.finish(&merge.results);
    if merge
        .results
        .iter()
        .any(|r| matches!(program.homes[r.0 as usize], Home::Constant(_)))
    {
        return None;
    }
    if has_vector_bytecode(&a.program) || has_vector_bytecode(&b.program) {
        program = program.with_vector_bytecode();
    }
    Some(LoopThunk {
        count: a.count,
        program,
        loads: merge.loads,
        stores: merge.stores,
        small: None,
    })
}
