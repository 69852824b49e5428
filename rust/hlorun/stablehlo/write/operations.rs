//! Operations, each as the instructions it is.

use std::fmt::Write;
use std::ops::Range;

use smallvec::SmallVec;

use super::{Body, Writer, is_pure};
use crate::module::HloOpcode;
use crate::stablehlo::attributes::{COMPARISON, DIRECTION, FFT, Fields, RNG_ALGORITHM, TRANSPOSE};
use crate::stablehlo::literals::{self, Constant};
use crate::stablehlo::table::Form;
use crate::stablehlo::tree::Operation;
use crate::stablehlo::types::{write_list, write_shape};
use crate::stablehlo::{Declined, Read};
use crate::text::printer::write_literal;
use crate::types::{ArrayShape, Literal, PrimitiveType};

/// Elements of a constant that are written out; the values of larger ones go past the text.
const MOST_WRITTEN: i64 = 16;

/// The names of operands.
pub type Names = SmallVec<[Range<usize>; 4]>;

impl<'a> Writer<'_, 'a> {
    /// Writes an operation, unless nobody needs it.
    pub fn operation(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut results = operation.results.clone();
        if is_pure(operation) && !results.any(|value| self.is_live[value as usize]) {
            return Ok(());
        }
        self.infer_orders(operation)?;
        match operation.row.form {
            Form::Return => return Ok(()),
            Form::Same => return self.same(operation),
            Form::Function => return Err(Declined::because("a function within a function")),
            Form::Constant => return self.constant(body, operation),
            Form::Call => return self.call(body, operation),
            Form::Composite => return self.composite(body, operation),
            Form::CustomCall => return self.custom_call(body, operation),
            Form::While => return self.while_loop(body, operation),
            Form::If | Form::Case => return self.conditional(body, operation),
            Form::OptimizationBarrier => return self.barrier(body, operation),
            Form::Scalars => return self.scalars(body, operation),
            Form::Iota => return self.iota(body, operation),
            Form::BroadcastInDim => {
                self.note_numbers(operation)?;
                return self.broadcast_in_dim(body, operation);
            }
            _ => {}
        }
        if let Some(operand) = self.unchanged(operation)
            && body.root != Some(operation.results.start)
        {
            self.fields(operation)?.finish()?;
            self.note_numbers(operation)?;
            let name = self.names[operand as usize].clone();
            self.names[operation.results.start as usize] = name;
            return Ok(());
        }
        let mut attributes = String::new();
        let mut fields = self.fields(operation)?;
        self.attributes(operation, &mut fields, &mut attributes)?;
        fields.finish()?;
        if self.note_numbers(operation)? {
            return self.put_numbers(body, operation);
        }
        self.emit(body, operation, &attributes)
    }

    /// Appends the attributes that HLO's instruction has, each behind a comma.
    fn attributes(
        &mut self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        match operation.row.form {
            Form::Plain => Ok(()),
            Form::Accurate => self.accuracy(operation, fields, out),
            Form::Dimensions => self.list(fields, "dimensions", "dimensions", out),
            Form::Transpose => self.list(fields, "permutation", "dimensions", out),
            Form::DynamicSlice => self.list(fields, "slice_sizes", "dynamic_slice_sizes", out),
            Form::Broadcast => self.leading(operation, fields, out),
            Form::Cholesky => self.flag(fields, "lower", "lower", out),
            Form::Concatenate => self.dimension(fields, "dimension", out),
            Form::Compare => self.compare(operation, fields, out),
            Form::Fft => {
                let word = self.artifact.word(fields.need("fft_type")?, &FFT)?;
                let _ = write!(out, ", fft_type={word}");
                self.list(fields, "fft_length", "fft_length", out)
            }
            Form::Map | Form::Reduce => {
                self.list(fields, "dimensions", "dimensions", out)?;
                self.region(operation, 0, "to_apply", out)
            }
            Form::ReducePrecision => {
                for name in ["exponent_bits", "mantissa_bits"] {
                    let bits = self.artifact.integer(fields.need(name)?)?;
                    let _ = write!(out, ", {name}={bits}");
                }
                Ok(())
            }
            Form::RngBitGenerator => {
                let word = fields.need("rng_algorithm")?;
                let word = self.artifact.word(word, &RNG_ALGORITHM)?;
                let _ = write!(out, ", algorithm={word}");
                Ok(())
            }
            Form::Sort => {
                self.dimension(fields, "dimension", out)?;
                if self.artifact.boolean(fields.need("is_stable")?)? {
                    out.push_str(", is_stable=true");
                }
                self.region(operation, 0, "to_apply", out)
            }
            Form::TriangularSolve => {
                for name in ["left_side", "lower", "unit_diagonal"] {
                    self.flag(fields, name, name, out)?;
                }
                let word = self
                    .artifact
                    .word(fields.need("transpose_a")?, &TRANSPOSE)?;
                let _ = write!(out, ", transpose_a={word}");
                Ok(())
            }
            Form::Gather => self.gather(fields, out),
            Form::Scatter => self.scatter(operation, fields, out),
            Form::Slice => self.slice(fields, out),
            Form::Pad => self.pad(fields, out),
            Form::DotGeneral => self.dot(fields, out),
            Form::Convolution => self.convolution(operation, fields, out),
            Form::ReduceWindow => self.reduce_window(operation, fields, out),
            Form::SelectAndScatter => self.select_and_scatter(operation, fields, out),
            form => Err(Declined::because("a form that is not known").naming(&format!("{form:?}"))),
        }
    }

    /// Writes the instruction that the operation is.
    pub fn emit(&mut self, body: &mut Body, operation: &Operation<'a>, tail: &str) -> Read<()> {
        let names = self.names_of(self.tree.operands(operation));
        self.emit_of(body, operation, operation.row.opcode, &names, tail)
    }

    pub fn names_of(&self, values: &[u32]) -> Names {
        let names = values.iter().map(|&value| &self.names[value as usize]);
        names.cloned().collect()
    }

    /// Writes an instruction with the results of the operation: a tuple, if they are not one.
    pub fn emit_of(
        &mut self,
        body: &mut Body,
        operation: &Operation<'a>,
        opcode: HloOpcode,
        operands: &[Range<usize>],
        tail: &str,
    ) -> Read<()> {
        let location = Some(operation.location);
        let results: SmallVec<[u32; 4]> = operation.results.clone().collect();
        if let &[result] = &results[..] {
            self.begin(body, result, location, opcode.name())?;
            self.put_shape(&mut body.text, result)?;
            self.put_call(body, opcode, operands, tail)?;
            return self.end(body, location);
        }
        let name = self.name_at(location, opcode.name())?;
        self.put_head(body, name.clone(), false)?;
        self.put_shapes(body, &results)?;
        self.put_call(body, opcode, operands, tail)?;
        self.end(body, location)?;
        self.parts(body, &name, &results, location)
    }

    /// Appends ` opcode(%a, %b)tail`.
    pub fn put_call(
        &self,
        body: &mut Body,
        opcode: HloOpcode,
        operands: &[Range<usize>],
        tail: &str,
    ) -> Read<()> {
        body.text.push(' ');
        body.text.push_str(opcode.name());
        body.text.push('(');
        for (at, name) in operands.iter().enumerate() {
            body.text.push_str(if at > 0 { ", %" } else { "%" });
            body.text.push_str(&self.texts[name.clone()]);
            self.check_length(body)?;
        }
        body.text.push(')');
        body.text.push_str(tail);
        Ok(())
    }

    /// An instruction of one operand that the operation is not itself.
    fn helper(
        &mut self,
        body: &mut Body,
        shape: &ArrayShape,
        opcode: HloOpcode,
        operand: Range<usize>,
        tail: &str,
    ) -> Read<Range<usize>> {
        let name = self.fresh(opcode.name());
        self.put_head(body, name.clone(), false)?;
        write_shape(&mut body.text, shape);
        self.put_call(body, opcode, &[operand], tail)?;
        body.text.push('\n');
        Ok(name)
    }

    pub fn constant(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let tensor = self.artifact.tensor(fields.need("value")?)?;
        fields.finish()?;
        let result = operation.results.start;
        if operation.results.len() != 1 {
            return Err(Declined::because("a constant of several results"));
        }
        let (literal, is_splat) = match literals::constant(self.artifact, tensor)? {
            Constant::Array(literal) => (literal, false),
            Constant::Splat(literal) => (literal, true),
        };
        self.note_constant(result, &literal);
        self.put_constant(body, result, literal, is_splat)
    }

    /// Writes a constant, or, if it is a splat, a scalar constant and its broadcast.
    pub fn put_constant(
        &mut self,
        body: &mut Body,
        result: u32,
        literal: Literal,
        is_splat: bool,
    ) -> Read<()> {
        let left = self.left.checked_sub(literal.heap_size());
        self.left = left.ok_or(Declined::because("constants that are too much"))?;
        let name = match is_splat {
            true => {
                let name = self.fresh("constant");
                self.put_head(body, name.clone(), false)?;
                write_shape(&mut body.text, &literal.shape);
                name
            }
            false => {
                self.begin(body, result, None, "constant")?;
                self.put_shape(&mut body.text, result)?;
                0..0
            }
        };
        body.text.push_str(" constant(");
        let elements = literal.shape.element_count().unwrap_or(i64::MAX);
        let is_short = (1..=MOST_WRITTEN).contains(&elements);
        match is_short {
            true => write_literal(&mut body.text, &literal),
            false => body.text.push_str("{...}"),
        }
        body.text.push_str(")\n");
        body.literals.push(literal);
        if is_splat {
            self.begin(body, result, None, "broadcast")?;
            self.put_shape(&mut body.text, result)?;
            self.put_call(body, HloOpcode::Broadcast, &[name], ", dimensions={}\n")?;
        }
        Ok(())
    }

    /// The array that a value is.
    pub fn array(&self, value: u32) -> Read<&ArrayShape> {
        self.artifact
            .types
            .array(self.tree.values[value as usize].ty)
    }

    fn scalars(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        self.fields(operation)?.finish()?;
        let mut names = Names::new();
        let dims = self.array(operation.results.start)?.dims.clone();
        for &value in self.tree.operands(operation) {
            let array = self.array(value)?;
            let name = self.names[value as usize].clone();
            names.push(match array.dims.is_empty() && !dims.is_empty() {
                true => {
                    let shape = ArrayShape::new(array.element_type, &dims);
                    self.helper(body, &shape, HloOpcode::Broadcast, name, ", dimensions={}")?
                }
                false => name,
            });
        }
        self.emit_of(body, operation, operation.row.opcode, &names, "")
    }

    /// XLA counts along one dimension and repeats that.
    fn iota(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let dimension = self.artifact.integer(fields.need("iota_dimension")?)?;
        fields.finish()?;
        let array = self.array(operation.results.start)?.clone();
        let size = usize::try_from(dimension).ok();
        let size = size.and_then(|at| array.dims.get(at)).copied();
        let size = size.ok_or(Declined::because("a dimension that is not there"))?;
        if array.dims.len() == 1 {
            let names = Names::new();
            return self.emit_of(
                body,
                operation,
                HloOpcode::Iota,
                &names,
                ", iota_dimension=0",
            );
        }
        let name = self.fresh("iota");
        self.put_head(body, name.clone(), false)?;
        let counted = ArrayShape::new(array.element_type, &[size]);
        write_shape(&mut body.text, &counted);
        self.put_call(body, HloOpcode::Iota, &[], ", iota_dimension=0\n")?;
        let tail = format!(", dimensions={{{dimension}}}");
        self.emit_of(body, operation, HloOpcode::Broadcast, &[name], &tail)
    }

    /// HLO repeats no dimension of one element: such a dimension is taken away first.
    fn broadcast_in_dim(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let dimensions = fields.need("broadcast_dimensions")?;
        let dimensions = self.artifact.integers(dimensions)?;
        fields.finish()?;
        let &[operand] = self.tree.operands(operation) else {
            return Err(Declined::because("another number of operands"));
        };
        let array = self.array(operand)?;
        let to = &self.array(operation.results.start)?.dims;
        let mut name = self.names[operand as usize].clone();
        let (mut kept, mut dims) = (Vec::new(), Vec::new());
        for (at, &dim) in array.dims.iter().enumerate() {
            let target = dimensions.get(at).copied().unwrap_or(-1);
            let size = usize::try_from(target).ok().and_then(|at| to.get(at));
            match size {
                Some(&size) if size == dim => {
                    kept.push(target);
                    dims.push(dim);
                }
                Some(_) if dim == 1 => {}
                _ => return Err(Declined::because("a broadcast to other sizes")),
            }
        }
        if kept.len() < array.dims.len() {
            let shape = ArrayShape::new(array.element_type, &dims);
            name = self.helper(body, &shape, HloOpcode::Reshape, name, "")?;
        }
        let mut tail = String::from(", dimensions={");
        write_list(&mut tail, &kept);
        tail.push('}');
        self.emit_of(body, operation, HloOpcode::Broadcast, &[name], &tail)
    }

    /// A broadcast along new dimensions in front.
    fn leading(
        &self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        let sizes = fields.need("broadcast_sizes")?;
        let first = self.artifact.integers(sizes)?.len() as i64;
        let rank = self.array(operation.results.start)?.dims.len() as i64;
        out.push_str(", dimensions={");
        write_list(out, &(first..rank).collect::<Vec<_>>());
        out.push('}');
        Ok(())
    }

    /// What says where a value lies means nothing on one device.
    fn same(&mut self, operation: &Operation<'a>) -> Read<()> {
        match (self.tree.operands(operation), operation.results.len()) {
            (&[operand], 1) => {
                let name = self.names[operand as usize].clone();
                self.names[operation.results.start as usize] = name;
                Ok(())
            }
            _ => Err(Declined::because("another number of values")),
        }
    }

    fn barrier(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        self.fields(operation)?.finish()?;
        let operands = self.tree.operands(operation);
        if operands.len() == 1 {
            return self.emit(body, operation, "");
        }
        let packed = self.tuple(body, operands, false)?;
        self.emit_of(
            body,
            operation,
            HloOpcode::OptimizationBarrier,
            &[packed],
            "",
        )
    }

    fn accuracy(
        &self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        let array = self.array(operation.results.start)?;
        if array.element_type.is_complex() && operation.row.opcode == HloOpcode::Log1p {
            return Err(Declined::because("a complex function that is written out"));
        }
        match self.artifact.accuracy(fields.need("result_accuracy")?)? {
            "default" => {}
            word => {
                let _ = write!(out, ", result_accuracy={{mode={word}}}");
            }
        }
        Ok(())
    }

    fn compare(
        &self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        let word = fields.need("comparison_direction")?;
        let word = self.artifact.word(word, &DIRECTION)?;
        let _ = write!(out, ", direction={word}");
        let kind = fields.need("compare_type")?;
        let kind = self.artifact.word(kind, &COMPARISON)?;
        let operand = self.tree.operands(operation).first().copied();
        let element = self.array(operand.unwrap_or_default())?.element_type;
        let usual = match element {
            PrimitiveType::Pred => "UNSIGNED",
            element if element.is_floating() || element.is_complex() => "FLOAT",
            element if element.is_signed_integral() => "SIGNED",
            _ => "UNSIGNED",
        };
        if kind != "NOTYPE" && kind != usual {
            let _ = write!(out, ", type={kind}");
        }
        Ok(())
    }

    /// Appends the dimension `name` as a list of one.
    fn dimension(&self, fields: &mut Fields<'a>, name: &'static str, out: &mut String) -> Read<()> {
        let dimension = self.artifact.integer(fields.need(name)?)?;
        let _ = write!(out, ", dimensions={{{dimension}}}");
        Ok(())
    }

    fn flag(
        &self,
        fields: &mut Fields<'a>,
        name: &'static str,
        key: &str,
        out: &mut String,
    ) -> Read<()> {
        if self.artifact.boolean(fields.need(name)?)? {
            let _ = write!(out, ", {key}=true");
        }
        Ok(())
    }

    /// Appends the list `name` under HLO's `key`.
    pub fn list(
        &self,
        fields: &mut Fields<'a>,
        name: &'static str,
        key: &str,
        out: &mut String,
    ) -> Read<()> {
        let numbers = self.artifact.integers(fields.need(name)?)?;
        let _ = write!(out, ", {key}={{");
        write_list(out, &numbers);
        out.push('}');
        Ok(())
    }

    /// Writes the region `number` of the operation as a computation, and appends its name under `key`.
    pub fn region(
        &mut self,
        operation: &Operation<'a>,
        number: usize,
        key: &str,
        out: &mut String,
    ) -> Read<()> {
        let region = operation.regions.get(number).copied();
        let region = region.ok_or(Declined::because("a region that is not there"))?;
        let name = self.fresh("region");
        self.flat(region, &name, false)?;
        let _ = write!(out, ", {key}=%{}", &self.texts[name]);
        Ok(())
    }
}
