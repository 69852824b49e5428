//! Dimension numbers of `gather`, `scatter`, `dot` and `ragged-dot`: lists in one message per opcode; and slice sizes.

use prost::Message;

use super::{FieldList, Writer};
use crate::error::Result;
use crate::module::AttrKey;
use crate::proto::schema::numbered::Numbered;
use crate::proto::schema::{
    DotDimensionNumbers, GatherDimensionNumbers, RaggedDotDimensionNumbers,
    ScatterDimensionNumbers, ShapeProto, dot, gather, instruction as field, ragged_dot, scatter,
};
use crate::proto::wire::View;

impl Writer<'_> {
    /// The sizes of the slices that a collective-permute sends, one list for each; their rank is that
    /// of the result's arrays.
    pub(super) fn slice_sizes(&mut self, proto: View<'_, '_>, shape: &[u8]) -> Result<()> {
        let sizes = proto.numbers(field::dynamic_slice_sizes);
        if sizes.is_empty() {
            return Ok(());
        }
        let read =
            |bytes| ShapeProto::decode(bytes).map_err(|error| self.broken_as::<ShapeProto>(&error));
        let mut shape = read(self.open.slice_ref(shape))?;
        while let Some(first) = shape.tuple_shapes.first().cloned() {
            shape = read(first)?;
        }
        let rank = shape.dimensions.len();
        self.key(AttrKey::SliceSizes);
        self.out.push('{');
        for (at, list) in sizes.chunks(rank.max(1)).enumerate() {
            self.out.push_str(if at > 0 { ",{" } else { "{" });
            self.put_list(list);
            self.out.push('}');
        }
        self.out.push('}');
        Ok(())
    }

    /// Appends the attribute `key` of an instruction, where the proto has it.
    pub(super) fn dimension_numbers(&mut self, key: AttrKey, proto: View<'_, '_>) -> Result<()> {
        use AttrKey as K;
        match key {
            K::OffsetDims => self.gather(key, proto, gather::offset_dims),
            K::CollapsedSliceDims => self.gather(key, proto, gather::collapsed_slice_dims),
            K::StartIndexMap => self.gather(key, proto, gather::start_index_map),
            K::OperandBatchingDims => self.gather(key, proto, gather::operand_batching_dims),
            K::StartIndicesBatchingDims => {
                self.gather(key, proto, gather::start_indices_batching_dims)
            }
            K::UpdateWindowDims => self.scatter(key, proto, scatter::update_window_dims),
            K::InsertedWindowDims => self.scatter(key, proto, scatter::inserted_window_dims),
            K::ScatterDimsToOperandDims => {
                self.scatter(key, proto, scatter::scatter_dims_to_operand_dims)
            }
            K::InputBatchingDims => self.scatter(key, proto, scatter::input_batching_dims),
            K::ScatterIndicesBatchingDims => {
                self.scatter(key, proto, scatter::scatter_indices_batching_dims)
            }
            K::LhsBatchDims => self.dot(key, proto, dot::lhs_batch_dimensions),
            K::LhsContractingDims => self.dot(key, proto, dot::lhs_contracting_dimensions),
            K::RhsBatchDims => self.dot(key, proto, dot::rhs_batch_dimensions),
            K::RhsContractingDims => self.dot(key, proto, dot::rhs_contracting_dimensions),
            K::LhsRaggedDims => self.ragged_dot(key, proto, ragged_dot::lhs_ragged_dimensions),
            K::RhsGroupDims => self.ragged_dot(key, proto, ragged_dot::rhs_group_dimensions),
            K::IndexVectorDim => self.index_vector_dim(proto),
            _ => Ok(()),
        }
    }

    fn gather(&mut self, key: AttrKey, proto: View<'_, '_>, number: u32) -> Result<()> {
        let parts = proto.each(field::gather_dimension_numbers);
        self.list::<GatherDimensionNumbers>(key, parts, number)
    }

    fn scatter(&mut self, key: AttrKey, proto: View<'_, '_>, number: u32) -> Result<()> {
        let parts = proto.each(field::scatter_dimension_numbers);
        self.list::<ScatterDimensionNumbers>(key, parts, number)
    }

    fn ragged_dot(&mut self, key: AttrKey, proto: View<'_, '_>, number: u32) -> Result<()> {
        let parts = proto.each(field::ragged_dot_dimension_numbers);
        self.list::<RaggedDotDimensionNumbers>(key, parts, number)
    }

    /// A ragged dot may have an empty `dot_dimension_numbers` too; the ones inside its own message count.
    fn dot(&mut self, key: AttrKey, proto: View<'_, '_>, number: u32) -> Result<()> {
        let mut fields = FieldList::new();
        let parts = proto.each(field::ragged_dot_dimension_numbers);
        let ragged = self.fields::<RaggedDotDimensionNumbers>(parts, &mut fields)?;
        let (from, part) = match ragged.find(ragged_dot::dot_dimension_numbers) {
            Some(_) => (ragged, ragged_dot::dot_dimension_numbers),
            None => (proto, field::dot_dimension_numbers),
        };
        self.list::<DotDimensionNumbers>(key, from.each(part), number)
    }

    /// Appends the list `number` of the message in `parts`; nothing without the message.
    fn list<'p, M: Numbered>(
        &mut self,
        key: AttrKey,
        parts: impl Iterator<Item = &'p [u8]>,
        number: u32,
    ) -> Result<()> {
        let mut parts = parts.peekable();
        if parts.peek().is_some() {
            let mut fields = FieldList::new();
            let message = self.fields::<M>(parts, &mut fields)?;
            self.ints(key, &message.numbers(number));
        }
        Ok(())
    }

    /// Appends `index_vector_dim`; nothing without the message.
    fn index_vector_dim(&mut self, proto: View<'_, '_>) -> Result<()> {
        let mut fields = FieldList::new();
        let dim = if proto.find(field::gather_dimension_numbers).is_some() {
            let parts = proto.each(field::gather_dimension_numbers);
            self.fields::<GatherDimensionNumbers>(parts, &mut fields)?
                .int(gather::index_vector_dim)
        } else if proto.find(field::scatter_dimension_numbers).is_some() {
            let parts = proto.each(field::scatter_dimension_numbers);
            self.fields::<ScatterDimensionNumbers>(parts, &mut fields)?
                .int(scatter::index_vector_dim)
        } else {
            return Ok(());
        };
        self.int(AttrKey::IndexVectorDim, dim);
        Ok(())
    }
}
