//! The finished plan: what a run needs, and nothing that changes during one.
//!
//! In: a verified module and options. Out: an [`Executable`], `Send + Sync`; each run brings its own
//! memory, so runs may overlap.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use super::element::vector_bytecode;
use super::hlo::DynamicSize;
use super::hlo::pass::PassContext;
use super::lower::{Lowering, Value, collect_leaves};
use super::memory::assign::{self, AllocationKind, Assignment};
use super::memory::checker;
use super::options::{Check, CompileOptions, MachineCode};
use super::passes;
use super::pipeline::{PassRecord, Pipeline};
use super::replication::{self, Lockstep};
use super::schedule::{
    column_folds, loop_merging, pack_constants, product_epilogues, row_loops, row_tiling,
    scalar_bytecode, shared_loops, small_loop, vector_machine_code,
};
use super::spmd::groups::{Devices, MAX_DEVICES};
use super::thunk::machine_code;
use super::thunk::scalar_bytecode::ScalarProgram;
use super::thunk::{BufferKind, LogicalBuffer};
use super::thunk::{CopyThunk, Thunk, ThunkKind, ThunkSequence};
use super::view::{ArrayView, identity_order};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::float_mode::DefaultMode;
use crate::module::{HloModule, Id, InstructionId};
use crate::types::{ArrayShape, Dims, PrimitiveType, ShapeId};
use crate::verify::VerifiedModule;

/// An array that comes in or goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Type of an element.
    pub element_type: PrimitiveType,
    /// Sizes.
    pub dims: Dims,
}

impl Leaf {
    /// Bytes of the array.
    pub fn byte_size(&self) -> usize {
        ArrayShape::new(self.element_type, &self.dims)
            .byte_size()
            .unwrap_or(0)
    }
}

/// A parameter of the entry.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name of the instruction, without `%`.
    pub name: String,
    /// Its shape, in the module's table.
    pub shape: ShapeId,
    /// Its arrays, as a range of [`Executable::inputs`].
    pub leaves: Range<usize>,
}

/// A plan for all devices side by side, by the inputs they have in common.
type KnownLockstep = (Box<[bool]>, Option<Arc<Lockstep>>);

/// Most such plans that are kept.
const MAX_LOCKSTEPS: usize = 8;

/// A compiled module.
#[derive(Debug)]
pub struct Executable {
    module: HloModule,
    options: CompileOptions,
    passes: Vec<PassRecord>,
    original_count: usize,
    thunks: ThunkSequence,
    bytecode: Option<Box<ScalarProgram>>,
    assignment: Assignment,
    parameters: Vec<Parameter>,
    inputs: Vec<Leaf>,
    outputs: Vec<Leaf>,
    result_shape: ShapeId,
    dynamic_sizes: Vec<DynamicSize>,
    arenas: Mutex<Vec<AlignedBytes>>,
    locksteps: Mutex<Vec<KnownLockstep>>,
    originals: OnceLock<FxHashMap<u32, InstructionId>>,
}

/// Compiles a module.
///
/// Errors: `HloError::Unsupported` naming the first instruction that cannot be run.
pub fn compile(module: &VerifiedModule<'_>, options: &CompileOptions) -> Result<Executable> {
    let _mode = DefaultMode::enter();
    let devices = u64::from(options.replicas) * u64::from(options.partitions);
    if devices > u64::from(MAX_DEVICES) {
        return Err(HloError::argument(format!(
            "{devices} devices; at most {MAX_DEVICES} may run together"
        )));
    }
    let options = &effective(options)?;
    super::element::elementwise::check_types(module)?;
    let original_count = module.instruction_count();
    let mut module = HloModule::clone(module);
    let mut pipeline = Pipeline::new(options);
    let mut cx = PassContext {
        options,
        dynamic_sizes: Vec::new(),
        calls: Vec::new(),
    };
    pipeline.run(&mut module, super::hlo::FLATTEN, &mut cx)?;
    if !options.observe {
        pipeline.run(&mut module, super::hlo::TABLE, &mut cx)?;
    }
    let mut entry = lower_entry(&module, &cx)?;
    let (assignment, bytecode) = schedule(&mut entry, &mut module, &mut pipeline, options)?;
    let leaf = |view: &ArrayView| Leaf {
        element_type: view.element_type,
        dims: view.dims.clone(),
    };
    Ok(Executable {
        inputs: entry.inputs.iter().map(leaf).collect(),
        outputs: entry.outputs.iter().map(leaf).collect(),
        result_shape: match module.operand_ids(entry.root).first() {
            // The passes put the result and its sizes into a tuple.
            Some(&result) if !cx.dynamic_sizes.is_empty() => module.instruction_data(result).shape,
            _ => module.instruction_data(entry.root).shape,
        },
        dynamic_sizes: cx.dynamic_sizes,
        parameters: entry.parameters,
        options: options.clone(),
        passes: pipeline.into_records(),
        original_count,
        thunks: entry.thunks,
        bytecode,
        assignment,
        arenas: Mutex::new(Vec::new()),
        locksteps: Mutex::new(Vec::new()),
        originals: OnceLock::new(),
        module,
    })
}

/// The entry computation as thunks over logical buffers.
struct LoweredEntry {
    thunks: ThunkSequence,
    buffers: Vec<LogicalBuffer>,
    parameters: Vec<Parameter>,
    inputs: Vec<ArrayView>,
    outputs: Vec<ArrayView>,
    root: InstructionId,
}

fn lower_entry(module: &HloModule, cx: &PassContext<'_>) -> Result<LoweredEntry> {
    let Some((entry, computation)) = module.entry_computation() else {
        return Err(HloError::execution("the module has no entry computation"));
    };
    let root = computation
        .root
        .ok_or_else(|| HloError::execution("the entry computation has no root"))?;
    let mut lowering = Lowering::new(module, cx.options);
    if cx.options.observe {
        lowering.observe(&cx.calls);
    }
    let mut inputs = Vec::new();
    let mut values = Vec::new();
    let mut parameters = Vec::new();
    for &id in &computation.parameters {
        let instruction = module.instruction(id);
        let start = inputs.len();
        values.push(lowering.entry_parameter(instruction, &mut inputs)?);
        parameters.push(Parameter {
            name: instruction.name().into_owned(),
            shape: instruction.shape_id(),
            leaves: start..inputs.len(),
        });
    }
    let (mut thunks, result) = lowering.computation(entry, &values)?;
    let outputs = store_results(&mut lowering, &mut thunks, root, &result);
    Ok(LoweredEntry {
        thunks,
        buffers: lowering.buffers,
        parameters,
        inputs,
        outputs,
        root,
    })
}

/// Runs the passes on thunks, and gives their buffers memory.
fn schedule(
    entry: &mut LoweredEntry,
    module: &mut HloModule,
    pipeline: &mut Pipeline<'_>,
    options: &CompileOptions,
) -> Result<(Assignment, Option<Box<ScalarProgram>>)> {
    let (thunks, buffers) = (&mut entry.thunks, &mut entry.buffers);
    if options.fuse {
        // Products may be divided among devices, and then added to each other.
        if options.replicas * options.partitions == 1 {
            pipeline.step(product_epilogues::NAME, || {
                product_epilogues::run(thunks, buffers)
            });
        }
        pipeline.step(row_tiling::NAME, || {
            row_tiling::run(thunks, buffers);
            loop_merging::run_groups(thunks);
            count(thunks, &|kind| matches!(kind, ThunkKind::RowTiled(_)))
        });
        let joins_steps = !options.is_off(vector_bytecode::NAME);
        pipeline.step(loop_merging::NAME, || {
            loop_merging::run(thunks, buffers, joins_steps)
        });
        if joins_steps {
            pipeline.step(column_folds::NAME, || column_folds::run(thunks));
        }
    }
    pipeline.step(pack_constants::NAME, || {
        let has_peers = options.replicas * options.partitions > 1;
        pack_constants::run(thunks, buffers, module, has_peers)
    });
    pipeline.step(shared_loops::NAME, || shared_loops::choose(thunks));
    let assignment = place(thunks, buffers, module, options)?;
    if options.replicas * options.partitions > 1 {
        replication::products::divide(thunks, &assignment);
    }
    small_loop::prepare(thunks);
    if options.fuse && !options.is_off(vector_bytecode::NAME) {
        pipeline.step(row_loops::NAME, || row_loops::run(thunks));
    }
    vector_machine_code::prepare(thunks, options.machine_code);
    let mut bytecode = None;
    pipeline.step(scalar_bytecode::NAME, || {
        scalar_bytecode::prepare(thunks, options.machine_code);
        // Devices that run together take turns at thunks.
        if options.replicas * options.partitions == 1 {
            bytecode = scalar_bytecode::of_entry(thunks, options.machine_code);
        }
        let has_code =
            |kind: &ThunkKind| matches!(kind, ThunkKind::While(repeated) if repeated.bytecode.is_some());
        usize::from(bytecode.is_some()) + count(thunks, &has_code)
    });
    Ok((assignment, bytecode))
}

/// Gives buffers their memory and, where the options ask for it, proves that the plan holds.
pub(super) fn place(
    thunks: &mut ThunkSequence,
    buffers: &[LogicalBuffer],
    module: &HloModule,
    options: &CompileOptions,
) -> Result<Assignment> {
    let logical = (options.check != Check::Off).then(|| thunks.clone());
    let assignment = assign::assign(thunks, buffers);
    if let Some(logical) = logical {
        let plan = checker::Plan {
            logical: &logical,
            assigned: thunks,
            buffers,
            assignment: &assignment,
        };
        checker::check(&plan, module)?;
    }
    assign::forget_dropped(thunks);
    Ok(assignment)
}

/// Thunks of a kind, those inside others included. Recursion is bounded by the nesting the lowering
/// allows.
fn count(thunks: &ThunkSequence, is_wanted: &dyn Fn(&ThunkKind) -> bool) -> usize {
    thunks
        .iter()
        .map(|thunk| {
            let own = usize::from(is_wanted(&thunk.kind));
            let nested = thunk.nested().into_iter();
            own + nested.map(|inner| count(inner, is_wanted)).sum::<usize>()
        })
        .sum()
}

/// The options with everything they imply.
fn effective(options: &CompileOptions) -> Result<CompileOptions> {
    let mut options = options.clone();
    for name in &mut options.disable {
        *name = passes::named(name)?.to_owned();
    }
    if options.is_off(machine_code::NAME) {
        options.machine_code = MachineCode::Never;
    }
    options.fuse &= !options.observe && !options.is_off("fusion");
    Ok(options)
}

/// Copies every array of the result into an output buffer, row-major. Copies of values that were
/// computed for this alone are dropped by the assignment.
pub(super) fn store_results(
    lowering: &mut Lowering<'_>,
    thunks: &mut ThunkSequence,
    root: InstructionId,
    result: &Value,
) -> Vec<ArrayView> {
    let mut views = Vec::new();
    collect_leaves(result, &mut views);
    let mut outputs = Vec::with_capacity(views.len());
    for (k, view) in views.into_iter().enumerate() {
        let size = view.count() * view.element_type.size_bytes();
        let slice = lowering.buffer(size, BufferKind::Output(k as u32), Some(root));
        let order = identity_order(view.dims.len());
        let output = ArrayView::dense(slice, view.element_type, &view.dims, &order);
        let elidable = lowering.interchangeable(&view, &output);
        thunks.push(Thunk {
            instruction: root,
            kind: ThunkKind::Copy(Box::new(CopyThunk::new(view, output.clone(), elidable))),
        });
        outputs.push(output);
    }
    outputs
}

impl Executable {
    /// The flattened module the thunks were made from.
    pub fn module(&self) -> &HloModule {
        &self.module
    }

    /// Passes that ran, in order.
    pub fn passes(&self) -> &[PassRecord] {
        &self.passes
    }

    /// The instruction of the module that was compiled from which `id`, of [`Executable::module`],
    /// was made: itself, the one in the called computation that was put in the call's place, or the
    /// one a rewrite started from.
    pub fn original(&self, id: InstructionId) -> InstructionId {
        if id.index() < self.original_count {
            return id;
        }
        let text = self.module.instruction_data(id).text;
        let by_start = self.originals.get_or_init(|| {
            (0..self.original_count)
                .map(InstructionId::from_index)
                .map(|id| (self.module.instruction_data(id).text.start, id))
                .collect()
        });
        by_start.get(&text.start).copied().unwrap_or(id)
    }

    /// How it was compiled.
    pub fn options(&self) -> &CompileOptions {
        &self.options
    }

    /// The devices it was compiled for.
    pub fn devices(&self) -> Devices {
        Devices {
            replicas: self.options.replicas.max(1),
            partitions: self.options.partitions.max(1),
        }
    }

    /// The steps.
    pub fn thunks(&self) -> &ThunkSequence {
        &self.thunks
    }

    /// The memory.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The code of its thunks, where many are small steps.
    pub fn bytecode(&self) -> Option<&ScalarProgram> {
        self.bytecode.as_deref()
    }

    /// The entry's parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Arrays of all parameters, in order.
    pub fn inputs(&self) -> &[Leaf] {
        &self.inputs
    }

    /// Arrays of the result, in order.
    pub fn outputs(&self) -> &[Leaf] {
        &self.outputs
    }

    /// Dimensions of the result whose sizes a run finds out: each is an `s32` scalar of its own behind
    /// the result's arrays, in [`Executable::outputs`], in this order.
    pub fn dynamic_sizes(&self) -> &[DynamicSize] {
        &self.dynamic_sizes
    }

    /// Id of the result's shape.
    pub fn result_shape_id(&self) -> ShapeId {
        self.result_shape
    }

    /// The plan for all devices side by side where `common_inputs` are one array for all of them;
    /// `None` where devices may part ways.
    pub(crate) fn lockstep(&self, common_inputs: &[bool]) -> Option<Arc<Lockstep>> {
        let known = || {
            self.locksteps
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((_, plan)) = known()
            .iter()
            .find(|(inputs, _)| **inputs == *common_inputs)
        {
            return plan.clone();
        }
        let is_enabled = !self.options.is_off(replication::NAME);
        let plan = replication::plan(
            &self.thunks,
            &self.assignment,
            self.outputs.len(),
            common_inputs,
            is_enabled,
        )
        .map(Arc::new);
        let mut known = known();
        if known.len() >= MAX_LOCKSTEPS {
            known.remove(0);
        }
        known.push((common_inputs.into(), plan.clone()));
        plan
    }

    /// Bytes of the temporary block of one run.
    pub fn temp_size(&self) -> usize {
        self.assignment.allocations[0].size
    }

    /// A temporary block, kept from an earlier run where there is one.
    pub(crate) fn take_arena(&self) -> Result<AlignedBytes> {
        let kept = self.arenas.lock().ok().and_then(|mut arenas| arenas.pop());
        match kept {
            Some(arena) => Ok(arena),
            None => AlignedBytes::uninitialized(self.temp_size()),
        }
    }

    /// Gives a temporary block back for the next run.
    pub(crate) fn return_arena(&self, arena: AlignedBytes) {
        if let Ok(mut arenas) = self.arenas.lock() {
            arenas.push(arena);
        }
    }

    /// The bytes of a constant allocation.
    pub(crate) fn constant_bytes(&self, kind: AllocationKind) -> Option<&[u8]> {
        match kind {
            AllocationKind::Constant(literal) => self.module.literal(literal).bytes(),
            _ => None,
        }
    }
}
