//! Words that attributes of HLO take, in the order of their numbers in protos. Text and protos read and
//! write by these lists.

/// An enumeration: words in the order of their numbers from 0; no word where nothing is printed.
pub type Words = &'static [&'static str];

/// `distribution` of `rng`.
pub const DISTRIBUTION: Words = &["rng_invalid", "rng_uniform", "rng_normal", "rng_bernoulli"];
/// `fft_type`.
pub const FFT_TYPE: Words = &["FFT", "IFFT", "RFFT", "IRFFT"];
/// `algorithm` of `rng-bit-generator`.
pub const RNG_ALGORITHM: Words = &["rng_default", "rng_three_fry", "rng_philox"];
/// `transpose_a`.
pub const TRANSPOSE: Words = &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
/// `padding_type`.
pub const PADDING_TYPE: Words = &["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"];
/// `schedule` of a `custom-call`.
pub const CUSTOM_CALL_SCHEDULE: Words = &["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"];
/// `api_version`; text leaves the first out.
pub const API_VERSION: Words = &[
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
];
/// `operand_precision`.
pub const PRECISION: Words = &["default", "high", "highest", "packed_nibble"];
/// `algorithm` of `dot`.
pub const DOT_ALGORITHM: Words = &[
    "unset",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];
/// `mode` of a result accuracy.
pub const ACCURACY: Words = &["default", "highest"];
/// `conv_kind`.
pub const CONVOLUTION_KIND: Words = &["unset", "fprop", "dgrad", "wgrad"];
/// Types of a sharding.
pub const SHARDING: Words = &[
    "replicated",
    "maximal",
    "tuple",
    "devices",
    "manual",
    "unknown",
    "unreduced",
];

/// The number of a word.
pub fn number_of(words: Words, word: &[u8]) -> Option<i32> {
    words
        .iter()
        .position(|known| known.as_bytes() == word)
        .map(|at| at as i32)
}
