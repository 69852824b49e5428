//! Accuracy of every function against `libm`, on every tier.

use crate::isa::Isa;
use crate::ops::{BinaryOp as B, UnaryOp as U};
use crate::table::{binary_on, unary_on};
use crate::{DType, convert};

type Reference = fn(f64) -> f64;

const F64_FUNCTIONS: [(U, Reference); 23] = [
    (U::Exp, libm::exp),
    (U::Expm1, libm::expm1),
    (U::Log, libm::log),
    (U::Log1p, libm::log1p),
    (U::Logistic, |x| {
        let e = libm::exp(-x.abs());
        if x < 0.0 {
            e / (1.0 + e)
        } else {
            1.0 / (1.0 + e)
        }
    }),
    (U::Sqrt, f64::sqrt),
    (U::Rsqrt, |x| 1.0 / x.sqrt()),
    (U::Cbrt, libm::cbrt),
    (U::Sin, libm::sin),
    (U::Cos, libm::cos),
    (U::Tan, libm::tan),
    (U::Tanh, libm::tanh),
    (U::Erf, libm::erf),
    (U::Acos, libm::acos),
    (
        U::Acosh,
        |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
    ),
    (U::Asin, libm::asin),
    (U::Asinh, libm::asinh),
    (U::Atan, libm::atan),
    (U::Atanh, libm::atanh),
    (U::Sinh, libm::sinh),
    (U::Cosh, libm::cosh),
    (U::Floor, f64::floor),
    (U::RoundNearestAfz, f64::round),
];

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Special values, then every magnitude, then the ranges where functions bend.
fn samples64() -> Vec<f64> {
    let mut v = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        5e-324,
        1e-310,
        -1e-310,
    ];
    v.extend([
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        709.78,
        709.79,
        -745.13,
        -745.14,
        -708.4,
        0.5,
        -0.5,
        1e22,
        0.75,
    ]);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..20_000 {
        v.push(f64::from_bits(random(&mut state)));
    }
    for scale in [1e-3, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 700.0, 1e5] {
        for _ in 0..3000 {
            v.push(((random(&mut state) >> 11) as f64 / (1u64 << 52) as f64 - 1.0) * scale);
        }
    }
    v
}

fn samples32() -> Vec<f32> {
    let mut v: Vec<f32> = (0..=u16::MAX)
        .map(|h| f32::from_bits(u32::from(h) << 16))
        .collect();
    v.extend(samples64().iter().map(|&x| x as f32));
    v.extend([
        88.72,
        88.73,
        -87.4,
        -103.97,
        -103.98,
        -104.0,
        1.000_000_1,
        0.999_999_94,
    ]);
    v
}

fn run<T: Copy + Default>(isa: Isa, op: U, dtype: DType, x: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    // SAFETY: both slices hold x.len() elements of `dtype`.
    unsafe {
        unary_on(isa, op, dtype).unwrap()(x.as_ptr().cast(), out.as_mut_ptr().cast(), x.len())
    };
    out
}

/// Distance in units in the last place of the wanted value's type.
fn ulp64(got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() || got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    (got.to_bits() as i64).abs_diff(want.to_bits() as i64) as f64
}

/// Distance of an `f32` from an `f64` value in units of the last `f32` place.
fn ulp32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.to_bits() == rounded.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() || got.is_sign_negative() != rounded.is_sign_negative() {
        return f64::INFINITY;
    }
    (got.to_bits()).abs_diff(rounded.to_bits()).into()
}

#[test]
fn double_functions_are_within_the_bound() {
    let x = samples64();
    let mut failures = Vec::new();
    for isa in Isa::available() {
        for (op, reference) in F64_FUNCTIONS {
            let got = run(isa, op, DType::F64, &x);
            let worst = x
                .iter()
                .zip(&got)
                .map(|(&x, &y)| (ulp64(y, reference(x)), x, y, reference(x)));
            let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            // The reference itself is off by up to one.
            if worst.0 > 3.0 {
                failures.push(format!("{isa:?} {op:?}: {worst:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn single_functions_are_within_the_bound_on_every_bf16_and_random_values() {
    let x = samples32();
    let mut failures = Vec::new();
    for isa in Isa::available() {
        for (op, reference) in F64_FUNCTIONS {
            let got = run(isa, op, DType::F32, &x);
            let worst = x.iter().zip(&got).map(|(&x, &y)| {
                (
                    ulp32(y, reference(f64::from(x))),
                    x,
                    y,
                    reference(f64::from(x)),
                )
            });
            let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            if worst.0 > 2.0 {
                failures.push(format!("{isa:?} {op:?}: {worst:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn outside_its_domain_a_function_gives_one_nan_on_every_tier() {
    let outside = [
        f64::NEG_INFINITY,
        f64::INFINITY,
        f64::MIN,
        f64::MAX,
        -2.0,
        2.0,
        1.5,
        0.5,
        -0.0,
    ];
    for (op, _) in F64_FUNCTIONS {
        let nans = |isa, dtype| -> Vec<Option<u64>> {
            let bits = |nan: bool, bits: u64| nan.then_some(bits);
            if dtype == DType::F64 {
                let y = run(isa, op, dtype, &outside);
                y.iter().map(|y| bits(y.is_nan(), y.to_bits())).collect()
            } else {
                let y = run(isa, op, dtype, &outside.map(|x| x as f32));
                y.iter()
                    .map(|y| bits(y.is_nan(), y.to_bits().into()))
                    .collect()
            }
        };
        for dtype in [DType::F32, DType::F64] {
            let first = nans(Isa::available()[0], dtype);
            for isa in Isa::available() {
                assert_eq!(
                    nans(isa, dtype),
                    first,
                    "{isa:?} {dtype:?} {op:?} of {outside:?}"
                );
            }
        }
    }
}

#[test]
fn half_functions_round_the_single_result_on_every_input() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    for dtype in [DType::F16, DType::BF16] {
        let mut wide = vec![0.0f32; bits.len()];
        // SAFETY: all buffers hold 65536 elements.
        unsafe {
            convert(dtype, DType::F32)(bits.as_ptr().cast(), wide.as_mut_ptr().cast(), bits.len())
        };
        for isa in Isa::available() {
            for (op, _) in F64_FUNCTIONS {
                let got = run(isa, op, dtype, &bits);
                let single = run(isa, op, DType::F32, &wide);
                let mut want = vec![0u16; bits.len()];
                // SAFETY: as above.
                unsafe {
                    convert(DType::F32, dtype)(
                        single.as_ptr().cast(),
                        want.as_mut_ptr().cast(),
                        bits.len(),
                    )
                };
                assert_eq!(got, want, "{isa:?} {dtype:?} {op:?}");
            }
        }
    }
}

fn run2<T: Copy + Default>(isa: Isa, op: B, dtype: DType, x: &[T], y: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    // SAFETY: the slices hold x.len() elements of `dtype`.
    unsafe {
        binary_on(isa, op, dtype).unwrap()(
            x.as_ptr().cast(),
            y.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            x.len(),
        );
    }
    out
}

#[test]
fn powers_and_angles_are_within_the_bound() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        3.0,
        -3.0,
        1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for a in special {
        for b in special {
            x.push(a);
            y.push(b);
        }
    }
    let all = samples64();
    for (i, &a) in all.iter().enumerate() {
        x.push(a);
        y.push(all[(i * 7919 + 13) % all.len()]);
        x.push(a.abs());
        y.push(((i % 41) as f64 - 20.0) * 0.25);
    }
    let (x32, y32): (Vec<f32>, Vec<f32>) = (
        x.iter().map(|&v| v as f32).collect(),
        y.iter().map(|&v| v as f32).collect(),
    );
    for isa in Isa::available() {
        for (op, f) in [
            (B::Power, libm::pow as fn(f64, f64) -> f64),
            (B::Atan2, libm::atan2),
        ] {
            for (i, got) in run2(isa, op, DType::F64, &x, &y).into_iter().enumerate() {
                let want = f(x[i], y[i]);
                assert!(
                    ulp64(got, want) <= 3.0,
                    "{isa:?} {op:?} {} {}: {got} {want}",
                    x[i],
                    y[i]
                );
            }
            for (i, got) in run2(isa, op, DType::F32, &x32, &y32)
                .into_iter()
                .enumerate()
            {
                let want = f(f64::from(x32[i]), f64::from(y32[i]));
                assert!(
                    ulp32(got, want) <= 2.0,
                    "{isa:?} {op:?} {} {}: {got} {want}",
                    x32[i],
                    y32[i]
                );
            }
        }
    }
}

#[test]
fn every_length_gives_the_same_bits() {
    let x: Vec<f32> = (0..70).map(|i| 0.05 + i as f32 * 0.11).collect();
    for isa in Isa::available() {
        for (op, _) in F64_FUNCTIONS {
            let whole = run(isa, op, DType::F32, &x);
            for n in 0..x.len() {
                let part = run(isa, op, DType::F32, &x[..n]);
                let same = part
                    .iter()
                    .zip(&whole)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa:?} {op:?} {n}");
                let mut own = x[..n].to_vec();
                let at = own.as_mut_ptr().cast::<u8>();
                // SAFETY: the slice holds n elements; a kernel may write onto its operand.
                unsafe { unary_on(isa, op, DType::F32).unwrap()(at, at, n) };
                let same = own
                    .iter()
                    .zip(&whole)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{isa:?} {op:?} {n} in place");
            }
        }
        let whole = run2(isa, B::Power, DType::F32, &x, &x);
        for n in 0..x.len() {
            let part = run2(isa, B::Power, DType::F32, &x[..n], &x[..n]);
            let same = part
                .iter()
                .zip(&whole)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{isa:?} power {n}");
        }
    }
}
