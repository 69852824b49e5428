//! Attributes of single opcodes. What the text leaves out as a default may stand or be left out here.

use smallvec::SmallVec;

use super::Writer;
use crate::error::Result;
use crate::module::attributes::{self, PaddingDimension, SliceDimension, WindowDimension};
use crate::module::words::{self, Words};
use crate::module::{AttrKey, HloOpcode, TextRef};
use crate::proto::schema::{
    self, ConvolutionDimensionNumbers, IotaReplicaGroupListProto, MeshAxesReplicaGroupListProto,
    Window, instruction as field,
};
use crate::proto::wire::View;
use crate::text::enums::is_word;
use crate::text::prepared::PreparedValue;
use crate::text::printer::{write_dim_labels, write_padding, write_slice, write_window};

impl Writer<'_> {
    pub(super) fn key(&mut self, key: AttrKey) {
        self.out.push_str(", ");
        self.out.push_str(key.name().unwrap_or_default());
        self.out.push('=');
    }

    pub(super) fn ints(&mut self, key: AttrKey, list: &[i64]) {
        let start = self.out.len();
        self.key(key);
        self.out.push('{');
        self.put_list(list);
        self.out.push('}');
        let (from, to) = self.keep_ints(list);
        self.note(start, key, PreparedValue::Ints(from, to));
    }

    /// Numbers for an attribute that may be noted: from and to.
    fn keep_ints(&mut self, list: &[i64]) -> (u32, u32) {
        let ints = &mut self.prepared.ints;
        let first = ints.len() as u32;
        ints.extend_from_slice(list);
        (first, ints.len() as u32)
    }

    pub(super) fn int(&mut self, key: AttrKey, value: i64) {
        let start = self.out.len();
        self.key(key);
        self.put_int(value);
        self.note(start, key, PreparedValue::Int(value));
    }

    fn boolean(&mut self, value: bool) {
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// Nothing for `false`, which is every truth value's default.
    fn truth(&mut self, key: AttrKey, value: bool) {
        if value {
            let start = self.out.len();
            self.key(key);
            self.out.push_str("true");
            self.note(start, key, PreparedValue::Bool(true));
        }
    }

    fn word(&mut self, key: AttrKey, words: Words, number: i64) -> Result<()> {
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

    fn named(&mut self, key: AttrKey, opcode: HloOpcode, name: &[u8]) -> Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        let start = self.out.len();
        self.key(key);
        let word = self.out.len();
        self.put_name(name, key.name().unwrap_or_default())?;
        if is_word(key, opcode, name) {
            let word = TextRef::new(word, self.out.len());
            self.note(start, key, PreparedValue::Word(word));
        }
        Ok(())
    }

    /// Appends the attribute `key` of an instruction, where the proto has it.
    pub(super) fn attribute(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: View<'_, '_>,
    ) -> Result<()> {
        use AttrKey as K;
        if self.number(key, proto) || self.word_or_string(key, opcode, proto)? {
            return Ok(());
        }
        match key {
            K::Epsilon => {
                self.key(key);
                self.put(format_args!("{}", proto.float(field::epsilon)));
            }
            K::CrossProgramPrefetchIndex => {
                if let Some(index) = proto.find_int(field::cross_program_prefetch_index) {
                    self.int(key, index);
                }
            }
            K::LeftSide | K::Lower | K::UnitDiagonal | K::TransposeA => {
                self.triangular(key, opcode, proto)?
            }
            K::Largest => {
                self.key(key);
                self.boolean(proto.is(field::largest));
            }
            K::ChannelId => self.channel_id(key, proto),
            K::ReplicaGroups => self.replica_groups(proto)?,
            K::SplitDimension | K::AsyncGroupId | K::Sparsity => {}
            K::SourceTargetPairs => self.source_target_pairs(key, proto)?,
            K::Dimensions => {
                let dimensions = proto.numbers(field::dimensions);
                if !dimensions.is_empty() || always_has_dimensions(opcode) {
                    self.ints(key, &dimensions);
                }
            }
            K::IsAssociative => {
                self.key(key);
                self.boolean(proto.int(field::is_associative) == 1);
            }
            K::Slice => self.slice(proto)?,
            K::ParameterReplication => self.parameter_replication(key, proto)?,
            K::OutfeedShape | K::Window | K::DimLabels => self.structured(key, opcode, proto)?,
            K::FeatureGroupCount if proto.int(field::feature_group_count) > 1 => {
                self.int(key, proto.int(field::feature_group_count))
            }
            K::BatchGroupCount if proto.int(field::batch_group_count) > 1 => {
                self.int(key, proto.int(field::batch_group_count))
            }
            K::OperandPrecision | K::Algorithm => self.precision(key, opcode, proto)?,
            K::CustomCallTarget => {
                self.key(key);
                self.put_string(proto.bytes(field::custom_call_target));
            }
            K::OperandLayoutConstraints if proto.is(field::constrain_layout) => {
                self.key(key);
                self.shapes(proto.each(field::operand_shapes_with_layout))?;
            }
            K::Literal => self.custom_call_literal(proto)?,
            K::OutputOperandAliasing => self.aliasing(proto)?,
            K::Padding => self.padding(proto)?,
            K::SliceSizes if opcode == HloOpcode::Gather => {
                let sizes = proto.numbers(field::gather_slice_sizes);
                let mut dimensions = proto.each(field::gather_dimension_numbers);
                // Of a scalar there are none, and none where nothing is said of the gather at all.
                if !sizes.is_empty() || dimensions.next().is_some() {
                    self.ints(key, &sizes);
                }
            }
            // Those of a collective-permute need its shape.
            K::SliceSizes => {}
            K::Domain => self.domain(proto)?,
            _ => self.dimension_numbers(key, proto)?,
        }
        Ok(())
    }

    /// Appends an attribute that is a number, numbers or a truth value, if `key` is one.
    fn number(&mut self, key: AttrKey, proto: View<'_, '_>) -> bool {
        use AttrKey as K;
        match key {
            K::FeatureIndex => self.int(key, proto.int(field::feature_index)),
            K::FftLength => self.ints(key, &proto.numbers(field::fft_length)),
            K::IsCrossProgramPrefetch => {
                self.truth(key, proto.is(field::is_cross_program_prefetch))
            }
            K::K => self.int(key, proto.int(field::k)),
            K::IsHostTransfer => self.truth(key, proto.is(field::is_host_transfer)),
            K::ConstrainLayout => self.truth(key, proto.is(field::constrain_layout)),
            K::UseGlobalDeviceIds => self.truth(key, proto.is(field::use_global_device_ids)),
            K::IsStable => self.truth(key, proto.is(field::is_stable)),
            K::NumCarries => self.int(key, proto.int(field::num_carries)),
            K::IsReverse => self.truth(key, proto.is(field::is_reverse)),
            K::Index => self.int(key, proto.int(field::tuple_index)),
            K::IotaDimension => {
                let dimensions = proto.numbers(field::dimensions);
                self.int(key, dimensions.first().copied().unwrap_or(0));
            }
            K::InferredDimension => {
                if let Some(&dimension) = proto.numbers(field::dimensions).first() {
                    self.int(key, dimension);
                }
            }
            K::ExponentBits => self.int(key, proto.int(field::exponent_bits)),
            K::MantissaBits => self.int(key, proto.int(field::mantissa_bits)),
            K::CustomCallHasSideEffect => {
                self.truth(key, proto.is(field::custom_call_has_side_effect))
            }
            K::DynamicSliceSizes => self.ints(key, &proto.numbers(field::dynamic_slice_sizes)),
            K::IndicesAreSorted => self.truth(key, proto.is(field::indices_are_sorted)),
            K::UniqueIndices => self.truth(key, proto.is(field::unique_indices)),
            K::Delta => self.int(key, proto.int(field::delta)),
            _ => return false,
        }
        true
    }

    /// Appends an attribute that is a word or a string, if `key` is one.
    fn word_or_string(
        &mut self,
        key: AttrKey,
        opcode: HloOpcode,
        proto: View<'_, '_>,
    ) -> Result<bool> {
        use AttrKey as K;
        match key {
            K::InfeedConfig => self.string(key, proto.bytes(field::infeed_config)),
            K::OutfeedConfig => self.string(key, proto.bytes(field::outfeed_config)),
            K::FftType => self.word(key, words::FFT_TYPE, proto.int(field::fft_type))?,
            K::Direction => self.named(key, opcode, proto.bytes(field::comparison_direction))?,
            K::Type => self.named(key, opcode, proto.bytes(field::comparison_type))?,
            K::Distribution => {
                self.word(key, words::DISTRIBUTION, proto.int(field::distribution))?
            }
            K::Kind => self.named(key, opcode, proto.bytes(field::fusion_kind))?,
            K::PaddingType if proto.int(field::padding_type) != 0 => {
                self.word(key, words::PADDING_TYPE, proto.int(field::padding_type))?;
            }
            K::CustomCallSchedule if proto.int(field::custom_call_schedule) != 0 => {
                self.word(
                    key,
                    words::CUSTOM_CALL_SCHEDULE,
                    proto.int(field::custom_call_schedule),
                )?;
            }
            // The first version is what no version means.
            K::ApiVersion if proto.int(field::custom_call_api_version) > 1 => {
                self.word(
                    key,
                    words::API_VERSION,
                    proto.int(field::custom_call_api_version),
                )?;
            }
            K::AsyncExecutionThread
                if !matches!(proto.bytes(field::async_execution_thread), b"" | b"main") =>
            {
                self.string(key, proto.bytes(field::async_execution_thread));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Pairs of devices.
    fn source_target_pairs(&mut self, key: AttrKey, proto: View<'_, '_>) -> Result<()> {
        self.key(key);
        self.out.push('{');
        let pairs: Vec<schema::SourceTarget> = self.messages(proto, field::source_target_pairs)?;
        for (at, pair) in pairs.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            self.put(format_args!("{comma}{{{},{}}}", pair.source, pair.target));
        }
        self.out.push('}');
        Ok(())
    }

    /// Which leaves of a parameter are the same everywhere.
    fn parameter_replication(&mut self, key: AttrKey, proto: View<'_, '_>) -> Result<()> {
        let replication = self.message(proto, field::parameter_replication)?;
        let replication: schema::ParameterReplication = replication.unwrap_or_default();
        if !replication.replicated_at_leaf_buffers.is_empty() {
            self.key(key);
            self.out.push('{');
            for (at, is_replicated) in replication.replicated_at_leaf_buffers.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                self.put(format_args!("{comma}{is_replicated}"));
            }
            self.out.push('}');
        }
        Ok(())
    }

    /// The channel, which older protos have in another field.
    fn channel_id(&mut self, key: AttrKey, proto: View<'_, '_>) {
        let id = if proto.int(field::channel_id) > 0 {
            proto.int(field::channel_id)
        } else {
            proto.int(field::all_reduce_id)
        };
        if id > 0 {
            self.int(key, id);
        }
    }

    /// An attribute that is a message of its own in the proto, where it is there.
    fn structured(&mut self, key: AttrKey, opcode: HloOpcode, proto: View<'_, '_>) -> Result<()> {
        use AttrKey as K;
        match key {
            K::OutfeedShape => {
                if let Some(shape) = proto.find(field::outfeed_shape) {
                    self.key(key);
                    self.put_shape(shape)?;
                }
            }
            K::Window => {
                let window: Option<Window> = self.message(proto, field::window)?;
                let is_written =
                    |w: &Window| opcode == HloOpcode::CustomCall || !w.dimensions.is_empty();
                if let Some(window) = window.filter(is_written) {
                    self.key(key);
                    self.window(&window);
                }
            }
            K::DimLabels => {
                if let Some(numbers) = self.message(proto, field::convolution_dimension_numbers)? {
                    self.key(key);
                    self.dim_labels(&numbers)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn triangular(&mut self, key: AttrKey, opcode: HloOpcode, proto: View<'_, '_>) -> Result<()> {
        if opcode == HloOpcode::Cholesky {
            let options: Option<schema::CholeskyOptions> =
                self.message(proto, field::cholesky_options)?;
            self.truth(key, options.is_some_and(|options| options.lower));
            return Ok(());
        }
        let options = self.message(proto, field::triangular_solve_options)?;
        let Some(options): Option<schema::TriangularSolveOptions> = options else {
            return Ok(());
        };
        match key {
            AttrKey::LeftSide => self.truth(key, options.left_side),
            AttrKey::Lower => self.truth(key, options.lower),
            AttrKey::UnitDiagonal => self.truth(key, options.unit_diagonal),
            _ if options.transpose_a != 0 => {
                self.word(key, words::TRANSPOSE, options.transpose_a.into())?
            }
            _ => {}
        }
        Ok(())
    }

    fn precision(&mut self, key: AttrKey, opcode: HloOpcode, proto: View<'_, '_>) -> Result<()> {
        if opcode == HloOpcode::RngBitGenerator {
            return self.word(key, words::RNG_ALGORITHM, proto.int(field::rng_algorithm));
        }
        let config = self.message(proto, field::precision_config)?;
        let Some(config): Option<schema::PrecisionConfig> = config else {
            return Ok(());
        };
        if key == AttrKey::Algorithm {
            return match config.algorithm {
                0 => Ok(()),
                number => self.word(key, words::DOT_ALGORITHM, number.into()),
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

    fn replica_groups(&mut self, proto: View<'_, '_>) -> Result<()> {
        let along: Option<MeshAxesReplicaGroupListProto> =
            self.message(proto, field::mesh_axes_replica_group_list)?;
        if let Some(along) = along {
            self.key(AttrKey::ReplicaGroups);
            let mesh = along.mesh.as_deref().cloned().unwrap_or_default();
            self.mesh(&mesh)?;
            self.out.push(' ');
            return self.axes(&mesh, &along.axes, "");
        }
        let list = self.message(proto, field::collective_device_list)?;
        let list: schema::CollectiveDeviceListProto = list.unwrap_or_default();
        let inner = list.iota_replica_group_list.as_deref();
        self.key(AttrKey::ReplicaGroups);
        let iota = self.message(proto, field::iota_collective_device_list)?;
        if let Some(iota) = iota.as_ref().or(inner) {
            self.iota(iota);
            return Ok(());
        }
        let groups = match list.replica_groups.is_empty() {
            false => list.replica_groups,
            true => self.messages(proto, field::replica_groups)?,
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

    fn slice(&mut self, proto: View<'_, '_>) -> Result<()> {
        let start = self.out.len();
        self.key(AttrKey::Slice);
        let dims: Vec<schema::SliceDimensions> = self.messages(proto, field::slice_dimensions)?;
        let dims = dims.iter().map(|dim| SliceDimension {
            start: dim.start,
            limit: dim.limit,
            stride: dim.stride,
        });
        let dims: SmallVec<[SliceDimension; 8]> = dims.collect();
        write_slice(&mut self.out, &dims);
        let ints = dims
            .iter()
            .flat_map(|dim| [dim.start, dim.limit, dim.stride]);
        let (from, to) = self.keep_ints(&ints.collect::<SmallVec<[i64; 24]>>());
        self.note(start, AttrKey::Slice, PreparedValue::Slice(from, to));
        Ok(())
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

    fn shapes<'p>(&mut self, shapes: impl Iterator<Item = &'p [u8]>) -> Result<()> {
        self.out.push('{');
        for (at, shape) in shapes.enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            self.put_shape(shape)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn custom_call_literal(&mut self, proto: View<'_, '_>) -> Result<()> {
        let Some(bytes) = proto.find(field::literal) else {
            return Ok(());
        };
        let literal = self.read_literal(bytes)?;
        self.key(AttrKey::Literal);
        crate::text::printer::write_typed_literal(&mut self.out, &literal);
        self.push_literal(literal);
        Ok(())
    }

    fn aliasing(&mut self, proto: View<'_, '_>) -> Result<()> {
        let aliases = self.messages(proto, field::output_operand_aliasing)?;
        if aliases.is_empty() {
            return Ok(());
        }
        self.key(AttrKey::OutputOperandAliasing);
        for (at, alias) in aliases.iter().enumerate() {
            let alias: &schema::OutputOperandAliasing = alias;
            self.out.push_str(if at > 0 { ", {" } else { "{{" });
            self.put_list(&alias.output_shape_index);
            self.put(format_args!("}}: ({}, {{", alias.operand_index));
            self.put_list(&alias.operand_shape_index);
            self.out.push_str("})");
        }
        self.out.push('}');
        Ok(())
    }

    fn padding(&mut self, proto: View<'_, '_>) -> Result<()> {
        let config = self.message(proto, field::padding_config)?;
        let Some(config): Option<schema::PaddingConfig> = config else {
            return Ok(());
        };
        self.key(AttrKey::Padding);
        let dims = config.dimensions.iter().map(|dim| PaddingDimension {
            edge_low: dim.edge_padding_low,
            edge_high: dim.edge_padding_high,
            interior: dim.interior_padding,
        });
        write_padding(&mut self.out, &dims.collect::<Vec<_>>());
        Ok(())
    }

    fn domain(&mut self, proto: View<'_, '_>) -> Result<()> {
        // The names of the protos are those of the other side.
        let entry = self.message(proto, field::domain_exit_sharding)?;
        let exit = self.message(proto, field::domain_entry_sharding)?;
        let (Some(entry), Some(exit)) = (entry, exit) else {
            return Ok(());
        };
        self.out.push_str(", domain={kind=\"sharding\", entry=");
        self.sharding(&entry)?;
        self.out.push_str(", exit=");
        self.sharding(&exit)?;
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
