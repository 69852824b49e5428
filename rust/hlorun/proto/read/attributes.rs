//! Attributes of single opcodes. What the text leaves out as a default may stand or be left out here.

use prost::bytes::Bytes;

use super::Writer;
use crate::error::Result;
use crate::module::attributes::{self, PaddingDimension, SliceDimension, WindowDimension};
use crate::module::words::{self, Words};
use crate::module::{AttrKey, HloOpcode};
use crate::proto::schema::{
    ConvolutionDimensionNumbers, HloInstructionProto, IotaReplicaGroupListProto, Window,
};
use crate::text::printer::{write_dim_labels, write_padding, write_slice, write_window};

impl Writer<'_> {
    fn key(&mut self, key: AttrKey) {
        self.out.push_str(", ");
        self.out.push_str(key.name().unwrap_or_default());
        self.out.push('=');
    }

    fn ints(&mut self, key: AttrKey, list: &[i64]) {
        self.key(key);
        self.out.push('{');
        self.put_list(list);
        self.out.push('}');
    }

    fn int(&mut self, key: AttrKey, value: i64) {
        self.key(key);
        self.put_int(value);
    }

    /// Nothing for `false`, which is every truth value's default.
    fn truth(&mut self, key: AttrKey, value: bool) {
        if value {
            self.key(key);
            self.out.push_str("true");
        }
    }

    fn word(&mut self, key: AttrKey, words: Words, number: i32) -> Result<()> {
        let Some(word) = usize::try_from(number).ok().and_then(|at| words.get(at)) else {
            let name = key.name().unwrap_or_default();
            return Err(self.fault(format!("expected {name}, found number {number}")));
        };
        self.key(key);
        self.out.push_str(word);
        Ok(())
    }

    fn string(&mut self, key: AttrKey, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.key(key);
            self.put_string(bytes);
        }
    }

    fn named(&mut self, key: AttrKey, name: &[u8]) -> Result<()> {
        match name.is_empty() {
            true => Ok(()),
            false => {
                self.key(key);
                self.put_name(name, key.name().unwrap_or_default())
            }
        }
    }

    /// Appends the attribute `key` of an instruction, where the proto has it.
    pub(super) fn attribute(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: &HloInstructionProto,
    ) -> Result<()> {
        use AttrKey as K;
        if self.number(key, proto) || self.word_or_string(key, proto)? {
            return Ok(());
        }
        match key {
            K::Epsilon => {
                self.key(key);
                self.put(format_args!("{}", proto.epsilon));
            }
            K::CrossProgramPrefetchIndex => {
                if let Some(index) = proto.cross_program_prefetch_index {
                    self.int(key, i64::from(index));
                }
            }
            K::LeftSide | K::Lower | K::UnitDiagonal | K::TransposeA => {
                self.triangular(key, opcode, proto)?
            }
            K::Largest => {
                self.key(key);
                self.put(format_args!("{}", proto.largest));
            }
            K::ChannelId => self.channel_id(key, proto),
            K::ReplicaGroups => self.replica_groups(proto)?,
            K::SplitDimension | K::AsyncGroupId | K::Sparsity => {}
            K::SourceTargetPairs => self.source_target_pairs(key, proto),
            K::Dimensions => {
                if !proto.dimensions.is_empty() || always_has_dimensions(opcode) {
                    self.ints(key, &proto.dimensions);
                }
            }
            K::IsAssociative => {
                self.key(key);
                self.put(format_args!("{}", proto.is_associative == 1));
            }
            K::Slice => self.slice(proto),
            K::ParameterReplication => self.parameter_replication(key, proto),
            K::OutfeedShape | K::Window | K::DimLabels => self.message(key, opcode, proto)?,
            K::FeatureGroupCount if proto.feature_group_count > 1 => {
                self.int(key, proto.feature_group_count)
            }
            K::BatchGroupCount if proto.batch_group_count > 1 => {
                self.int(key, proto.batch_group_count)
            }
            K::OperandPrecision | K::Algorithm => self.precision(key, opcode, proto)?,
            K::CustomCallTarget => {
                self.key(key);
                self.put_string(&proto.custom_call_target);
            }
            K::OperandLayoutConstraints if proto.constrain_layout => {
                self.key(key);
                self.shapes(&proto.operand_shapes_with_layout)?;
            }
            K::Literal => self.custom_call_literal(proto)?,
            K::OutputOperandAliasing => self.aliasing(proto),
            K::Padding => self.padding(proto),
            K::SliceSizes if opcode == HloOpcode::Gather => {
                self.ints(key, &proto.gather_slice_sizes)
            }
            K::Domain => self.domain(proto)?,
            _ => self.dimension_numbers(key, proto),
        }
        Ok(())
    }

    /// Appends an attribute that is a number, numbers or a truth value, if `key` is one.
    fn number(&mut self, key: AttrKey, proto: &HloInstructionProto) -> bool {
        use AttrKey as K;
        match key {
            K::FeatureIndex => self.int(key, proto.feature_index),
            K::FftLength => self.ints(key, &proto.fft_length),
            K::IsCrossProgramPrefetch => self.truth(key, proto.is_cross_program_prefetch),
            K::K => self.int(key, proto.k),
            K::IsHostTransfer => self.truth(key, proto.is_host_transfer),
            K::ConstrainLayout => self.truth(key, proto.constrain_layout),
            K::UseGlobalDeviceIds => self.truth(key, proto.use_global_device_ids),
            K::IsStable => self.truth(key, proto.is_stable),
            K::NumCarries => self.int(key, proto.num_carries),
            K::IsReverse => self.truth(key, proto.is_reverse),
            K::Index => self.int(key, proto.tuple_index),
            K::IotaDimension => self.int(key, proto.dimensions.first().copied().unwrap_or(0)),
            K::ExponentBits => self.int(key, i64::from(proto.exponent_bits)),
            K::MantissaBits => self.int(key, i64::from(proto.mantissa_bits)),
            K::CustomCallHasSideEffect => self.truth(key, proto.custom_call_has_side_effect),
            K::DynamicSliceSizes => self.ints(key, &proto.dynamic_slice_sizes),
            K::IndicesAreSorted => self.truth(key, proto.indices_are_sorted),
            K::UniqueIndices => self.truth(key, proto.unique_indices),
            K::Delta => self.int(key, proto.delta),
            _ => return false,
        }
        true
    }

    /// Appends an attribute that is a word or a string, if `key` is one.
    fn word_or_string(&mut self, key: AttrKey, proto: &HloInstructionProto) -> Result<bool> {
        use AttrKey as K;
        match key {
            K::InfeedConfig => self.string(key, &proto.infeed_config),
            K::OutfeedConfig => self.string(key, &proto.outfeed_config),
            K::FftType => self.word(key, words::FFT_TYPE, proto.fft_type)?,
            K::Direction => self.named(key, &proto.comparison_direction)?,
            K::Type => self.named(key, &proto.comparison_type)?,
            K::Distribution => self.word(key, words::DISTRIBUTION, proto.distribution)?,
            K::Kind => self.named(key, &proto.fusion_kind)?,
            K::PaddingType if proto.padding_type != 0 => {
                self.word(key, words::PADDING_TYPE, proto.padding_type)?;
            }
            K::CustomCallSchedule if proto.custom_call_schedule != 0 => {
                self.word(key, words::CUSTOM_CALL_SCHEDULE, proto.custom_call_schedule)?;
            }
            // The first version is what no version means.
            K::ApiVersion if proto.custom_call_api_version > 1 => {
                self.word(key, words::API_VERSION, proto.custom_call_api_version)?;
            }
            K::AsyncExecutionThread
                if !matches!(&proto.async_execution_thread[..], b"" | b"main") =>
            {
                self.string(key, &proto.async_execution_thread);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Pairs of devices.
    fn source_target_pairs(&mut self, key: AttrKey, proto: &HloInstructionProto) {
        self.key(key);
        self.out.push('{');
        for (at, pair) in proto.source_target_pairs.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            self.put(format_args!("{comma}{{{},{}}}", pair.source, pair.target));
        }
        self.out.push('}');
    }

    /// Which leaves of a parameter are the same everywhere.
    fn parameter_replication(&mut self, key: AttrKey, proto: &HloInstructionProto) {
        if let Some(replication) = &proto.parameter_replication
            && !replication.replicated_at_leaf_buffers.is_empty()
        {
            self.key(key);
            self.out.push('{');
            for (at, is_replicated) in replication.replicated_at_leaf_buffers.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                self.put(format_args!("{comma}{is_replicated}"));
            }
            self.out.push('}');
        }
    }

    /// The channel, which older protos have in another field.
    fn channel_id(&mut self, key: AttrKey, proto: &HloInstructionProto) {
        let id = if proto.channel_id > 0 {
            proto.channel_id
        } else {
            proto.all_reduce_id
        };
        if id > 0 {
            self.int(key, id);
        }
    }

    /// An attribute that is a message of its own in the proto, where it is there.
    fn message(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: &HloInstructionProto,
    ) -> Result<()> {
        use AttrKey as K;
        match key {
            K::OutfeedShape => {
                if let Some(shape) = &proto.outfeed_shape {
                    self.key(key);
                    self.put_shape(shape)?;
                }
            }
            K::Window => {
                if let Some(window) = proto
                    .window
                    .as_ref()
                    .filter(|w| opcode == HloOpcode::CustomCall || !w.dimensions.is_empty())
                {
                    self.key(key);
                    self.window(window);
                }
            }
            K::DimLabels => {
                if let Some(numbers) = &proto.convolution_dimension_numbers {
                    self.key(key);
                    self.dim_labels(numbers)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Attributes of `gather`, `scatter` and `dot`.
    fn dimension_numbers(&mut self, key: AttrKey, proto: &HloInstructionProto) {
        use AttrKey as K;
        let gather = proto.gather_dimension_numbers.as_deref();
        let scatter = proto.scatter_dimension_numbers.as_deref();
        let ragged = proto.ragged_dot_dimension_numbers.as_deref();
        let inner = ragged.and_then(|ragged| ragged.dot_dimension_numbers.as_deref());
        let dot = proto.dot_dimension_numbers.as_deref().or(inner);
        if key == K::IndexVectorDim {
            let dim = gather
                .map(|g| g.index_vector_dim)
                .or(scatter.map(|s| s.index_vector_dim));
            return self.int(key, dim.unwrap_or(0));
        }
        let list = match key {
            K::OffsetDims => gather.map(|g| &g.offset_dims),
            K::CollapsedSliceDims => gather.map(|g| &g.collapsed_slice_dims),
            K::StartIndexMap => gather.map(|g| &g.start_index_map),
            K::OperandBatchingDims => gather.map(|g| &g.operand_batching_dims),
            K::StartIndicesBatchingDims => gather.map(|g| &g.start_indices_batching_dims),
            K::UpdateWindowDims => scatter.map(|s| &s.update_window_dims),
            K::InsertedWindowDims => scatter.map(|s| &s.inserted_window_dims),
            K::ScatterDimsToOperandDims => scatter.map(|s| &s.scatter_dims_to_operand_dims),
            K::InputBatchingDims => scatter.map(|s| &s.input_batching_dims),
            K::ScatterIndicesBatchingDims => scatter.map(|s| &s.scatter_indices_batching_dims),
            K::LhsBatchDims => dot.map(|d| &d.lhs_batch_dimensions),
            K::LhsContractingDims => dot.map(|d| &d.lhs_contracting_dimensions),
            K::RhsBatchDims => dot.map(|d| &d.rhs_batch_dimensions),
            K::RhsContractingDims => dot.map(|d| &d.rhs_contracting_dimensions),
            K::LhsRaggedDims => ragged.map(|r| &r.lhs_ragged_dimensions),
            K::RhsGroupDims => ragged.map(|r| &r.rhs_group_dimensions),
            _ => None,
        };
        if let Some(list) = list {
            self.ints(key, list);
        }
    }

    fn triangular(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: &HloInstructionProto,
    ) -> Result<()> {
        if opcode == HloOpcode::Cholesky {
            self.truth(
                key,
                proto
                    .cholesky_options
                    .as_ref()
                    .is_some_and(|options| options.lower),
            );
            return Ok(());
        }
        let Some(options) = &proto.triangular_solve_options else {
            return Ok(());
        };
        match key {
            AttrKey::LeftSide => self.truth(key, options.left_side),
            AttrKey::Lower => self.truth(key, options.lower),
            AttrKey::UnitDiagonal => self.truth(key, options.unit_diagonal),
            _ if options.transpose_a != 0 => {
                self.word(key, words::TRANSPOSE, options.transpose_a)?
            }
            _ => {}
        }
        Ok(())
    }

    fn precision(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: &HloInstructionProto,
    ) -> Result<()> {
        if opcode == HloOpcode::RngBitGenerator {
            return self.word(key, words::RNG_ALGORITHM, proto.rng_algorithm);
        }
        let Some(config) = &proto.precision_config else {
            return Ok(());
        };
        if key == AttrKey::Algorithm {
            return match config.algorithm {
                0 => Ok(()),
                number => self.word(key, words::DOT_ALGORITHM, number),
            };
        }
        if config.operand_precision.iter().all(|&number| number == 0) {
            return Ok(());
        }
        self.key(key);
        for (at, &number) in config.operand_precision.iter().enumerate() {
            let Some(word) = words::PRECISION.get(number as usize) else {
                return Err(self.fault(format!("expected a precision, found number {number}")));
            };
            let start = if at > 0 { "," } else { "{" };
            self.put(format_args!("{start}{word}"));
        }
        self.out.push('}');
        Ok(())
    }

    fn replica_groups(&mut self, proto: &HloInstructionProto) -> Result<()> {
        if proto.mesh_axes_replica_group_list.is_some() {
            return Err(crate::HloError::unsupported(
                "replica groups by named axes are not read from protos; from text they are",
                String::from_utf8_lossy(&proto.name),
            ));
        }
        let list = proto.collective_device_list.as_deref();
        let inner = list.and_then(|list| list.iota_replica_group_list.as_deref());
        self.key(AttrKey::ReplicaGroups);
        if let Some(iota) = proto.iota_collective_device_list.as_deref().or(inner) {
            self.iota(iota);
            return Ok(());
        }
        let groups = match list {
            Some(list) if !list.replica_groups.is_empty() => &list.replica_groups,
            _ => &proto.replica_groups,
        };
        self.out.push('{');
        for (at, group) in groups.iter().enumerate() {
            self.out.push_str(if at > 0 { ",{" } else { "{" });
            self.put_list(&group.replica_ids);
            self.out.push('}');
        }
        self.out.push('}');
        Ok(())
    }

    fn iota(&mut self, iota: &IotaReplicaGroupListProto) {
        self.put(format_args!(
            "[{},{}]<=[",
            iota.num_replica_groups, iota.num_devices_per_group
        ));
        self.put_list(&iota.iota_reshape_dims);
        self.out.push(']');
        let permutation = &iota.iota_transpose_perm;
        if !permutation.iter().copied().eq(0..permutation.len() as i32) {
            self.out.push_str("T(");
            self.put_list(permutation);
            self.out.push(')');
        }
    }

    fn slice(&mut self, proto: &HloInstructionProto) {
        self.key(AttrKey::Slice);
        let dims = proto.slice_dimensions.iter().map(|dim| SliceDimension {
            start: dim.start,
            limit: dim.limit,
            stride: dim.stride,
        });
        write_slice(&mut self.out, &dims.collect::<Vec<_>>());
    }

    fn window(&mut self, window: &Window) {
        let dims = window.dimensions.iter().map(|dim| WindowDimension {
            size: dim.size,
            stride: dim.stride,
            padding_low: dim.padding_low,
            padding_high: dim.padding_high,
            window_dilation: dim.window_dilation,
            base_dilation: dim.base_dilation,
            window_reversal: dim.window_reversal,
        });
        write_window(&mut self.out, &dims.collect::<Vec<_>>());
    }

    fn dim_labels(&mut self, numbers: &ConvolutionDimensionNumbers) -> Result<()> {
        let labels = attributes::ConvolutionDimensionNumbers {
            input_batch: numbers.input_batch_dimension,
            input_feature: numbers.input_feature_dimension,
            input_spatial: numbers.input_spatial_dimensions.as_slice().into(),
            kernel_input_feature: numbers.kernel_input_feature_dimension,
            kernel_output_feature: numbers.kernel_output_feature_dimension,
            kernel_spatial: numbers.kernel_spatial_dimensions.as_slice().into(),
            output_batch: numbers.output_batch_dimension,
            output_feature: numbers.output_feature_dimension,
            output_spatial: numbers.output_spatial_dimensions.as_slice().into(),
        };
        let arrays = [
            (
                labels.input_batch,
                labels.input_feature,
                &labels.input_spatial,
            ),
            (
                labels.kernel_input_feature,
                labels.kernel_output_feature,
                &labels.kernel_spatial,
            ),
            (
                labels.output_batch,
                labels.output_feature,
                &labels.output_spatial,
            ),
        ];
        for (first, second, spatial) in arrays {
            let mut is_named = vec![false; spatial.len() + 2];
            for dim in [first, second].into_iter().chain(spatial.iter().copied()) {
                let place = usize::try_from(dim)
                    .ok()
                    .and_then(|dim| is_named.get_mut(dim));
                match place {
                    Some(is_named) if !*is_named => *is_named = true,
                    _ => {
                        return Err(self.fault(format!(
                            "the dimension {dim} of a convolution is not one of its own"
                        )));
                    }
                }
            }
        }
        write_dim_labels(&mut self.out, &labels);
        Ok(())
    }

    fn shapes(&mut self, shapes: &[Bytes]) -> Result<()> {
        self.out.push('{');
        for (at, shape) in shapes.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            self.put_shape(shape)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn custom_call_literal(&mut self, proto: &HloInstructionProto) -> Result<()> {
        let Some(bytes) = &proto.literal else {
            return Ok(());
        };
        let literal = super::literal::read_literal(bytes.clone(), self.limits, self.filename())?;
        self.key(AttrKey::Literal);
        crate::text::printer::write_typed_literal(&mut self.out, &literal);
        self.push_literal(literal);
        Ok(())
    }

    fn aliasing(&mut self, proto: &HloInstructionProto) {
        if proto.output_operand_aliasing.is_empty() {
            return;
        }
        self.key(AttrKey::OutputOperandAliasing);
        for (at, alias) in proto.output_operand_aliasing.iter().enumerate() {
            self.out.push_str(if at > 0 { ", {" } else { "{{" });
            self.put_list(&alias.output_shape_index);
            self.put(format_args!("}}: ({}, {{", alias.operand_index));
            self.put_list(&alias.operand_shape_index);
            self.out.push_str("})");
        }
        self.out.push('}');
    }

    fn padding(&mut self, proto: &HloInstructionProto) {
        let Some(config) = proto.padding_config.as_ref() else {
            return;
        };
        self.key(AttrKey::Padding);
        let dims = config.dimensions.iter().map(|dim| PaddingDimension {
            edge_low: dim.edge_padding_low,
            edge_high: dim.edge_padding_high,
            interior: dim.interior_padding,
        });
        write_padding(&mut self.out, &dims.collect::<Vec<_>>());
    }

    fn domain(&mut self, proto: &HloInstructionProto) -> Result<()> {
        let (Some(entry), Some(exit)) = (&proto.domain_entry_sharding, &proto.domain_exit_sharding)
        else {
            return Ok(());
        };
        self.out.push_str(", domain={kind=\"sharding\", entry=");
        self.sharding(entry)?;
        self.out.push_str(", exit=");
        self.sharding(exit)?;
        self.out.push('}');
        Ok(())
    }
}

/// Opcodes whose list of dimensions may be empty and is written all the same.
fn always_has_dimensions(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::Reverse
            | HloOpcode::Concatenate
            | HloOpcode::Reduce
            | HloOpcode::Transpose
            | HloOpcode::Broadcast
            | HloOpcode::Map
            | HloOpcode::Sort
    )
}
