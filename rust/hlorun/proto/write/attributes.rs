//! Attributes of single opcodes, by their key.

use prost::Message;
use prost::bytes::Bytes;

use super::{Writer, index_numbers, literal::write_literal};
use crate::error::Result;
use crate::module::attributes::{AttrValue, ReplicaGroups};
use crate::module::words::{self, Words, number_of};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::proto::schema::*;
use crate::text::printer::{braces, unescape};

impl Writer<'_> {
    /// Enters an attribute into its field.
    pub(super) fn attribute(
        &mut self,
        instruction: InstructionRef<'_>,
        key: AttrKey,
        value: &AttrValue,
        proto: &mut HloInstructionProto,
    ) -> Result<()> {
        if self.common_attribute(instruction, key, value, proto)? {
            return Ok(());
        }
        let done = match value {
            AttrValue::Bool(value) => truth(key, *value, proto),
            AttrValue::Int(value) => int(key, *value, instruction.opcode(), proto),
            AttrValue::Ints(range) => {
                let list = self.module.int_list(*range).to_vec();
                ints(key, list, instruction.opcode(), proto)
            }
            AttrValue::Enum(word) => self.word(key, self.text(*word), instruction, proto),
            AttrValue::Float(value) if key == AttrKey::Epsilon => {
                proto.epsilon = *value as f32;
                true
            }
            AttrValue::String(text) => {
                self.string(key, unescape(self.module.text().bytes(*text)), proto)
            }
            // Callees are entered by opcode.
            AttrValue::Computation(_) | AttrValue::Computations(_) => true,
            AttrValue::Enums(words) if key == AttrKey::OperandPrecision => {
                let number = |&word| number_of(words::PRECISION, self.module.text().bytes(word));
                let numbers: Option<Vec<i32>> = words.iter().map(number).collect();
                numbers.is_some_and(|numbers| {
                    proto
                        .precision_config
                        .get_or_insert_default()
                        .operand_precision = numbers;
                    true
                })
            }
            AttrValue::Bools(list) if key == AttrKey::ParameterReplication => {
                proto.parameter_replication = Some(Box::new(ParameterReplication {
                    replicated_at_leaf_buffers: list.to_vec(),
                }));
                true
            }
            AttrValue::Shape(id) if key == AttrKey::OutfeedShape => {
                proto.outfeed_shape = Some(self.shape(*id));
                true
            }
            AttrValue::Shapes(ids) if key == AttrKey::OperandLayoutConstraints => {
                proto.constrain_layout = true;
                proto.operand_shapes_with_layout = ids.iter().map(|&id| self.shape(id)).collect();
                true
            }
            AttrValue::Literal(id) => {
                let literal = write_literal(self.module.literal(*id));
                proto.literal = literal.map(|literal| Bytes::from(literal.encode_to_vec()));
                proto.literal.is_some()
            }
            AttrValue::Raw(raw) => self.raw(key, self.module.text().bytes(*raw), proto)?,
            structured => self.structured(key, structured, proto),
        };
        match done {
            true => Ok(()),
            false => Err(self.unsupported(instruction, key)),
        }
    }

    fn word(
        &self,
        key: AttrKey,
        word: Bytes,
        instruction: InstructionRef<'_>,
        proto: &mut HloInstructionProto,
    ) -> bool {
        use AttrKey as K;
        let enumeration: (Words, &mut i32) = match key {
            K::Direction => {
                proto.comparison_direction = word;
                return true;
            }
            K::Type => {
                proto.comparison_type = word;
                return true;
            }
            K::Kind => {
                proto.fusion_kind = word;
                return true;
            }
            K::FftType => (words::FFT_TYPE, &mut proto.fft_type),
            K::Distribution => (words::DISTRIBUTION, &mut proto.distribution),
            K::Algorithm if instruction.opcode() == HloOpcode::RngBitGenerator => {
                (words::RNG_ALGORITHM, &mut proto.rng_algorithm)
            }
            K::Algorithm => (
                words::DOT_ALGORITHM,
                &mut proto.precision_config.get_or_insert_default().algorithm,
            ),
            K::TransposeA => (
                words::TRANSPOSE,
                &mut proto
                    .triangular_solve_options
                    .get_or_insert_default()
                    .transpose_a,
            ),
            K::PaddingType => (words::PADDING_TYPE, &mut proto.padding_type),
            K::CustomCallSchedule => (words::CUSTOM_CALL_SCHEDULE, &mut proto.custom_call_schedule),
            K::ApiVersion => (words::API_VERSION, &mut proto.custom_call_api_version),
            K::ConvKind => (words::CONVOLUTION_KIND, &mut proto.conv_kind),
            _ => return false,
        };
        match number_of(enumeration.0, &word) {
            Some(number) => {
                *enumeration.1 = number;
                true
            }
            None => false,
        }
    }

    fn string(&self, key: AttrKey, bytes: Vec<u8>, proto: &mut HloInstructionProto) -> bool {
        let field = match key {
            AttrKey::CustomCallTarget => &mut proto.custom_call_target,
            AttrKey::InfeedConfig => &mut proto.infeed_config,
            AttrKey::OutfeedConfig => &mut proto.outfeed_config,
            AttrKey::AsyncExecutionThread => &mut proto.async_execution_thread,
            _ => return false,
        };
        *field = Bytes::from(bytes);
        true
    }

    fn raw(&self, key: AttrKey, text: &[u8], proto: &mut HloInstructionProto) -> Result<bool> {
        if key == AttrKey::SliceSizes {
            let numbers = text.split(|byte| !(byte.is_ascii_digit() || *byte == b'-'));
            let numbers = numbers.filter(|number| !number.is_empty());
            let numbers = numbers.map(|number| std::str::from_utf8(number).ok()?.parse().ok());
            let numbers: Option<Vec<i64>> = numbers.collect();
            proto.dynamic_slice_sizes = numbers.unwrap_or_default();
            return Ok(!proto.dynamic_slice_sizes.is_empty());
        }
        if key != AttrKey::Domain {
            return Ok(false);
        }
        // The names of the protos are those of the other side.
        for part in braces::parts(braces::inside(text), true) {
            match braces::key_value(part) {
                Some((b"exit", value)) => {
                    proto.domain_entry_sharding = Some(Box::new(self.sharding(value)?))
                }
                Some((b"entry", value)) => {
                    proto.domain_exit_sharding = Some(Box::new(self.sharding(value)?))
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn structured(&self, key: AttrKey, value: &AttrValue, proto: &mut HloInstructionProto) -> bool {
        match value {
            AttrValue::Window(window) => {
                let dims = window.0.iter().map(|dim| WindowDimension {
                    size: dim.size,
                    stride: dim.stride,
                    padding_low: dim.padding_low,
                    padding_high: dim.padding_high,
                    window_dilation: dim.window_dilation,
                    base_dilation: dim.base_dilation,
                    window_reversal: dim.window_reversal,
                });
                proto.window = Some(Box::new(Window {
                    dimensions: dims.collect(),
                }));
            }
            AttrValue::Padding(dims) => {
                let dims = dims.iter().map(|dim| PaddingConfigDimension {
                    edge_padding_low: dim.edge_low,
                    edge_padding_high: dim.edge_high,
                    interior_padding: dim.interior,
                });
                proto.padding_config = Some(Box::new(PaddingConfig {
                    dimensions: dims.collect(),
                }));
            }
            AttrValue::Slice(dims) => {
                let dims = dims.iter().map(|dim| SliceDimensions {
                    start: dim.start,
                    limit: dim.limit,
                    stride: dim.stride,
                });
                proto.slice_dimensions = dims.collect();
            }
            AttrValue::DimLabels(labels) => {
                proto.convolution_dimension_numbers = Some(Box::new(ConvolutionDimensionNumbers {
                    input_batch_dimension: labels.input_batch,
                    input_feature_dimension: labels.input_feature,
                    input_spatial_dimensions: labels.input_spatial.to_vec(),
                    kernel_input_feature_dimension: labels.kernel_input_feature,
                    kernel_output_feature_dimension: labels.kernel_output_feature,
                    kernel_spatial_dimensions: labels.kernel_spatial.to_vec(),
                    output_batch_dimension: labels.output_batch,
                    output_feature_dimension: labels.output_feature,
                    output_spatial_dimensions: labels.output_spatial.to_vec(),
                }));
            }
            AttrValue::ReplicaGroups(groups) => return replica_groups(groups, proto),
            AttrValue::Pairs(pairs) if key == AttrKey::SourceTargetPairs => {
                let pairs = pairs
                    .iter()
                    .map(|&(source, target)| SourceTarget { source, target });
                proto.source_target_pairs = pairs.collect();
            }
            AttrValue::Aliasing(list) => {
                let aliases = list.iter().map(|alias| OutputOperandAliasing {
                    output_shape_index: index_numbers(&alias.output),
                    operand_index: alias.operand,
                    operand_shape_index: index_numbers(&alias.operand_index),
                });
                proto.output_operand_aliasing = aliases.collect();
            }
            _ => return false,
        }
        true
    }
}

fn replica_groups(groups: &ReplicaGroups, proto: &mut HloInstructionProto) -> bool {
    match groups {
        ReplicaGroups::List(list) => {
            let groups: Vec<ReplicaGroup> = list
                .iter()
                .map(|ids| ReplicaGroup {
                    replica_ids: ids.clone(),
                })
                .collect();
            // Readers of different years look at either.
            proto.replica_groups.clone_from(&groups);
            proto.collective_device_list = Some(Box::new(CollectiveDeviceListProto {
                replica_groups: groups,
                iota_replica_group_list: None,
            }));
            true
        }
        ReplicaGroups::Iota {
            tile,
            reshape,
            transpose,
        } => {
            let [groups, devices] = tile[..] else {
                return false;
            };
            let identity = 0..reshape.len() as i32;
            let permutation = match transpose.is_empty() {
                true => identity.collect(),
                false => transpose.iter().map(|&dim| dim as i32).collect(),
            };
            proto.iota_collective_device_list = Some(Box::new(IotaReplicaGroupListProto {
                num_replica_groups: groups,
                num_devices_per_group: devices,
                iota_reshape_dims: reshape.clone(),
                iota_transpose_perm: permutation,
            }));
            true
        }
        ReplicaGroups::Mesh(_) => false,
    }
}

fn truth(key: AttrKey, value: bool, proto: &mut HloInstructionProto) -> bool {
    use AttrKey as K;
    let field = match key {
        K::IsCrossProgramPrefetch => &mut proto.is_cross_program_prefetch,
        K::LeftSide => {
            &mut proto
                .triangular_solve_options
                .get_or_insert_default()
                .left_side
        }
        K::Lower if proto.opcode == "cholesky" => {
            &mut proto.cholesky_options.get_or_insert_default().lower
        }
        K::Lower => &mut proto.triangular_solve_options.get_or_insert_default().lower,
        K::UnitDiagonal => {
            &mut proto
                .triangular_solve_options
                .get_or_insert_default()
                .unit_diagonal
        }
        K::Largest => &mut proto.largest,
        K::IsHostTransfer => &mut proto.is_host_transfer,
        K::ConstrainLayout => &mut proto.constrain_layout,
        K::UseGlobalDeviceIds => &mut proto.use_global_device_ids,
        K::IsStable => &mut proto.is_stable,
        K::IsReverse => &mut proto.is_reverse,
        K::IsComposite => &mut proto.is_composite,
        K::CustomCallHasSideEffect => &mut proto.custom_call_has_side_effect,
        K::IndicesAreSorted => &mut proto.indices_are_sorted,
        K::UniqueIndices => &mut proto.unique_indices,
        K::IsAssociative => {
            proto.is_associative = if value { 1 } else { 2 };
            return true;
        }
        _ => return false,
    };
    *field = value;
    true
}

fn int(key: AttrKey, value: i64, opcode: HloOpcode, proto: &mut HloInstructionProto) -> bool {
    use AttrKey as K;
    let field = match key {
        K::FeatureIndex => &mut proto.feature_index,
        K::ChannelId => &mut proto.channel_id,
        K::K => &mut proto.k,
        K::NumCarries => &mut proto.num_carries,
        K::Delta => &mut proto.delta,
        K::FeatureGroupCount => &mut proto.feature_group_count,
        K::BatchGroupCount => &mut proto.batch_group_count,
        K::IndexVectorDim if opcode == HloOpcode::Scatter => {
            &mut proto
                .scatter_dimension_numbers
                .get_or_insert_default()
                .index_vector_dim
        }
        K::IndexVectorDim => {
            &mut proto
                .gather_dimension_numbers
                .get_or_insert_default()
                .index_vector_dim
        }
        K::Epsilon => {
            proto.epsilon = value as f32;
            return true;
        }
        K::ExponentBits => {
            proto.exponent_bits = value as i32;
            return true;
        }
        K::MantissaBits => {
            proto.mantissa_bits = value as i32;
            return true;
        }
        K::CrossProgramPrefetchIndex => {
            proto.cross_program_prefetch_index = i32::try_from(value).ok();
            return proto.cross_program_prefetch_index.is_some();
        }
        K::InferredDimension if value >= 0 => {
            proto.dimensions = vec![value];
            return true;
        }
        K::InferredDimension => return true,
        // These stand in the instruction itself.
        K::Index | K::IotaDimension => return true,
        _ => return false,
    };
    *field = value;
    true
}

fn ints(key: AttrKey, list: Vec<i64>, opcode: HloOpcode, proto: &mut HloInstructionProto) -> bool {
    use AttrKey as K;
    let is_ragged = opcode == HloOpcode::RaggedDot;
    let field = match key {
        K::Dimensions => &mut proto.dimensions,
        K::FftLength => &mut proto.fft_length,
        K::DynamicSliceSizes => &mut proto.dynamic_slice_sizes,
        K::SliceSizes if opcode == HloOpcode::Gather => &mut proto.gather_slice_sizes,
        K::LhsRaggedDims => {
            &mut proto
                .ragged_dot_dimension_numbers
                .get_or_insert_default()
                .lhs_ragged_dimensions
        }
        K::RhsGroupDims => {
            &mut proto
                .ragged_dot_dimension_numbers
                .get_or_insert_default()
                .rhs_group_dimensions
        }
        K::LhsBatchDims | K::LhsContractingDims | K::RhsBatchDims | K::RhsContractingDims => {
            let dot = match is_ragged {
                true => {
                    let ragged = proto.ragged_dot_dimension_numbers.get_or_insert_default();
                    ragged.dot_dimension_numbers.get_or_insert_default()
                }
                false => proto.dot_dimension_numbers.get_or_insert_default(),
            };
            match key {
                K::LhsBatchDims => &mut dot.lhs_batch_dimensions,
                K::LhsContractingDims => &mut dot.lhs_contracting_dimensions,
                K::RhsBatchDims => &mut dot.rhs_batch_dimensions,
                _ => &mut dot.rhs_contracting_dimensions,
            }
        }
        K::UpdateWindowDims
        | K::InsertedWindowDims
        | K::ScatterDimsToOperandDims
        | K::InputBatchingDims
        | K::ScatterIndicesBatchingDims => {
            let numbers = proto.scatter_dimension_numbers.get_or_insert_default();
            match key {
                K::UpdateWindowDims => &mut numbers.update_window_dims,
                K::InsertedWindowDims => &mut numbers.inserted_window_dims,
                K::ScatterDimsToOperandDims => &mut numbers.scatter_dims_to_operand_dims,
                K::InputBatchingDims => &mut numbers.input_batching_dims,
                _ => &mut numbers.scatter_indices_batching_dims,
            }
        }
        K::OffsetDims
        | K::CollapsedSliceDims
        | K::StartIndexMap
        | K::OperandBatchingDims
        | K::StartIndicesBatchingDims => {
            let numbers = proto.gather_dimension_numbers.get_or_insert_default();
            match key {
                K::OffsetDims => &mut numbers.offset_dims,
                K::CollapsedSliceDims => &mut numbers.collapsed_slice_dims,
                K::StartIndexMap => &mut numbers.start_index_map,
                K::OperandBatchingDims => &mut numbers.operand_batching_dims,
                _ => &mut numbers.start_indices_batching_dims,
            }
        }
        _ => return false,
    };
    *field = list;
    true
}
