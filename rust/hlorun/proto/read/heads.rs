//! What is needed of computations and instructions before they are read, and their order.

use foldhash::HashMap;
use smallvec::SmallVec;

use super::Writer;
use crate::error::Result;
use crate::proto::schema::HloInstructionProto;
use crate::proto::wire::{Fields, Value, append_numbers};
use crate::text::printer::{Dependencies, keeps_channel_order, post_order};
use crate::text::tables::OPCODES;

/// How the bytes of the shape `pred[]` begin: field 2, the element type.
const PRED: &[u8] = &[2 << 3, 1];

/// What is needed of an instruction before it is read.
#[derive(Default)]
pub(super) struct Head<'p> {
    pub id: i64,
    pub name: &'p str,
    pub is_predicate: bool,
    channel: Option<i64>,
    operands: SmallVec<[i64; 4]>,
    predecessors: SmallVec<[i64; 1]>,
    /// Its place in the proto.
    at: u32,
}

impl<'p> Head<'p> {
    fn read(bytes: &'p [u8], at: u32) -> Option<(Head<'p>, &'p [u8])> {
        let mut head = Head {
            at,
            ..Head::default()
        };
        let (mut name, mut opcode, mut channel) = (&b""[..], &b""[..], 0);
        for field in Fields(bytes) {
            match field {
                (1, Value::Bytes(value)) => name = value,
                (2, Value::Bytes(value)) => opcode = value,
                (3, Value::Bytes(value)) => head.is_predicate = value.starts_with(PRED),
                (26, Value::Number(value)) => channel = value as i64,
                (35, Value::Number(value)) => head.id = value as i64,
                (36, value) => append_numbers(value, &mut head.operands)?,
                (37, value) => append_numbers(value, &mut head.predecessors)?,
                (_, Value::Broken) => return None,
                _ => {}
            }
        }
        if channel != 0 && OPCODES.get(opcode).is_some_and(keeps_channel_order) {
            head.channel = Some(channel);
        }
        Some((head, name))
    }
}

/// The instructions of a computation by their ids, which is the order XLA keeps them in.
pub(super) struct Heads<'p> {
    pub heads: Vec<Head<'p>>,
    /// Positions in `heads` by id.
    pub places: HashMap<i64, u32>,
    /// Positions in `heads` of what each depends on that is there.
    operands: Vec<SmallVec<[u32; 4]>>,
}

impl<'p> Heads<'p> {
    /// Those of `instructions`, the bytes of a computation's.
    ///
    /// # Errors
    /// [`crate::HloError::Parse`] for broken bytes, names that are none and ids that are there twice.
    pub fn read(instructions: &'p [prost::bytes::Bytes], writer: &Writer<'_>) -> Result<Heads<'p>> {
        let mut heads = Vec::with_capacity(instructions.len());
        for (bytes, at) in instructions.iter().zip(0..) {
            let Some((mut head, name)) = Head::read(bytes, at) else {
                return Err(writer.broken::<HloInstructionProto>(bytes, "HloInstructionProto"));
            };
            head.name = writer.name(name, "an instruction")?;
            heads.push(head);
        }
        heads.sort_unstable_by_key(|head| head.id);
        let places: HashMap<i64, u32> = heads.iter().map(|head| head.id).zip(0..).collect();
        if let Some(twice) = heads.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(writer.fault(format!(
                "two instructions of a computation have the id {}",
                twice[0].id
            )));
        }
        let of = |ids: &[i64]| {
            ids.iter()
                .filter_map(|id| places.get(id).copied())
                .collect()
        };
        let operands = heads.iter().map(|head| of(&head.operands)).collect();
        Ok(Heads {
            heads,
            places,
            operands,
        })
    }

    /// The instruction called `id`.
    pub fn get(&self, id: i64) -> Option<&Head<'p>> {
        self.places.get(&id).map(|&at| &self.heads[at as usize])
    }

    /// Places in the proto, in the order in which XLA prints a computation without a schedule: ids
    /// follow the order of creation, and a pass may make an operand after its user.
    pub fn definition_order(&self) -> Vec<u32> {
        let order = post_order(self);
        order.iter().map(|&at| self.heads[at as usize].at).collect()
    }

    /// Places in the proto in the order of `ids`; `None` unless that is each instruction once.
    pub fn scheduled_order(&self, ids: &[i64]) -> Option<Vec<u32>> {
        if ids.len() != self.heads.len() {
            return None;
        }
        let mut is_there = vec![false; self.heads.len()];
        let place = |id| {
            let &at = self.places.get(id)?;
            let was_there = std::mem::replace(&mut is_there[at as usize], true);
            (!was_there).then(|| self.heads[at as usize].at)
        };
        ids.iter().map(place).collect()
    }
}

impl Dependencies for Heads<'_> {
    fn count(&self) -> u32 {
        self.heads.len() as u32
    }

    fn operands(&self, at: u32, visit: &mut dyn FnMut(u32)) {
        self.operands[at as usize].iter().for_each(|&at| visit(at));
    }

    fn predecessors(&self, at: u32, visit: &mut dyn FnMut(u32)) {
        let ids = &self.heads[at as usize].predecessors;
        let places = ids.iter().filter_map(|id| self.places.get(id));
        places.for_each(|&at| visit(at));
    }

    fn channel(&self, at: u32) -> Option<i64> {
        self.heads[at as usize].channel
    }
}

/// The name and the id of the computation in `bytes`; `None` where they are broken.
pub(super) fn computation_head(bytes: &[u8]) -> Option<(&[u8], i64)> {
    let (mut name, mut id) = (&b""[..], 0);
    for field in Fields(bytes) {
        match field {
            (1, Value::Bytes(value)) => name = value,
            (5, Value::Number(value)) => id = value as i64,
            (_, Value::Broken) => return None,
            _ => {}
        }
    }
    Some((name, id))
}
