use super::*;

/// Numbers between -1 and 1 that look random.
fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Lane `l` of matrices that differ from lane to lane.
fn lanes<F: Real, const L: usize>(matrices: &[Vec<f64>; L]) -> Vec<[F; L]> {
    let element = |at: usize| std::array::from_fn(|l| F::narrow(matrices[l][at]));
    (0..matrices[0].len()).map(element).collect()
}

/// The product of an `m` by `k` and a `k` by `n` matrix, column by column.
fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let sum = |i: usize, j: usize| (0..k).map(|s| a[s * m + i] * b[j * k + s]).sum();
    (0..m * n).map(|at| sum(at % m, at / m)).collect()
}

fn transposed(a: &[f64], m: usize, n: usize) -> Vec<f64> {
    (0..m * n).map(|at| a[at % n * m + at / n]).collect()
}

fn lane<F: Real, const L: usize>(a: &[[F; L]], l: usize) -> Vec<f64> {
    a.iter().map(|x| x[l].wide()).collect()
}

fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance, "{what}: {g} is not {w}");
    }
}

const LANES: usize = 8;

fn definite(n: usize) -> [Vec<f64>; LANES] {
    std::array::from_fn(|l| {
        let x = noise(n * n, l as u64 + 1);
        let mut a = product(&x, &transposed(&x, n, n), n, n, n);
        (0..n).for_each(|i| a[i * n + i] += 1.0);
        a
    })
}

/// Compares products with Q, and with its transpose, with each other and with its first columns.
fn check_products<F: Real>(
    reflections: &[[F; LANES]],
    taus: &[[F; LANES]],
    columns: &[[F; LANES]],
    m: usize,
    tolerance: f64,
) {
    let what = format!("products of Q, {m} rows");
    let sides: [Vec<f64>; LANES] = std::array::from_fn(|l| noise(m * 2, 70 + l as u64));
    for is_transposed in [false, true] {
        let mut c = lanes::<F, LANES>(&sides);
        apply_q(reflections, m, taus, &mut c, is_transposed);
        assert_ne!(lane(&c, 0), sides[0], "{what}");
        apply_q(reflections, m, taus, &mut c, !is_transposed);
        for (l, side) in sides.iter().enumerate() {
            near(&lane(&c, l), side, tolerance, &what);
        }
    }
    let n = columns.len() / m;
    let mut identity = vec![[F::ZERO; LANES]; m * n];
    (0..n).for_each(|j| identity[j * m + j] = [F::ONE; LANES]);
    apply_q(reflections, m, taus, &mut identity, false);
    near(&lane(&identity, 0), &lane(columns, 0), tolerance, &what);
}

fn every_factorization<F: Real>(tolerance: f64) {
    for n in 1..=13 {
        let (m, what) = (n + 2, format!("{n}"));
        let original = definite(n);
        let mut factor = lanes::<F, LANES>(&original);
        assert_eq!(cholesky(&mut factor, n), [false; LANES]);
        let general: [Vec<f64>; LANES] = std::array::from_fn(|l| noise(m * n, 90 + l as u64));
        let mut split = lanes::<F, LANES>(&general);
        let mut pivots = vec![[0; LANES]; n];
        assert_eq!(lu(&mut split, m, n, &mut pivots), [false; LANES]);
        let mut reflections = lanes::<F, LANES>(&general);
        let mut taus = vec![[F::ZERO; LANES]; n];
        assert_eq!(qr(&mut reflections, m, n, &mut taus), [false; LANES]);
        let mut orthogonal = reflections.clone();
        q(&mut orthogonal, m, n, &taus);
        check_products::<F>(&reflections, &taus, &orthogonal, m, tolerance);
        let right: [Vec<f64>; LANES] = std::array::from_fn(|l| noise(n * 3, 7 + l as u64));
        let mut solution = lanes::<F, LANES>(&right);
        solve(&factor, n, &mut solution, false);
        for l in 0..LANES {
            let triangle = |a: Vec<f64>, rows: usize, keep: fn(usize, usize) -> bool| -> Vec<f64> {
                let pairs = a.iter().enumerate();
                let kept = pairs.map(|(at, &x)| if keep(at % rows, at / rows) { x } else { 0.0 });
                kept.collect()
            };
            let low = triangle(lane(&factor, l), n, |i, j| i >= j);
            let whole = product(&low, &transposed(&low, n, n), n, n, n);
            near(&whole, &original[l], tolerance, &what);
            let back = product(&low, &lane(&solution, l), n, n, 3);
            near(&back, &right[l], tolerance, &what);
            let mut unit = triangle(lane(&split, l), m, |i, j| i > j);
            (0..n).for_each(|i| unit[i * m + i] = 1.0);
            let upper: Vec<f64> = (0..n * n)
                .map(|at| (at % n, at / n))
                .map(|(i, j)| {
                    if i <= j {
                        split[j * m + i][l].wide()
                    } else {
                        0.0
                    }
                })
                .collect();
            let mut exchanged = general[l].clone();
            for (k, row) in pivots.iter().enumerate() {
                (0..n).for_each(|j| exchanged.swap(j * m + k, j * m + row[l] as usize - 1));
            }
            near(
                &product(&unit, &upper, m, n, n),
                &exchanged,
                tolerance,
                &what,
            );
            let r: Vec<f64> = (0..n * n)
                .map(|at| (at % n, at / n))
                .map(|(i, j)| {
                    if i <= j {
                        reflections[j * m + i][l].wide()
                    } else {
                        0.0
                    }
                })
                .collect();
            let q = lane(&orthogonal, l);
            near(&product(&q, &r, m, n, n), &general[l], tolerance, &what);
            let square = product(&transposed(&q, m, n), &q, n, m, n);
            let one: Vec<f64> = (0..n * n).map(|at| f64::from(at % n == at / n)).collect();
            near(&square, &one, tolerance, &what);
        }
    }
}

#[test]
fn factors_multiply_to_the_matrix() {
    every_factorization::<f32>(2e-5);
    every_factorization::<f64>(1e-13);
}

/// A matrix by itself and one of many give the same bits.
#[test]
fn bits_do_not_depend_on_lanes() {
    let n = 11;
    let original = definite(n);
    let mut together = lanes::<f32, LANES>(&original);
    cholesky(&mut together, n);
    let (mut split, mut pivots) = (lanes::<f32, LANES>(&original), vec![[0; LANES]; n]);
    lu(&mut split, n, n, &mut pivots);
    for l in 0..LANES {
        let mut alone = lanes::<f32, 1>(&[original[l].clone()]);
        cholesky(&mut alone, n);
        let (mut lone, mut rows) = (lanes::<f32, 1>(&[original[l].clone()]), vec![[0; 1]; n]);
        lu(&mut lone, n, n, &mut rows);
        for at in 0..n * n {
            assert_eq!(together[at][l].to_bits(), alone[at][0].to_bits());
            assert_eq!(split[at][l].to_bits(), lone[at][0].to_bits());
        }
    }
}

#[test]
fn lanes_that_fail_are_named() {
    let mut matrices = definite(3);
    matrices[2][4] = -50.0;
    matrices[5][0] = f64::NAN;
    let mut wanted = [false; LANES];
    (wanted[2], wanted[5]) = (true, true);
    assert_eq!(cholesky(&mut lanes::<f64, LANES>(&matrices), 3), wanted);
    matrices[2] = vec![0.0; 9];
    let mut pivots = vec![[0; LANES]; 3];
    assert_eq!(
        lu(&mut lanes::<f64, LANES>(&matrices), 3, 3, &mut pivots),
        wanted
    );
    matrices[2] = vec![1e200; 9];
    let mut taus = vec![[0.0; LANES]; 3];
    assert_eq!(
        qr(&mut lanes::<f64, LANES>(&matrices), 3, 3, &mut taus),
        wanted
    );
}
