//! The operations of an artifact: IR section → operations, values and regions, each in a list.

use foldhash::{HashSet, HashSetExt};
use std::ops::Range;

use super::attributes::{Artifact, Fields};
use super::bytes::Bytes;
use super::sections::Dialect;
use super::table::{Row, row_of};
use super::{Declined, Read};

/// Regions within regions.
const MOST_DEEP: usize = 64;
/// The region of a function and of what lies outside of all.
pub const NO_REGION: u32 = u32::MAX;
/// A value that is not defined yet.
const UNDEFINED: u32 = u32::MAX;

/// Which parts an operation has.
mod part {
    pub const ATTRIBUTES: u8 = 1;
    pub const RESULTS: u8 = 1 << 1;
    pub const OPERANDS: u8 = 1 << 2;
    pub const SUCCESSORS: u8 = 1 << 3;
    pub const REGIONS: u8 = 1 << 4;
    pub const USE_ORDERS: u8 = 1 << 5;
    pub const PROPERTIES: u8 = 1 << 6;
    pub const ALL: u8 = (1 << 7) - 1;
}

pub struct Operation<'a> {
    pub row: &'static Row,
    pub location: u32,
    attributes: Option<u32>,
    properties: Bytes<'a>,
    /// Its results, in the list of values.
    pub results: Range<u32>,
    /// In the list of operands.
    operands: Range<u32>,
    /// In the list of regions.
    pub regions: Vec<u32>,
}

/// A value.
pub struct Value {
    pub ty: u32,
    /// The region that defines it.
    pub region: u32,
    /// Where it comes from, for arguments; the location of an operation's results is the operation's.
    pub location: Option<u32>,
    /// The operation that gives it; none for arguments.
    pub operation: Option<u32>,
}

/// A region of one block.
#[derive(Default)]
pub struct Region {
    parent: u32,
    /// In the list of values.
    pub arguments: Range<u32>,
    pub operations: Vec<u32>,
    /// Values of regions around it that it uses, in the order of their first use.
    pub captures: Vec<u32>,
}

/// A module.
#[derive(Default)]
pub struct Tree<'a> {
    pub name: &'a [u8],
    pub operations: Vec<Operation<'a>>,
    pub values: Vec<Value>,
    pub regions: Vec<Region>,
    operands: Vec<u32>,
    /// The operations of the module, which are its functions.
    pub functions: Vec<u32>,
}

impl<'a> Tree<'a> {
    pub fn operands(&self, operation: &Operation<'_>) -> &[u32] {
        &self.operands[operation.operands.start as usize..operation.operands.end as usize]
    }

    /// The attributes of an operation by their names.
    pub fn fields(&self, artifact: &Artifact<'a>, operation: &Operation<'a>) -> Read<Fields<'a>> {
        let mut fields = Fields::read(artifact, operation.attributes)?;
        let mut bytes = operation.properties;
        for name in operation.row.properties {
            fields.push(name, bytes.index()?);
        }
        bytes.end()?;
        Ok(fields)
    }
}

struct Reader<'r, 'a> {
    artifact: &'r Artifact<'a>,
    tree: Tree<'a>,
    properties: Vec<Bytes<'a>>,
    rows: Vec<Option<&'static Row>>,
    /// Values of the function that is read, by their numbers in it.
    scope: Vec<u32>,
    captured: HashSet<(u32, u32)>,
}

/// Reads the operations.
pub fn read<'a>(artifact: &Artifact<'a>) -> Read<Tree<'a>> {
    let sections = &artifact.sections;
    let rows = sections.operations.iter();
    let mut reader = Reader {
        artifact,
        tree: Tree::default(),
        properties: properties(sections.properties)?,
        rows: rows.map(|&(dialect, name)| row_of(dialect, name)).collect(),
        scope: Vec::new(),
        captured: HashSet::new(),
    };
    let mut bytes = sections.ir;
    reader.module(&mut bytes)?;
    bytes.end()?;
    Ok(reader.tree)
}

/// The entries of the section of properties.
fn properties(mut bytes: Bytes<'_>) -> Read<Vec<Bytes<'_>>> {
    let mut all = Vec::new();
    if !bytes.is_empty() {
        for _ in 0..bytes.count()? {
            all.push(Bytes::new(bytes.blob()?));
        }
    }
    bytes.end()?;
    Ok(all)
}

impl<'a> Reader<'_, 'a> {
    /// The block around everything, whose only operation is the module.
    fn module(&mut self, bytes: &mut Bytes<'a>) -> Read<()> {
        if bytes.flagged()? != (1, false) {
            return Err(Declined::because("more than a module"));
        }
        let name = self
            .artifact
            .sections
            .operations
            .get(bytes.index()? as usize);
        if name != Some(&(Dialect::Builtin, b"module")) {
            return Err(Declined::because("no module"));
        }
        let parts = bytes.byte()?;
        bytes.index()?;
        if parts & !(part::ATTRIBUTES | part::PROPERTIES) != part::REGIONS {
            return Err(Declined::because("a module of other parts"));
        }
        if parts & part::ATTRIBUTES != 0 {
            self.module_attributes(bytes.index()?)?;
        }
        if parts & part::PROPERTIES != 0 {
            let mut own = self.property(bytes.index()?)?;
            if let (name, true) = own.flagged()? {
                let name = name.try_into().unwrap_or(u32::MAX);
                self.tree.name = self.artifact.text(name)?;
            }
            if own.flagged()?.1 {
                return Err(Declined::because("a module with a visibility"));
            }
        }
        if bytes.flagged()? != (1, true) {
            return Err(Declined::because("a module of other regions"));
        }
        let (id, mut body) = bytes.section()?;
        // One block that defines no values and has no arguments.
        if id != super::sections::IR || body.number()? != 1 || body.number()? != 0 {
            return Err(Declined::because("a module of more than functions"));
        }
        let (count, has_arguments) = body.flagged()?;
        if has_arguments {
            return Err(Declined::because("a module with arguments"));
        }
        for _ in 0..body.checked_count(count)? {
            let function = self.operation(&mut body, NO_REGION, &mut 0, 0)?;
            self.tree.functions.push(function);
        }
        body.end()
    }

    /// Of the module's attributes those are known that say that it is one program for one device.
    fn module_attributes(&mut self, dictionary: u32) -> Read<()> {
        let mut fields = Fields::read(self.artifact, Some(dictionary))?;
        for name in ["mhlo.num_partitions", "mhlo.num_replicas"] {
            if let Some(index) = fields.get(name)
                && self.artifact.builtin_integer(index)? != 1
            {
                return Err(Declined::because("a program for several devices"));
            }
        }
        fields.finish()
    }

    fn property(&self, index: u32) -> Read<Bytes<'a>> {
        let found = self.properties.get(index as usize);
        found
            .copied()
            .ok_or(Declined::because("properties that are not there"))
    }

    /// The next operation of the region `parent`, whose next value has the number `next` in its function.
    fn operation(
        &mut self,
        bytes: &mut Bytes<'a>,
        parent: u32,
        next: &mut usize,
        depth: usize,
    ) -> Read<u32> {
        let name = bytes.index()? as usize;
        let Some(row) = self.rows.get(name).copied().flatten() else {
            let name = self.artifact.sections.operations.get(name);
            let name = name.map(|name| name.1).unwrap_or_default();
            return Err(Declined::because("an operation that is not known")
                .naming(&String::from_utf8_lossy(name)));
        };
        let parts = bytes.byte()?;
        if parts & (part::SUCCESSORS | !part::ALL) != 0 {
            return Err(Declined::because("an operation of other parts"));
        }
        let location = bytes.index()?;
        let attributes = match parts & part::ATTRIBUTES {
            0 => None,
            _ => Some(bytes.index()?),
        };
        let properties = match parts & part::PROPERTIES {
            0 => Bytes::new(&[]),
            _ => self.property(bytes.index()?)?,
        };
        let id = self.tree.operations.len() as u32;
        let first = self.tree.values.len() as u32;
        let results = match parts & part::RESULTS {
            0 => 0,
            _ => bytes.count()?,
        };
        for _ in 0..results {
            self.tree.values.push(Value {
                ty: bytes.index()?,
                region: parent,
                location: None,
                operation: Some(id),
            });
        }
        let operands = self.operands(bytes, parts, parent)?;
        if parts & part::USE_ORDERS != 0 {
            skip_use_orders(bytes, results)?;
        }
        self.tree.operations.push(Operation {
            row,
            location,
            attributes,
            properties,
            results: first..first + results as u32,
            operands,
            regions: Vec::new(),
        });
        self.define(first..first + results as u32, next, parent)?;
        if parts & part::REGIONS != 0 {
            let regions = self.regions(bytes, parent, depth)?;
            self.tree.operations[id as usize].regions = regions;
        }
        Ok(id)
    }

    fn operands(&mut self, bytes: &mut Bytes<'a>, parts: u8, parent: u32) -> Read<Range<u32>> {
        let first = self.tree.operands.len() as u32;
        let count = match parts & part::OPERANDS {
            0 => 0,
            _ => bytes.count()?,
        };
        for _ in 0..count {
            let number = bytes.index()? as usize;
            let value = match self.scope.get(number) {
                Some(&value) if value != UNDEFINED => value,
                _ => return Err(Declined::because("a value that is not defined before")),
            };
            self.capture(value, parent);
            self.tree.operands.push(value);
        }
        Ok(first..first + count as u32)
    }

    /// Notes in the regions around a use which values of other regions they need.
    fn capture(&mut self, value: u32, user: u32) {
        let home = self.tree.values[value as usize].region;
        let mut region = user;
        while region != home && region != NO_REGION {
            if !self.captured.insert((region, value)) {
                return;
            }
            let known = &mut self.tree.regions[region as usize];
            known.captures.push(value);
            region = known.parent;
        }
    }

    fn define(&mut self, values: Range<u32>, next: &mut usize, parent: u32) -> Read<()> {
        if parent == NO_REGION && values.is_empty() {
            return Ok(());
        }
        for value in values {
            let slot = self.scope.get_mut(*next);
            *slot.ok_or(Declined::because("more values than there are"))? = value;
            *next += 1;
        }
        Ok(())
    }

    fn regions(&mut self, bytes: &mut Bytes<'a>, parent: u32, depth: usize) -> Read<Vec<u32>> {
        let (count, is_isolated) = bytes.flagged()?;
        let count = bytes.checked_count(count)?;
        if depth >= MOST_DEEP {
            return Err(Declined::because("regions that are nested too deep"));
        }
        if !is_isolated {
            return (0..count)
                .map(|_| self.region(bytes, parent, depth + 1))
                .collect();
        }
        let (id, mut body) = bytes.section()?;
        if id != super::sections::IR {
            return Err(Declined::because("another section than one of operations"));
        }
        let outer = std::mem::take(&mut self.scope);
        let regions = (0..count)
            .map(|_| self.region(&mut body, NO_REGION, depth + 1))
            .collect();
        self.scope = outer;
        body.end()?;
        regions
    }

    fn region(&mut self, bytes: &mut Bytes<'a>, parent: u32, depth: usize) -> Read<u32> {
        if bytes.number()? != 1 {
            return Err(Declined::because("a region that is not one block"));
        }
        let values = bytes.count()?;
        let region = self.tree.regions.len() as u32;
        self.tree.regions.push(Region {
            parent,
            ..Region::default()
        });
        let base = self.scope.len();
        self.scope.resize(base + values, UNDEFINED);
        let mut next = base;
        let (count, has_arguments) = bytes.flagged()?;
        if has_arguments {
            let arguments = self.arguments(bytes, region)?;
            self.tree.regions[region as usize].arguments = arguments.clone();
            self.define(arguments, &mut next, region)?;
        }
        for _ in 0..bytes.checked_count(count)? {
            let operation = self.operation(bytes, region, &mut next, depth)?;
            self.tree.regions[region as usize]
                .operations
                .push(operation);
        }
        // The numbers after these are those of the regions around it again.
        self.scope.truncate(base);
        Ok(region)
    }

    fn arguments(&mut self, bytes: &mut Bytes<'a>, region: u32) -> Read<Range<u32>> {
        let first = self.tree.values.len() as u32;
        let count = bytes.count()?;
        for _ in 0..count {
            let (ty, has_location) = bytes.flagged()?;
            let location = match has_location {
                true => Some(bytes.index()?),
                false => None,
            };
            self.tree.values.push(Value {
                ty: ty.try_into().unwrap_or(u32::MAX),
                region,
                location,
                operation: None,
            });
        }
        if bytes.byte()? != 0 {
            skip_use_orders(bytes, count)?;
        }
        Ok(first..first + count as u32)
    }
}

/// In which order users of values are kept says nothing about what they compute.
fn skip_use_orders(bytes: &mut Bytes<'_>, values: usize) -> Read<()> {
    let count = match values {
        0 | 1 => 1,
        _ => bytes.count()?,
    };
    for _ in 0..count {
        if values > 1 {
            bytes.number()?;
        }
        let (numbers, _) = bytes.flagged()?;
        for _ in 0..bytes.checked_count(numbers)? {
            bytes.number()?;
        }
    }
    Ok(())
}
