//! Where the machine code of a scalar program is kept once there is any.
//!
//! Planning makes none. A run that finds a program busy makes it ([`crate::exec`]) and leaves it here
//! for all runs of the executable.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError};

use crate::plan::options::MachineCode;

/// Name by which machine code is switched off.
pub const NAME: &str = "machine-code";

/// Code of some form, or that there is none.
type Made = Option<Arc<dyn Any + Send + Sync>>;

/// See the module. Copies of a plan share it.
#[derive(Clone, Default)]
pub struct Compiled(Arc<Slot>);

#[derive(Default)]
struct Slot {
    when: MachineCode,
    /// Work that the interpreter has done, and the runs that it has ended.
    work: AtomicU64,
    runs: AtomicU64,
    /// By the operation at which a run enters.
    made: RwLock<Vec<(usize, Made)>>,
    /// Pieces that the code has.
    pieces: OnceLock<usize>,
    /// Held by the thread that makes some.
    making: Mutex<()>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiled({:?})", self.0.when)
    }
}

impl Compiled {
    /// Of a program that has not run.
    pub fn new(when: MachineCode) -> Compiled {
        Compiled(Arc::new(Slot {
            when,
            ..Slot::default()
        }))
    }

    /// When it is made.
    pub fn when(&self) -> MachineCode {
        self.0.when
    }

    /// Whether any was made.
    pub fn is_made(&self) -> bool {
        let made = self.0.made.read().unwrap_or_else(PoisonError::into_inner);
        made.iter().any(|(_, code)| code.is_some())
    }

    /// What was made for an operation.
    fn find(&self, entry: usize) -> Option<Made> {
        let made = self.0.made.read().unwrap_or_else(PoisonError::into_inner);
        let found = made.iter().find(|(own, _)| *own == entry);
        found.map(|(_, code)| code.clone())
    }

    /// Adds to the work that was interpreted.
    pub fn worked(&self, work: u64) {
        self.0.work.fetch_add(work, Ordering::Relaxed);
    }

    /// Adds the work of a run that has ended, but for what was added when it paused.
    pub fn ended(&self, work: u64) {
        self.worked(work);
        self.0.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Work that the interpreter has done, and the runs that it has ended.
    pub fn done(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.0.work), count(&self.0.runs))
    }

    /// Pieces that the code has, which `count` counts once.
    pub fn pieces(&self, count: impl FnOnce() -> usize) -> usize {
        *self.0.pieces.get_or_init(count)
    }

    /// The code that is entered at an operation: what was made before, or else what `make` makes.
    /// `None` where there can be none, and while another thread makes some.
    pub fn code<T: Any + Send + Sync>(
        &self,
        entry: usize,
        make: impl FnOnce() -> Option<T>,
    ) -> Option<Arc<T>> {
        let code = match self.find(entry) {
            Some(code) => code,
            None => {
                let _making = match self.0.making.try_lock() {
                    Ok(making) => making,
                    Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) => return None,
                };
                match self.find(entry) {
                    Some(code) => code,
                    None => {
                        let code = make().map(|code| Arc::new(code) as Arc<dyn Any + Send + Sync>);
                        let mut made = self.0.made.write().unwrap_or_else(PoisonError::into_inner);
                        made.push((entry, code.clone()));
                        code
                    }
                }
            }
        };
        code?.downcast().ok()
    }
}
