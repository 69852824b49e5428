//! A fused loop of few elements, ready to run in one piece.

use std::sync::Arc;

/// Bytes that the address of a register is a multiple of.
pub const LINE: usize = 64;

/// What the address of a register counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// Nothing; the run names it.
    Outside,
    /// The scratch of a run.
    Scratch,
    /// [`SmallLoop::known`].
    Known,
}

/// How a load's register gets its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bring {
    /// They are known while planning.
    Known,
    /// They lie side by side in memory.
    InPlace,
    /// One element for all.
    Repeat,
    /// They are gathered.
    Gather,
}

/// A cache line of known elements.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Line(pub [u8; LINE]);

/// See the module.
#[derive(Clone, Debug)]
pub struct SmallLoop {
    /// Where every register is: a base, and bytes behind it.
    pub places: Box<[(Base, u32)]>,
    /// Elements of constants and indices.
    pub known: Arc<[Line]>,
    /// By load.
    pub loads: Box<[Bring]>,
    /// By store: the register is computed in the store's memory.
    pub stores: Box<[bool]>,
}
