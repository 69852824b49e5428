//! Loops and branches: what their regions use of the outside is handed to them.

use std::ops::Range;

use super::computations::Parameters;
use super::operations::Names;
use super::{Body, Writer};
use crate::module::HloOpcode;
use crate::stablehlo::table::Form;
use crate::stablehlo::tree::Operation;
use crate::stablehlo::{Declined, Read};

impl<'a> Writer<'_, 'a> {
    /// Values, other than constants, that the regions use of the outside.
    fn captured(&self, regions: &[u32]) -> Vec<u32> {
        let mut all = Vec::new();
        let mut seen = foldhash::HashSet::default();
        for &region in regions {
            for &value in &self.tree.regions[region as usize].captures {
                if !self.is_constant(value) && seen.insert(value) {
                    all.push(value);
                }
            }
        }
        all
    }

    pub fn while_loop(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        self.fields(operation)?.finish()?;
        let &[condition, step] = &operation.regions[..] else {
            return Err(Declined::because("a loop of other regions"));
        };
        let passed = self.captured(&operation.regions);
        let tree = self.tree;
        let state = [tree.operands(operation), &passed].concat();
        let taken = |region: u32| -> Vec<u32> {
            let own = tree.regions[region as usize].arguments.clone();
            own.chain(passed.iter().copied()).collect()
        };
        let count = operation.results.len();
        if count == 0
            || count + passed.len() != state.len()
            || taken(condition).len() != state.len()
            || taken(step).len() != state.len()
            || self.results(condition)?.len() != 1
            || self.results(step)?.len() != count
        {
            return Err(Declined::because("a loop of another state"));
        }
        let [tested, stepped] = [self.fresh("condition"), self.fresh("body")];
        let kind = Parameters::Packed;
        self.computation(condition, &taken(condition), kind, &tested, false)?;
        let kind = Parameters::State(&passed);
        self.computation(step, &taken(step), kind, &stepped, false)?;
        let tail = format!(
            ", condition=%{}, body=%{}",
            &self.texts[tested], &self.texts[stepped]
        );
        let operand = self.packed(body, &state)?;
        if state.len() == 1 {
            return self.emit_of(body, operation, HloOpcode::While, &[operand], &tail);
        }
        let location = Some(operation.location);
        let name = self.name_at(location, "while")?;
        self.put_head(body, name.clone(), false)?;
        self.put_shapes(body, &state)?;
        self.put_call(body, HloOpcode::While, &[operand], &tail)?;
        self.end(body, location)?;
        let results: Vec<u32> = operation.results.clone().collect();
        self.parts(body, &name, &results, location)
    }

    /// The name of what holds all `values`: a tuple, unless they are one.
    fn packed(&mut self, body: &mut Body, values: &[u32]) -> Read<Range<usize>> {
        match values {
            &[value] => Ok(self.names[value as usize].clone()),
            _ => self.tuple(body, values, false),
        }
    }

    pub fn conditional(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        self.fields(operation)?.finish()?;
        let &[chooser] = self.tree.operands(operation) else {
            return Err(Declined::because("a branch by another number of values"));
        };
        if operation.row.form == Form::Case
            && let Some(&region) = self.chosen(operation, chooser)
        {
            return self.only_branch(body, operation, region);
        }
        let mut operands = Names::new();
        operands.push(self.names[chooser as usize].clone());
        let mut names = Vec::new();
        for &region in &operation.regions {
            let own = &self.tree.regions[region as usize].arguments;
            let given = self.results(region)?.len();
            if !own.is_empty() || given != operation.results.len() {
                return Err(Declined::because("a branch of other values"));
            }
            let taken = self.captured(&[region]);
            operands.push(self.packed(body, &taken)?);
            let name = self.fresh("branch");
            let orders = self.computation(region, &taken, Parameters::Packed, &name, false)?;
            if names.is_empty() {
                for (value, order) in operation.results.clone().zip(orders) {
                    self.orders[value as usize] = order;
                }
            }
            names.push(format!("%{}", &self.texts[name]));
        }
        let tail = match (operation.row.form, &names[..]) {
            (Form::If, [yes, no]) => {
                format!(", true_computation={yes}, false_computation={no}")
            }
            (Form::Case, [_, ..]) => {
                format!(", branch_computations={{{}}}", names.join(", "))
            }
            _ => return Err(Declined::because("another number of branches")),
        };
        self.emit_of(body, operation, HloOpcode::Conditional, &operands, &tail)
    }

    /// The branch that is taken in any case.
    fn chosen<'o>(&self, operation: &'o Operation<'a>, chooser: u32) -> Option<&'o u32> {
        let regions = &operation.regions;
        let last = regions.len().checked_sub(1)?;
        let at = match self.known_number(chooser) {
            _ if last == 0 => 0,
            Some(number) if (0.0..=last as f64).contains(&number) => number as usize,
            // What is out of range is the last one.
            Some(_) => last,
            None => return None,
        };
        regions.get(at)
    }

    /// Writes a branch that is taken in any case as a call.
    fn only_branch(&mut self, body: &mut Body, operation: &Operation<'a>, region: u32) -> Read<()> {
        let own = &self.tree.regions[region as usize].arguments;
        let given = self.results(region)?.len();
        if !own.is_empty() || given != operation.results.len() {
            return Err(Declined::because("a branch of other values"));
        }
        let taken = self.captured(&[region]);
        let operands = self.names_of(&taken);
        let name = self.fresh("branch");
        let orders = self.computation(region, &taken, Parameters::Each, &name, false)?;
        for (value, order) in operation.results.clone().zip(orders) {
            self.orders[value as usize] = order;
        }
        let tail = format!(", to_apply=%{}", &self.texts[name]);
        self.emit_of(body, operation, HloOpcode::Call, &operands, &tail)
    }
}
