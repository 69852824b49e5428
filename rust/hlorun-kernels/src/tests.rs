//! Every kernel of the table on every tier against the portable tier: all tail lengths, special values, in place.

use crate::table::{binary_on, clamp_on, compare_on, select_on, unary_on, unary_result};
use crate::*;

/// Elements of any type: special values first, then bits that wander over the whole range.
fn pattern(dtype: DType, n: usize, seed: u64) -> Vec<u8> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        2.5,
        -2.5,
        0.5,
        3.0,
        -7.0,
    ];
    let mut state = seed | 1;
    let turn = (seed % values.len() as u64) as usize;
    values.rotate_left(turn);
    while values.len() < n {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let whole = (state >> 40) as f64 / 65536.0 - 128.0;
        values.push(if state & 7 == 0 { whole * 1e30 } else { whole });
    }
    let mut bytes = vec![0u8; n * dtype.size_bytes()];
    // SAFETY: n elements on both sides.
    unsafe { convert(DType::F64, dtype)(values.as_ptr().cast(), bytes.as_mut_ptr(), n) };
    if dtype.is_integer() && dtype.bit_width() >= 8 {
        for byte in bytes.iter_mut().skip(12 * dtype.size_bytes()) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte ^= (state >> 33) as u8;
        }
    }
    bytes
}

/// Whether two results agree: the same bits, or NaN for NaN.
fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    let widen = |x: &[u8]| {
        let n = x.len() / dtype.size_bytes();
        let mut out = vec![0u64; 2 * n];
        // SAFETY: n complex numbers fit.
        unsafe { convert(dtype, DType::C128)(x.as_ptr(), out.as_mut_ptr().cast(), n) };
        out.into_iter().map(f64::from_bits).collect::<Vec<_>>()
    };
    (dtype.is_float() || dtype.is_complex())
        && widen(a)
            .iter()
            .zip(&widen(b))
            .all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()))
}

/// Operations that may use a fused multiply-add where the tier has one.
fn exact(op: UnaryOp, dtype: DType) -> bool {
    use UnaryOp::*;
    let basic = [
        Abs,
        Negate,
        Sign,
        Floor,
        Ceil,
        RoundNearestAfz,
        RoundNearestEven,
        IsFinite,
        Sqrt,
        Rsqrt,
        Real,
        Imag,
    ];
    basic.contains(&op) || !(dtype.is_float())
}

#[test]
fn unary_kernels_agree_on_all_tiers_and_in_place() {
    for dtype in DType::ALL {
        for op in UnaryOp::ALL {
            let Some(portable) = unary_on(Isa::Portable, op, dtype) else {
                continue;
            };
            let result = unary_result(op, dtype);
            for n in (0..71).chain([600]) {
                let a = pattern(dtype, n.max(12), n as u64);
                let mut want = vec![0u8; n * result.size_bytes()];
                // SAFETY: n elements on both sides.
                unsafe { portable(a.as_ptr(), want.as_mut_ptr(), n) };
                for isa in Isa::available() {
                    let kernel = unary_on(isa, op, dtype).unwrap();
                    let mut got = vec![0u8; n * result.size_bytes()];
                    // SAFETY: as above.
                    unsafe { kernel(a.as_ptr(), got.as_mut_ptr(), n) };
                    if exact(op, dtype) {
                        assert!(same(result, &got, &want), "{isa:?} {op:?} {dtype:?} {n}");
                    }
                    if result.size_bytes() == dtype.size_bytes() {
                        let mut place = a.clone();
                        // SAFETY: the same pointer for input and output is allowed.
                        unsafe { kernel(place.as_ptr(), place.as_mut_ptr(), n) };
                        assert!(
                            same(result, &place[..got.len()], &got),
                            "in place {isa:?} {op:?} {dtype:?} {n}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn exponentials_have_the_same_bits_on_all_tiers_that_fuse() {
    // All exponents with a few hundred fractions each, and what surrounds the edges of the formula.
    let edges = [-104f32, 89.0, -87.336_55, 88.722_84, 0.0, f32::INFINITY];
    let around = edges.iter().flat_map(|x| {
        let bits = x.to_bits();
        (0..200u32).map(move |k| bits.wrapping_add(k).wrapping_sub(100))
    });
    let x: Vec<u32> = (0..u32::MAX).step_by(40_009).chain(around).collect();
    let on = |isa| {
        let mut y = vec![0u32; x.len()];
        let kernel = unary_on(isa, UnaryOp::Exp, DType::F32).unwrap();
        // SAFETY: as many elements on both sides.
        unsafe { kernel(x.as_ptr().cast(), y.as_mut_ptr().cast(), x.len()) };
        y
    };
    let fused: Vec<Isa> = Isa::available();
    let mut fused = fused.into_iter().filter(|isa| isa.is_fused());
    let Some(first) = fused.next() else {
        return;
    };
    let want = on(first);
    for isa in fused {
        assert!(on(isa) == want, "{isa:?}");
    }
}

#[test]
fn binary_kernels_agree_on_all_tiers_and_in_place() {
    for dtype in DType::ALL {
        for op in BinaryOp::ALL {
            let Some(portable) = binary_on(Isa::Portable, op, dtype) else {
                continue;
            };
            for n in (0..71).step_by(3).chain([600]) {
                let (a, b) = (
                    pattern(dtype, n.max(12), n as u64),
                    pattern(dtype, n.max(12), n as u64 * 5 + 1),
                );
                let mut want = vec![0u8; n * dtype.size_bytes()];
                // SAFETY: n elements behind each pointer.
                unsafe { portable(a.as_ptr(), b.as_ptr(), want.as_mut_ptr(), n) };
                for isa in Isa::available() {
                    let kernel = binary_on(isa, op, dtype).unwrap();
                    let mut got = want.clone();
                    let (mut on_a, mut on_b) = (a.clone(), b.clone());
                    let (mut twice, mut both) = (a.clone(), want.clone());
                    // SAFETY: as above; outputs equal to an input are allowed.
                    unsafe {
                        kernel(a.as_ptr(), b.as_ptr(), got.as_mut_ptr(), n);
                        kernel(on_a.as_ptr(), b.as_ptr(), on_a.as_mut_ptr(), n);
                        kernel(a.as_ptr(), on_b.as_ptr(), on_b.as_mut_ptr(), n);
                        kernel(twice.as_ptr(), twice.as_ptr(), twice.as_mut_ptr(), n);
                        kernel(a.as_ptr(), a.as_ptr(), both.as_mut_ptr(), n);
                    }
                    let fused = matches!(op, BinaryOp::Power | BinaryOp::Atan2) && dtype.is_float();
                    assert!(
                        fused || same(dtype, &got, &want),
                        "{isa:?} {op:?} {dtype:?} {n}"
                    );
                    for (place, expect) in [(on_a, &got), (on_b, &got), (twice, &both)] {
                        assert!(
                            same(dtype, &place[..got.len()], expect),
                            "in place {isa:?} {op:?} {dtype:?} {n}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_select_and_clamp_agree_on_all_tiers() {
    for dtype in DType::ALL {
        for n in (0..71).step_by(7).chain([600]) {
            let [a, b, c] = [0, 1, 2].map(|s| pattern(dtype, n.max(12), n as u64 * 3 + s));
            let mut picks = Vec::new();
            for direction in CompareDirection::ALL {
                for order in [CompareOrder::Partial, CompareOrder::Total] {
                    let Some(portable) = compare_on(Isa::Portable, direction, order, dtype) else {
                        continue;
                    };
                    let mut want = vec![2u8; n];
                    // SAFETY: n elements behind each pointer.
                    unsafe { portable(a.as_ptr(), b.as_ptr(), want.as_mut_ptr(), n) };
                    for isa in Isa::available() {
                        let mut got = vec![3u8; n];
                        let kernel = compare_on(isa, direction, order, dtype).unwrap();
                        // SAFETY: as above.
                        unsafe { kernel(a.as_ptr(), b.as_ptr(), got.as_mut_ptr(), n) };
                        assert_eq!(got, want, "{isa:?} {direction:?} {order:?} {dtype:?} {n}");
                    }
                    picks = want;
                }
            }
            let size = dtype.size_bytes();
            for isa in Isa::available() {
                let mut got = vec![0u8; n * size];
                let select = select_on(isa, dtype);
                let (mut on_a, mut on_b) = (a.clone(), b.clone());
                let p = picks.as_ptr();
                // SAFETY: as above; the output may lie on an operand.
                unsafe {
                    select(p, a.as_ptr(), b.as_ptr(), got.as_mut_ptr(), n);
                    select(p, on_a.as_ptr(), b.as_ptr(), on_a.as_mut_ptr(), n);
                    select(p, a.as_ptr(), on_b.as_ptr(), on_b.as_mut_ptr(), n);
                };
                for place in [on_a, on_b] {
                    assert_eq!(
                        place[..got.len()],
                        got,
                        "{isa:?} select in place {dtype:?} {n}"
                    );
                }
                for i in 0..n {
                    let from = if picks[i] != 0 { &a } else { &b };
                    assert_eq!(
                        got[i * size..][..size],
                        from[i * size..][..size],
                        "{isa:?} select {dtype:?} {n}"
                    );
                }
                let Some(kernel) = clamp_on(isa, dtype) else {
                    continue;
                };
                let mut place = b.clone();
                // SAFETY: as above; x and out may be equal.
                unsafe {
                    kernel(a.as_ptr(), b.as_ptr(), c.as_ptr(), got.as_mut_ptr(), n);
                    kernel(
                        a.as_ptr(),
                        place.as_ptr(),
                        c.as_ptr(),
                        place.as_mut_ptr(),
                        n,
                    );
                }
                assert!(
                    same(dtype, &place[..got.len()], &got),
                    "in place {isa:?} clamp {dtype:?}"
                );
                let mut want = vec![0u8; n * size];
                // SAFETY: as above.
                unsafe {
                    binary(BinaryOp::Maximum, dtype).unwrap()(
                        a.as_ptr(),
                        b.as_ptr(),
                        want.as_mut_ptr(),
                        n,
                    );
                    binary(BinaryOp::Minimum, dtype).unwrap()(
                        want.as_ptr(),
                        c.as_ptr(),
                        want.as_mut_ptr(),
                        n,
                    );
                }
                assert!(same(dtype, &got, &want), "{isa:?} clamp {dtype:?} {n}");
            }
        }
    }
}

#[test]
fn conversions_agree_on_all_tiers_and_reductions_with_a_loop() {
    for from in DType::ALL {
        for to in DType::ALL {
            for n in [0, 1, 7, 33, 70] {
                let a = pattern(from, n.max(12), n as u64);
                let mut want = vec![0u8; n * to.size_bytes()];
                // SAFETY: n elements on both sides.
                unsafe { convert_on(Isa::Portable, from, to)(a.as_ptr(), want.as_mut_ptr(), n) };
                for isa in Isa::available() {
                    let mut got = vec![0u8; n * to.size_bytes()];
                    // SAFETY: as above.
                    unsafe { convert_on(isa, from, to)(a.as_ptr(), got.as_mut_ptr(), n) };
                    assert_eq!(got, want, "{isa:?} {from:?} -> {to:?}");
                }
            }
        }
    }
    for dtype in DType::ALL {
        for op in BinaryOp::ALL {
            if reduce(op, dtype).is_none() {
                continue;
            }
            let acc = reduce_accumulator(dtype);
            for n in (0..71).chain([1000]) {
                // Small whole numbers: every order of summation gives the same bits.
                let values: Vec<f64> = (0..n)
                    .map(|i| f64::from(i % 3 == 1) + f64::from(i % 5 == 2))
                    .collect();
                let mut a = vec![0u8; n as usize * dtype.size_bytes()];
                let mut want = vec![0u8; acc.size_bytes()];
                // SAFETY: n elements on both sides; one accumulator.
                unsafe {
                    convert(DType::F64, dtype)(values.as_ptr().cast(), a.as_mut_ptr(), n as usize);
                    convert(DType::F64, acc)([1.0f64].as_ptr().cast(), want.as_mut_ptr(), 1);
                }
                let start = want.clone();
                let mut wide = vec![0u8; n as usize * acc.size_bytes()];
                // SAFETY: as above.
                unsafe { convert(dtype, acc)(a.as_ptr(), wide.as_mut_ptr(), n as usize) };
                for x in wide.chunks(acc.size_bytes()) {
                    // SAFETY: one element behind each pointer.
                    unsafe {
                        binary(op, acc).unwrap()(want.as_ptr(), x.as_ptr(), want.as_mut_ptr(), 1)
                    };
                }
                for isa in Isa::available() {
                    let mut got = start.clone();
                    // SAFETY: n elements and one accumulator.
                    unsafe {
                        reduce_on(isa, op, dtype).unwrap()(a.as_ptr(), n as usize, got.as_mut_ptr())
                    };
                    assert!(
                        same(acc, &got, &want),
                        "{isa:?} reduce {op:?} {dtype:?} {n}: {got:?} {want:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn extremes_heed_nan_and_the_sign_of_zero() {
    let n = 1000;
    let plain: Vec<f64> = (0..n).map(|i| f64::from(i * 37 % 101) - 50.0).collect();
    let zeros: Vec<f64> = (0..n)
        .map(|i| if i % 7 == 3 { 0.0 } else { -0.0 })
        .collect();
    let mut cases = vec![plain.clone(), zeros.clone(), vec![f64::NEG_INFINITY; 1000]];
    cases.push(zeros.iter().map(|z| z - 1.0).chain(zeros.clone()).collect());
    for at in [0, 5, 700, 999] {
        for odd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut case = plain.clone();
            case[at] = odd;
            cases.push(case);
        }
    }
    for case in &cases {
        for op in [BinaryOp::Maximum, BinaryOp::Minimum] {
            for dtype in [DType::F32, DType::F64] {
                let size = dtype.size_bytes();
                let mut a = vec![0u8; case.len() * size];
                // SAFETY: as many elements on both sides.
                unsafe {
                    convert(DType::F64, dtype)(case.as_ptr().cast(), a.as_mut_ptr(), case.len());
                }
                let mut want = a[..size].to_vec();
                for x in a.chunks(size) {
                    // SAFETY: one element behind each pointer.
                    unsafe {
                        binary(op, dtype).unwrap()(want.as_ptr(), x.as_ptr(), want.as_mut_ptr(), 1);
                    }
                }
                for isa in Isa::available() {
                    let mut got = a[..size].to_vec();
                    // SAFETY: all elements and one accumulator.
                    unsafe {
                        reduce_on(isa, op, dtype).unwrap()(
                            a.as_ptr(),
                            case.len(),
                            got.as_mut_ptr(),
                        );
                    }
                    assert!(
                        same(dtype, &got, &want),
                        "{isa:?} {op:?} {dtype:?}: {got:?} {want:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn reductions_give_the_same_bits_on_all_tiers() {
    let ops = [
        BinaryOp::Add,
        BinaryOp::Multiply,
        BinaryOp::Maximum,
        BinaryOp::Minimum,
    ];
    for dtype in [DType::F32, DType::F64] {
        let size = dtype.size_bytes();
        for n in (1..260).chain([1000, 1003]) {
            let all = pattern(dtype, n + 12, n as u64);
            // The pattern begins with NaN, infinities and zeros.
            for a in [&all[..n * size], &all[12 * size..]] {
                for op in ops {
                    let run = |isa| {
                        let mut acc = all[2 * size..3 * size].to_vec();
                        // SAFETY: n elements and one accumulator.
                        unsafe {
                            reduce_on(isa, op, dtype).unwrap()(a.as_ptr(), n, acc.as_mut_ptr())
                        };
                        acc
                    };
                    let want = run(Isa::Portable);
                    for isa in Isa::available() {
                        let got = run(isa);
                        assert!(
                            same(dtype, &got, &want),
                            "{isa:?} {op:?} {dtype:?} {n}: {got:?} {want:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn lengths_of_complex_numbers_are_rounded_once() {
    let parts = [
        0.0f32,
        -0.0,
        1.0,
        -3.0,
        4.0,
        1e-45,
        1e-38,
        3e38,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.1,
        -7.3e-20,
        5.5e19,
    ];
    let numbers: Vec<[f32; 2]> = parts
        .iter()
        .flat_map(|&re| parts.iter().map(move |&im| [re, im]))
        .collect();
    for isa in Isa::available() {
        let kernel = table::unary_on(isa, UnaryOp::Abs, DType::C64).unwrap();
        let mut got = vec![0f32; numbers.len()];
        // SAFETY: as many numbers on both sides.
        unsafe {
            kernel(
                numbers.as_ptr().cast(),
                got.as_mut_ptr().cast(),
                numbers.len(),
            )
        };
        for (&[re, im], &x) in numbers.iter().zip(&got) {
            let want = libm::hypot(re.into(), im.into()) as f32;
            let is_same = x == want || x.is_nan() && want.is_nan();
            assert!(is_same, "{isa:?} |{re} + {im}i| = {x}, not {want}");
        }
    }
}
