//! Arrays of a run: arguments viewed, results written.

use super::*;

impl PyExecutable {
    /// The arrays of one value per parameter: dense, row-major, of the leaves' types and sizes.
    pub(crate) fn arguments<'py>(
        &self,
        values: &[Bound<'py, PyAny>],
    ) -> Result<Vec<Bound<'py, PyUntypedArray>>> {
        let parameters = self.executable.parameters();
        if values.len() != parameters.len() {
            return Err(self.wrong_count(values.len()));
        }
        let mut arrays = Vec::with_capacity(self.executable.inputs().len());
        for (number, value) in values.iter().enumerate() {
            self.argument(number, value, &mut arrays)?;
        }
        Ok(arrays)
    }

    /// Appends the arrays of parameter `number`'s value.
    pub(crate) fn argument<'py>(
        &self,
        number: usize,
        value: &Bound<'py, PyAny>,
        arrays: &mut Vec<Bound<'py, PyUntypedArray>>,
    ) -> Result<()> {
        let parameter = &self.executable.parameters()[number];
        let name = ParameterName {
            number: Some(number),
            name: &parameter.name,
        };
        flatten(
            self.executable.module(),
            parameter.shape,
            value,
            &name,
            arrays,
        )
    }

    /// Memory for one device's results.
    pub(crate) fn blocks(&self) -> Result<Vec<AlignedBytes>> {
        Ok(self
            .executable
            .outputs()
            .iter()
            .map(|leaf| AlignedBytes::uninitialized(leaf.byte_size()))
            .collect::<hlorun::Result<Vec<_>>>()?)
    }

    /// The value whose arrays were written to `blocks`.
    pub(crate) fn results<'py>(
        &self,
        py: Python<'py>,
        blocks: Vec<AlignedBytes>,
    ) -> Result<Bound<'py, PyAny>> {
        let mut outputs = Vec::with_capacity(blocks.len());
        for (leaf, block) in blocks.into_iter().enumerate() {
            outputs.push(self.result_array(py, leaf, block)?);
        }
        self.result(py, outputs)
    }

    /// The array of leaf `leaf` of the result, which was written to `block`.
    pub(crate) fn result_array<'py>(
        &self,
        py: Python<'py>,
        leaf: usize,
        mut block: AlignedBytes,
    ) -> Result<Bound<'py, PyAny>> {
        let leaf = &self.core().outputs()[leaf];
        let shape = ArrayShape::new(leaf.element_type, &leaf.dims);
        let data = block.as_mut_ptr();
        // SAFETY: the block has the leaf's bytes at a 64-byte boundary; moving its owner does not
        // move it, and the run that wrote it is over.
        unsafe { array_over(py, &shape, data, block) }
    }

    /// The value of these arrays.
    pub(crate) fn result<'py>(
        &self,
        py: Python<'py>,
        mut arrays: Vec<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let executable = self.core();
        // The sizes of dynamic dimensions follow the result.
        let sizes = executable.dynamic_sizes();
        let first = arrays.len().saturating_sub(sizes.len());
        for (k, size) in sizes.iter().enumerate() {
            let limit: isize = arrays[first + k].call_method0("item")?.extract()?;
            let mut parts: Vec<Bound<'_, PyAny>> = Vec::new();
            for d in 0..=size.dim {
                let limit = if d == size.dim { limit } else { isize::MAX };
                parts.push(PySlice::new(py, 0, limit.max(0), 1).into_any());
            }
            arrays[size.leaf] = arrays[size.leaf].get_item(PyTuple::new(py, parts)?)?;
        }
        unflatten(
            py,
            executable.module(),
            executable.result_shape_id(),
            arrays,
        )
    }

    pub(crate) fn wrong_count(&self, got: usize) -> Error {
        let parameters = self.executable.parameters();
        let shapes = self.executable.module().shapes();
        let style = hlorun::types::ShapeStyle::LOGICAL;
        let mut list: Vec<String> = parameters
            .iter()
            .take(8)
            .map(|p| format!("{} {}", p.name, shapes.display(p.shape, style)))
            .collect();
        if parameters.len() > 8 {
            list.push("…".into());
        }
        Error::Hlo(HloError::argument(format!(
            "expects {} argument{} ({}), got {got}",
            parameters.len(),
            if parameters.len() == 1 { "" } else { "s" },
            list.join(", ")
        )))
    }
}
