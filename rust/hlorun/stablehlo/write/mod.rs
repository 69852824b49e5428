//! Operations → HLO text.

mod calls;
mod computations;
mod control_flow;
mod folding;
mod indexing;
mod layouts;
mod operations;
mod windows;

use std::fmt::Write;
use std::ops::Range;

use foldhash::HashMap;
use layouts::Order;

use super::attributes::{Artifact, Fields};
use super::locations::{Locations, push_name};
use super::table::Form;
use super::tree::{Operation, Tree};
use super::{Declined, Read};
use crate::types::Literal;

/// A module as text, and the values of its constants in the order of the text.
pub struct Written {
    pub text: String,
    pub literals: Vec<Literal>,
}

/// How much longer than its artifact a text may be: a byte may stand for a long name.
const MOST_LONGER: usize = 256;
/// What short artifacts may become on top of that.
const MOST_FOR_SHORT: usize = 1 << 16;

/// What a function has become.
#[derive(Clone)]
enum Function {
    Unwritten(u32),
    /// Its computation is being written.
    Begun,
    /// The name of its computation, and how its results lie.
    Written(Range<usize>, Vec<Order>),
}

/// A computation in the making.
#[derive(Default)]
struct Body {
    text: String,
    literals: Vec<Literal>,
    /// The value that it gives, where that is one.
    root: Option<u32>,
}

struct Writer<'w, 'a> {
    artifact: &'w Artifact<'a>,
    tree: &'w Tree<'a>,
    locations: Locations,
    /// The computations that are finished.
    out: Body,
    /// The names of values in the computation that is written, in `texts`.
    names: Vec<Range<usize>>,
    texts: String,
    /// How values lie in it.
    orders: Vec<Order>,
    /// How many names were given.
    given: u32,
    functions: HashMap<&'a [u8], Function>,
    /// What numbers values are, where that is known.
    numbers: Vec<Option<folding::Numbers>>,
    /// Whether anything needs each value.
    is_live: Vec<bool>,
    depth: usize,
    /// Bytes of text that there may be.
    most: usize,
    /// Bytes of constants that there may still be: many operations may have the same one.
    left: usize,
}

/// The module's text.
pub fn write<'a>(artifact: &Artifact<'a>, tree: &Tree<'a>) -> Read<Written> {
    let size = artifact.sections.size;
    let mut writer = Writer {
        artifact,
        tree,
        locations: Locations::new(size),
        out: Body::default(),
        names: vec![0..0; tree.values.len()],
        orders: vec![None; tree.values.len()],
        numbers: vec![None; tree.values.len()],
        texts: String::new(),
        given: 0,
        functions: HashMap::default(),
        is_live: live_values(tree),
        depth: 0,
        left: size
            .saturating_mul(MOST_LONGER)
            .saturating_add(MOST_FOR_SHORT),
        most: size
            .saturating_mul(MOST_LONGER)
            .saturating_add(MOST_FOR_SHORT),
    };
    let mut main = None;
    for &id in &tree.functions {
        let operation = &tree.operations[id as usize];
        if operation.row.form == Form::Mesh {
            continue;
        }
        if operation.row.form != Form::Function {
            return Err(Declined::because("a module of more than functions"));
        }
        let mut fields = tree.fields(artifact, operation)?;
        let name = artifact.text(fields.need("sym_name")?)?;
        match artifact.text(fields.need("sym_visibility")?)? {
            b"public" if name == b"main" && main.is_none() => main = Some(id),
            b"private" | b"" => {
                writer.functions.insert(name, Function::Unwritten(id));
            }
            _ => return Err(Declined::because("several functions that are public")),
        }
    }
    let main = main.ok_or(Declined::because("no main function"))?;
    let mut text = String::from("HloModule ");
    match tree.name {
        b"" => text.push_str("main"),
        name => push_name(&mut text, name),
    }
    writer.entry(main, &mut text)?;
    text.push_str("\n\n");
    writer.locations.write_tables(artifact, &mut text)?;
    text.push_str(&writer.out.text);
    Ok(Written {
        text,
        literals: writer.out.literals,
    })
}

/// Whether an operation may be left out if nobody needs its results.
fn is_pure(operation: &Operation<'_>) -> bool {
    use Form::*;
    !matches!(
        operation.row.form,
        Call | Case | Composite | CustomCall | Function | If | OptimizationBarrier | Return | While
    ) && !operation.results.is_empty()
}

/// Whether each value is needed. Users stand behind what they use.
fn live_values(tree: &Tree<'_>) -> Vec<bool> {
    let mut live = vec![false; tree.values.len()];
    for operation in tree.operations.iter().rev() {
        let mut results = operation.results.clone();
        if !is_pure(operation) || results.any(|value| live[value as usize]) {
            for &operand in tree.operands(operation) {
                live[operand as usize] = true;
            }
        }
    }
    live
}

impl<'a> Writer<'_, 'a> {
    fn fields(&self, operation: &Operation<'a>) -> Read<Fields<'a>> {
        self.tree.fields(self.artifact, operation)
    }

    /// The text of a value's shape.
    fn shape(&self, value: u32) -> Read<&str> {
        self.artifact
            .types
            .text(self.tree.values[value as usize].ty)
    }

    /// A name that no other instruction or computation has.
    fn fresh(&mut self, base: &str) -> Range<usize> {
        let start = self.texts.len();
        self.given += 1;
        let _ = write!(self.texts, "{base}.{}", self.given);
        start..self.texts.len()
    }

    /// A name for what stands at a location, or else after `otherwise`.
    fn name_at(&mut self, location: Option<u32>, otherwise: &str) -> Read<Range<usize>> {
        let start = self.texts.len();
        if let Some(location) = location {
            let (_, name) = self.locations.of(self.artifact, location)?;
            self.texts.push_str(name);
        }
        if self.texts.len() == start {
            self.texts.push_str(otherwise);
        }
        self.given += 1;
        let _ = write!(self.texts, ".{}", self.given);
        Ok(start..self.texts.len())
    }

    /// Begins the line of the instruction that is `value`: its name and `=`.
    fn begin(
        &mut self,
        body: &mut Body,
        value: u32,
        location: Option<u32>,
        otherwise: &str,
    ) -> Read<()> {
        let name = self.name_at(location, otherwise)?;
        let is_root = body.root == Some(value);
        self.put_head(body, name.clone(), is_root)?;
        self.names[value as usize] = name;
        Ok(())
    }

    fn put_head(&mut self, body: &mut Body, name: Range<usize>, is_root: bool) -> Read<()> {
        self.check_length(body)?;
        body.text.push_str(if is_root { "  ROOT %" } else { "  %" });
        body.text.push_str(&self.texts[name]);
        body.text.push_str(" = ");
        Ok(())
    }

    /// Errs where the text is out of proportion to the artifact.
    fn check_length(&self, body: &Body) -> Read<()> {
        match body.text.len() + self.out.text.len() + self.texts.len() > self.most {
            true => Err(Declined::because("a text that is too long")),
            false => Ok(()),
        }
    }

    /// Ends a line: metadata.
    fn end(&mut self, body: &mut Body, location: Option<u32>) -> Read<()> {
        if let Some(location) = location {
            let (metadata, _) = self.locations.of(self.artifact, location)?;
            body.text.push_str(metadata);
        }
        body.text.push('\n');
        Ok(())
    }

    fn put_name(&self, body: &mut Body, value: u32) {
        body.text.push('%');
        body.text
            .push_str(&self.texts[self.names[value as usize].clone()]);
    }

    /// Appends `%a, %b)`.
    fn put_operands(&self, body: &mut Body, values: &[u32]) -> Read<()> {
        for (at, &value) in values.iter().enumerate() {
            body.text.push_str(if at > 0 { ", " } else { "" });
            self.put_name(body, value);
            self.check_length(body)?;
        }
        body.text.push(')');
        Ok(())
    }

    /// Adds a finished computation to the module.
    fn finish(&mut self, body: Body, name: &Range<usize>, is_entry: bool) {
        let out = &mut self.out;
        out.text.push_str(if is_entry { "ENTRY %" } else { "%" });
        out.text.push_str(&self.texts[name.clone()]);
        out.text.push_str(" {\n");
        out.text.push_str(&body.text);
        out.text.push_str("}\n\n");
        out.literals.extend(body.literals);
    }
}
