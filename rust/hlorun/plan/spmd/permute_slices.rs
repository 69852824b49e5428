//! A collective-permute that moves slices in place: of its operands, the input, the output that
//! receives, and where the slices begin in each.
//!
//! In: the instruction and its operands' arrays. Out: which slice of which array goes where. The
//! sender's own start indices say what it sends, the receiver's where it goes; they are clamped, as
//! those of `dynamic-slice` are. A device nobody sends to keeps its output as it is.

use crate::error::Result;
use crate::module::{AttrKey, AttrValue, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::view::ArrayView;

/// The slices of one instruction.
#[derive(Clone, Debug)]
pub struct PermuteSlices {
    /// From whom each device receives.
    pub sources: Vec<Option<u32>>,
    /// Number of the first array that receives, among the operands' arrays.
    pub first_output: usize,
    /// What moves.
    pub slices: Vec<Slice>,
}

/// One slice; arrays by their number among the operands'.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Which input.
    pub input: usize,
    /// Which result.
    pub output: usize,
    /// The scalars at which it begins in the input, one for each dimension.
    pub input_starts: std::ops::Range<usize>,
    /// The same in the result.
    pub output_starts: std::ops::Range<usize>,
    /// Its sizes.
    pub sizes: Vec<i64>,
}

/// Whether a collective-permute has this form.
pub fn is_in_place(instruction: InstructionRef<'_>) -> bool {
    use crate::module::HloOpcode as H;
    matches!(
        instruction.opcode(),
        H::CollectivePermute | H::CollectivePermuteStart
    ) && instruction.operand_ids().len() == 4
        && instruction
            .operand(2)
            .is_some_and(|operand| operand.shape().as_tuple().is_some())
}

/// `{{1,2},{3,4}}`, with any spaces.
pub(crate) fn nested_ints(text: &[u8]) -> Option<Vec<Vec<i64>>> {
    let text: String = std::str::from_utf8(text)
        .ok()?
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let inner = inner.strip_prefix('{')?.strip_suffix('}')?;
    let numbers = |list: &str| -> Option<Vec<i64>> {
        match list {
            "" => Some(Vec::new()),
            _ => list.split(',').map(|number| number.parse().ok()).collect(),
        }
    };
    inner.split("},{").map(numbers).collect()
}

fn sizes_of(instruction: InstructionRef<'_>) -> Option<Vec<Vec<i64>>> {
    match instruction.attribute(AttrKey::SliceSizes) {
        Some(AttrValue::Raw(text)) => nested_ints(instruction.module.text().bytes(*text)),
        Some(AttrValue::Ints(_)) => Some(vec![instruction.ints(AttrKey::SliceSizes).to_vec()]),
        _ => None,
    }
}

/// The pairs, which may be repeated for every slice, once.
pub fn pairs_once<'p>(
    instruction: InstructionRef<'_>,
    pairs: &'p [(i64, i64)],
) -> &'p [(i64, i64)] {
    let slices = sizes_of(instruction).map_or(1, |sizes| sizes.len()).max(1);
    let length = pairs.len() / slices;
    if length == 0 || !pairs.len().is_multiple_of(slices) {
        return pairs;
    }
    let first = &pairs[..length];
    match pairs.chunks(length).all(|chunk| chunk == first) {
        true => first,
        false => pairs,
    }
}

/// Number of arrays of operand `k`, tuples of tuples included.
fn leaves(instruction: InstructionRef<'_>, k: usize) -> Option<usize> {
    let shape = instruction.operand(k)?.shape_id();
    let shapes = instruction.module.shapes();
    Some(shapes.leaves(shape, crate::plan::limits::MAX_LEAVES)?.len())
}

/// Plans the form over the arrays of all operands.
pub fn plan(
    instruction: InstructionRef<'_>,
    sources: Vec<Option<u32>>,
    inputs: &[ArrayView],
    outputs: &[ArrayView],
) -> Result<PermuteSlices> {
    let refuse = |what: &str| unsupported(instruction, what.to_owned());
    let all_sizes = sizes_of(instruction).ok_or_else(|| refuse("it has no slice_sizes"))?;
    let counts: Option<Vec<usize>> = (0..4).map(|k| leaves(instruction, k)).collect();
    let Some([from, to, from_starts, to_starts]) = counts.as_deref() else {
        return Err(refuse("its operands are too large"));
    };
    if from + to + from_starts + to_starts != inputs.len() || *to != outputs.len() {
        return Err(refuse("its results are not like its second operand"));
    }
    let mut next = [from + to, from + to + from_starts];
    let ends = [next[1], inputs.len()];
    let mut slices = Vec::with_capacity(all_sizes.len());
    for (number, sizes) in all_sizes.iter().enumerate() {
        let pick = |count: usize| match count {
            1 => Some(0),
            _ if count == all_sizes.len() => Some(number),
            _ => None,
        };
        let (Some(input), Some(output)) = (pick(*from), pick(*to)) else {
            return Err(refuse("it has other numbers of arrays and of slices"));
        };
        let mut starts = next.map(|start| start..start + sizes.len());
        for (range, end) in starts.iter_mut().zip(ends) {
            let scalars = inputs.get(range.clone()).unwrap_or_default();
            if range.end > end
                || scalars
                    .iter()
                    .any(|s| !s.dims.is_empty() || !s.element_type.is_integral())
            {
                return Err(refuse(
                    "its start indices are not one integer for each dimension of each slice",
                ));
            }
        }
        next = [starts[0].end, starts[1].end];
        let fits = |array: &ArrayView| {
            array.dims.len() == sizes.len()
                && array
                    .dims
                    .iter()
                    .zip(sizes)
                    .all(|(&dim, &size)| (0..=dim).contains(&size))
        };
        if !fits(&inputs[input]) || !fits(&outputs[output]) {
            return Err(refuse(
                "its slice_sizes are not sizes of slices of its arrays",
            ));
        }
        let [input_starts, output_starts] = starts;
        slices.push(Slice {
            input,
            output,
            input_starts,
            output_starts,
            sizes: sizes.clone(),
        });
    }
    if next != ends {
        return Err(refuse("it has more start indices than slices"));
    }
    Ok(PermuteSlices {
        sources,
        first_output: *from,
        slices,
    })
}
