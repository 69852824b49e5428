//! Loops over tasks.

/// Runs a task for every number below a count.
pub type ParallelLoop<'p> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync + 'p;

/// What an operation may use beyond its arrays.
#[derive(Clone, Copy)]
pub struct OpEnvironment<'e> {
    /// Runs `task(i)` for every `i` below the count, on all threads of the executable.
    pub parallel: &'e ParallelLoop<'e>,
    /// How many threads that is. No bit of a result may depend on it.
    pub threads: usize,
}

impl OpEnvironment<'static> {
    /// Everything on the calling thread.
    pub const SERIAL: OpEnvironment<'static> = OpEnvironment {
        parallel: hlorun_kernels::Parallel::SERIAL.run,
        threads: 1,
    };
}

impl OpEnvironment<'_> {
    /// The same for products.
    pub fn products(&self) -> hlorun_kernels::Parallel<'_> {
        hlorun_kernels::Parallel {
            threads: self.threads,
            run: self.parallel,
        }
    }
}
