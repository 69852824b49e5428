//! When machine code of scalar and of vector bytecode pays, and what bounds it.
//!
//! Promise: making code takes about as long as the interpreter has worked until then. For a program that has run more than
//! [`USUAL_RUNS`] times, making it may take [`WORK_TO_COME`] times as long.

use crate::plan::options::MachineCode;

/// Cycles of interpretation after which vector bytecode becomes machine code: about as many as making it takes.
const MIN_VECTOR_WORK: u64 = 1 << 18;

/// Cycles of interpreted vector bytecode before machine code of it; `None` for never.
pub fn vector_work(when: MachineCode) -> Option<u64> {
    match when {
        MachineCode::Never => None,
        MachineCode::WhenBusy => Some(MIN_VECTOR_WORK),
        MachineCode::AtOnce => Some(0),
    }
}

/// Work of the interpreter from which on code is made, and how much more for each piece of it: making one takes as long as
/// interpreting some hundreds of operations.
pub const MIN_WORK: u64 = 1 << 17;
pub const WORK_PER_PIECE: u64 = 1 << 11;
/// Runs of a program after which it is taken for one that runs again and again. It is then likely to do [`WORK_TO_COME`] times
/// the work that it has done until then.
const USUAL_RUNS: u64 = 2;
const WORK_TO_COME: u64 = 8;

/// Work that is likely to come, of a program that did `done` in `runs` runs before.
pub fn likely_work(done: u64, runs: u64) -> u64 {
    match runs > USUAL_RUNS {
        true => done.saturating_mul(WORK_TO_COME),
        false => done,
    }
}

/// Work between two looks at whether the run is to end: less than a millisecond.
pub const FUEL: i64 = 1 << 17;
/// Most elements that code reads and writes one by one: it bounds the time that making it takes.
pub const MAX_ELEMENTS: usize = 1 << 16;
/// Cells times blocks up to which it is worked out what trips hand on; beyond, all do.
pub const MAX_FLOW: usize = 1 << 24;
/// Most blocks or elements that an operation computes or copies one by one.
pub const MAX_LANES: usize = 32;
/// Most moves of a gather or scatter that are instructions: a call computes their places in every trip.
pub const MAX_MOVES: usize = 64;
/// Most multiplications of a product that are done one by one.
pub const MAX_TERMS: usize = 1 << 8;
/// Most rows or columns of such a product.
pub const MAX_SIDE: usize = 8;
/// Elements from which on a kernel's vectors are faster than a call for each.
pub const MIN_VECTOR: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_again_and_again_is_likely_to_do_more() {
        assert_eq!(likely_work(0, 0), 0);
        assert_eq!(likely_work(1000, USUAL_RUNS), 1000);
        assert_eq!(likely_work(1000, USUAL_RUNS + 1), 1000 * WORK_TO_COME);
        assert_eq!(likely_work(u64::MAX / 2, 100), u64::MAX);
    }
}
