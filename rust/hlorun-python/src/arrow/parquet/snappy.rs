//! The packing that Snappy's format describes: repeated bytes become references to where they were before.
//!
//! Comes in: bytes. Goes out: packed bytes. Promise: what does not get shorter grows by less than a hundredth.

use super::thrift::varint;

/// Bytes that are packed on their own; references reach no farther.
const BLOCK: usize = 1 << 16;
/// Bits of a number that stands for four bytes.
const HASH_BITS: u32 = 14;

/// Packs `data`, whose length must fit 32 bits.
pub fn pack(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() / 4 + 64);
    varint(&mut out, data.len() as u64);
    // Where four bytes with this hash were last, plus one.
    let mut places = vec![0u32; 1 << HASH_BITS];
    for block in data.chunks(BLOCK) {
        places.fill(0);
        pack_block(&mut out, block, &mut places);
    }
    out
}

fn four(block: &[u8], at: usize) -> Option<u32> {
    let bytes = block.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn pack_block(out: &mut Vec<u8>, block: &[u8], places: &mut [u32]) {
    let mut written = 0;
    let mut at = 0;
    // Where nothing repeats, fewer and fewer places are tried.
    let mut misses = 0;
    while let Some(word) = four(block, at) {
        let hash = (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize;
        let before = std::mem::replace(&mut places[hash], at as u32 + 1) as usize;
        if before == 0 || four(block, before - 1) != Some(word) {
            misses += 1;
            at += 1 + misses / 32;
            continue;
        }
        let from = before - 1;
        let length = 4 + common(&block[from + 4..], &block[at + 4..]);
        literal(out, &block[written..at]);
        copy(out, at - from, length);
        at += length;
        written = at;
        misses = 0;
    }
    literal(out, &block[written..]);
}

/// How many bytes `a` and `b` begin with in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let mut length = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let differ = word(x) ^ word(y);
        if differ != 0 {
            return length + differ.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let rest = a[length..].iter().zip(&b[length..]);
    length + rest.take_while(|(x, y)| x == y).count()
}

fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    let Some(last) = bytes.len().checked_sub(1) else {
        return;
    };
    match last {
        0..60 => out.push((last as u8) << 2),
        60..256 => out.extend([60 << 2, last as u8]),
        // A block has no more than 2^16 bytes.
        _ => out.extend([61 << 2, last as u8, (last >> 8) as u8]),
    }
    out.extend_from_slice(bytes);
}

fn copy(out: &mut Vec<u8>, offset: usize, mut length: usize) {
    let low = offset as u8;
    let high = (offset >> 8) as u8;
    while length > 64 {
        // What is left must be worth a copy of its own.
        let part = if length < 68 { 60 } else { 64 };
        out.extend([((part - 1) << 2 | 2) as u8, low, high]);
        length -= part;
    }
    if length < 12 && offset < 2048 {
        out.extend([high << 5 | ((length - 4) << 2) as u8 | 1, low]);
    } else {
        out.extend([((length - 1) << 2 | 2) as u8, low, high]);
    }
}
