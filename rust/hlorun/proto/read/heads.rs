//! Computations and their instructions before they are written: fields, names and order.

use smallvec::SmallVec;

use super::Writer;
use crate::error::{HloError, Result};
use crate::proto::schema::numbered::Numbered;
use crate::proto::schema::{HloInstructionProto, computation, instruction};
use crate::proto::wire::{Field, Present, Value, View, read_field, read_fields, varint};
use crate::text::printer::{Dependencies, Places, keeps_channel_order, post_order};
use crate::text::tables::OPCODES;

/// How the bytes of the shape `pred[]` begin: field 2, the element type.
const PRED: &[u8] = &[2 << 3, 1];
/// Empty frontend attributes and statistics, with which XLA ends most instructions.
const NOTHING: &[u8] = &{
    let [a, b, c] = empty(instruction::frontend_attributes);
    let [d, e, f] = empty(instruction::statistics_viz);
    [a, b, c, d, e, f]
};

/// What is needed of an instruction before it is written.
#[derive(Default)]
pub(super) struct Head<'p> {
    pub id: i64,
    pub name: &'p str,
    pub opcode: &'p [u8],
    pub shape: &'p [u8],
    /// How many instructions of the module were written before it; none where it is not written yet.
    written: Option<u32>,
    channel: Option<i64>,
    /// Where its other fields are in those of the computation.
    fields: (u32, u32),
    present: Present,
    /// Its operands, in those of the computation.
    operands: (u32, u32),
}

/// The instructions of a computation by their ids, which is the order XLA keeps them in. Reused for
/// each computation, to keep its allocations.
#[derive(Default)]
pub(super) struct Heads<'p> {
    heads: Vec<Head<'p>>,
    fields: Vec<Field<'p>>,
    /// Positions in `heads`.
    operands: Vec<u32>,
}

impl<'p> Heads<'p> {
    /// Reads those of a computation.
    ///
    /// # Errors
    /// [`crate::HloError::Parse`] for broken bytes, names that are none and ids that are there twice.
    pub fn read(&mut self, instructions: &[&'p [u8]], writer: &Writer<'_>) -> Result<()> {
        let all = self;
        all.heads.clear();
        all.fields.clear();
        all.operands.clear();
        // Instructions without anything in them are no reason to take memory for something.
        let bytes: usize = instructions.iter().map(|bytes| bytes.len()).sum();
        let likely = |each: usize| (instructions.len() * each).min(bytes / 8);
        all.heads.reserve(likely(1));
        all.fields.reserve(likely(8));
        all.operands.reserve(likely(2));
        for bytes in instructions {
            let start = all.fields.len();
            let Some((mut head, name)) = read_head(bytes, &mut all.fields) else {
                return Err(writer.broken::<HloInstructionProto>(bytes));
            };
            head.name = writer.name(name, "an instruction")?;
            head.fields = (start as u32, all.fields.len() as u32);
            let channel =
                View::new(&all.fields[start..], head.present).int(instruction::channel_id);
            if channel != 0 && OPCODES.get(head.opcode).is_some_and(keeps_channel_order) {
                head.channel = Some(channel);
            }
            all.heads.push(head);
        }
        if !all.heads.is_sorted_by_key(|head| head.id) {
            all.heads.sort_unstable_by_key(|head| head.id);
        }
        if let Some(twice) = all.heads.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(writer.fault(format!(
                "two instructions of a computation have the id {}",
                twice[0].id
            )));
        }
        for at in 0..all.heads.len() {
            let start = all.operands.len() as u32;
            let mut absent = None;
            let mut operands = std::mem::take(&mut all.operands);
            let view = all.view(at as u32);
            view.each_number(instruction::operand_ids, |id| match all.place(id) {
                Some(place) => operands.push(place),
                None => {
                    absent.get_or_insert(id);
                }
            });
            all.operands = operands;
            if let Some(id) = absent {
                return Err(missing(id, writer));
            }
            all.heads[at].operands = (start, all.operands.len() as u32);
        }
        Ok(())
    }

    /// The fields of the instruction at a place without id, name, opcode and shape, which are in its `Head`.
    pub fn view(&self, at: u32) -> View<'_, 'p> {
        let head = &self.heads[at as usize];
        let (start, end) = head.fields;
        View::new(&self.fields[start as usize..end as usize], head.present)
    }

    /// The instruction at a place.
    pub fn head(&self, at: u32) -> &Head<'p> {
        &self.heads[at as usize]
    }

    /// The place of the instruction called `id`. Mostly ids follow one another.
    #[inline]
    fn place(&self, id: i64) -> Option<u32> {
        let first = self.heads.first()?.id;
        let guess = usize::try_from(id.checked_sub(first)?).ok()?;
        if self.heads.get(guess).is_some_and(|head| head.id == id) {
            return Some(guess as u32);
        }
        let found = self.heads.binary_search_by_key(&id, |head| head.id);
        found.ok().map(|at| at as u32)
    }

    /// The instruction called `id`.
    #[inline]
    pub fn get(&self, id: i64) -> Option<&Head<'p>> {
        self.place(id).map(|at| &self.heads[at as usize])
    }

    /// The instruction called `id`, which another uses.
    ///
    /// # Errors
    /// [`crate::HloError::Parse`] when it is not there.
    pub fn need(&self, id: i64, writer: &Writer<'_>) -> Result<&Head<'p>> {
        self.get(id).ok_or_else(|| missing(id, writer))
    }

    /// Places of the operands of the instruction at a place.
    pub fn operands_of(&self, at: u32) -> &[u32] {
        let (start, end) = self.heads[at as usize].operands;
        &self.operands[start as usize..end as usize]
    }

    /// Notes that the instruction at a place is the next to be written, and appends which ones its operands
    /// were to `operands`; `false` where one is not written yet.
    pub fn write(&mut self, at: u32, number: u32, operands: &mut Vec<u32>) -> bool {
        let (start, end) = self.heads[at as usize].operands;
        let places = &self.operands[start as usize..end as usize];
        let before = operands.len();
        operands.extend(
            places
                .iter()
                .map_while(|&at| self.heads[at as usize].written),
        );
        self.heads[at as usize].written = Some(number);
        operands.len() - before == places.len()
    }

    /// Places in the order in which XLA prints a computation without a schedule: ids follow the order
    /// of creation, and a pass may make an operand after its user.
    pub fn definition_order(&self) -> Places {
        post_order(self)
    }

    /// Places in the order of the ids in a field; `None` unless those are each instruction once.
    pub fn scheduled_order(&self, proto: View<'_, '_>, number: u32) -> Option<Places> {
        let mut is_there: SmallVec<[bool; 64]> = SmallVec::from_elem(false, self.heads.len());
        let mut order = Places::with_capacity(self.heads.len());
        let mut is_order = true;
        proto.each_number(number, |id| match self.place(id) {
            Some(at) if !is_there[at as usize] => {
                is_there[at as usize] = true;
                order.push(at);
            }
            _ => is_order = false,
        });
        (is_order && order.len() == self.heads.len()).then_some(order)
    }
}

/// The instruction in `bytes` with its name, whose other fields go to the end of `fields`; `None` where
/// they are broken.
#[inline]
fn read_head<'p>(bytes: &'p [u8], fields: &mut Vec<Field<'p>>) -> Option<(Head<'p>, &'p [u8])> {
    let start = fields.len();
    let (first, others) = first_fields(bytes).unwrap_or(([&[]; 3], bytes));
    // Where what says nothing is the end of another field, this is broken without it.
    let mut rest = others.strip_suffix(NOTHING).unwrap_or(others);
    loop {
        let [mut name, opcode, shape] = first;
        let mut head = Head {
            opcode,
            shape,
            ..Head::default()
        };
        let add = |field| {
            match field {
                (instruction::id, Value::Number(id)) => head.id = id as i64,
                (instruction::name, Value::Bytes(value)) => name = value,
                (instruction::opcode, Value::Bytes(opcode)) => head.opcode = opcode,
                (instruction::shape, Value::Bytes(shape)) => head.shape = shape,
                field if is_nothing(&field) => {}
                field => {
                    fields.push(field);
                    return true;
                }
            }
            false
        };
        match read_fields(rest, HloInstructionProto::KINDS, add) {
            Some(present) => {
                head.present = present;
                return Some((head, name));
            }
            None if rest.len() == others.len() => return None,
            None => {
                rest = others;
                fields.truncate(start);
            }
        }
    }
}

/// Name, opcode and shape where the instruction begins with them, as writers write it, and the bytes
/// behind them.
#[inline(always)]
fn first_fields(bytes: &[u8]) -> Option<([&[u8]; 3], &[u8])> {
    let (mut first, mut rest) = ([&[][..]; 3], bytes);
    for (at, number) in [instruction::name, instruction::opcode, instruction::shape]
        .into_iter()
        .enumerate()
    {
        let (&key, after) = rest.split_first()?;
        if u32::from(key) != number << 3 | 2 {
            return None;
        }
        rest = after;
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        (first[at], rest) = rest.split_at_checked(length)?;
    }
    Some((first, rest))
}

/// An empty string or message whose key has two bytes.
const fn empty(number: u32) -> [u8; 3] {
    let key = number << 3 | 2;
    [key as u8 | 0x80, (key >> 7) as u8, 0]
}

/// Whether a field says as little as one that is not there. XLA writes these into every instruction.
#[inline]
fn is_nothing(field: &Field<'_>) -> bool {
    matches!(
        field,
        (
            instruction::metadata | instruction::frontend_attributes | instruction::statistics_viz,
            Value::Bytes([])
        )
    )
}

#[cold]
fn missing(id: i64, writer: &Writer<'_>) -> HloError {
    writer.fault(format!(
        "an instruction uses instruction {id}, which is not in its computation"
    ))
}

impl Head<'_> {
    /// Whether its element type is `pred`.
    pub fn is_predicate(&self) -> bool {
        self.shape.starts_with(PRED)
    }
}

impl Dependencies for Heads<'_> {
    fn count(&self) -> u32 {
        self.heads.len() as u32
    }

    #[inline]
    fn operands(&self, at: u32, visit: impl FnMut(u32)) {
        self.operands_of(at).iter().copied().for_each(visit);
    }

    #[inline]
    fn predecessors(&self, at: u32, mut visit: impl FnMut(u32)) {
        let each = |id| {
            if let Some(at) = self.place(id) {
                visit(at);
            }
        };
        self.view(at)
            .each_number(instruction::control_predecessor_ids, each);
    }

    fn channel(&self, at: u32) -> Option<i64> {
        self.heads[at as usize].channel
    }
}

/// A computation, of which the instructions are not read yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Computation<'p> {
    pub name: &'p [u8],
    pub id: i64,
    pub root_id: i64,
    pub execution_thread: &'p [u8],
    /// Where its instructions stand among those of all computations.
    instructions: (usize, usize),
}

impl<'p> Computation<'p> {
    /// The one in `bytes`, whose instructions go to the end of `instructions`; `None` where it is broken.
    pub fn read(
        bytes: &'p [u8],
        instructions: &mut SmallVec<[&'p [u8]; 64]>,
    ) -> Option<Computation<'p>> {
        let mut read = Computation::default();
        let first = instructions.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            match read_field(&mut rest)? {
                (computation::name, Value::Bytes(value)) => read.name = value,
                (computation::id, Value::Number(value)) => read.id = value as i64,
                (computation::root_id, Value::Number(value)) => read.root_id = value as i64,
                (computation::execution_thread, Value::Bytes(value)) => {
                    read.execution_thread = value;
                }
                (computation::instructions, Value::Bytes(value)) => instructions.push(value),
                _ => {}
            }
        }
        read.instructions = (first, instructions.len());
        Some(read)
    }

    /// This computation's part of the instructions of all.
    pub fn own<'i>(&self, instructions: &'i [&'p [u8]]) -> &'i [&'p [u8]] {
        &instructions[self.instructions.0..self.instructions.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u32, value: &[u8]) -> Vec<u8> {
        let key = number << 3 | 2;
        let key = match key < 0x80 {
            true => vec![key as u8],
            false => vec![key as u8 | 0x80, (key >> 7) as u8],
        };
        [&key[..], &[value.len() as u8], value].concat()
    }

    #[test]
    fn the_end_of_an_instruction_that_says_nothing_may_be_of_another_field() {
        let first = [
            field(instruction::name, b"a"),
            field(instruction::opcode, b"add"),
            field(instruction::shape, &[2 << 3, 11]),
        ]
        .concat();
        let config = field(instruction::backend_config, NOTHING);
        for end in [&[][..], NOTHING, &NOTHING[..3]] {
            let bytes = [&first[..], &config, end].concat();
            let mut fields = Vec::new();
            let (head, name) = read_head(&bytes, &mut fields).expect("the fields are whole");
            assert_eq!((name, head.opcode), (&b"a"[..], &b"add"[..]));
            let view = View::new(&fields, head.present);
            assert_eq!(view.find(instruction::backend_config), Some(NOTHING));
            assert_eq!(fields.len(), 1);
        }
        let broken = [&first[..], &config[..config.len() - 1]].concat();
        assert!(read_head(&broken, &mut Vec::new()).is_none());
    }

    #[test]
    fn fields_are_read_in_any_order_and_the_last_one_counts() {
        let bytes = [
            field(instruction::name, b"a"),
            field(instruction::shape, &[2 << 3, 11]),
            field(instruction::opcode, b"add"),
            field(instruction::name, b"b"),
        ]
        .concat();
        let (head, name) = read_head(&bytes, &mut Vec::new()).expect("the fields are whole");
        assert_eq!((name, head.opcode), (&b"b"[..], &b"add"[..]));
        assert_eq!(head.shape, [2 << 3, 11]);
    }
}
