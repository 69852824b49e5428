//! What is needed of computations and instructions before they are read, and their order.

use foldhash::HashMap;
use prost::Message;
use prost::bytes::Bytes;

use crate::module::HloOpcode;
use crate::text::printer::{Dependencies, keeps_channel_order, post_order};

/// How the bytes of the shape `pred[]` begin: field 2, the element type.
pub(super) const PRED: &[u8] = &[2 << 3, 1];

/// What is needed of an instruction before it is read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Head {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub opcode: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub shape: Bytes,
    #[prost(int64, tag = "9")]
    pub parameter_number: i64,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub control_predecessor_ids: Vec<i64>,
}

/// The instructions of a computation by their ids, which is the order XLA keeps them in.
pub(super) struct Heads {
    heads: Vec<(Head, usize)>,
    places: HashMap<i64, u32>,
}

impl Heads {
    pub fn new(mut heads: Vec<(Head, usize)>) -> Heads {
        heads.sort_unstable_by_key(|(head, _)| head.id);
        let ids = heads.iter().map(|(head, _)| head.id);
        let places = ids.zip(0..).collect();
        Heads { heads, places }
    }

    /// Positions in the proto, in the order in which XLA prints a computation without a schedule:
    /// ids follow the order of creation, and a pass may make an operand after its user.
    pub fn definition_order(&self) -> Vec<usize> {
        let order = post_order(self);
        order.iter().map(|&at| self.heads[at as usize].1).collect()
    }

    fn visit(&self, ids: &[i64], visit: &mut dyn FnMut(u32)) {
        let places = ids.iter().filter_map(|id| self.places.get(id));
        places.for_each(|&at| visit(at));
    }
}

impl Dependencies for Heads {
    fn count(&self) -> u32 {
        self.heads.len() as u32
    }

    fn operands(&self, at: u32, visit: &mut dyn FnMut(u32)) {
        self.visit(&self.heads[at as usize].0.operand_ids, visit);
    }

    fn predecessors(&self, at: u32, visit: &mut dyn FnMut(u32)) {
        self.visit(&self.heads[at as usize].0.control_predecessor_ids, visit);
    }

    fn channel(&self, at: u32) -> Option<i64> {
        let head = &self.heads[at as usize].0;
        let opcode = HloOpcode::from_name(&head.opcode)?;
        (head.channel_id != 0 && keeps_channel_order(opcode)).then_some(head.channel_id)
    }
}

/// What is needed of a computation before it is read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ComputationHead {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(int64, tag = "5")]
    pub id: i64,
}
