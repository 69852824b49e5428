//! Instructions of x86-64 as bytes.
//!
//! In: instructions with registers and places. Out: bytes. Source: Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 2: EVEX prefixes in section 2.7, VEX prefixes in section 2.3.

/// A general register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct General(pub(super) u8);

pub(super) const RAX: General = General(0);
pub(super) const RCX: General = General(1);
pub(super) const RDX: General = General(2);
pub(super) const RBX: General = General(3);
pub(super) const RSP: General = General(4);
pub(super) const RBP: General = General(5);
pub(super) const RSI: General = General(6);
pub(super) const RDI: General = General(7);
pub(super) const R8: General = General(8);
pub(super) const R9: General = General(9);
pub(super) const R10: General = General(10);
pub(super) const R11: General = General(11);
pub(super) const R12: General = General(12);
pub(super) const R13: General = General(13);
pub(super) const R14: General = General(14);
pub(super) const R15: General = General(15);

/// How an instruction begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Prefix {
    /// Vectors.
    Evex,
    /// Masks.
    Vex,
}

/// An instruction but for its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Encoding {
    pub(super) prefix: Prefix,
    /// Which table of opcodes: 1, 2 and 3 for `0F`, `0F38` and `0F3A`.
    pub(super) map: u8,
    /// What a legacy prefix was: 1, 2 and 3 for `66`, `F3` and `F2`.
    pub(super) pp: u8,
    pub(super) wide: bool,
    pub(super) opcode: u8,
    /// Bytes of a vector: 16 or 64; of masks, whether there are two operands before the last.
    pub(super) length: u8,
    /// Bytes of the operand in memory: a distance of one byte counts units of so many. Not used for masks.
    pub(super) bytes: u8,
    pub(super) immediate: Option<u8>,
}

/// The operand that may be in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RegisterOrMemory {
    /// A register of vectors or masks.
    Register(u8),
    /// `base + index * scale + distance`.
    Memory {
        base: General,
        index: Option<(General, u8)>,
        distance: i32,
        /// Whether it is one element, for all lanes.
        is_single: bool,
    },
    /// The constant of this number, in every lane.
    Constant(usize),
}

/// Code that is being written.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) bytes: Vec<u8>,
    /// Where a distance to a constant is, and which one.
    constants: Vec<(usize, usize)>,
}

/// A jump whose end is not known yet, by the byte behind it.
pub(super) struct Ahead(usize);

/// Registers beside the last operand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    /// The result, or what is stored.
    pub(super) first: u8,
    /// The operand before the last.
    pub(super) second: u8,
    /// The mask; 0 for none.
    pub(super) mask: u8,
    /// Whether lanes without a mask bit become zero.
    pub(super) clears: bool,
}

impl Assembler {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction on vectors or masks.
    pub(super) fn vector(
        &mut self,
        encoding: &Encoding,
        registers: Registers,
        last: RegisterOrMemory,
    ) {
        let Registers {
            first,
            second,
            mask,
            clears,
        } = registers;
        let bit = |of: u8, at: u8| of >> at & 1;
        // Bits of registers are stored inverted.
        let not = |bit: u8| bit ^ 1;
        let (high, higher, is_broadcast) = match last {
            RegisterOrMemory::Register(register) => (bit(register, 3), bit(register, 4), false),
            RegisterOrMemory::Memory {
                base,
                index,
                is_single,
                ..
            } => {
                let index = index.map_or(0, |(index, _)| bit(index.0, 3));
                (bit(base.0, 3), index, is_single)
            }
            RegisterOrMemory::Constant(_) => (0, 0, encoding.bytes == 64),
        };
        let w = u8::from(encoding.wide);
        match encoding.prefix {
            Prefix::Evex => {
                let p0 = not(bit(first, 3)) << 7
                    | not(higher) << 6
                    | not(high) << 5
                    | not(bit(first, 4)) << 4
                    | encoding.map;
                let p1 = w << 7 | (!second & 15) << 3 | 1 << 2 | encoding.pp;
                let length = if encoding.length == 64 { 2 } else { 0 };
                let p2 = u8::from(clears) << 7
                    | length << 5
                    | u8::from(is_broadcast) << 4
                    | not(bit(second, 4)) << 3
                    | mask;
                self.put(&[0x62, p0, p1, p2, encoding.opcode]);
            }
            Prefix::Vex => {
                let p0 = not(bit(first, 3)) << 7 | not(higher) << 6 | not(high) << 5 | encoding.map;
                let length = u8::from(encoding.length != 0);
                let p1 = w << 7 | (!second & 15) << 3 | length << 2 | encoding.pp;
                self.put(&[0xc4, p0, p1, encoding.opcode]);
            }
        }
        let unit = match encoding.prefix {
            Prefix::Evex if is_broadcast => 4 << w,
            Prefix::Evex => i32::from(encoding.bytes),
            Prefix::Vex => 1,
        };
        self.operand(first, last, unit, encoding.immediate.is_some());
        if let Some(immediate) = encoding.immediate {
            self.put(&[immediate]);
        }
    }

    /// The bytes that name the last operand and the register beside it. Short distances count units.
    fn operand(&mut self, register: u8, last: RegisterOrMemory, unit: i32, has_immediate: bool) {
        let register = (register & 7) << 3;
        match last {
            RegisterOrMemory::Register(other) => self.put(&[0xc0 | register | other & 7]),
            RegisterOrMemory::Constant(number) => {
                self.put(&[register | 5]);
                self.constants.push((self.bytes.len(), number));
                // Distances count from the end of the instruction.
                let behind = 4 + i32::from(has_immediate);
                self.put(&(-behind).to_le_bytes());
            }
            RegisterOrMemory::Memory {
                base,
                index,
                distance,
                ..
            } => {
                let short = (distance % unit == 0)
                    .then(|| i8::try_from(distance / unit).ok())
                    .flatten();
                let mode = if short.is_some() { 0x40 } else { 0x80 };
                let low = base.0 & 7;
                match index {
                    None if low != RSP.0 => self.put(&[mode | register | low]),
                    _ => {
                        let (index, scale) = index.unwrap_or((RSP, 1));
                        let scale = scale.trailing_zeros() as u8;
                        self.put(&[mode | register | 4, scale << 6 | (index.0 & 7) << 3 | low]);
                    }
                }
                match short {
                    Some(short) => self.put(&short.to_le_bytes()),
                    None => self.put(&distance.to_le_bytes()),
                }
            }
        }
    }

    /// An instruction of 64 bits on a general register and another, or memory.
    fn general(&mut self, opcode: u8, register: General, last: RegisterOrMemory) {
        let high = |of: u8| of >> 3 & 1;
        let (base, index) = match last {
            RegisterOrMemory::Register(other) => (other, 0),
            RegisterOrMemory::Memory { base, index, .. } => {
                (base.0, index.map_or(0, |(index, _)| index.0))
            }
            RegisterOrMemory::Constant(_) => (0, 0),
        };
        let rex = 0x48 | high(register.0) << 2 | high(index) << 1 | high(base);
        self.put(&[rex, opcode]);
        self.operand(register.0, last, 1, false);
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: General, from: General) {
        self.general(0x8b, to, RegisterOrMemory::Register(from.0));
    }

    /// `to = [base + distance]`.
    pub(super) fn load(&mut self, to: General, base: General, distance: i32) {
        self.general(0x8b, to, at(base, distance));
    }

    /// `[base + distance] = from`.
    pub(super) fn store(&mut self, base: General, distance: i32, from: General) {
        self.general(0x89, from, at(base, distance));
    }

    /// `to += [base + distance]`.
    pub(super) fn add_from(&mut self, to: General, base: General, distance: i32) {
        self.general(0x03, to, at(base, distance));
    }

    /// `[base + distance] += from`.
    pub(super) fn add_to(&mut self, base: General, distance: i32, from: General) {
        self.general(0x01, from, at(base, distance));
    }

    /// `to = base + distance`.
    pub(super) fn address(&mut self, to: General, base: General, distance: i32) {
        self.general(0x8d, to, at(base, distance));
    }

    /// `register += value`.
    pub(super) fn add(&mut self, register: General, value: i32) {
        self.general(0x81, General(0), RegisterOrMemory::Register(register.0));
        self.put(&value.to_le_bytes());
    }

    /// `register &= value`.
    pub(super) fn and(&mut self, register: General, value: i32) {
        self.general(0x81, General(4), RegisterOrMemory::Register(register.0));
        self.put(&value.to_le_bytes());
    }

    /// Compares a register with a number.
    pub(super) fn compare(&mut self, register: General, value: i32) {
        self.general(0x81, General(7), RegisterOrMemory::Register(register.0));
        self.put(&value.to_le_bytes());
    }

    /// Compares a register with `[base + distance]`.
    pub(super) fn compare_with(&mut self, register: General, base: General, distance: i32) {
        self.general(0x3b, register, at(base, distance));
    }

    /// `register = value`.
    pub(super) fn set(&mut self, register: General, value: u64) {
        let rex = 0x48 | register.0 >> 3;
        self.put(&[rex, 0xb8 | register.0 & 7]);
        self.put(&value.to_le_bytes());
    }

    /// Subtracts one from a register; zero is seen by [`Assembler::back_unless_zero`].
    pub(super) fn decrement(&mut self, register: General) {
        self.general(0xff, General(1), RegisterOrMemory::Register(register.0));
    }

    pub(super) fn push(&mut self, register: General) {
        self.put(&[0x40 | register.0 >> 3, 0x50 | register.0 & 7]);
    }

    pub(super) fn pop(&mut self, register: General) {
        self.put(&[0x40 | register.0 >> 3, 0x58 | register.0 & 7]);
    }

    pub(super) fn call(&mut self, register: General) {
        self.put(&[0x40 | register.0 >> 3, 0xff, 0xd0 | register.0 & 7]);
    }

    pub(super) fn ret(&mut self) {
        self.put(&[0xc3]);
    }

    /// `vzeroupper`: without it, instructions of 16 bytes that follow are slow.
    pub(super) fn zero_upper(&mut self) {
        self.put(&[0xc5, 0xf8, 0x77]);
    }

    /// Where the next instruction begins.
    pub(super) fn here(&self) -> usize {
        self.bytes.len()
    }

    fn jump_back(&mut self, condition: u8, to: usize) {
        let distance = to as i64 - (self.bytes.len() as i64 + 6);
        self.put(&[0x0f, 0x80 | condition]);
        self.put(&(distance as i32).to_le_bytes());
    }

    /// Goes back unless the last result was zero, or what was compared equal.
    pub(super) fn back_unless_zero(&mut self, to: usize) {
        self.jump_back(5, to);
    }

    /// Goes back if what was compared is at most the other.
    pub(super) fn back_if_at_most(&mut self, to: usize) {
        self.jump_back(14, to);
    }

    /// Goes on where [`Assembler::land`] says if what was compared is more than the other.
    pub(super) fn ahead_if_more(&mut self) -> Ahead {
        self.put(&[0x0f, 0x8f, 0, 0, 0, 0]);
        Ahead(self.here())
    }

    /// Lets a jump ahead go to the next instruction.
    pub(super) fn land(&mut self, jump: Ahead) {
        let distance = (self.here() - jump.0) as i32;
        self.bytes[jump.0 - 4..jump.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// The bytes, and behind them the constants, of four or eight bytes each.
    pub(super) fn finish(mut self, constants: &[u64], is_wide: bool) -> Vec<u8> {
        let size = if is_wide { 8 } else { 4 };
        while !self.bytes.len().is_multiple_of(64) {
            self.bytes.push(0xcc);
        }
        let first = self.bytes.len();
        for (at, number) in self.constants {
            let to = (first + number * size) as i32 - at as i32;
            let mut behind = [0; 4];
            behind.copy_from_slice(&self.bytes[at..at + 4]);
            let distance = to + i32::from_le_bytes(behind);
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        for constant in constants {
            self.bytes
                .extend_from_slice(&constant.to_le_bytes()[..size]);
        }
        self.bytes
    }
}

/// `base + distance`.
pub(super) fn at(base: General, distance: i32) -> RegisterOrMemory {
    RegisterOrMemory::Memory {
        base,
        index: None,
        distance,
        is_single: false,
    }
}
