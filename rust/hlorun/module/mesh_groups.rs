//! Groups of devices given by the axes of a mesh, spelled out.

use crate::types::Dims;
use crate::types::strided::{place, row_major_strides};

/// The groups of `mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y':(2)2}`, each a row of the devices
/// with the axes in braces varying within it; `None` when it is not of this form, or names more than
/// `limit` devices.
pub fn mesh_groups(text: &[u8], limit: i64) -> Option<Vec<Vec<i64>>> {
    let compact = compact(text);
    let (mesh, rest) = compact.strip_prefix("mesh[")?.split_once(']')?;
    let mut names = Vec::new();
    let mut sizes = Vec::new();
    for axis in parts(mesh) {
        let (name, size) = axis.split_once('=')?;
        names.push(unquoted(name));
        sizes.push(size.parse::<i64>().ok().filter(|&size| size > 0)?);
    }
    let count = sizes
        .iter()
        .try_fold(1i64, |product, &size| product.checked_mul(size))
        .filter(|&count| count <= limit)?;
    let brace = rest.rfind('{')?;
    let devices = match rest[..brace].strip_prefix(",device_ids=") {
        None => (0..count).collect(),
        Some(ids) => device_ids(ids, limit)?,
    };
    if devices.len() as i64 != count {
        return None;
    }

    // Axes split where only a part of them is grouped: the pieces' sizes, which of them are grouped.
    let axes: Vec<(usize, Option<(i64, i64)>)> =
        parts(rest[brace..].strip_prefix('{')?.strip_suffix('}')?)
            .into_iter()
            .map(|axis| axis_reference(axis, &names))
            .collect::<Option<_>>()?;
    let mut pieces: Vec<i64> = Vec::new();
    let mut grouped: Vec<usize> = Vec::new();
    for (dim, &size) in sizes.iter().enumerate() {
        let of_dim: Vec<Option<(i64, i64)>> = axes
            .iter()
            .filter(|(axis, _)| *axis == dim)
            .map(|(_, part)| *part)
            .collect();
        let mut sorted: Vec<(i64, i64)> = of_dim.iter().map(|p| p.unwrap_or((1, size))).collect();
        sorted.sort_unstable();
        let mut before = 1;
        let mut positions = Vec::new();
        for &(pre_size, part) in &sorted {
            if part <= 0 || pre_size < before || pre_size % before != 0 {
                return None;
            }
            if pre_size != before {
                pieces.push(pre_size / before);
            }
            positions.push(pieces.len());
            pieces.push(part);
            before = pre_size.checked_mul(part)?;
        }
        if before > size || size % before != 0 {
            return None;
        }
        if before != size {
            pieces.push(size / before);
        }
        // Within a dimension the axes vary in the order they are given in.
        for part in of_dim {
            let at = sorted
                .iter()
                .position(|&p| p == part.unwrap_or((1, size)))?;
            grouped.push(positions[at]);
        }
    }
    let order: Vec<i64> = (0..pieces.len())
        .filter(|piece| !grouped.contains(piece))
        .chain(grouped.iter().copied())
        .map(|piece| piece as i64)
        .collect();
    let group_size: i64 = grouped.iter().map(|&piece| pieces[piece]).product();
    let positions = iota_devices(&pieces, &order, limit)?;
    Some(
        positions
            .chunks(usize::try_from(group_size).ok().filter(|&size| size > 0)?)
            .map(|group| group.iter().map(|&at| devices[at as usize]).collect())
            .collect(),
    )
}

/// `text` without comments and white space; what is quoted stays as it is.
fn compact(text: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = std::str::from_utf8(text).unwrap_or_default();
    while let Some(first) = rest.chars().next() {
        let (taken, kept) = match first {
            '\'' | '"' => {
                let end = rest[1..].find(first).map_or(rest.len(), |end| end + 2);
                (end, true)
            }
            '/' if rest.starts_with("/*") => {
                (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
            }
            other => (other.len_utf8(), !other.is_whitespace()),
        };
        if kept {
            out.push_str(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    out
}

/// The parts of a compact text that commas outside of quotes separate.
fn parts(text: &str) -> Vec<&str> {
    let mut quote = None;
    text.split(|c| match quote {
        Some(open) => {
            if c == open {
                quote = None;
            }
            false
        }
        None => {
            if matches!(c, '\'' | '"') {
                quote = Some(c);
            }
            c == ','
        }
    })
    .filter(|part| !part.is_empty())
    .collect()
}

/// The product of sizes that are above 0, unless it is above `limit`.
pub fn product_within(sizes: &[i64], limit: i64) -> Option<i64> {
    sizes.iter().try_fold(1i64, |product, &size| {
        let product = (size > 0).then(|| product.checked_mul(size)).flatten()?;
        (product <= limit).then_some(product)
    })
}

/// The devices that an iota names, in order: the numbers of an array of sizes `reshape`, its dimensions permuted, or as
/// they are where `transpose` is empty. `None` where that is no permutation, or there are more than `limit`.
pub fn iota_devices(reshape: &[i64], transpose: &[i64], limit: i64) -> Option<Vec<i64>> {
    let count = reshape.iter().try_fold(1i64, |product, &size| {
        let product = product.checked_mul(size)?;
        (size >= 0 && product <= limit).then_some(product)
    })?;
    let rank = reshape.len();
    let identity: Vec<i64> = (0..rank as i64).collect();
    let order = if transpose.is_empty() {
        &identity
    } else {
        transpose
    };
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted != identity {
        return None;
    }
    let strides = row_major_strides(reshape);
    let of = |from: &[i64]| -> Dims { order.iter().map(|&dim| from[dim as usize]).collect() };
    let (sizes, steps) = (of(reshape), of(&strides));
    let devices = (0..count).map(|at| place(at, sizes.iter().zip(&steps)));
    Some(devices.collect())
}

/// `(3,1,2,0)` or `([2,2]T(1,0))`.
fn device_ids(text: &str, limit: i64) -> Option<Vec<i64>> {
    let body = text.strip_prefix('(')?.strip_suffix(')')?;
    let integers = |text: &str| -> Option<Vec<i64>> {
        text.split(',').map(|number| number.parse().ok()).collect()
    };
    match body.strip_prefix('[') {
        None => integers(body),
        Some(iota) => {
            let (reshape, transpose) = iota.split_once(']')?;
            let reshape = integers(reshape)?;
            let transpose = match transpose {
                "" => Vec::new(),
                text => integers(text.strip_prefix("T(")?.strip_suffix(')')?)?,
            };
            iota_devices(&reshape, &transpose, limit)
        }
    }
}

/// `'x'` or `'x':(2)4` as the axis and what of it: the product of the parts before, the size.
fn axis_reference(text: &str, names: &[&str]) -> Option<(usize, Option<(i64, i64)>)> {
    let (name, part) = match text.rsplit_once(":(") {
        None => (text, None),
        Some((name, part)) => {
            let (pre_size, size) = part.split_once(')')?;
            let pre_size = pre_size.parse().ok().filter(|&n: &i64| n > 0)?;
            (name, Some((pre_size, size.parse().ok()?)))
        }
    };
    let axis = names.iter().position(|known| *known == unquoted(name))?;
    Some((axis, part))
}

fn unquoted(name: &str) -> &str {
    name.trim_matches(['\'', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_become_groups() {
        let cases: [(&str, &[&[i64]]); 6] = [
            ("mesh['x'=2,'y'=2] {'x'}", &[&[0, 2], &[1, 3]]),
            ("mesh['x'=2,'y'=2] {'y'}", &[&[0, 1], &[2, 3]]),
            ("mesh[\"x\"=2,\"y\"=2] {\"x\",\"y\"}", &[&[0, 1, 2, 3]]),
            (
                "mesh['x'=2,'y'=2], device_ids=(3,1,2,0) {'y'}",
                &[&[3, 1], &[2, 0]],
            ),
            (
                "mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}",
                &[&[0, 2], &[1, 3]],
            ),
            ("mesh['x'=4] {'x':(1)2}", &[&[0, 2], &[1, 3]]),
        ];
        for (text, groups) in cases {
            let found = mesh_groups(text.as_bytes(), 100);
            assert_eq!(
                found,
                Some(groups.iter().map(|g| g.to_vec()).collect()),
                "{text}"
            );
        }
        for text in [
            "mesh['x'=2] {'z'}",
            "mesh['x'=2]",
            "mesh['x'=1000] {'x'}",
            "mesh['x'=4] {'x':(3)2}",
        ] {
            assert_eq!(mesh_groups(text.as_bytes(), 100), None, "{text}");
        }
    }

    #[test]
    fn iotas_are_enumerated() {
        assert_eq!(iota_devices(&[4], &[0], 9), Some(vec![0, 1, 2, 3]));
        assert_eq!(
            iota_devices(&[2, 3], &[1, 0], 9),
            Some(vec![0, 3, 1, 4, 2, 5])
        );
        assert_eq!(iota_devices(&[2, 30], &[1, 0], 9), None);
    }
}
