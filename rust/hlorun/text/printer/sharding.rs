//! Shardings and device tiles in XLA's canonical form.

use std::fmt::Write;

use super::braces::{inside, key_value, parts, without_comments, write_compact, write_named_axes};
use super::metadata::{FrameStyle, MetadataStyle, write_metadata};
use super::stack_frames::StackFrames;
use crate::module::scan::Scanner;
use crate::module::sharding::devices_at;

/// Appends a sharding, from its text with braces.
pub fn write_sharding(out: &mut String, text: &[u8], include_metadata: bool) {
    let text = &without_comments(text);
    let body = inside(text);
    if body.first() != Some(&b'{') {
        write_leaf(out, body, include_metadata);
        return;
    }
    out.push('{');
    for (i, element) in parts(body, true).into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
            if i % 5 == 0 {
                let _ = write!(out, "/*index={i}*/");
            }
        }
        write_leaf(out, inside(element), include_metadata);
    }
    out.push('}');
}

/// Appends the sharding of one array, braces around it.
fn write_leaf(out: &mut String, body: &[u8], include_metadata: bool) {
    out.push('{');
    if is_mesh(body) {
        let mut scan = Scanner::new(body);
        write_named_axes(out, scan.named_axes().unwrap_or(body), ", ");
        if scan.eat_metadata() && include_metadata {
            out.push_str(", ");
            write_metadata_list(out, body[scan.at..].trim_ascii(), true);
        }
        out.push('}');
        return;
    }
    if body.starts_with(b"mesh") {
        out.push_str(&String::from_utf8_lossy(body));
        out.push('}');
        return;
    }
    let others;
    let rest = match devices_at(body) {
        Some((key, tiles)) => {
            others = [&body[..key.start], b" ", &body[tiles.end..]].concat();
            write_tiles(out, &body[tiles], &others)
        }
        None => body,
    };
    for part in parts(rest, false) {
        let is_metadata = part.starts_with(b"metadata=");
        if is_metadata && !include_metadata {
            continue;
        }
        if !out.ends_with('{') {
            out.push(' ');
        }
        match key_value(part) {
            Some((b"metadata", value)) => write_metadata_list(out, value, false),
            Some((b"last_tile_dims", value)) => {
                out.push_str("last_tile_dims={");
                for (i, name) in parts(inside(value), true).into_iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    out.push_str(&String::from_utf8_lossy(name));
                }
                out.push('}');
            }
            _ => out.push_str(&String::from_utf8_lossy(part)),
        }
    }
    out.push('}');
}

/// Whether axes of a mesh follow, `mesh['x'=2]` or `maximal_mesh[…]`.
fn is_mesh(body: &[u8]) -> bool {
    let mut scan = Scanner::new(body);
    matches!(scan.word(), b"mesh" | b"maximal_mesh") && scan.eat(b'[')
}

/// One metadata or several; `braced` puts braces around a single one too.
fn write_metadata_list(out: &mut String, value: &[u8], braced: bool) {
    let style = MetadataStyle {
        only_op_name: false,
        frames: FrameStyle::Number,
    };
    let frames = StackFrames::default();
    out.push_str("metadata={");
    let body = inside(value);
    let all = match body.first() {
        Some(b'{') => parts(body, true),
        _ => vec![body],
    };
    let braced = braced || all.len() > 1;
    for (i, one) in all.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if braced {
            out.push('{');
        }
        write_metadata(out, one, &frames, style);
        if braced {
            out.push('}');
        }
    }
    out.push('}');
}

/// Devices as written, `[2,2]<=[4]`.
pub struct Tiles {
    /// Number of tiles along each dimension.
    pub dims: Vec<i64>,
    /// The devices in order, or how they follow from the numbers 0, 1, ….
    pub devices: Devices,
}

/// The devices of tiles.
pub enum Devices {
    /// One by one.
    List(Vec<i64>),
    /// The numbers 0, 1, … in the shape `reshape`, transposed.
    Iota {
        /// Sizes of the dimensions.
        reshape: Vec<i64>,
        /// The permutation.
        transpose: Vec<i64>,
    },
}

impl Tiles {
    /// Reads tiles from their text; `None` when they are not of this form.
    fn parse(text: &[u8]) -> Option<Tiles> {
        let mut compact = String::new();
        write_compact(&mut compact, text);
        let (dims, rest) = compact.strip_prefix('[')?.split_once(']')?;
        let dims = integers(dims)?;
        let devices = match rest.strip_prefix("<=[") {
            None => Devices::List(integers(rest)?),
            Some(iota) => {
                let (reshape, transpose) = iota.split_once(']')?;
                let reshape = integers(reshape)?;
                let transpose = match transpose {
                    "" => (0..reshape.len() as i64).collect(),
                    text => integers(text.strip_prefix("T(")?.strip_suffix(')')?)?,
                };
                Devices::Iota { reshape, transpose }
            }
        };
        Some(Tiles { dims, devices })
    }
}

fn integers(text: &str) -> Option<Vec<i64>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok()).collect()
}

/// Appends `devices=…`, or the name of the sharding that the tiles come down to. Returns what of
/// `rest` is still to be written.
fn write_tiles<'t>(out: &mut String, tiles: &[u8], rest: &'t [u8]) -> &'t [u8] {
    let Some(mut tiles) = Tiles::parse(tiles) else {
        out.push_str("devices=");
        write_compact(out, tiles);
        return rest;
    };
    let first = parts(rest, false).first().copied().unwrap_or(b"");
    let after = &rest[rest.len() - without_first(rest, first)..];
    let subgroups: Option<Vec<&[u8]>> = match key_value(first) {
        Some((b"last_tile_dims", value)) => Some(parts(inside(value), true)),
        _ => None,
    };
    let mut replicate = first == b"last_tile_dim_replicate";
    let mut rest = rest;
    if let Some(types) = &subgroups {
        let data = tiles.dims.len().saturating_sub(types.len());
        let one_kind = types.iter().all(|kind| Some(kind) == types.first());
        if one_kind && tiles.dims[..data].iter().all(|&dim| dim == 1) && !types.is_empty() {
            out.push_str(&String::from_utf8_lossy(types[0]));
            return after;
        }
        replicate = types.as_slice() == [b"replicated".as_slice()];
    }
    if replicate {
        rest = after;
        let last = tiles.dims.last().copied().unwrap_or(1);
        let others_are_one = tiles.dims[..tiles.dims.len().saturating_sub(1)]
            .iter()
            .all(|&dim| dim == 1);
        if others_are_one {
            out.push_str("replicated");
            return rest;
        }
        if last == 1 {
            tiles.dims.pop();
            replicate = false;
        }
    }
    out.push_str("devices=");
    write_dims(out, &tiles.dims);
    match tiles.devices {
        Devices::List(devices) => write_list(out, &devices),
        Devices::Iota { reshape, transpose } => write_iota(out, &reshape, &transpose),
    }
    if replicate {
        out.push_str(" last_tile_dim_replicate");
    }
    rest
}

/// Bytes of `rest` after its first part.
fn without_first(rest: &[u8], first: &[u8]) -> usize {
    let start = rest.len() - rest.trim_ascii_start().len();
    rest.len().saturating_sub(start + first.len())
}

fn write_list(out: &mut String, numbers: &[i64]) {
    for (i, number) in numbers.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let _ = write!(out, "{number}");
    }
}

fn write_dims(out: &mut String, dims: &[i64]) {
    out.push('[');
    write_list(out, dims);
    out.push(']');
}

/// Appends `<=[2,4]T(1,0)` with as few dimensions as say the same.
pub fn write_iota(out: &mut String, reshape: &[i64], transpose: &[i64]) {
    let (dims, order) = canonical_iota(reshape, transpose);
    out.push_str("<=");
    write_dims(out, &dims);
    if dims.len() > 1 {
        out.push_str("T(");
        write_list(out, &order);
        out.push(')');
    }
}

/// Leaves out dimensions of size 1 and joins those that stay neighbours.
fn canonical_iota(reshape: &[i64], transpose: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let is_permutation = {
        let mut sorted = transpose.to_vec();
        sorted.sort_unstable();
        sorted.iter().copied().eq(0..reshape.len() as i64)
    };
    if !is_permutation {
        return (reshape.to_vec(), transpose.to_vec());
    }
    let mut dims = reshape.to_vec();
    // Runs of consecutive dimensions, in the transposed order, by their first one.
    let kept: Vec<i64> = transpose
        .iter()
        .copied()
        .filter(|&dim| dims[dim as usize] != 1)
        .collect();
    let mut rank_among_kept: Vec<i64> = kept.clone();
    rank_among_kept.sort_unstable();
    let mut firsts: Vec<i64> = Vec::new();
    let mut previous = None;
    for &dim in &kept {
        let rank = rank_among_kept.binary_search(&dim).unwrap_or(0);
        if previous.is_some_and(|before| before + 1 == rank)
            && let Some(&first) = firsts.last()
        {
            dims[first as usize] = dims[first as usize].saturating_mul(dims[dim as usize]);
        } else {
            firsts.push(dim);
        }
        previous = Some(rank);
    }
    if firsts.is_empty() {
        return (vec![1], vec![0]);
    }
    let mut in_order = firsts.clone();
    in_order.sort_unstable();
    let order = firsts
        .iter()
        .map(|first| in_order.binary_search(first).unwrap_or(0) as i64)
        .collect();
    (
        in_order.iter().map(|&first| dims[first as usize]).collect(),
        order,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shardings_are_canonical() {
        let cases = [
            ("{replicated}", "{replicated}"),
            ("{devices=[2,2]<=[2,2]T(0,1)}", "{devices=[2,2]<=[4]}"),
            (
                "{devices=[2,2]<=[2,1,2]T(2,1,0)}",
                "{devices=[2,2]<=[2,2]T(1,0)}",
            ),
            ("{devices=[2,1] 0, 1}", "{devices=[2,1]0,1}"),
            ("{devices =[2,1]0,1}", "{devices=[2,1]0,1}"),
            (
                r#"{metadata={op_name="devices=[2]0,1"}devices=[2,1]0,1}"#,
                r#"{devices=[2,1]0,1 metadata={op_name="devices=[2]0,1"}}"#,
            ),
            ("{maximal/*one*/device=3}", "{maximal device=3}"),
            (
                "{devices=[1,4]<=[4] last_tile_dim_replicate}",
                "{replicated}",
            ),
            (
                "{devices=[2,2,1]<=[4] last_tile_dim_replicate}",
                "{devices=[2,2]<=[4]}",
            ),
            (
                "{devices=[2,1,2]<=[4] last_tile_dims={replicated}}",
                "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
            ),
            (
                "{devices=[2,1,2,2]<=[8] last_tile_dims={manual,replicated}}",
                "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
            ),
            (
                "{devices=[2,2]<=[4]  shard_as 5}",
                "{devices=[2,2]<=[4] shard_as 5}",
            ),
            ("{maximal device=3}", "{maximal device=3}"),
            (
                "{{replicated},{manual}, {maximal device=1},{unknown},{replicated},{replicated}}",
                "{{replicated}, {manual}, {maximal device=1}, {unknown}, {replicated}, /*index=5*/{replicated}}",
            ),
            (
                r#"{replicated metadata={{op_name="a"},{op_name="b"}}}"#,
                r#"{replicated metadata={{op_name="a"}, {op_name="b"}}}"#,
            ),
            (
                r#"{mesh['x'=2], [{'x'}] , metadata={op_name="\"a\", metadata={1,0}"}}"#,
                r#"{mesh['x'=2], [{'x'}], metadata={{op_name="\"a\", metadata={1,0}"}}}"#,
            ),
            (r#"{ mesh ["x"=2] , [{"x"}] }"#, "{mesh['x'=2], [{'x'}]}"),
            (
                r#"{maximal_mesh[device_ids=[0]], metadata={op_name="a"}}"#,
                r#"{maximal_mesh[device_ids=[0]], metadata={{op_name="a"}}}"#,
            ),
        ];
        for (text, expected) in cases {
            let mut out = String::new();
            write_sharding(&mut out, text.as_bytes(), true);
            assert_eq!(out, expected);
        }
    }
}
