//! Every limit on what a text may ask for, in one list.
//!
//! The parser's memory is otherwise proportional to the text, and nothing it does recurses.

/// Bounds that a text may not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text. Positions are 32 bits wide, so more than 4 GiB is never possible.
    pub source_bytes: usize,
    /// Bytes a compressed file may unpack to.
    pub unpacked_bytes: usize,
    /// Dimensions of an array.
    pub rank: usize,
    /// Tuples within tuples in one literal.
    pub literal_depth: usize,
    /// Computations written within attributes of instructions within such computations.
    pub computation_depth: usize,
    /// Attributes of one instruction, or of the module.
    pub attributes: usize,
    /// Warnings kept; later ones are only counted.
    pub warnings: usize,
    /// Names looked at for a "did you mean".
    pub suggestion_candidates: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes: u32::MAX as usize - (1 << 20),
            unpacked_bytes: 4 << 30,
            rank: crate::types::ArrayShape::MAX_RANK,
            literal_depth: 256,
            computation_depth: 64,
            attributes: 1000,
            warnings: 1000,
            suggestion_candidates: 20_000,
        }
    }
}

impl Limits {
    /// What is wrong with a source of `size` bytes, be it text or a proto.
    pub(crate) fn too_long(&self, size: usize) -> Option<String> {
        let most = self.source_bytes;
        (size > most).then(|| format!("the source has {size} bytes, more than the limit of {most}"))
    }
}
