//! The tables that hold one row per file, computation, edge, collective, call or value.

use hlorun::analysis::buffer_assignment::PlacedBuffers;
use hlorun::module::attributes::ReplicaGroups;
use hlorun::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionRef, OpClass,
};

use super::attribute_text::attributes;
use super::columns::{Counts, Flags, Floats, Ints, Texts, Words, table};
use super::instructions::{Origin, custom_call_target, in_order};
use crate::handle::SharedModule;
use crate::shape::leaf_bytes;

table! {
    /// One row per file, also for those that could not be read.
    Modules "modules" {
        /// The file, as an absolute path.
        path: Texts,
        /// Its size in bytes, as it lies on the disk.
        file_bytes: Ints,
        /// When it was last changed, in nanoseconds since 1970.
        modified_ns: Ints,
        /// What it holds: `text`, `proto` or `snapshot`; empty where it could not be read.
        kind: Words,
        /// What failed first: `read`, `verify`, `cost`, `memory` or `run`; empty where nothing did.
        error_stage: Words,
        /// The class of the error, `HloParseError`; empty where there was none.
        error_kind: Words,
        /// What the error says.
        error_message: Texts,
        /// Name of the module.
        name: Words,
        /// Equal for modules that compute the same in the same way, whatever their names.
        fingerprint: Texts,
        /// Bytes of the text, unpacked.
        text_bytes: Ints,
        /// Number of computations.
        computations: Ints,
        /// Number of instructions.
        instructions: Ints,
        /// Whether the order of the text is a schedule.
        is_scheduled: Flags,
        /// Replicas that the header names; 1 when absent.
        replica_count: Ints,
        /// Partitions that the header names; 1 when absent.
        num_partitions: Ints,
        /// Devices: replicas times partitions.
        devices: Ints,
        /// Floating-point operations by XLA's cost analysis, one trip of each loop.
        flops: Floats,
        /// Elements of transcendental functions, one trip of each loop.
        transcendentals: Floats,
        /// Bytes read and written, one trip of each loop.
        bytes_accessed: Floats,
        /// Floating-point operations of one run: all trips, where their number is known.
        run_flops: Floats,
        /// Elements of transcendental functions of one run.
        run_transcendentals: Floats,
        /// Bytes read and written in one run.
        run_bytes_accessed: Floats,
        /// Custom calls that count as -1 of everything to XLA, and as nothing in one run.
        unknown_custom_calls: Ints,
        /// Bytes of the arguments, by the buffer assignment in the order of the text.
        argument_bytes: Ints,
        /// Bytes of the results.
        output_bytes: Ints,
        /// Bytes of the temporaries.
        temp_bytes: Ints,
        /// Bytes of arguments whose memory results take over.
        alias_bytes: Ints,
        /// Most bytes needed at one moment.
        peak_bytes: Ints,
        /// Bytes of the results of collectives in one run, by opcode; `all-reduce-start` counts as `all-reduce`.
        collective_bytes: Counts,
        /// How many instructions have each opcode.
        opcodes: Counts,
        /// Number of `while` loops.
        loops: Ints,
        /// Those whose trips are not known, which count as one.
        loops_of_unknown_trips: Ints,
        /// Seconds of compiling; null without `run`.
        compile_seconds: Floats,
        /// Seconds of the run; null without `run`.
        run_seconds: Floats,
        /// NaN among the elements of the outputs; null without `run`.
        output_nan: Ints,
        /// Infinities among the elements of the outputs; null without `run`.
        output_inf: Ints,
    }
}

table! {
    /// One row per computation.
    Computations "computations" {
        /// The file, as in `modules`.
        path: Words,
        /// Number of the computation in its module; `graphs` names it.
        id: Ints,
        /// Name, without `%`.
        name: Texts,
        /// Whether a run begins with it.
        is_entry: Flags,
        /// Whether it is a part of one instruction: fused, or applied per element.
        is_inner: Flags,
        /// Number of its instructions.
        instructions: Ints,
        /// Number of its parameters.
        parameters: Ints,
        /// Id of its root.
        root: Ints,
        /// How often it runs in one run of the module; null where it is applied per element or never reached.
        runs: Ints,
        /// The thread it runs on; empty for the main one.
        execution_thread: Words,
    }
}

table! {
    /// One row per operand of each instruction, and per control dependency.
    Edges "edges" {
        /// The file, as in `modules`.
        path: Words,
        /// Id of the instruction that computes the value, or that runs first.
        source: Ints,
        /// Id of the instruction that takes it, or that runs later.
        target: Ints,
        /// As which operand; null for control dependencies.
        operand: Ints,
    }
}

table! {
    /// One row per collective, asynchronous ones where they start.
    Collectives "collectives" {
        /// The file, as in `modules`.
        path: Words,
        /// Id of the instruction.
        id: Ints,
        /// Its name.
        name: Texts,
        /// Name of its computation.
        computation: Words,
        /// The collective, `all-reduce` also for `all-reduce-start`.
        opcode: Words,
        /// Whether it starts here and ends elsewhere.
        is_async: Flags,
        /// Bytes of its result on one device.
        bytes: Ints,
        /// How often its computation runs in one run of the module.
        runs: Ints,
        /// Its groups of devices as written; empty when absent.
        replica_groups: Words,
        /// Number of groups; null where the text does not list them.
        groups: Ints,
        /// Devices in each group; null where groups differ or are not listed.
        group_size: Ints,
        /// Its channel; null when absent.
        channel_id: Ints,
        /// The framework's name for it; empty when absent.
        op_name: Words,
        /// The source file; empty when absent.
        source_file: Words,
        /// The line in the source file; null when absent.
        source_line: Ints,
    }
}

table! {
    /// One row per custom call.
    CustomCalls "custom_calls" {
        /// The file, as in `modules`.
        path: Words,
        /// Id of the instruction.
        id: Ints,
        /// Its name.
        name: Texts,
        /// Name of its computation.
        computation: Words,
        /// Its target.
        target: Words,
        /// Bytes of its result.
        bytes: Ints,
        /// How often its computation runs in one run of the module.
        runs: Ints,
        /// Version of its interface as written; empty when absent.
        api_version: Words,
        /// Its configuration, unescaped; empty when absent.
        backend_config: Words,
        /// The framework's name for it; empty when absent.
        op_name: Words,
        /// The source file; empty when absent.
        source_file: Words,
        /// The line in the source file; null when absent.
        source_line: Ints,
    }
}

table! {
    /// One row per value with memory of its own, by XLA's rules in the order of the text.
    Buffers "buffers" {
        /// The file, as in `modules`.
        path: Words,
        /// Number of the allocation that holds it.
        allocation: Ints,
        /// Bytes of the allocation.
        allocation_bytes: Ints,
        /// Memory space of the allocation.
        memory_space: Ints,
        /// Number of the entry parameter that the allocation is; null for others.
        parameter_number: Ints,
        /// Whether the allocation is a constant.
        is_constant: Flags,
        /// Whether each thread has an allocation of its own.
        is_thread_local: Flags,
        /// Whether the allocation holds a part of the result.
        maybe_live_out: Flags,
        /// Whether the allocation is the heap of temporaries.
        is_temporary: Flags,
        /// Name of the instruction that defines the value.
        instruction: Words,
        /// Which part of its result, `{0}`; empty for all of it.
        index: Words,
        /// Bytes of the value.
        bytes: Ints,
        /// Bytes from the start of the allocation.
        offset: Ints,
        /// First moment at which it is live, counted in instructions; null where that is not known.
        live_from: Ints,
        /// Last moment at which it is live.
        live_to: Ints,
    }
}

impl Computations {
    /// Adds those of a module.
    pub fn add(&mut self, shared: &SharedModule, path: &str) {
        let module = &shared.module;
        for id in module.computation_ids() {
            let computation = module.computation(id);
            self.path.push(path);
            self.id.count(id.index());
            self.name.push(&module.str(computation.name));
            self.is_entry.push(module.entry == Some(id));
            self.is_inner.push(shared.runs().is_inner(id));
            self.instructions.count(computation.instructions.len());
            self.parameters.count(computation.parameters.len());
            self.root
                .push(computation.root.map(|root| root.index() as i64));
            self.runs.push(runs(shared, id));
            let thread = computation.execution_thread.map(|name| module.str(name));
            self.execution_thread.push(&thread.unwrap_or_default());
        }
    }
}

fn runs(shared: &SharedModule, id: ComputationId) -> Option<i64> {
    shared.runs().computation(id).map(|n| n as i64)
}

impl Edges {
    /// Adds those of a module.
    pub fn add(&mut self, module: &HloModule, path: &str) {
        let path = self.path.place(path);
        for instruction in in_order(module) {
            let operands = instruction.operand_ids().iter().enumerate();
            let operands = operands.map(|(k, &id)| (id, Some(k as i64)));
            let control = instruction.control_predecessors().iter();
            let control = control.map(|&id| (id, None));
            for (source, operand) in operands.chain(control) {
                self.path.push_place(path);
                self.source.count(source.index());
                self.target.count(instruction.id.index());
                self.operand.push(operand);
            }
        }
    }
}

/// An attribute as its text has it; empty when absent.
fn written(instruction: InstructionRef<'_>, wanted: &[u8]) -> String {
    let found = attributes(instruction).find(|(key, _)| *key == wanted);
    found.map_or_else(String::new, |(_, value)| {
        String::from_utf8_lossy(value).into_owned()
    })
}

/// Number of groups, and devices in each.
fn groups(instruction: InstructionRef<'_>) -> (Option<i64>, Option<i64>) {
    let Some(AttrValue::ReplicaGroups(groups)) = instruction.attribute(AttrKey::ReplicaGroups)
    else {
        return (None, None);
    };
    match &**groups {
        ReplicaGroups::List(groups) => {
            let size = groups.first().map_or(0, Vec::len);
            let is_even = groups.iter().all(|group| group.len() == size) && size > 0;
            let count = (!groups.is_empty()).then_some(groups.len() as i64);
            (count, is_even.then_some(size as i64))
        }
        ReplicaGroups::Iota { tile, .. } => {
            let size = tile.iter().skip(1).try_fold(1i64, |n, &k| n.checked_mul(k));
            (tile.first().copied(), size)
        }
        ReplicaGroups::Mesh(_) => (None, None),
    }
}

impl Collectives {
    /// Adds those of a module.
    pub fn add(&mut self, shared: &SharedModule, path: &str) {
        let module = &shared.module;
        for instruction in in_order(module) {
            let Some(opcode) = instruction.opcode().collective() else {
                continue;
            };
            let computation = instruction.computation();
            let origin = Origin::of(shared, instruction.id);
            let (count, size) = groups(instruction);
            self.path.push(path);
            self.id.count(instruction.id.index());
            self.name.push(&instruction.name());
            self.computation
                .push(&module.str(module.computation(computation).name));
            self.opcode.push(opcode.name());
            self.is_async.push(opcode != instruction.opcode());
            let bytes = leaf_bytes(shared, instruction.collective_shape());
            self.bytes.push(bytes.map(|n| n as i64));
            self.runs.push(runs(shared, computation));
            self.replica_groups
                .push(&written(instruction, b"replica_groups"));
            self.groups.push(count);
            self.group_size.push(size);
            self.channel_id.push(instruction.int(AttrKey::ChannelId));
            self.op_name.push(&origin.op_name);
            self.source_file.push(&origin.source_file);
            self.source_line.push(origin.source_line);
        }
    }
}

impl CustomCalls {
    /// Adds those of a module.
    pub fn add(&mut self, shared: &SharedModule, path: &str) {
        let module = &shared.module;
        for instruction in in_order(module).filter(|i| i.opcode().class() == OpClass::CustomCall) {
            let computation = instruction.computation();
            let origin = Origin::of(shared, instruction.id);
            let config = instruction.backend_config_bytes().unwrap_or_default();
            self.path.push(path);
            self.id.count(instruction.id.index());
            self.name.push(&instruction.name());
            self.computation
                .push(&module.str(module.computation(computation).name));
            self.target.push(&custom_call_target(instruction));
            let bytes = leaf_bytes(shared, instruction.shape_id());
            self.bytes.push(bytes.map(|n| n as i64));
            self.runs.push(runs(shared, computation));
            self.api_version.push(&written(instruction, b"api_version"));
            self.backend_config.push(&String::from_utf8_lossy(&config));
            self.op_name.push(&origin.op_name);
            self.source_file.push(&origin.source_file);
            self.source_line.push(origin.source_line);
        }
    }
}

impl Buffers {
    /// Adds those of a module.
    pub fn add(&mut self, module: &HloModule, placed: &PlacedBuffers, path: &str) {
        let path = self.path.place(path);
        let whole = self.index.place("");
        for (number, allocation) in placed.allocations.iter().enumerate() {
            for value in placed.values_of(allocation) {
                self.path.push_place(path);
                self.allocation.count(number);
                self.allocation_bytes.count(allocation.size);
                self.memory_space.push(0);
                self.parameter_number
                    .push(allocation.parameter.map(i64::from));
                self.is_constant.push(allocation.flags.constant);
                self.is_thread_local.push(allocation.flags.thread_local);
                self.maybe_live_out.push(allocation.flags.maybe_live_out);
                self.is_temporary.push(allocation.flags.preallocated_temp);
                let name = module.instruction(value.instruction).data().name;
                let name = self.instruction.place_bytes(module.text().bytes(name));
                self.instruction.push_place(name);
                match &value.index {
                    Some(index) => self.index.push(&index.to_string()),
                    None => self.index.push_place(whole),
                }
                self.bytes.count(value.size);
                self.offset.count(value.offset);
                self.live_from
                    .push(value.live.map(|live| i64::from(live.0)));
                self.live_to.push(value.live.map(|live| i64::from(live.1)));
            }
        }
    }
}

/// How many instructions have each opcode, those of most first.
pub fn opcode_counts(module: &HloModule) -> Vec<(&'static str, i64)> {
    let mut counts = [0i64; 256];
    for instruction in in_order(module) {
        counts[instruction.opcode() as usize] += 1;
    }
    let opcodes = HloOpcode::all().chain([HloOpcode::Unknown]);
    let mut found: Vec<_> = opcodes
        .map(|opcode| (opcode.name(), counts[opcode as usize]))
        .filter(|(_, count)| *count > 0)
        .collect();
    found.sort_by_key(|(_, count)| -count);
    found
}
