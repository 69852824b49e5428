//! What every Python handle shares: the module, and tables made from it when first asked for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::HashMap;
use hlorun::analysis::cost::{CostAnalysis, cost_analysis};
use hlorun::analysis::runs::Runs;
use hlorun::module::effects::{Effect, Effects};
use hlorun::module::metadata::OpMetadata;
use hlorun::module::stack_frames::{StackFrame, StackFrameTables};
use hlorun::module::{AttrKey, AttrValue, ComputationId, HloModule, Id, InstructionId, Source};
use hlorun::types::Literal;
use hlorun::verify::{VerifiedModule, verify_shared};
use pyo3::Py;
use pyo3::types::PyWeakrefReference;

/// A module that Python objects point into.
pub struct ModuleHandle {
    /// The module.
    pub module: Arc<HloModule>,
    verified: OnceLock<hlorun::Result<VerifiedModule<'static>>>,
    users: OnceLock<Users>,
    names: OnceLock<Names>,
    frames: OnceLock<StackFrameTables>,
    costs: OnceLock<hlorun::Result<CostAnalysis>>,
    runs: OnceLock<Runs>,
    effects: Mutex<Effects>,
    /// What the proto it was read from holds beside it.
    pub proto: Option<FromProto>,
    /// Which module of its text it is, where the text holds several.
    pub number: usize,
    /// The Python object of the whole module that its parts are pickled with, while there is one.
    pub object: Mutex<Option<Py<PyWeakrefReference>>>,
}

/// What a proto holds beside its module.
pub struct FromProto {
    /// Its bytes; written when first asked for where the module came from StableHLO.
    pub bytes: OnceLock<Source>,
    /// Of a snapshot: the arguments of the run, and its result.
    pub arguments: Option<Vec<Literal>>,
    pub result: Option<Literal>,
    /// Where it ran.
    pub platform: String,
}

/// A module shared by its handles.
pub type SharedModule = Arc<ModuleHandle>;

/// The hash of what an id stands for in a module.
pub fn hash_in(module: &SharedModule, id: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    Arc::as_ptr(module).hash(&mut hasher);
    id.hash(&mut hasher);
    hasher.finish()
}

/// Users of every instruction: one list, and where each instruction's part of it begins.
struct Users {
    starts: Vec<u32>,
    users: Vec<InstructionId>,
}

#[derive(Default)]
struct Names {
    computations: HashMap<Box<[u8]>, ComputationId>,
    instructions: HashMap<Box<[u8]>, InstructionId>,
}

impl ModuleHandle {
    /// Takes a module over.
    pub fn new(module: HloModule) -> SharedModule {
        ModuleHandle::with_origin(module, None, 0)
    }

    /// Takes a module over that a proto held, or a text of several modules.
    pub fn with_origin(module: HloModule, proto: Option<FromProto>, number: usize) -> SharedModule {
        Arc::new(ModuleHandle {
            module: Arc::new(module),
            verified: OnceLock::new(),
            proto,
            number,
            object: Mutex::new(None),
            users: OnceLock::new(),
            names: OnceLock::new(),
            frames: OnceLock::new(),
            costs: OnceLock::new(),
            runs: OnceLock::new(),
            effects: Mutex::default(),
        })
    }

    /// The bytes of the proto that the module came from, or is written as because its text alone is
    /// not all of it; `None` where the text is.
    pub fn proto_bytes(&self) -> hlorun::Result<Option<&Source>> {
        let Some(FromProto { bytes, .. }) = &self.proto else {
            return Ok(None);
        };
        if let Some(bytes) = bytes.get() {
            return Ok(Some(bytes));
        }
        let written = hlorun::proto::write_module(&self.module)?;
        Ok(Some(bytes.get_or_init(|| written.into())))
    }

    /// The instructions that take `id` as an operand, each once, in the order of the text.
    pub fn users(&self, id: InstructionId) -> &[InstructionId] {
        let table = self.users.get_or_init(|| build_users(&self.module));
        let start = table.starts[id.index()] as usize;
        let end = table.starts[id.index() + 1] as usize;
        &table.users[start..end]
    }

    /// What an instruction does besides computing its value.
    pub fn effect(&self, id: InstructionId) -> Effect {
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        effects.of(&self.module, id)
    }

    /// The computation called `name`.
    pub fn computation(&self, name: &str) -> Option<ComputationId> {
        self.names().computations.get(name.as_bytes()).copied()
    }

    /// The first instruction called `name`.
    pub fn instruction(&self, name: &str) -> Option<InstructionId> {
        self.names().instructions.get(name.as_bytes()).copied()
    }

    /// The metadata of `id` as the text gives it; stack frames are looked up by [`Self::stack`].
    pub fn metadata(&self, id: InstructionId) -> OpMetadata {
        match self.module.instruction(id).attribute(AttrKey::Metadata) {
            Some(AttrValue::Raw(text)) => {
                OpMetadata::read(self.module.text().bytes(*text)).unwrap_or_default()
            }
            _ => OpMetadata::default(),
        }
    }

    /// The stack of the frame `id`, innermost first.
    pub fn stack(&self, id: i64) -> Vec<StackFrame> {
        self.frames().stack(id)
    }

    /// The module's tables of stack frames, read once.
    pub fn frames(&self) -> &StackFrameTables {
        self.frames.get_or_init(|| self.module.stack_frame_tables())
    }

    /// The module with the proof that it is legal, found out once.
    pub fn verified(&self) -> hlorun::Result<&VerifiedModule<'static>> {
        let verified = self
            .verified
            .get_or_init(|| verify_shared(self.module.clone()));
        verified.as_ref().map_err(Clone::clone)
    }

    /// What everything costs, found out once.
    pub fn costs(&self) -> hlorun::Result<&CostAnalysis> {
        let costs = self.costs.get_or_init(|| cost_analysis(&self.module));
        costs.as_ref().map_err(Clone::clone)
    }

    /// How often everything runs, found out once.
    pub fn runs(&self) -> &Runs {
        self.runs.get_or_init(|| Runs::of(&self.module))
    }

    fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let text = self.module.text();
            let mut names = Names::default();
            for id in self.module.computation_ids() {
                let computation = self.module.computation(id);
                names
                    .computations
                    .entry(text.bytes(computation.name).into())
                    .or_insert(id);
                for &instruction in &computation.instructions {
                    let name = self.module.instruction_data(instruction).name;
                    names
                        .instructions
                        .entry(text.bytes(name).into())
                        .or_insert(instruction);
                }
            }
            names
        })
    }
}

fn build_users(module: &HloModule) -> Users {
    let count = module.instruction_count();
    let ids = || (0..count).map(InstructionId::from_index);
    // An instruction that takes an operand twice uses it once, so a pair counts when it is new.
    let mut last_user: Vec<Option<InstructionId>> = vec![None; count];
    let mut starts = vec![0u32; count + 1];
    for id in ids() {
        for operand in module.operand_ids(id) {
            if last_user[operand.index()].replace(id) != Some(id) {
                starts[operand.index() + 1] += 1;
            }
        }
    }
    for index in 0..count {
        starts[index + 1] += starts[index];
    }
    let mut next = starts.clone();
    let total = starts.last().copied().unwrap_or(0) as usize;
    let mut users = vec![InstructionId::from_index(0); total];
    last_user.fill(None);
    for id in ids() {
        for operand in module.operand_ids(id) {
            if last_user[operand.index()].replace(id) != Some(id) {
                users[next[operand.index()] as usize] = id;
                next[operand.index()] += 1;
            }
        }
    }
    Users { starts, users }
}
