//! Constants: tensors of attributes → literals.

use super::attributes::{Artifact, Tensor};
use super::{Declined, Read};
use crate::types::{ArrayShape, Literal, PrimitiveType};

/// A constant's value.
pub enum Constant {
    Array(Literal),
    /// One element that stands for all.
    Splat(Literal),
}

/// The value of a tensor.
pub fn constant(artifact: &Artifact<'_>, tensor: Tensor<'_>) -> Read<Constant> {
    use PrimitiveType::*;
    let array = artifact.types.array(tensor.ty)?;
    let element = array.element_type;
    if matches!(element, S1 | S2 | S4 | U1 | U2 | U4 | F4E2M1FN) || cfg!(target_endian = "big") {
        return Err(Declined::because("a constant of less than a byte"));
    }
    let other = Declined::because("a constant of another size");
    let (Some(size), Some(count)) = (array.byte_size(), array.element_count()) else {
        return Err(other);
    };
    let (shape, bytes, is_splat) = if element == Pred {
        match tensor.bytes {
            // A byte without zeros or without ones says the same of every element.
            &[all @ (0 | 0xff)] if count > 8 => {
                (ArrayShape::new(element, &[]), vec![all & 1], true)
            }
            bytes => (array.clone(), truth_values(bytes, size)?, false),
        }
    } else if tensor.bytes.len() == size {
        (array.clone(), tensor.bytes.to_vec(), false)
    } else {
        let one = ArrayShape::new(element, &[]);
        (one, tensor.bytes.to_vec(), true)
    };
    let literal = Literal::from_bytes(shape, bytes.into_boxed_slice()).ok_or(other)?;
    Ok(match is_splat {
        true => Constant::Splat(literal),
        false => Constant::Array(literal),
    })
}

/// `count` truth values: a bit each, or one byte for a single value or for more than eight that are the same.
pub fn truth_values(bytes: &[u8], count: usize) -> Read<Vec<u8>> {
    match *bytes {
        [one] if count == 1 => Ok(vec![u8::from(one != 0)]),
        [all @ (0 | 0xff)] if count > 8 && count <= 1024 => Ok(vec![all & 1; count]),
        _ if bytes.len() == count.div_ceil(8) => {
            Ok((0..count).map(|at| bytes[at / 8] >> (at % 8) & 1).collect())
        }
        _ => Err(Declined::because("another number of truth values")),
    }
}

#[cfg(test)]
mod tests {
    use super::truth_values;

    #[test]
    fn truth_values_are_bits_or_one_byte_for_all() {
        assert_eq!(truth_values(&[0b101], 3).ok(), Some(vec![1, 0, 1]));
        assert_eq!(truth_values(&[1], 1).ok(), Some(vec![1]));
        assert_eq!(truth_values(&[0xff], 20).ok(), Some(vec![1; 20]));
        assert_eq!(truth_values(&[2, 1], 9).ok().map(|all| all[8]), Some(1));
        assert_eq!(truth_values(&[], 0).ok(), Some(vec![]));
        assert!(truth_values(&[1, 0, 1], 3).is_err());
        assert!(truth_values(&[1], 20).is_err());
    }
}
