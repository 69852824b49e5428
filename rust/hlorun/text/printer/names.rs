//! Names that are unique in the whole module, made as XLA makes them when it reads a text.
//!
//! HLO text may use an instruction name once per computation. XLA renames the later ones by giving
//! `name.N` the first number that is free; what is printed has those names.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};

use crate::module::{ComputationId, HloModule, IdMap, InstructionId};

/// The names that differ from those in the text.
#[derive(Debug, Default)]
pub struct UniqueNames {
    instructions: HashMap<InstructionId, Box<str>>,
    computations: HashMap<ComputationId, Box<str>>,
    /// Numbers printed in place of names, where names do not matter.
    numbers: Option<IdMap<InstructionId, u32>>,
}

impl UniqueNames {
    /// Looks at every name of `module`, in the order of the text.
    pub fn new(module: &HloModule) -> UniqueNames {
        let mut names = UniqueNames::default();
        let mut computations = Uniquer::default();
        let mut instructions = Uniquer::default();
        for id in module.computation_ids() {
            let computation = module.computation(id);
            if let Some(name) = computations.rename(module.text().bytes(computation.name)) {
                names.computations.insert(id, name);
            }
            for &instruction in &computation.instructions {
                let name = module.instruction_data(instruction).name;
                if let Some(name) = instructions.rename(module.text().bytes(name)) {
                    names.instructions.insert(instruction, name);
                }
            }
        }
        names
    }

    /// Gives a computation another name.
    pub fn rename_computation(&mut self, id: ComputationId, name: &str) {
        self.computations.insert(id, name.into());
    }

    /// Every instruction is called `tmp_N` by its number.
    pub fn numbered(numbers: IdMap<InstructionId, u32>) -> UniqueNames {
        UniqueNames {
            numbers: Some(numbers),
            ..UniqueNames::default()
        }
    }

    /// The new name of an instruction that had to be renamed.
    pub fn instruction(&self, id: InstructionId) -> Option<Cow<'_, str>> {
        if let Some(numbers) = &self.numbers {
            return Some(Cow::Owned(format!("tmp_{}", numbers[id])));
        }
        self.instructions
            .get(&id)
            .map(|name| Cow::Borrowed(&**name))
    }

    /// Appends `tmp_N`, where instructions have numbers.
    pub fn write_number(&self, out: &mut String, id: InstructionId) -> bool {
        if let Some(numbers) = &self.numbers {
            out.push_str("tmp_");
            out.push_str(itoa::Buffer::new().format(numbers[id]));
        }
        self.numbers.is_some()
    }

    /// The new name of a computation that had to be renamed.
    pub fn computation(&self, id: ComputationId) -> Option<&str> {
        self.computations.get(&id).map(|name| &**name)
    }
}

/// Numbers handed out for one name without its number.
#[derive(Debug, Default)]
struct Numbers {
    used: HashSet<i64>,
    next: i64,
}

impl Numbers {
    /// `wanted` if it is free, else the first free number.
    fn register(&mut self, wanted: i64) -> i64 {
        if self.used.insert(wanted) {
            return wanted;
        }
        while !self.used.insert(self.next) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

#[derive(Debug, Default)]
struct Uniquer<'m> {
    roots: HashMap<&'m [u8], Numbers>,
}

impl<'m> Uniquer<'m> {
    /// The unique form of `name`; `None` when that is the name itself.
    fn rename(&mut self, name: &'m [u8]) -> Option<Box<str>> {
        let (root, wanted) = match split_number(name) {
            Some((root, number)) => (root, Some(number)),
            None => (name, None),
        };
        let number = self
            .roots
            .entry(root)
            .or_default()
            .register(wanted.unwrap_or(0));
        if wanted.is_none() && number == 0 {
            return None;
        }
        if wanted == Some(number) && canonical_number(&name[root.len() + 1..]) {
            return None;
        }
        Some(format!("{}.{number}", String::from_utf8_lossy(root)).into_boxed_str())
    }
}

/// `name.12` as `name` and 12, where what follows the last dot is a number.
fn split_number(name: &[u8]) -> Option<(&[u8], i64)> {
    let dot = memchr::memrchr(b'.', name)?;
    if dot == 0 {
        return None;
    }
    let digits = std::str::from_utf8(&name[dot + 1..]).ok()?;
    Some((&name[..dot], digits.parse().ok()?))
}

/// Whether the digits are how the number itself is written.
fn canonical_number(digits: &[u8]) -> bool {
    match digits {
        [b'0'] => true,
        [first, ..] => (b'1'..=b'9').contains(first) || *first == b'-',
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_uses_of_a_name_get_the_first_free_number() {
        let mut uniquer = Uniquer::default();
        let cases: [(&str, Option<&str>); 9] = [
            ("a", None),
            ("a", Some("a.1")),
            ("a.2", None),
            ("a", Some("a.3")),
            ("a.0", Some("a.4")),
            ("b.007", Some("b.7")),
            ("b", None),
            ("b.7", Some("b.1")),
            ("c.clone", None),
        ];
        for (name, unique) in cases {
            assert_eq!(uniquer.rename(name.as_bytes()).as_deref(), unique, "{name}");
        }
    }
}
