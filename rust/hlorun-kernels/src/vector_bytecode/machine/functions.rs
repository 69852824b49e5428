//! Functions of machine code.
//!
//! In: pieces of instructions on values. Out: the bytes of functions: one for blocks of several vectors and one for blocks of
//! one, which do what the interpreter does, and one for whole rows. All move the addresses outside on, behind the last block
//! or row.

use super::Source;
use super::encode::{
    Assembler, General, R8, R9, R10, R11, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSI,
    RSP, RegisterOrMemory, Registers, at,
};
use super::instructions::{Mnemonic, encoding, takes_mask};
use super::registers::{self, Allocated, LAST_LANES, Placed, allocate};
use super::values::{Call, Makes, MemoryOperand, pieces};
use crate::table::Unary;

/// The bytes of the functions, and where each begins.
pub(super) struct Functions {
    pub(super) bytes: Vec<u8>,
    pub(super) large: usize,
    pub(super) small: usize,
    /// That for rows, where there is one, and how many vectors it takes at a time.
    pub(super) rows: Option<(usize, usize)>,
    /// Whether they have elementwise products of floats.
    pub(super) has_products: bool,
}

/// The table of addresses, how they move on, and how many blocks are left.
const TABLE: General = RBX;
const STRIDES: General = R12;
const BLOCKS: General = R13;
/// The first element of the vectors at hand, in the loop over a block.
const INDEX: General = RCX;
/// Registers for addresses; the last one is that of the extent in the function for rows.
const ADDRESSES: [General; 9] = [RSI, RDI, R8, R9, R10, R11, R14, R15, RDX];
const EXTENT: General = RDX;
/// Registers that a function must leave as they were, beside the frame's.
const KEPT: [General; 5] = [RBX, R12, R13, R14, R15];
/// Most instructions in the body of a loop over the vectors of a block.
const MOST_UNROLLED: usize = 96;
/// Bytes of a slot on the stack.
const SLOT: i32 = 64;
/// Most slots: a frame is smaller than the page that guards the end of the stack.
const MAX_SLOTS: u32 = 48;

/// The columns of rows, as the function for them reads it.
#[repr(C)]
pub(super) struct Extent {
    /// The last column at which as many vectors may begin as are taken at a time, one vector, and what is left.
    ends: [isize; 3],
    /// The lanes of a row's last vector, where columns are left.
    last: u64,
}

impl Extent {
    /// Rows of `columns` columns, of which vectors of `lanes` are taken `unrolled` at a time.
    pub(super) fn new(columns: usize, lanes: usize, unrolled: usize) -> Extent {
        let columns = columns as isize;
        let lanes = lanes as isize;
        Extent {
            ends: [
                columns - lanes * unrolled as isize,
                columns - lanes,
                columns - 1,
            ],
            last: (1 << (columns % lanes)) - 1,
        }
    }
}

/// Calls a kernel for machine code.
///
/// # Safety
/// `kernel` is a [`Unary`], called by its contract.
unsafe extern "sysv64" fn call_kernel(kernel: *const (), from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute::<*const (), Unary>(kernel)(from, to, n) }
}

/// The functions, or `None` where there is no instruction for a code.
pub(super) fn functions(source: &Source<'_>) -> Option<Functions> {
    let all = pieces(source)?;
    let allocated: Option<Vec<(Allocated, Option<Call>)>> = all
        .pieces
        .iter()
        .map(|piece| {
            let own = allocate(piece, source.is_wide)?;
            (own.slots <= MAX_SLOTS).then_some((own, piece.call))
        })
        .collect();
    let mut writer = Writer {
        source,
        pieces: allocated?,
        assembler: Assembler::default(),
        registers: Vec::new(),
    };
    let large = writer.assembler.here();
    writer.function(source.vectors);
    let small = writer.assembler.here();
    writer.function(1);
    let rows = writer.rows_function();
    Some(Functions {
        rows,
        bytes: writer.assembler.finish(&all.constants, source.is_wide),
        large,
        small,
        has_products: all.has_products,
    })
}

/// Which lanes of a vector are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lanes {
    All,
    /// Those of a row's last vector.
    Last,
}

struct Writer<'s> {
    source: &'s Source<'s>,
    pieces: Vec<(Allocated, Option<Call>)>,
    assembler: Assembler,
    /// Addresses of the table that registers hold.
    registers: Vec<u16>,
}

impl Writer<'_> {
    fn lanes(&self) -> usize {
        if self.source.is_wide { 8 } else { 16 }
    }

    /// Whether there are no calls, so that addresses and constants stay in registers from block to block.
    fn is_one_piece(&self) -> bool {
        self.pieces.len() == 1
    }

    fn function(&mut self, vectors: usize) {
        let slots = self.pieces.iter().map(|(piece, _)| piece.slots).max();
        self.enter(slots.unwrap_or(0) as i32 * SLOT);
        if self.is_one_piece() {
            self.prepare(0, ADDRESSES.len());
        }
        let block = self.assembler.here();
        for at in 0..self.pieces.len() {
            if !self.is_one_piece() {
                self.prepare(at, ADDRESSES.len());
            }
            self.piece(at, vectors);
            if let Some(call) = self.pieces[at].1 {
                self.call(call, vectors);
            }
        }
        self.move_on();
        self.assembler.decrement(BLOCKS);
        self.assembler.back_unless_zero(block);
        if self.is_one_piece() {
            self.store_addresses();
        }
        self.leave();
    }

    /// The caller goes on with these addresses.
    fn store_addresses(&mut self) {
        for (&address, &register) in self.registers.iter().zip(&ADDRESSES) {
            self.assembler
                .store(TABLE, 8 * i32::from(address), register);
        }
    }

    /// The function for rows, each from its first column to its last, and how many vectors it takes at a time. `None` where
    /// values lie in memory from one block to the next, or an instruction cannot leave out lanes of the last vector.
    fn rows_function(&mut self) -> Option<(usize, usize)> {
        let [(piece, None)] = &self.pieces[..] else {
            return None;
        };
        let locals = self.source.locals;
        let all_outside = piece.placed.iter().all(|placed| match placed.last {
            registers::LastOperand::Memory(place) => {
                let is_outside = usize::from(place.address) >= locals;
                let is_plain = placed.mask == 0 && takes_mask(&placed.encoding);
                is_outside && (place.bytes == 0 || is_plain)
            }
            _ => true,
        });
        if !all_outside {
            return None;
        }
        let (count, slots) = (piece.placed.len(), piece.slots);
        let fits = |&unrolled: &usize| count * unrolled <= MOST_UNROLLED;
        let unrolled = [4, 2].into_iter().find(fits).unwrap_or(1);
        let start = self.assembler.here();
        self.enter(slots as i32 * SLOT);
        self.assembler.copy(EXTENT, RCX);
        self.prepare(0, ADDRESSES.len() - 1);
        let last = std::mem::offset_of!(Extent, last) as i32;
        let lanes = Registers {
            first: LAST_LANES,
            ..Registers::default()
        };
        let load = encoding(Mnemonic::MaskLoad, self.source.is_wide);
        self.assembler.vector(&load, lanes, at(EXTENT, last));
        let row = self.assembler.here();
        self.assembler.set(INDEX, 0);
        let all = [(unrolled, Lanes::All), (1, Lanes::All), (1, Lanes::Last)];
        for (end, (vectors, lanes)) in all.into_iter().enumerate() {
            self.row_loop(vectors, lanes, 8 * end as i32);
        }
        self.move_on();
        self.assembler.decrement(BLOCKS);
        self.assembler.back_unless_zero(row);
        self.store_addresses();
        self.leave();
        Some((start, unrolled))
    }

    /// Takes `vectors` vectors at a time of a row, as long as their first column is at most the one at `end` of the extent.
    fn row_loop(&mut self, vectors: usize, lanes: Lanes, end: i32) {
        self.assembler.compare_with(INDEX, EXTENT, end);
        let ahead = self.assembler.ahead_if_more();
        let start = self.assembler.here();
        let placed = std::mem::take(&mut self.pieces[0].0.placed);
        for vector in 0..vectors {
            for placed in &placed {
                self.instruction(placed, (vector, lanes), true);
            }
        }
        self.pieces[0].0.placed = placed;
        if lanes == Lanes::All {
            self.assembler.add(INDEX, (vectors * self.lanes()) as i32);
            self.assembler.compare_with(INDEX, EXTENT, end);
            self.assembler.back_if_at_most(start);
        }
        self.assembler.land(ahead);
    }

    /// Saves registers and aligns the frame.
    fn enter(&mut self, frame: i32) {
        let code = &mut self.assembler;
        code.push(RBP);
        code.copy(RBP, RSP);
        KEPT.iter().for_each(|&register| code.push(register));
        code.and(RSP, -SLOT);
        code.add(RSP, -frame);
        code.copy(TABLE, RDI);
        code.copy(STRIDES, RSI);
        code.copy(BLOCKS, RDX);
    }

    fn leave(&mut self) {
        let code = &mut self.assembler;
        code.zero_upper();
        code.address(RSP, RBP, -8 * KEPT.len() as i32);
        KEPT.iter().rev().for_each(|&register| code.pop(register));
        code.pop(RBP);
        code.ret();
    }

    /// Fills registers with addresses, of which there are so many registers, and constants of a piece.
    fn prepare(&mut self, piece: usize, addresses: usize) {
        let (piece, _) = &self.pieces[piece];
        self.registers.clear();
        for placed in &piece.placed {
            if let registers::LastOperand::Memory(place) = placed.last
                && !self.registers.contains(&place.address)
                && self.registers.len() < addresses
            {
                self.registers.push(place.address);
            }
        }
        for (&address, &register) in self.registers.iter().zip(&ADDRESSES) {
            self.assembler.load(register, TABLE, 8 * i32::from(address));
        }
        let broadcast = encoding(Mnemonic::Broadcast, self.source.is_wide);
        for (k, &number) in piece.pinned.iter().enumerate() {
            let to = Registers {
                first: (31 - k) as u8,
                ..Registers::default()
            };
            self.assembler
                .vector(&broadcast, to, RegisterOrMemory::Constant(number));
        }
    }

    /// The instructions of a piece, for each of the vectors of a block.
    fn piece(&mut self, at: usize, vectors: usize) {
        let placed = std::mem::take(&mut self.pieces[at].0.placed);
        let fits = |&unrolled: &usize| placed.len() * unrolled <= MOST_UNROLLED;
        let unrolled = [8, 4, 2].into_iter().filter(|&n| n <= vectors).find(fits);
        let unrolled = unrolled.unwrap_or(1);
        let is_loop = unrolled < vectors;
        if is_loop {
            self.assembler.set(INDEX, 0);
        }
        let start = self.assembler.here();
        for vector in 0..unrolled {
            for placed in &placed {
                self.instruction(placed, (vector, Lanes::All), is_loop);
            }
        }
        if is_loop {
            let lanes = self.lanes();
            self.assembler.add(INDEX, (unrolled * lanes) as i32);
            self.assembler.compare(INDEX, (vectors * lanes) as i32);
            self.assembler.back_unless_zero(start);
        }
        self.pieces[at].0.placed = placed;
    }

    fn instruction(&mut self, placed: &Placed, (vector, lanes): (usize, Lanes), is_loop: bool) {
        let last = match placed.last {
            registers::LastOperand::Register(register) => RegisterOrMemory::Register(register),
            registers::LastOperand::Constant(number) => RegisterOrMemory::Constant(number),
            registers::LastOperand::Stack(slot) => at(RSP, slot as i32 * SLOT),
            registers::LastOperand::Memory(place) => self.memory(placed, place, vector, is_loop),
        };
        let mut registers = Registers {
            first: placed.first,
            second: placed.second,
            mask: placed.mask,
            clears: placed.clears,
        };
        if let (Lanes::Last, registers::LastOperand::Memory(place)) = (lanes, placed.last)
            && place.bytes > 0
        {
            registers.mask = LAST_LANES;
            registers.clears = placed.makes == Makes::Vector;
        }
        self.assembler.vector(&placed.encoding, registers, last);
    }

    /// Where a vector is in memory.
    fn memory(
        &mut self,
        placed: &Placed,
        place: MemoryOperand,
        vector: usize,
        is_loop: bool,
    ) -> RegisterOrMemory {
        let held = self.registers.iter().position(|&at| at == place.address);
        let base = held.map_or(RAX, |k| ADDRESSES[k]);
        if held.is_none() {
            let distance = 8 * i32::from(place.address);
            self.assembler.load(RAX, TABLE, distance);
        }
        let scale = place.bytes / self.lanes() as u8;
        RegisterOrMemory::Memory {
            base,
            index: (is_loop && scale > 0).then_some((INDEX, scale)),
            distance: vector as i32 * i32::from(place.bytes),
            is_single: place.bytes == 0 && placed.encoding.bytes == 64,
        }
    }

    fn call(&mut self, call: Call, vectors: usize) {
        let kernel = self.source.calls[usize::from(call.number)];
        let count = (vectors * self.lanes()) as u64;
        let code = &mut self.assembler;
        code.zero_upper();
        code.set(RDI, kernel as usize as u64);
        code.load(RSI, TABLE, 8 * i32::from(call.from));
        code.load(RDX, TABLE, 8 * i32::from(call.to));
        code.set(RCX, count);
        code.set(RAX, call_kernel as *const () as u64);
        code.call(RAX);
    }

    /// Moves the addresses outside on by one block.
    fn move_on(&mut self) {
        let is_one_piece = self.is_one_piece();
        for k in 0..self.source.outside {
            let address = (self.source.locals + k) as u16;
            let distance = 8 * k as i32;
            let held = self.registers.iter().position(|&at| at == address);
            match held.filter(|_| is_one_piece) {
                Some(held) => self.assembler.add_from(ADDRESSES[held], STRIDES, distance),
                None => {
                    self.assembler.load(RAX, STRIDES, distance);
                    self.assembler.add_to(TABLE, 8 * i32::from(address), RAX);
                }
            }
        }
    }
}
