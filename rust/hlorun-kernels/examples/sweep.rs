//! Compares the f32 functions with the f64 ones on every f32, or on every STEP-th bit pattern.
//!
//! `cargo run --release -p hlorun-kernels --example sweep [filter] [STEP]`; prints, per instruction set and function,
//! the largest distance in units in the last place (a wrong special value is infinite) and where it is.

use hlorun_kernels::{DType, Isa, UnaryOp, table::unary_on};

const BLOCK: usize = 1 << 14;

/// The distance of `got` from `want` in units of the last place of `want` as an `f32`.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.is_nan() || rounded.is_nan() || rounded.is_infinite() || got.is_infinite() {
        let same = got.is_nan() && rounded.is_nan() || got == rounded;
        return if same { 0.0 } else { f64::INFINITY };
    }
    if got == 0.0 && rounded == 0.0 {
        let same = got.is_sign_negative() == rounded.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.to_bits() >> 52) & 0x7ff).max(1023 - 126);
    let unit = f64::from_bits((exponent - 23) << 52);
    (f64::from(got) - want).abs() / unit
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let step: u64 = std::env::args()
        .nth(2)
        .map_or(1, |s| s.parse().expect("a number"));
    let wide = Isa::available().pop().expect("a tier");
    let ops = UnaryOp::ALL
        .iter()
        .filter(|op| format!("{op:?}").to_lowercase().contains(&filter));
    for &op in ops {
        for isa in Isa::available() {
            let (Some(single), Some(double)) = (
                unary_on(isa, op, DType::F32),
                unary_on(wide, op, DType::F64),
            ) else {
                continue;
            };
            let (mut worst, mut at, mut over) = (0.0, 0.0, [0u64; 3]);
            let mut next = 0u64;
            while next <= u64::from(u32::MAX) {
                let x: Vec<f32> = (0..BLOCK as u64)
                    .map_while(|k| u32::try_from(next + k * step).ok())
                    .map(f32::from_bits)
                    .collect();
                next += x.len() as u64 * step;
                let x64: Vec<f64> = x.iter().map(|&x| x.into()).collect();
                let (mut got, mut want) = (vec![0f32; x.len()], vec![0f64; x.len()]);
                // SAFETY: every slice holds as many elements of the kernel's type as is said.
                unsafe {
                    single(x.as_ptr().cast(), got.as_mut_ptr().cast(), x.len());
                    double(x64.as_ptr().cast(), want.as_mut_ptr().cast(), x.len());
                }
                for ((&x, &got), &want) in x.iter().zip(&got).zip(&want) {
                    let error = ulps(got, want);
                    over[0] += u64::from(error > 1.0);
                    over[1] += u64::from(error > 1.5);
                    over[2] += u64::from(error > 2.0);
                    if error > worst {
                        (worst, at) = (error, x);
                    }
                }
            }
            println!("{op:?} {isa:?}: {worst:.3} at {at:e}; over 1, 1.5, 2: {over:?}");
        }
    }
}
