//! Loops over the same elements become one loop with several results.
//!
//! In: thunks, among them the groups that [`super::row_tiling`] made. Out: fewer thunks. A compiler that fuses by
//! results repeats in every fusion what the results have in common. Members of a group have the same rows, so that steps
//! which two of them have in common are computed once; this is a part of `row-tiling`. Outside of groups, a loop that
//! reads, element by element, what an earlier one writes or reads joins that one: memory is read once, and threads wait
//! for each other once. Few steps over few elements do not join: their arrays stay in the first-level cache, and inside of
//! a `while` they run one by one. The two may write parts of one array, as those of a concatenation, that share no element.
//! Steps are the same when the same kernel reads the same elements. Results stay the same to the bit.

use rustc_hash::FxHashMap;

use crate::plan::cost::loop_merging::{
    MAX_EARLIER, MAX_RESULTS, MAX_STEPS, MAX_STREAMS, MIN_COUNT, MIN_SHARED,
};
use crate::plan::cost::small_loop::runs_step_by_step;
use crate::plan::element::program::{Home, ProgramBuilder, Register, Task};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::accesses::{Access, Effect};
use crate::plan::thunk::{
    BufferKind, Load, LoadKind, LogicalBuffer, LoopThunk, RowTiledThunk, Store, Thunk, ThunkKind,
    ThunkSequence,
};
use crate::plan::view::{ArrayView, BufferSlice};
use crate::types::PrimitiveType;

/// Name by which joining outside of groups is switched off.
pub const NAME: &str = "loop-merging";

/// Joins members of groups, in `thunks` and everything nested in them.
///
/// Recursion is bounded by the nesting the lowering allows.
pub fn run_groups(thunks: &mut ThunkSequence) {
    for thunk in thunks {
        for nested in thunk.nested_mut() {
            run_groups(nested);
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

/// Joins neighbouring loops of `thunks` and everything nested in them; returns how many joined an earlier one.
/// `joins_steps`: steps may become vector bytecode.
pub fn run(thunks: &mut ThunkSequence, buffers: &[LogicalBuffer], joins_steps: bool) -> usize {
    let mut neighbours = Neighbours {
        buffers,
        reads: FxHashMap::default(),
        joins_steps,
    };
    neighbours.count(thunks);
    neighbours.sequence(thunks)
}

/// What joining neighbouring loops has to know.
struct Neighbours<'b> {
    buffers: &'b [LogicalBuffer],
    /// Accesses that read each buffer.
    reads: FxHashMap<u32, usize>,
    joins_steps: bool,
}

impl Neighbours<'_> {
    /// Recursion here and below is bounded by the nesting the lowering allows.
    fn count(&mut self, thunks: &[Thunk]) {
        for thunk in thunks {
            for access in thunk.accesses().filter(|access| access.effect.reads()) {
                *self.reads.entry(access.slice.allocation).or_default() += 1;
            }
            for nested in thunk.nested() {
                self.count(nested);
            }
        }
    }

    fn sequence(&mut self, thunks: &mut ThunkSequence) -> usize {
        let mut joined = 0;
        for thunk in thunks.iter_mut() {
            for nested in thunk.nested_mut() {
                joined += self.sequence(nested);
            }
        }
        let mut at = 1;
        while at < thunks.len() {
            match self.partner(thunks, at) {
                Some((first, both)) => {
                    self.recount([&thunks[first], &thunks[at]], &both);
                    thunks[first].instruction = thunks[at].instruction;
                    thunks[first].kind = ThunkKind::Loop(Box::new(both));
                    thunks.remove(at);
                    joined += 1;
                }
                None => at += 1,
            }
        }
        joined
    }

    /// The place of the loop that `second` joins, and both as one.
    fn partner(&self, thunks: &[Thunk], second: usize) -> Option<(usize, LoopThunk)> {
        let reader = &thunks[second];
        let ThunkKind::Loop(b) = &reader.kind else {
            return None;
        };
        if b.count < MIN_COUNT {
            return None;
        }
        for first in (second.saturating_sub(MAX_EARLIER)..second).rev() {
            let earlier = &thunks[first];
            if let ThunkKind::Loop(a) = &earlier.kind
                && a.count == b.count
                && !runs_step_by_step(a.count, a.program.steps.len() + b.program.steps.len())
                && let Some(both) = self.both(a, b)
            {
                return Some((first, both));
            }
            if !faults::holds(Fault::JoinsDependentLoops, may_swap(earlier, reader)) {
                return None;
            }
        }
        None
    }

    /// `a` and `b` as one loop in the place of `a`, where that is legal and pays.
    fn both(&self, a: &LoopThunk, b: &LoopThunk) -> Option<LoopThunk> {
        let is_written = |slice: BufferSlice| {
            let mut written = a.stores.iter().map(|store| store.view.slice.allocation);
            written.any(|allocation| allocation == slice.allocation)
        };
        let keeps_indices =
            |view: &ArrayView| view.dynamic.iter().all(|index| !is_written(index.slice));
        let in_order = b.loads.iter().all(|load| {
            let is_same = a.stores.iter().any(|store| is_result(store, load));
            let mut views = load.views();
            views.all(|view| (is_same || !is_written(view.slice)) && keeps_indices(view))
        });
        let is_free = |store: &Store| {
            let mut written = a.stores.iter();
            !a.reads(store.view.slice.allocation)
                && written.all(|other| is_apart(other, store))
                && keeps_indices(&store.view)
        };
        let is_apart = b.stores.iter().all(is_free);
        if !faults::holds(Fault::JoinsDependentLoops, in_order) || !is_apart {
            return None;
        }
        if a.program.steps.len() + b.program.steps.len() > MAX_STEPS {
            return None;
        }
        let mut merge = Merge::default();
        merge.add(a)?;
        merge.shared_loads = 0;
        merge.add(b)?;
        if merge.shared_loads == 0 || merge.loads.len() + merge.stores.len() > MAX_STREAMS {
            return None;
        }
        // A result of `a` that only `b` reads stays in registers and needs no memory.
        let reads_of = |allocation: u32| {
            let views = b.loads.iter().flat_map(|load| load.views());
            views
                .filter(|view| view.slice.allocation == allocation)
                .count()
        };
        merge.keep_stores(|store| {
            let allocation = store.view.slice.allocation;
            let is_temp = self.buffers[allocation as usize].kind == BufferKind::Temp;
            let reads = self.reads.get(&allocation).copied().unwrap_or(0);
            let is_last = faults::holds(Fault::ForgetsReadResult, reads == reads_of(allocation));
            !(is_temp && reads_of(allocation) > 0 && is_last)
        });
        let both = merge.finish(a.count, self.joins_steps)?;
        // A result that could be written in place of an input of its loop still can be. Results of `a` that `b` reads
        // do not count as its inputs.
        let stays_in_place = both.stores.iter().all(|store| {
            let after = self.places_of(&both, store);
            [a, b].iter().all(|own| {
                let mut before = self.places_of(own, store);
                before.retain(|&input| !a.stores.iter().any(|s| s.view.slice.allocation == input));
                before.is_empty() || before.iter().any(|input| after.contains(input))
            })
        });
        stays_in_place.then_some(both)
    }

    /// Allocations of the inputs of a loop in whose place it may write a result: those that it reads in order only.
    fn places_of(&self, own: &LoopThunk, store: &Store) -> Vec<u32> {
        let at = own.stores.iter().position(|other| other.view == store.view);
        if !at.is_some_and(|at| own.program.in_place[at]) {
            return Vec::new();
        }
        let loads = own.loads.iter();
        let views = loads.flat_map(|load| load.views().map(|view| (view, load.is_dense)));
        let views: Vec<(&ArrayView, bool)> = views.collect();
        let size = store.view.element_type.size_bytes();
        let is_place = |view: &ArrayView| {
            let kind = self.buffers[view.slice.allocation as usize].kind;
            let is_ours = matches!(kind, BufferKind::Temp | BufferKind::State);
            let mut same = views
                .iter()
                .filter(|(other, _)| other.slice.allocation == view.slice.allocation);
            is_ours && view.element_type.size_bytes() == size && same.all(|(_, is_dense)| *is_dense)
        };
        let places = views.iter().filter(|(view, _)| is_place(view));
        places.map(|(view, _)| view.slice.allocation).collect()
    }

    /// Brings the numbers of reads up to date after two loops became one.
    fn recount(&mut self, apart: [&Thunk; 2], both: &LoopThunk) {
        let reads = |access: &Access<'_>| access.effect.reads();
        for access in apart
            .iter()
            .flat_map(|thunk| thunk.accesses())
            .filter(reads)
        {
            if let Some(reads) = self.reads.get_mut(&access.slice.allocation) {
                *reads -= 1;
            }
        }
        both.each_access(&mut |access| {
            if access.effect.reads() {
                *self.reads.entry(access.slice.allocation).or_default() += 1;
            }
        });
    }
}

/// Whether two stores write no element both.
fn is_apart(a: &Store, b: &Store) -> bool {
    let [a, b] = [a, b].map(|store| Access::of_view(&store.view, Effect::WritePart));
    a.is_apart(&b)
}

/// Whether a load reads, element by element, what a store writes.
fn is_result(store: &Store, load: &Load) -> bool {
    let is_same = |view: &ArrayView| {
        let own = &store.view;
        let place = |view: &ArrayView| (view.slice, view.offset, view.element_type);
        place(view) == place(own) && view.dynamic.is_empty() && own.dynamic.is_empty()
    };
    match &load.kind {
        LoadKind::View(view) => store.is_dense && load.is_dense && is_same(view),
        LoadKind::Iota | LoadKind::Joined(_) => false,
    }
}

/// Whether the loop `second` may run before `earlier`.
fn may_swap(earlier: &Thunk, second: &Thunk) -> bool {
    match earlier.kind {
        ThunkKind::Copy(_)
        | ThunkKind::Loop(_)
        | ThunkKind::Reduce(_)
        | ThunkKind::Gemm(_)
        | ThunkKind::Op(_) => {}
        _ => return false,
    }
    let mut accesses = earlier.accesses();
    accesses.all(|access| {
        let allocation = access.slice.allocation;
        let mut own = second.accesses();
        own.all(|own| {
            own.slice.allocation != allocation || !(own.effect.writes() || access.effect.writes())
        })
    })
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

/// Two loops being put together.
#[derive(Default)]
struct Merge {
    builder: ProgramBuilder,
    loads: Vec<Load>,
    stores: Vec<Store>,
    results: Vec<Register>,
    /// Loads of arrays that the loop already reads or computes.
    shared_loads: usize,
    has_vector_bytecode: bool,
}

impl Merge {
    fn load(&mut self, load: &Load, ty: PrimitiveType) -> Register {
        if let Some(store) = self.stores.iter().find(|store| is_result(store, load)) {
            self.shared_loads += 1;
            return store.register;
        }
        for known in &self.loads {
            let is_same = match (&known.kind, &load.kind) {
                (LoadKind::View(a), LoadKind::View(b)) => a == b,
                (LoadKind::Iota, LoadKind::Iota) => self.builder.ty(known.register) == ty,
                (LoadKind::Joined(a), LoadKind::Joined(b)) => a == b,
                _ => false,
            };
            if is_same && known.walk == load.walk {
                let is_array = known.views().next().is_some() && !known.is_constant();
                self.shared_loads += usize::from(is_array);
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
            let register = (self.builder).known_step(step.kernel, step.meaning, &reads, ty);
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
        let is_vector = |task: &Task| matches!(task, Task::Vector(_));
        self.has_vector_bytecode |= program.tasks.iter().any(is_vector);
        Some(())
    }

    /// Drops the stores, and with them the results, that are not to be kept.
    fn keep_stores(&mut self, is_kept: impl Fn(&Store) -> bool) {
        self.stores.retain(is_kept);
        self.results = self.stores.iter().map(|store| store.register).collect();
    }

    /// The loop; `None` where it has no result or too many, or one that no step computes. `joins_steps`: steps become
    /// vector bytecode.
    fn finish(self, count: usize, joins_steps: bool) -> Option<LoopThunk> {
        let is_input = |register: &Register| self.loads.iter().any(|l| l.register == *register);
        if self.stores.is_empty()
            || self.stores.len() > MAX_RESULTS
            || self.results.iter().any(is_input)
        {
            return None;
        }
        let program = self.builder.finish(&self.results);
        let is_constant = |r: &Register| matches!(program.homes[r.0 as usize], Home::Constant(_));
        if self.results.iter().any(is_constant) {
            return None;
        }
        let program = match joins_steps {
            true => program.with_vector_bytecode(),
            false => program,
        };
        let both = LoopThunk {
            count,
            program,
            loads: self.loads,
            stores: self.stores,
            is_shared: false,
            small: None,
            rows: None,
        };
        // What a loop updates in place it has read before it writes it.
        let mut stores = both.stores.iter().zip(&both.program.in_place);
        let reads_first = stores.all(|(store, &is_last)| {
            let reads_first = is_last || !both.reads(store.view.slice.allocation);
            faults::holds(Fault::LoopReadsAfterWrite, reads_first)
        });
        reads_first.then_some(both)
    }
}

/// The loop without the steps `gone`: what reads the last one's result reads the input `own` instead.
pub fn without_steps(fused: &LoopThunk, gone: &[usize], own: Register) -> Option<LoopThunk> {
    let last = fused.program.steps[*gone.last()?].result;
    let mut rest = fused.clone();
    let mut at = 0;
    rest.program.steps.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
    for step in &mut rest.program.steps {
        for operand in step.operands.iter_mut().filter(|operand| **operand == last) {
            *operand = own;
        }
    }
    let steps = &rest.program.steps;
    let is_read = |register| steps.iter().any(|step| step.reads().contains(&register));
    rest.loads.retain(|load| is_read(load.register));
    let mut merge = Merge::default();
    merge.add(&rest)?;
    let joins_steps = merge.has_vector_bytecode;
    merge.finish(rest.count, joins_steps)
}

fn merge(a: &LoopThunk, b: &LoopThunk) -> Option<LoopThunk> {
    let mut merge = Merge::default();
    merge.add(a)?;
    // What a loop repeats itself is none of this.
    merge.builder.shared = 0;
    merge.add(b)?;
    let fewest = a.program.steps.len().min(b.program.steps.len());
    if merge.builder.shared < MIN_SHARED || 2 * merge.builder.shared < fewest {
        return None;
    }
    let joins_steps = merge.has_vector_bytecode;
    merge.finish(a.count, joins_steps)
}
