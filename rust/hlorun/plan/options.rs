//! How a module is compiled.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::module::{ComputationId, HloModule};

/// What is checked beyond what every plan is made by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// Nothing.
    #[default]
    Off,
    /// The plan; see [`super::memory::checker`].
    Plan,
    /// The plan, and in every run each thunk: it gets copies of what it declares to touch and
    /// nothing else; see `exec::shadow`. Slow.
    Shadow,
}

/// When scalar and vector bytecode become machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MachineCode {
    /// Never; it is interpreted.
    Never,
    /// When it was interpreted for so long that making machine code pays.
    #[default]
    WhenBusy,
    /// Before it first runs.
    AtOnce,
}

impl MachineCode {
    /// What the environment variable `HLORUN_JIT` says (`0`: never, `always`: at once), or else this; never stays never.
    /// The variable is read once per process.
    pub fn asked(self) -> MachineCode {
        static VALUE: OnceLock<Option<MachineCode>> = OnceLock::new();
        let asked = VALUE.get_or_init(|| match std::env::var("HLORUN_JIT").as_deref() {
            Ok("0") => Some(MachineCode::Never),
            Ok("always") => Some(MachineCode::AtOnce),
            _ => None,
        });
        match self {
            MachineCode::Never => MachineCode::Never,
            planned => asked.unwrap_or(planned),
        }
    }
}

/// How a module is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Fuse elementwise instructions; off, every instruction is stored.
    pub fuse: bool,
    /// Threads a run may use; 0 for all cores.
    pub threads: usize,
    /// Replicas that run together.
    pub replicas: u32,
    /// Partitions of each replica.
    pub partitions: u32,
    /// Names of passes that are switched off; see [`super::passes::PASSES`].
    pub disable: Vec<String>,
    /// Show every computed value to the run's observer. Nothing is fused and no pass runs, so that
    /// every instruction of the text has a value.
    pub observe: bool,
    /// Whether the plan is checked, and runs of it.
    pub check: Check,
    /// Computes for `constant-folding` what depends on constants alone; `None` leaves it for the
    /// run.
    pub evaluate: Option<Evaluate>,
    /// Most optional passes that run; `None` for all.
    pub pass_limit: Option<usize>,
    /// When loops over few elements become machine code.
    pub machine_code: MachineCode,
    /// Is shown the module after each pass.
    pub inspect: Option<Inspect>,
}

impl CompileOptions {
    /// Whether a pass is switched off.
    pub fn is_off(&self, name: &str) -> bool {
        self.disable.iter().any(|off| off == name)
    }
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            fuse: true,
            threads: 0,
            replicas: 1,
            partitions: 1,
            disable: Vec::new(),
            observe: false,
            check: Check::Off,
            evaluate: None,
            pass_limit: None,
            machine_code: MachineCode::WhenBusy,
            inspect: None,
        }
    }
}

/// Is shown the module after each pass, with the number of the pass and its name. An error ends the
/// compilation.
///
/// Planning can neither print nor verify; who compiles may lend it this.
#[derive(Clone)]
pub struct Inspect(pub Arc<InspectFunction>);

/// See [`Inspect`].
pub type InspectFunction = dyn Fn(usize, &'static str, &HloModule) -> Result<()> + Send + Sync;

impl fmt::Debug for Inspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspect")
    }
}

/// Computes a computation without parameters: the row-major elements of every array of its result.
///
/// Planning cannot run anything itself; who compiles may lend it [`crate::exec::EVALUATE`].
#[derive(Clone, Copy, Debug)]
pub struct Evaluate(pub(crate) fn(&HloModule, ComputationId, &CompileOptions) -> Result<Elements>);

/// The elements of every array of a result.
pub type Elements = Vec<Box<[u8]>>;
