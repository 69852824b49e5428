//! What the end of a Parquet file says of the values of a column, for readers that look for some of them.

use super::super::ffi::Column;

/// Absent values, and the least and the greatest of the others as bytes.
pub struct Statistics {
    pub nulls: i64,
    pub extremes: Option<(Vec<u8>, Vec<u8>)>,
}

/// Bytes of the longest text that is an extreme.
const LONGEST: usize = 256;

/// Of a column of one value a row.
pub fn statistics(values: &Column) -> Statistics {
    let extremes = match values {
        Column::Int64(numbers, valid) => extremes(
            present(numbers, valid).copied(),
            |a, b| a < b,
            |n: i64| n.to_le_bytes(),
        ),
        Column::Float64(numbers, valid) => {
            let numbers = present(numbers, valid).copied().filter(|n| !n.is_nan());
            // Of the two zeros, the least is the negative one.
            let ends = extremes(
                numbers,
                |a, b| a.total_cmp(b).is_lt(),
                |n: f64| n.to_le_bytes(),
            );
            ends.map(|(least, greatest)| {
                let widen = |bytes: Vec<u8>, zero: f64| match bytes[..7] {
                    [0, 0, 0, 0, 0, 0, 0] if bytes[7] & 0x7f == 0 => zero.to_le_bytes().to_vec(),
                    _ => bytes,
                };
                (widen(least, -0.0), widen(greatest, 0.0))
            })
        }
        Column::Bool(bits, rows) => {
            let bits = (0..*rows).map(|at| bits[at / 8] >> (at % 8) & 1);
            extremes(bits, |a, b| a < b, |bit: u8| [bit])
        }
        Column::Utf8(..) => texts(values),
        Column::Dictionary(_, words) => texts(words),
        _ => None,
    };
    Statistics {
        nulls: values.null_count(),
        extremes,
    }
}

fn present<'v, T>(values: &'v [T], valid: &'v Option<Vec<u8>>) -> impl Iterator<Item = &'v T> {
    let is_valid = move |at: usize| match valid {
        Some(bits) => bits[at / 8] >> (at % 8) & 1 == 1,
        None => true,
    };
    let values = values.iter().enumerate();
    values
        .filter(move |(at, _)| is_valid(*at))
        .map(|(_, value)| value)
}

fn extremes<T: Copy, const N: usize>(
    values: impl Iterator<Item = T>,
    is_less: fn(&T, &T) -> bool,
    bytes: fn(T) -> [u8; N],
) -> Option<(Vec<u8>, Vec<u8>)> {
    let ends = values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((least, most)) if is_less(&value, &least) => Some((value, most)),
        Some((least, most)) if is_less(&most, &value) => Some((least, value)),
        ends => ends,
    });
    ends.map(|(least, most)| (bytes(least).to_vec(), bytes(most).to_vec()))
}

fn texts(column: &Column) -> Option<(Vec<u8>, Vec<u8>)> {
    let Column::Utf8(ends, data) = column else {
        return None;
    };
    let texts = || {
        ends.windows(2)
            .map(|ends| &data[ends[0] as usize..ends[1] as usize])
    };
    let (least, most) = (texts().min()?, texts().max()?);
    let is_short = least.len().max(most.len()) <= LONGEST;
    is_short.then(|| (least.to_vec(), most.to_vec()))
}
