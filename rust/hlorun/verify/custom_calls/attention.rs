//! Attention of cuDNN, forwards and backwards.

use super::*;
use crate::library::attention::{HEADS, Options, head_dims};
use crate::types::Dims;

/// Sizes of all that takes part.
struct Sizes {
    /// Batch and heads of the queries.
    batch: Dims,
    /// Positions and elements of Q, of K, of V.
    sides: [(i64, i64); 3],
    /// Batch and heads of the keys.
    key_batch: Dims,
}

impl Sizes {
    fn of(batch: &Dims, more: [i64; 2]) -> Dims {
        batch.iter().copied().chain(more).collect()
    }

    /// Those of the scores.
    fn scores(&self) -> Dims {
        Sizes::of(&self.batch, [self.sides[0].0, self.sides[1].0])
    }
}

/// Calls whose options name a form that nobody here runs are the user's.
pub fn check(i: InstructionRef<'_>) -> Result<(), String> {
    let Some(options) = Options::of(i) else {
        return Ok(());
    };
    let heads = if options.backward { 5 } else { 3 };
    let least = heads + usize::from(options.has_bias) + 2 * usize::from(options.lengths);
    // The gradient may take the result of the forward pass as well.
    operand_count(i, least, least + usize::from(options.backward))?;
    let sizes = sizes(i, &options)?;
    if let Some(bias) = options.bias() {
        floats(i, bias)?;
        spreads_to(i, bias, &sizes.scores())?;
    }
    if options.lengths {
        let batch = sizes.batch.first().copied().unwrap_or(1);
        let count = i.operand_ids().len();
        for k in count - 2..count {
            want_type(i, k, PrimitiveType::S32, ", the lengths of sequences")?;
            want_dims(i, k, &[batch], ", one length for each sequence")?;
        }
    }
    returns(i, &result_slots(i, &options, &sizes)?).map(drop)
}

fn sizes(i: InstructionRef<'_>, options: &Options) -> Result<Sizes, String> {
    let dims = head_dims(i, options.backward)?;
    let ty = floats(i, 0)?.element_type;
    let count = if options.backward { 4 } else { 3 };
    let mut found = Vec::with_capacity(4);
    for (k, dims) in HEADS.into_iter().zip(&dims).take(count) {
        want_type(i, k, ty, " like operand 0")?;
        found.push(dims.sizes(array(i, k)?));
    }
    let (q, k, v) = (&found[0], &found[1], &found[2]);
    let odd = |k: usize| Err(format!("{}, which does not fit operand 0", describe(i, k)));
    // Several heads of queries may share one of keys; batches are the same.
    let shares = match (&q.0[..], &k.0[..]) {
        ([batch, heads], [key_batch, key_heads]) => {
            batch == key_batch && *key_heads > 0 && heads % key_heads == 0
        }
        _ => false,
    };
    if (k.0 != q.0 && !shares) || k.2 != q.2 {
        return odd(1);
    }
    if v.0 != k.0 || v.1 != k.1 {
        return odd(2);
    }
    if let Some(gradient) = found.get(3)
        && (gradient.0 != q.0 || gradient.1 != q.1 || gradient.2 != v.2)
    {
        return odd(4);
    }
    Ok(Sizes {
        batch: q.0.clone(),
        sides: [(q.1, q.2), (k.1, k.2), (v.1, v.2)],
        key_batch: k.0.clone(),
    })
}

/// Results are in the order of batch, heads, rows, columns, whatever that of the operands.
fn result_slots(
    i: InstructionRef<'_>,
    options: &Options,
    sizes: &Sizes,
) -> Result<Vec<Slot>, String> {
    let ty = array(i, 0)?.element_type;
    let [(rows, width), (keys, _), (_, value_width)] = sizes.sides;
    let scores = sizes.scores();
    let statistics = &scores[..scores.len() - 1];
    if !options.backward {
        let main = Slot::array(ty, &Sizes::of(&sizes.batch, [rows, value_width]));
        // Training keeps the logarithms of the sums of exponentials, or, before 2024, the weights.
        let kept = Slot::array(PrimitiveType::F32, statistics)
            .or_dims(&scores)
            .or_types(&[ty]);
        return Ok(vec![main, kept.optional()]);
    }
    let saved = floats(i, 3)?;
    if saved.dims != scores && saved.element_count() != Some(statistics.iter().product()) {
        return Err(format!(
            "{}, expected the weights, {}, or the logarithms of their sums, {}",
            describe(i, 3),
            list(&scores),
            list(statistics)
        ));
    }
    let mut slots = vec![
        Slot::array(ty, &Sizes::of(&sizes.batch, [rows, width])),
        Slot::array(ty, &Sizes::of(&sizes.key_batch, [keys, width])),
        Slot::array(ty, &Sizes::of(&sizes.key_batch, [keys, value_width])),
    ];
    if let Some(bias) = options.bias() {
        let bias = array(i, bias)?;
        slots.push(Slot::array(bias.element_type, &bias.dims).optional());
    }
    slots.push(Slot::array(ty, &scores).optional());
    Ok(slots)
}
