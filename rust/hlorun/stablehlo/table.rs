//! The operations of VHLO that are known here: a row each.

use super::sections::Dialect;
use crate::module::HloOpcode::{self, *};

/// What has to be known of an operation to write it as HLO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Nothing but its operands.
    Plain,
    /// A function that may be asked to be more accurate.
    Accurate,
    /// A list of dimensions, as HLO has it.
    Dimensions,
    /// A scalar operand is broadcast to the result's shape.
    Scalars,
    BroadcastInDim,
    Broadcast,
    Call,
    Case,
    Cholesky,
    Compare,
    Composite,
    Concatenate,
    Constant,
    Convolution,
    CustomCall,
    DotGeneral,
    DynamicSlice,
    Fft,
    Function,
    Gather,
    If,
    Iota,
    Map,
    /// Names devices.
    Mesh,
    OptimizationBarrier,
    Pad,
    Reduce,
    ReducePrecision,
    ReduceWindow,
    Return,
    RngBitGenerator,
    /// Its result is its operand.
    Same,
    Scatter,
    SelectAndScatter,
    Slice,
    Sort,
    Transpose,
    TriangularSolve,
    While,
}

/// An operation.
pub struct Row {
    pub name: &'static str,
    pub form: Form,
    pub opcode: HloOpcode,
    /// Its attributes, in the order of the alphabet, as the artifact has them.
    pub properties: &'static [&'static str],
}

const ACCURACY: &[&str] = &["result_accuracy"];
const DIMENSIONS: &[&str] = &["dimensions"];

const fn plain(name: &'static str, opcode: HloOpcode) -> Row {
    row(name, Form::Plain, opcode, &[])
}

const fn accurate(name: &'static str, opcode: HloOpcode) -> Row {
    row(name, Form::Accurate, opcode, ACCURACY)
}

const fn row(
    name: &'static str,
    form: Form,
    opcode: HloOpcode,
    properties: &'static [&'static str],
) -> Row {
    Row {
        name,
        form,
        opcode,
        properties,
    }
}

/// Every operation.
pub static OPERATIONS: &[Row] = &[
    plain("abs_v1", Abs),
    plain("add_v1", Add),
    plain("after_all_v1", AfterAll),
    plain("and_v1", And),
    plain("atan2_v1", Atan2),
    plain("bitcast_convert_v1", BitcastConvert),
    plain("ceil_v1", Ceil),
    plain("complex_v1", Complex),
    plain("convert_v1", Convert),
    plain("count_leading_zeros_v1", Clz),
    plain("create_token_v1", AfterAll),
    plain("divide_v1", Divide),
    plain("dynamic_update_slice_v1", DynamicUpdateSlice),
    plain("floor_v1", Floor),
    plain("imag_v1", Imag),
    plain("is_finite_v1", IsFinite),
    plain("maximum_v1", Maximum),
    plain("minimum_v1", Minimum),
    plain("multiply_v1", Multiply),
    plain("negate_v1", Negate),
    plain("not_v1", Not),
    plain("or_v1", Or),
    plain("partition_id_v1", PartitionId),
    plain("popcnt_v1", PopulationCount),
    plain("power_v1", Power),
    plain("real_v1", Real),
    plain("remainder_v1", Remainder),
    plain("replica_id_v1", ReplicaId),
    plain("reshape_v1", Reshape),
    plain("round_nearest_afz_v1", RoundNearestAfz),
    plain("round_nearest_even_v1", RoundNearestEven),
    plain("shift_left_v1", ShiftLeft),
    plain("shift_right_arithmetic_v1", ShiftRightArithmetic),
    plain("shift_right_logical_v1", ShiftRightLogical),
    plain("sign_v1", Sign),
    plain("subtract_v1", Subtract),
    plain("xor_v1", Xor),
    accurate("cbrt_v2", Cbrt),
    accurate("cosine_v2", Cos),
    accurate("exponential_minus_one_v2", Expm1),
    accurate("exponential_v2", Exp),
    accurate("log_plus_one_v2", Log1p),
    accurate("log_v2", Log),
    accurate("logistic_v2", Logistic),
    accurate("rsqrt_v2", Rsqrt),
    accurate("sine_v2", Sin),
    accurate("sqrt_v2", Sqrt),
    accurate("tan_v2", Tan),
    accurate("tanh_v2", Tanh),
    row("clamp_v1", Form::Scalars, Clamp, &[]),
    row("select_v1", Form::Scalars, Select, &[]),
    row(
        "broadcast_in_dim_v1",
        Form::BroadcastInDim,
        Broadcast,
        &["broadcast_dimensions"],
    ),
    row(
        "broadcast_v1",
        Form::Broadcast,
        Broadcast,
        &["broadcast_sizes"],
    ),
    row("call_v1", Form::Call, Call, &["callee"]),
    row("case_v1", Form::Case, Conditional, &[]),
    row("cholesky_v1", Form::Cholesky, Cholesky, &["lower"]),
    row(
        "compare_v1",
        Form::Compare,
        Compare,
        &["compare_type", "comparison_direction"],
    ),
    row(
        "composite_v2",
        Form::Composite,
        Call,
        &["composite_attributes", "decomposition", "name", "version"],
    ),
    row(
        "concatenate_v1",
        Form::Concatenate,
        Concatenate,
        &["dimension"],
    ),
    row("constant_v1", Form::Constant, Constant, &["value"]),
    row(
        "convolution_v1",
        Form::Convolution,
        Convolution,
        &[
            "batch_group_count",
            "feature_group_count",
            "input_batch_dimension",
            "input_feature_dimension",
            "input_spatial_dimensions",
            "kernel_input_feature_dimension",
            "kernel_output_feature_dimension",
            "kernel_spatial_dimensions",
            "lhs_dilation",
            "output_batch_dimension",
            "output_feature_dimension",
            "output_spatial_dimensions",
            "padding",
            "precision_config",
            "rhs_dilation",
            "window_reversal",
            "window_strides",
        ],
    ),
    row(
        "custom_call_v1",
        Form::CustomCall,
        CustomCall,
        &[
            "api_version",
            "backend_config",
            "call_target_name",
            "called_computations",
            "has_side_effect",
            "operand_layouts",
            "output_operand_aliases",
            "result_layouts",
        ],
    ),
    row(
        "dot_general_v2",
        Form::DotGeneral,
        Dot,
        &[
            "accumulation_type",
            "allow_imprecise_accumulation",
            "lhs_batching_dimensions",
            "lhs_component_count",
            "lhs_contracting_dimensions",
            "lhs_precision_type",
            "num_primitive_operations",
            "precision_config",
            "rhs_batching_dimensions",
            "rhs_component_count",
            "rhs_contracting_dimensions",
            "rhs_precision_type",
        ],
    ),
    row(
        "dynamic_slice_v1",
        Form::DynamicSlice,
        DynamicSlice,
        &["slice_sizes"],
    ),
    row("fft_v1", Form::Fft, Fft, &["fft_length", "fft_type"]),
    row(
        "func_v1",
        Form::Function,
        Call,
        &[
            "arg_attrs",
            "function_type",
            "res_attrs",
            "sym_name",
            "sym_visibility",
        ],
    ),
    row(
        "gather_v2",
        Form::Gather,
        Gather,
        &[
            "collapsed_slice_dims",
            "index_vector_dim",
            "indices_are_sorted",
            "offset_dims",
            "operand_batching_dims",
            "slice_sizes",
            "start_index_map",
            "start_indices_batching_dims",
        ],
    ),
    row("if_v1", Form::If, Conditional, &[]),
    row("iota_v1", Form::Iota, Iota, &["iota_dimension"]),
    row("map_v1", Form::Map, Map, DIMENSIONS),
    row(
        "optimization_barrier_v1",
        Form::OptimizationBarrier,
        OptimizationBarrier,
        &[],
    ),
    row(
        "pad_v1",
        Form::Pad,
        Pad,
        &["edge_padding_high", "edge_padding_low", "interior_padding"],
    ),
    row("reduce_v1", Form::Reduce, Reduce, DIMENSIONS),
    row(
        "reduce_precision_v1",
        Form::ReducePrecision,
        ReducePrecision,
        &["exponent_bits", "mantissa_bits"],
    ),
    row(
        "reduce_window_v1",
        Form::ReduceWindow,
        ReduceWindow,
        &[
            "base_dilations",
            "padding",
            "window_dilations",
            "window_dimensions",
            "window_strides",
        ],
    ),
    row("return_v1", Form::Return, Tuple, &[]),
    row("reverse_v1", Form::Dimensions, Reverse, DIMENSIONS),
    row(
        "rng_bit_generator_v1",
        Form::RngBitGenerator,
        RngBitGenerator,
        &["rng_algorithm"],
    ),
    row(
        "scatter_v2",
        Form::Scatter,
        Scatter,
        &[
            "index_vector_dim",
            "indices_are_sorted",
            "input_batching_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
            "scatter_indices_batching_dims",
            "unique_indices",
            "update_window_dims",
        ],
    ),
    row(
        "select_and_scatter_v1",
        Form::SelectAndScatter,
        SelectAndScatter,
        &["padding", "window_dimensions", "window_strides"],
    ),
    row(
        "slice_v1",
        Form::Slice,
        Slice,
        &["limit_indices", "start_indices", "strides"],
    ),
    row("sort_v1", Form::Sort, Sort, &["dimension", "is_stable"]),
    row("transpose_v1", Form::Transpose, Transpose, &["permutation"]),
    row(
        "triangular_solve_v1",
        Form::TriangularSolve,
        TriangularSolve,
        &["left_side", "lower", "transpose_a", "unit_diagonal"],
    ),
    row("while_v1", Form::While, While, &[]),
];

/// Operations of other dialects.
static OTHERS: &[(Dialect, Row)] = &[
    (Dialect::Sdy, row("mesh", Form::Mesh, Call, &[])),
    (
        Dialect::Sdy,
        row("sharding_constraint", Form::Same, Call, &[]),
    ),
    (
        Dialect::Builtin,
        row("unrealized_conversion_cast", Form::Same, Call, &[]),
    ),
];

/// Composites that have an opcode of their own and no attributes.
pub const COMPOSITES: &[(&[u8], HloOpcode)] = &[(b"chlo.erf", Erf)];

/// Composites that are calls of what they are composed of, as jaxlib writes them out.
pub const COMPOSED: &[&[u8]] = &[
    b"chlo.acos",
    b"chlo.acosh",
    b"chlo.asin",
    b"chlo.asinh",
    b"chlo.atanh",
    b"chlo.cosh",
    b"chlo.sinh",
];

/// The row of an operation.
pub fn row_of(dialect: Dialect, name: &[u8]) -> Option<&'static Row> {
    if dialect == Dialect::Vhlo {
        return OPERATIONS.iter().find(|row| row.name.as_bytes() == name);
    }
    let row = OTHERS
        .iter()
        .find(|(of, row)| *of == dialect && row.name.as_bytes() == name);
    row.map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name_and_list_attributes_in_order() {
        for (at, row) in OPERATIONS.iter().enumerate() {
            assert!(row.properties.is_sorted(), "{}", row.name);
            let found = row_of(Dialect::Vhlo, row.name.as_bytes()).expect("a row");
            assert!(
                std::ptr::eq(found, &OPERATIONS[at]),
                "{} is there twice",
                row.name
            );
        }
        assert!(row_of(Dialect::Builtin, b"add_v1").is_none());
        assert!(row_of(Dialect::Vhlo, b"add_v2").is_none());
    }
}
