//! SIMD kernels and matrix products: slices in, slices out; knows no HLO.
