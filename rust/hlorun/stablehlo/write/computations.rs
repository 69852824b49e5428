//! Functions and regions → computations.

use std::ops::Range;

use super::layouts::Order;
use super::{Body, Function, Writer};
use crate::stablehlo::table::Form;
use crate::stablehlo::{Declined, Read};

/// Prefix of Shardy's attributes, which say how values are sharded; there is one device.
const SHARDINGS: &[u8] = b"sdy.";
/// JAX's mark of an argument or a result that orders effects.
const TOKEN: &[u8] = b"jax.token";
/// Computations that are written while others are.
const MOST_DEEP: usize = 96;

/// How the values that a region takes come in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parameters<'p> {
    /// Each is a parameter; constants alone come from outside.
    Each,
    /// All are parts of one: a tuple, unless they are one value.
    Packed,
    /// As before; and those named here are given on behind the results.
    State(&'p [u32]),
}

impl<'a> Writer<'_, 'a> {
    /// The function `id` as the module's entry; what the header says of it is added to `header`.
    pub fn entry(&mut self, id: u32, header: &mut String) -> Read<()> {
        let operation = &self.tree.operations[id as usize];
        let &[region] = &operation.regions[..] else {
            return Err(Declined::because("a function without a body"));
        };
        let results = self.results(region)?.to_vec();
        let arguments: Vec<u32> = self.tree.regions[region as usize]
            .arguments
            .clone()
            .collect();
        let mut fields = self.fields(operation)?;
        let donations =
            self.donations(fields.need("arg_attrs")?, arguments.len(), results.len())?;
        self.check_results(fields.need("res_attrs")?)?;
        for name in ["function_type", "sym_name", "sym_visibility"] {
            fields.need(name)?;
        }
        fields.finish()?;
        let name = self.fresh("main");
        let orders = self.flat(region, &name, true)?;
        header.push_str(&donations);
        header.push_str(", entry_computation_layout={(");
        for (at, &value) in arguments.iter().enumerate() {
            header.push_str(if at > 0 { ", " } else { "" });
            header.push_str(self.shape(value)?);
        }
        header.push_str(")->");
        for (&value, order) in results.iter().zip(orders) {
            self.orders[value as usize] = order;
        }
        let mut layout = Body::default();
        self.put_shapes(&mut layout, &results)?;
        header.push_str(&layout.text);
        header.push('}');
        Ok(())
    }

    /// The name of the computation that the function called `name` is, and how its results lie.
    pub fn function(&mut self, name: &[u8]) -> Read<(Range<usize>, Vec<Order>)> {
        let Some((&key, function)) = self.functions.get_key_value(name) else {
            return Err(Declined::because("a function that is not there"));
        };
        let id = match function {
            Function::Written(name, orders) => return Ok((name.clone(), orders.clone())),
            Function::Begun => return Err(Declined::because("a function that calls itself")),
            &Function::Unwritten(id) => id,
        };
        self.functions.insert(key, Function::Begun);
        let operation = &self.tree.operations[id as usize];
        let &[region] = &operation.regions[..] else {
            return Err(Declined::because("a function without a body"));
        };
        let mut fields = self.fields(operation)?;
        for name in ["function_type", "sym_name", "sym_visibility"] {
            fields.need(name)?;
        }
        let count = self.tree.regions[region as usize].arguments.len();
        if !self
            .donations(fields.need("arg_attrs")?, count, 0)?
            .is_empty()
        {
            return Err(Declined::because("a function that is given its arguments"));
        }
        self.check_results(fields.need("res_attrs")?)?;
        fields.finish()?;
        let start = self.texts.len();
        super::push_name(&mut self.texts, name);
        let base = self.texts[start..].to_owned();
        let written = self.fresh(&base);
        let orders = self.flat(region, &written, false)?;
        let function = Function::Written(written.clone(), orders.clone());
        self.functions.insert(key, function);
        Ok((written, orders))
    }

    /// What a region gives.
    pub fn results(&self, region: u32) -> Read<&[u32]> {
        let last = self.tree.regions[region as usize].operations.last();
        let operation = last.map(|&id| &self.tree.operations[id as usize]);
        match operation {
            Some(operation) if operation.row.form == Form::Return => {
                Ok(self.tree.operands(operation))
            }
            _ => Err(Declined::because("a region that does not return")),
        }
    }

    /// The value that `value` is the same as.
    fn source(&self, mut value: u32) -> u32 {
        // Operands stand before what uses them.
        while let Some(id) = self.tree.values[value as usize].operation
            && let operation = &self.tree.operations[id as usize]
            && operation.row.form == Form::Same
            && let &[operand] = self.tree.operands(operation)
        {
            value = operand;
        }
        value
    }

    /// Whether a value is a constant, which is written again in each computation that uses it.
    pub fn is_constant(&self, value: u32) -> bool {
        let operation = self.tree.values[value as usize].operation;
        operation.is_some_and(|id| self.tree.operations[id as usize].row.form == Form::Constant)
    }

    /// Writes a region whose arguments are parameters. Gives how its results lie.
    pub fn flat(&mut self, region: u32, name: &Range<usize>, is_entry: bool) -> Read<Vec<Order>> {
        let arguments = self.tree.regions[region as usize].arguments.clone();
        let arguments: Vec<u32> = arguments.collect();
        self.computation(region, &arguments, Parameters::Each, name, is_entry)
    }

    /// Writes a region as a computation: `taken` are the values it takes, its arguments and others.
    /// Gives how its results lie.
    pub fn computation(
        &mut self,
        region: u32,
        taken: &[u32],
        parameters: Parameters<'_>,
        name: &Range<usize>,
        is_entry: bool,
    ) -> Read<Vec<Order>> {
        self.depth += 1;
        if self.depth > MOST_DEEP {
            return Err(Declined::because("computations that are nested too deep"));
        }
        let tree = self.tree;
        let captures = &tree.regions[region as usize].captures;
        // Their names are those of the computation around this one again later.
        let outer: Vec<(u32, Range<usize>, Order)> = captures
            .iter()
            .chain(taken)
            .map(|&value| {
                let order = self.orders[value as usize].take();
                (value, self.names[value as usize].clone(), order)
            })
            .collect();
        let mut results = self.results(region)?.to_vec();
        if let Parameters::State(passed) = parameters {
            results.extend_from_slice(passed);
        }
        let mut body = Body::default();
        if let &[result] = &results[..] {
            body.root = Some(self.source(result));
        }
        self.parameters(&mut body, taken, parameters)?;
        for &value in captures {
            if self.is_constant(value) {
                let id = tree.values[value as usize].operation;
                let operation = &tree.operations[id.unwrap_or_default() as usize];
                self.constant(&mut body, operation)?;
            } else if !taken.contains(&value) {
                return Err(Declined::because("a value from outside of a region"));
            }
        }
        for &id in &tree.regions[region as usize].operations {
            let operation = &tree.operations[id as usize];
            self.operation(&mut body, operation)
                .map_err(|declined| declined.naming(operation.row.name))?;
        }
        if body.root.is_none() {
            self.tuple(&mut body, &results, true)?;
        }
        self.finish(body, name, is_entry);
        let orders = results.iter().map(|&value| &self.orders[value as usize]);
        let orders = orders.cloned().collect();
        // In reverse: of a value that is listed twice, only the first entry has the layout.
        for (value, name, order) in outer.into_iter().rev() {
            self.names[value as usize] = name;
            self.orders[value as usize] = order;
        }
        self.depth -= 1;
        Ok(orders)
    }

    fn parameters(&mut self, body: &mut Body, taken: &[u32], kind: Parameters<'_>) -> Read<()> {
        if kind != Parameters::Each && taken.len() != 1 {
            let packed = self.fresh("arg_tuple");
            self.put_head(body, packed.clone(), false)?;
            self.put_shapes(body, taken)?;
            body.text.push_str(" parameter(0)\n");
            return self.parts(body, &packed, taken, None);
        }
        for (at, &value) in taken.iter().enumerate() {
            let location = self.tree.values[value as usize].location;
            self.begin(body, value, location, "Arg_")?;
            self.put_shape(&mut body.text, value)?;
            body.text.push_str(&format!(" parameter({at})"));
            self.end(body, location)?;
        }
        Ok(())
    }

    /// Takes the parts `values` out of the tuple that is called `packed`.
    pub fn parts(
        &mut self,
        body: &mut Body,
        packed: &Range<usize>,
        values: &[u32],
        location: Option<u32>,
    ) -> Read<()> {
        for (at, &value) in values.iter().enumerate() {
            if !self.is_live[value as usize] {
                continue;
            }
            self.begin(body, value, location, "get-tuple-element")?;
            self.put_shape(&mut body.text, value)?;
            body.text.push_str(" get-tuple-element(%");
            body.text.push_str(&self.texts[packed.clone()]);
            body.text.push_str(&format!("), index={at}"));
            self.end(body, location)?;
        }
        Ok(())
    }

    /// Writes a tuple of `values`.
    pub fn tuple(&mut self, body: &mut Body, values: &[u32], is_root: bool) -> Read<Range<usize>> {
        let name = self.fresh("tuple");
        self.put_head(body, name.clone(), is_root)?;
        body.text.push('(');
        for (at, &value) in values.iter().enumerate() {
            body.text.push_str(if at > 0 { ", " } else { "" });
            self.put_shape(&mut body.text, value)?;
        }
        body.text.push_str(") tuple(");
        self.put_operands(body, values)?;
        body.text.push('\n');
        Ok(name)
    }

    /// What the header says of arguments whose memory results may take.
    fn donations(&self, list: u32, arguments: usize, results: usize) -> Read<String> {
        let list = self.artifact.list(list)?;
        if !list.is_empty() && list.len() != arguments {
            return Err(Declined::because("another number of arguments"));
        }
        let (mut aliases, mut donors) = (Vec::new(), Vec::new());
        for (at, &attributes) in list.iter().enumerate() {
            for (key, value) in self.artifact.dictionary(attributes)? {
                match key {
                    b"tf.aliasing_output" => {
                        let output = self.artifact.integer(value)?;
                        if output < 0 || output >= results as i64 {
                            return Err(Declined::because("a result that is not there"));
                        }
                        aliases.push((output, at));
                    }
                    b"jax.buffer_donor" => {
                        if self.artifact.boolean(value)? {
                            donors.push(at);
                        }
                    }
                    b"mhlo.layout_mode" if self.artifact.text(value)? == b"default" => {}
                    TOKEN => {}
                    key if key.starts_with(SHARDINGS) => {}
                    _ => {
                        return Err(Declined::because("an attribute of an argument")
                            .naming(&String::from_utf8_lossy(key)));
                    }
                }
            }
        }
        let mut text = String::new();
        if !aliases.is_empty() {
            let parts = aliases.iter().map(|&(output, at)| match results {
                1 => format!("{{}}: ({at}, {{}}, may-alias)"),
                _ => format!("{{{output}}}: ({at}, {{}}, may-alias)"),
            });
            let parts = parts.collect::<Vec<_>>().join(", ");
            text.push_str(&format!(", input_output_alias={{ {parts} }}"));
        }
        if !donors.is_empty() {
            let parts = donors.iter().map(|at| format!("({at}, {{}})"));
            let parts = parts.collect::<Vec<_>>().join(", ");
            text.push_str(&format!(", buffer_donor={{ {parts} }}"));
        }
        Ok(text)
    }

    /// Results may have what means nothing to HLO.
    fn check_results(&self, list: u32) -> Read<()> {
        for &attributes in &self.artifact.list(list)? {
            for (key, value) in self.artifact.dictionary(attributes)? {
                match key {
                    b"jax.result_info" => {}
                    b"mhlo.layout_mode" if self.artifact.text(value)? == b"default" => {}
                    TOKEN => {}
                    key if key.starts_with(SHARDINGS) => {}
                    _ => {
                        return Err(Declined::because("an attribute of a result")
                            .naming(&String::from_utf8_lossy(key)));
                    }
                }
            }
        }
        Ok(())
    }
}
