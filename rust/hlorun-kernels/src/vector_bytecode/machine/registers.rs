//! Registers for the values of a piece.
//!
//! In: instructions on values. Out: instructions on registers. A value that is read once, as the operand that may be in
//! memory, is read from there. Where registers run out, the value whose next read is the furthest waits on the stack.

use super::encode::Encoding;
use super::instructions::{Mnemonic, encoding};
use super::values::{Makes, MemoryOperand, Node, Operand, Piece, Value};

/// Registers of vectors and of masks. Register 0 of masks cannot mask an instruction, and stands for none.
const VECTORS: usize = 32;
const MASKS: usize = 7;
/// The register of masks behind these: the lanes of a row's last vector.
pub(super) const LAST_LANES: u8 = MASKS as u8;
/// Registers that are left for constants and spilled values which an instruction loads.
const SPARE: usize = 2;

/// The last operand of an instruction on registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LastOperand {
    Register(u8),
    Memory(MemoryOperand),
    Stack(u32),
    Constant(usize),
}

/// An instruction on registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) encoding: Encoding,
    pub(super) first: u8,
    pub(super) second: u8,
    pub(super) mask: u8,
    pub(super) clears: bool,
    pub(super) makes: Makes,
    pub(super) last: LastOperand,
}

/// A piece whose values have registers.
#[derive(Debug)]
pub(super) struct Allocated {
    pub(super) placed: Vec<Placed>,
    /// Constants that stay in registers: the last ones, downwards.
    pub(super) pinned: Vec<usize>,
    /// Slots on the stack.
    pub(super) slots: u32,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Home {
    Nowhere,
    Register(u8),
}

struct Allocator<'n> {
    nodes: &'n [Node],
    is_wide: bool,
    /// Instructions that read each value, in order, and how many of them are done.
    uses: Vec<Vec<u32>>,
    done: Vec<usize>,
    homes: Vec<Home>,
    slots: Vec<Option<u32>>,
    /// The first instruction that stores something.
    first_store: usize,
    vectors: Vec<Option<Value>>,
    masks: Vec<Option<Value>>,
    /// Registers that the instruction at hand uses.
    locked: Vec<(bool, u8)>,
    result: Allocated,
}

fn is_constant(node: &Node) -> bool {
    node.constant().is_some()
}

/// Whether the operands may change places. Those of floats decide which of two NaN survives.
fn commutes(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        IntAdd | IntMultiply | And | Or | Xor | IntLarger | IntSmaller | UintLarger | UintSmaller
    )
}

/// Whether the last operand of an instruction may be a vector, or an element, in memory.
fn takes_memory(node: &Node) -> bool {
    use Mnemonic::*;
    node.makes != Makes::Nothing
        && !matches!(
            node.mnemonic,
            Move | Broadcast | Widen | WidenFloat | NarrowFloat | TestBytes | LoadBytes | SetBytes
        )
        && !matches!(
            node.mnemonic,
            MaskAnd | MaskOr | MaskXor | MaskNot | MaskLoad
        )
        && !matches!(node.mnemonic, ToDouble | HighHalf | JoinHalves)
}

/// The same instructions, where what is loaded and read once is read from memory.
fn folded(piece: &Piece) -> (Vec<Node>, Vec<bool>) {
    let mut nodes = piece.nodes.clone();
    let mut counts = vec![0; nodes.len()];
    for node in &nodes {
        node.reads().for_each(|value| counts[value as usize] += 1);
    }
    let mut is_gone = vec![false; nodes.len()];
    // The stores so far, by address. Results in the place of inputs are stored after all reads.
    let mut stores: Vec<(u16, usize)> = Vec::new();
    for at in 0..nodes.len() {
        let node = nodes[at];
        if node.makes == Makes::Nothing
            && let Operand::Memory(place) = node.last
        {
            stores.push((place.address, at));
        }
        let in_memory = |value: Value| {
            let loaded = &nodes[value as usize];
            let is_load = matches!(loaded.mnemonic, Mnemonic::Move | Mnemonic::Broadcast);
            match loaded.last {
                Operand::Memory(place) if is_load && loaded.mask.is_none() => {
                    let is_old = |&(address, store): &(u16, usize)| {
                        address == place.address && store > value as usize
                    };
                    let is_once = counts[value as usize] == 1;
                    (is_once && !stores.iter().any(is_old)).then_some(place)
                }
                _ => None,
            }
        };
        let (Operand::Value(last), true) = (node.last, takes_memory(&node)) else {
            continue;
        };
        // A row's last vector is read by a mask, so that another mask leaves no room for it.
        if node.first.is_some() || node.mask.is_some() {
            continue;
        }
        if let Some(place) = in_memory(last) {
            nodes[at].last = Operand::Memory(place);
            is_gone[last as usize] = true;
        } else if let Some(second) = node.second.filter(|_| commutes(node.mnemonic))
            && let Some(place) = in_memory(second)
        {
            nodes[at].second = Some(last);
            nodes[at].last = Operand::Memory(place);
            is_gone[second as usize] = true;
        } else if node.second.is_some_and(|s| is_constant(&nodes[s as usize]))
            && commutes(node.mnemonic)
        {
            nodes[at].second = Some(last);
            nodes[at].last = Operand::Value(node.second.unwrap_or(last));
        }
    }
    (nodes, is_gone)
}

/// Most vectors that are needed at once.
fn most_live(nodes: &[Node], is_gone: &[bool], uses: &[Vec<u32>]) -> usize {
    let mut change = vec![0i32; nodes.len() + 1];
    for (at, node) in nodes.iter().enumerate() {
        if node.makes == Makes::Vector
            && !is_gone[at]
            && !is_constant(node)
            && let Some(&last) = uses[at].last()
        {
            change[at] += 1;
            change[last as usize + 1] -= 1;
        }
    }
    let mut live = 0;
    let lives = change.iter().map(|change| {
        live += change;
        live
    });
    lives.max().unwrap_or(0).max(0) as usize
}

/// Registers for a piece; `None` where they do not suffice.
pub(super) fn allocate(piece: &Piece, is_wide: bool) -> Option<Allocated> {
    let (nodes, is_gone) = folded(piece);
    let mut uses = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        if !is_gone[at] {
            node.reads()
                .for_each(|value| uses[value as usize].push(at as u32));
        }
    }
    let live = most_live(&nodes, &is_gone, &uses);
    let mut constants: Vec<Value> = (0..nodes.len() as Value)
        .filter(|&value| is_constant(&nodes[value as usize]) && !uses[value as usize].is_empty())
        .collect();
    constants.sort_by_key(|&value| std::cmp::Reverse(uses[value as usize].len()));
    constants.truncate(VECTORS.saturating_sub(live + SPARE));
    let own = VECTORS - constants.len();
    let mut allocator = Allocator {
        nodes: &nodes,
        is_wide,
        done: vec![0; nodes.len()],
        homes: vec![Home::Nowhere; nodes.len()],
        slots: vec![None; nodes.len()],
        first_store: nodes
            .iter()
            .position(|node| node.makes == Makes::Nothing)
            .unwrap_or(nodes.len()),
        vectors: vec![None; own],
        masks: vec![None; MASKS],
        locked: Vec::new(),
        result: Allocated {
            placed: Vec::with_capacity(nodes.len()),
            pinned: Vec::new(),
            slots: 0,
        },
        uses,
    };
    for (k, &value) in constants.iter().enumerate() {
        allocator.homes[value as usize] = Home::Register((VECTORS - 1 - k) as u8);
        let number = nodes[value as usize].constant()?;
        allocator.result.pinned.push(number);
    }
    for at in 0..nodes.len() {
        if !is_gone[at] && !is_constant(&nodes[at]) {
            allocator.node(at)?;
        }
    }
    Some(allocator.result)
}

impl Allocator<'_> {
    fn encoding(&self, mnemonic: Mnemonic, immediate: u8) -> Encoding {
        let encoding = encoding(mnemonic, self.is_wide);
        Encoding {
            immediate: encoding.immediate.map(|_| immediate),
            ..encoding
        }
    }

    fn is_mask(&self, value: Value) -> bool {
        self.nodes[value as usize].makes == Makes::Mask
    }

    fn is_read_later(&self, value: Value) -> bool {
        self.done[value as usize] < self.uses[value as usize].len()
    }

    /// Adds an instruction without a mask.
    fn emit(&mut self, encoding: Encoding, first: u8, second: u8, last: LastOperand) {
        self.result.placed.push(Placed {
            encoding,
            first,
            second,
            mask: 0,
            clears: false,
            makes: Makes::Vector,
            last,
        });
    }

    /// A register for `value`; if none is free, one whose value is spilled.
    fn take(&mut self, value: Value) -> Option<u8> {
        let is_mask = self.is_mask(value);
        let first = usize::from(is_mask);
        let file = if is_mask { &self.masks } else { &self.vectors };
        let free = (first..file.len()).find(|&register| {
            file[register].is_none() && !self.locked.contains(&(is_mask, register as u8))
        });
        let register = match free {
            Some(register) => register as u8,
            None => self.evict(is_mask)?,
        };
        let file = if is_mask {
            &mut self.masks
        } else {
            &mut self.vectors
        };
        file[usize::from(register)] = Some(value);
        self.homes[value as usize] = Home::Register(register);
        self.locked.push((is_mask, register));
        Some(register)
    }

    /// Where a value can be read again instead of being kept: what is constant, and what is loaded and read before anything
    /// is stored.
    fn source(&self, value: Value) -> Option<LastOperand> {
        let node = &self.nodes[value as usize];
        let is_load =
            matches!(node.mnemonic, Mnemonic::Move | Mnemonic::Broadcast) && node.mask.is_none();
        match node.last {
            Operand::Constant(number) => Some(LastOperand::Constant(number)),
            Operand::Memory(place) if is_load => {
                let last = self.uses[value as usize].last();
                let is_before = last.is_none_or(|&last| (last as usize) < self.first_store);
                is_before.then_some(LastOperand::Memory(place))
            }
            _ => None,
        }
    }

    /// Frees the register of the value whose next read is the furthest.
    fn evict(&mut self, is_mask: bool) -> Option<u8> {
        let file = if is_mask { &self.masks } else { &self.vectors };
        let next = |value: Value| {
            let (value, done) = (value as usize, self.done[value as usize]);
            self.uses[value].get(done).copied().unwrap_or(u32::MAX)
        };
        let candidates = file.iter().enumerate().filter_map(|(register, value)| {
            let register = register as u8;
            let value = (*value)?;
            (!self.locked.contains(&(is_mask, register))).then_some((next(value), register, value))
        });
        let (_, register, value) = candidates.max()?;
        let at = value as usize;
        if self.slots[at].is_none() && self.source(value).is_none() && self.is_read_later(value) {
            let slot = self.result.slots;
            self.result.slots += 1;
            self.slots[at] = Some(slot);
            let mnemonic = if is_mask {
                Mnemonic::MaskStore
            } else {
                Mnemonic::Store
            };
            let encoding = self.encoding(mnemonic, 0);
            self.emit(encoding, register, 0, LastOperand::Stack(slot));
        }
        self.homes[at] = Home::Nowhere;
        Some(register)
    }

    /// The register of a value that is read now.
    fn register(&mut self, value: Value) -> Option<u8> {
        let is_mask = self.is_mask(value);
        if let Home::Register(register) = self.homes[value as usize] {
            self.locked.push((is_mask, register));
            return Some(register);
        }
        let register = self.take(value)?;
        let (mnemonic, last) = match (self.source(value), self.slots[value as usize]) {
            (Some(last), _) => (self.nodes[value as usize].mnemonic, last),
            (None, Some(slot)) if is_mask => (Mnemonic::MaskLoad, LastOperand::Stack(slot)),
            (None, Some(slot)) => (Mnemonic::Move, LastOperand::Stack(slot)),
            (None, None) => return None,
        };
        let encoding = self.encoding(mnemonic, 0);
        self.emit(encoding, register, 0, last);
        Some(register)
    }

    /// The last operand: a register, or memory where the value is not in one.
    fn last(&mut self, node: &Node) -> Option<LastOperand> {
        Some(match node.last {
            Operand::Memory(place) => LastOperand::Memory(place),
            Operand::Constant(number) => LastOperand::Constant(number),
            Operand::Value(value) => {
                let in_register = matches!(self.homes[value as usize], Home::Register(_));
                match (in_register || !takes_memory(node), self.source(value)) {
                    (false, Some(LastOperand::Memory(_))) if node.mask.is_some() => {
                        LastOperand::Register(self.register(value)?)
                    }
                    (false, Some(last)) => last,
                    (false, None) => LastOperand::Stack(self.slots[value as usize]?),
                    (true, _) => LastOperand::Register(self.register(value)?),
                }
            }
        })
    }

    /// Counts a read of each operand, and frees the registers of those that are read no more.
    fn used(&mut self, at: usize) {
        for value in self.nodes[at].reads() {
            self.done[value as usize] += 1;
        }
        for value in self.nodes[at].reads() {
            if !self.is_read_later(value) {
                self.free(value);
            }
        }
    }

    /// Frees the register of a result that nothing reads.
    fn free_unread(&mut self, at: usize) {
        if self.nodes[at].makes != Makes::Nothing && !self.is_read_later(at as Value) {
            self.free(at as Value);
        }
    }

    fn free(&mut self, value: Value) {
        let is_mask = self.is_mask(value);
        if let Home::Register(register) = self.homes[value as usize] {
            let file = if is_mask {
                &mut self.masks
            } else {
                &mut self.vectors
            };
            if let Some(held) = file.get_mut(usize::from(register)) {
                *held = None;
                self.homes[value as usize] = Home::Nowhere;
            }
        }
    }

    fn node(&mut self, at: usize) -> Option<()> {
        let node = self.nodes[at];
        self.locked.clear();
        if node.mnemonic == Mnemonic::MultiplyAdd213 {
            return self.fused_multiply_add(at);
        }
        let stored = self.optional(node.first)?;
        let second = self.optional(node.second)?;
        let mask = self.optional(node.mask)?;
        let last = self.last(&node)?;
        let encoding = self.encoding(node.mnemonic, node.immediate);
        self.used(at);
        self.locked.clear();
        let made = match node.makes {
            Makes::Nothing => stored,
            _ => self.take(at as Value)?,
        };
        let (first, last) = match (node.mnemonic, node.makes, last) {
            // This instruction writes the operand that may be in memory, and reads the other.
            (Mnemonic::NarrowFloat, Makes::Vector, LastOperand::Register(from)) => {
                (from, LastOperand::Register(made))
            }
            _ => (made, last),
        };
        self.result.placed.push(Placed {
            encoding,
            first,
            second,
            mask,
            clears: mask != 0 && node.mnemonic != Mnemonic::Blend,
            makes: node.makes,
            last,
        });
        self.free_unread(at);
        Some(())
    }

    /// The register of a value, or 0 for none.
    fn optional(&mut self, value: Option<Value>) -> Option<u8> {
        value.map_or(Some(0), |value| self.register(value))
    }

    /// A product and a sum, rounded once: the instruction overwrites one operand, so that one must be read here last, or is
    /// copied.
    fn fused_multiply_add(&mut self, at: usize) -> Option<()> {
        let node = self.nodes[at];
        let (Some(x), Some(by), Operand::Value(plus)) = (node.first, node.second, node.last) else {
            return None;
        };
        let ends = |allocator: &Self, value: Value| {
            let at = value as usize;
            let is_last = allocator.done[at] + 1 == allocator.uses[at].len();
            let is_pinned = |register| usize::from(register) >= allocator.vectors.len();
            let is_own = match allocator.homes[at] {
                Home::Register(register) => !is_pinned(register),
                Home::Nowhere => false,
            };
            is_last && is_own
        };
        let is_sum = ends(self, plus) && plus != x && plus != by;
        let (mnemonic, tied, second, last) = match ends(self, x) && x != by && x != plus {
            true => (Mnemonic::MultiplyAdd213, x, by, plus),
            false if is_sum => (Mnemonic::MultiplyAdd231, plus, x, by),
            false => {
                let from = self.register(x)?;
                let second = self.register(by)?;
                let last = self.last(&node)?;
                let to = self.take(at as Value)?;
                let copy = self.encoding(Mnemonic::Move, 0);
                self.emit(copy, to, 0, LastOperand::Register(from));
                let encoding = self.encoding(Mnemonic::MultiplyAdd213, 0);
                self.emit(encoding, to, second, last);
                self.used(at);
                self.free_unread(at);
                return Some(());
            }
        };
        let tied_at = self.register(tied)?;
        let second = self.register(second)?;
        let rest = Node {
            last: Operand::Value(last),
            ..node
        };
        let last = self.last(&rest)?;
        let encoding = self.encoding(mnemonic, 0);
        self.emit(encoding, tied_at, second, last);
        self.used(at);
        self.vectors[usize::from(tied_at)] = Some(at as Value);
        self.homes[at] = Home::Register(tied_at);
        self.free_unread(at);
        Some(())
    }
}
