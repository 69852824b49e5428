//! Opcodes that HLO does not have.

use super::common::Infer;
use crate::module::{HloOpcode, InstructionRef};

/// Longest name that is compared with the opcodes.
const MAX_NAME: usize = 64;

/// Always an error; names the nearest opcode when it is near.
#[cold]
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let name = i.opcode_name();
    let nearest = HloOpcode::all()
        .map(|opcode| (distance(name.as_bytes(), opcode.name().as_bytes()), opcode))
        .min_by_key(|pair| pair.0)
        .filter(|pair| pair.0 <= 2.min(name.len() / 2));
    Err(match nearest {
        Some((_, opcode)) => format!(
            "{name} is no opcode of HLO; did you mean {}?",
            opcode.name()
        ),
        None => format!("{name} is no opcode of HLO"),
    })
}

/// Bytes to insert, delete or replace to get from one name to the other; large when either is long.
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len() > MAX_NAME {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_edits() {
        for (a, b, edits) in [("add", "add", 0), ("ad", "add", 1), ("sine", "sign", 2)] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), edits);
        }
    }
}
