//! The primitives of MLIR bytecode: numbers of variable length, and sections.

use super::{Declined, Read};

/// Bytes that are still to be read. Nothing is read past their end.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

/// What reading past the end gives.
const SHORT: &str = "the artifact ends too early";

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Declined::because(SHORT))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub fn byte(&mut self) -> Read<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or(Declined::because(SHORT))?;
        self.rest = rest;
        Ok(byte)
    }

    /// A number whose first byte says by its trailing zeros how many bytes follow.
    #[inline]
    pub fn number(&mut self) -> Read<u64> {
        let first = self.byte()?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        self.long_number(first)
    }

    fn long_number(&mut self, first: u8) -> Read<u64> {
        // Where all eight bits are zero, the number follows in full, in eight bytes.
        let more = first.trailing_zeros() as usize;
        let bytes = self.take(more)?;
        let mut all = [0; 8];
        if more == 8 {
            all.copy_from_slice(bytes);
            return Ok(u64::from_le_bytes(all));
        }
        all[0] = first;
        all[1..=more].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(all) >> (more + 1))
    }

    /// A number whose lowest bit says which sign it has.
    pub fn signed(&mut self) -> Read<i64> {
        let coded = self.number()?;
        Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    /// A number and the flag in its lowest bit.
    pub fn flagged(&mut self) -> Read<(u64, bool)> {
        let number = self.number()?;
        Ok((number >> 1, number & 1 == 1))
    }

    /// How many things follow, each of at least a byte.
    pub fn count(&mut self) -> Read<usize> {
        let number = self.number()?;
        self.checked_count(number)
    }

    /// `number`, if so many things of at least a byte may still follow.
    pub fn checked_count(&self, number: u64) -> Read<usize> {
        match usize::try_from(number) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(Declined::because(SHORT)),
        }
    }

    /// The index of an entry of a table.
    #[inline]
    pub fn index(&mut self) -> Read<u32> {
        self.number()?
            .try_into()
            .map_err(|_| Declined::because("an index that is too large"))
    }

    /// As many numbers with signs as it says in front.
    pub fn signed_list(&mut self) -> Read<Vec<i64>> {
        let count = self.count()?;
        (0..count).map(|_| self.signed()).collect()
    }

    /// As many bytes as it says in front.
    pub fn blob(&mut self) -> Read<&'a [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    /// Up to the next zero byte.
    pub fn text(&mut self) -> Read<&'a [u8]> {
        let end = memchr::memchr(0, self.rest).ok_or(Declined::because(SHORT))?;
        let text = self.take(end)?;
        self.byte()?;
        Ok(text)
    }

    /// The id of a section and what it holds. Sections with padding hold resources, which no program of JAX has.
    pub fn section(&mut self) -> Read<(u8, Bytes<'a>)> {
        let id = self.byte()?;
        let length = self.number()?;
        if id & 0x80 != 0 {
            return Err(Declined::because("a section that is aligned"));
        }
        let length = self.checked_count(length)?;
        Ok((id, Bytes::new(self.take(length)?)))
    }

    /// Nothing may be left.
    pub fn end(&self) -> Read<()> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(Declined::because("bytes that nothing reads")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths() {
        let cases: [(&[u8], u64); 5] = [
            (&[1], 0),
            (&[0xff], 127),
            (&[0x02, 0x02], 128),
            (&[0xfc, 0xff, 0xff], (1 << 21) - 1),
            (&[0, 255, 255, 255, 255, 255, 255, 255, 255], u64::MAX),
        ];
        for (bytes, number) in cases {
            let mut read = Bytes::new(bytes);
            assert_eq!(read.number().ok(), Some(number));
            assert!(read.is_empty());
            for end in 0..bytes.len() {
                assert!(Bytes::new(&bytes[..end]).number().is_err());
            }
        }
        assert_eq!(Bytes::new(&[0b111]).signed().ok(), Some(-2));
        assert_eq!(Bytes::new(&[0b1001]).signed().ok(), Some(2));
    }
}
