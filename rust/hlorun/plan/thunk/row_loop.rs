//! A fused loop, or the values of a reduction, over rows that are each read and written where they lie.

use hlorun_kernels::vector_bytecode::RowCode;

/// See the module.
#[derive(Clone, Debug)]
pub struct RowLoop {
    /// The code: its operands are `inputs`, its results those of the stores, or the values that are reduced.
    pub code: RowCode,
    /// Elements of a row.
    pub row: usize,
    /// Rows of a plane: those of an input or output are at one distance from each other.
    pub plane: usize,
    /// Rows that are computed at a time.
    pub tile: usize,
    /// By input of the program: which of the loads it is, and how the code reads it.
    pub inputs: Box<[(usize, RowSource)]>,
    /// By result: elements from row to row.
    pub outputs: Box<[i64]>,
}

/// How the code reads an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowSource {
    /// Where it lies, so many elements from row to row.
    InPlace(i64),
    /// In a copy of the rows of a tile, of so many bytes each, which begins so many bytes behind the first copy.
    Copied {
        /// Bytes of a row.
        row: usize,
        /// Where the copy begins.
        offset: usize,
    },
}

impl RowSource {
    /// Whether it is read from a copy.
    pub fn is_copied(self) -> bool {
        matches!(self, RowSource::Copied { .. })
    }
}

impl RowLoop {
    /// What is between the beginnings of two rows: elements of each input that is read in place and of each result, bytes of a
    /// copy.
    pub fn steps(&self) -> impl Iterator<Item = isize> + '_ {
        let inputs = self.inputs.iter().map(|&(_, source)| match source {
            RowSource::InPlace(step) => step as isize,
            RowSource::Copied { row, .. } => row as isize,
        });
        inputs.chain(self.outputs.iter().map(|&step| step as isize))
    }

    /// Bytes of all copies.
    pub fn copied_bytes(&self) -> usize {
        let end = |&(_, source): &(usize, RowSource)| match source {
            RowSource::InPlace(_) => 0,
            RowSource::Copied { row, offset } => offset + row * self.tile,
        };
        self.inputs.iter().map(end).max().unwrap_or(0)
    }
}
