//! Measures the kernels: elements or operations per second on this machine.
//!
//! `HLORUN_BLAS=/path/to/libopenblas.so cargo run --release -p hlorun-kernels --example throughput [filter]`

use hlorun_kernels::*;
use std::time::Instant;

fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.15 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

fn threads(tasks: usize, body: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|s| {
        for t in 1..tasks {
            s.spawn(move || body(t));
        }
        body(0);
    });
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    elementwise(&filter);
    if "transpose".contains(&filter) {
        transposes();
    }
    if "gemm".contains(&filter) {
        products();
    }
}

/// Element types that have kernels of their own, of up to eight bytes.
const TYPES: [DType; 13] = [
    DType::Pred,
    DType::S8,
    DType::S16,
    DType::S32,
    DType::S64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
];

/// Memory of `n` elements of up to eight bytes each, three times, and predicates.
struct Arrays {
    first: Vec<u64>,
    second: Vec<u64>,
    result: Vec<u64>,
    predicates: Vec<u8>,
}

impl Arrays {
    fn new(n: usize, dtype: DType) -> Arrays {
        let x: Vec<f32> = (0..n)
            .map(|i| (i as f32 * 0.37).sin() * 3.0 + 3.5)
            .collect();
        let mut first = vec![0u64; n];
        // SAFETY: both hold n elements.
        unsafe { convert(DType::F32, dtype)(x.as_ptr().cast(), first.as_mut_ptr().cast(), n) };
        Arrays {
            second: first.clone(),
            result: first.clone(),
            predicates: (0..n).map(|i| u8::from(i % 3 == 0)).collect(),
            first,
        }
    }

    /// Prints what an element costs with the result apart, on the first and on the second operand; `run` takes the
    /// addresses of the three.
    fn measure(&mut self, label: &str, run: impl Fn(*const u8, *const u8, *mut u8)) {
        let n = self.first.len();
        let (a, b) = (self.first.as_ptr().cast(), self.second.as_ptr().cast());
        let out: *mut u8 = self.result.as_mut_ptr().cast();
        let each = |t: f64| t * 1e9 / n as f64;
        let apart = each(best(|| run(a, b, out)));
        let on_first = each(best(|| run(out, b, out)));
        let on_second = each(best(|| run(a, out, out)));
        println!("{label:32} {apart:8.3} ns/element, in place {on_first:8.3} {on_second:8.3}");
    }
}

fn elementwise(filter: &str) {
    let n = 2048;
    for dtype in TYPES {
        let mut arrays = Arrays::new(n, dtype);
        let name = format!("{dtype:?}").to_lowercase();
        for op in UnaryOp::ALL {
            let label = format!("{name} {op:?}");
            let is_same = unary_result(op, dtype) == dtype;
            if let Some(kernel) = unary(op, dtype).filter(|_| is_same && label.contains(filter)) {
                // SAFETY: the buffers hold n elements.
                arrays.measure(&label, |a, _, out| unsafe { kernel(a, out, n) });
            }
        }
        for op in BinaryOp::ALL {
            let label = format!("{name} {op:?}");
            if let Some(kernel) = binary(op, dtype).filter(|_| label.contains(filter)) {
                // SAFETY: as above.
                arrays.measure(&label, |a, b, out| unsafe { kernel(a, b, out, n) });
            }
        }
        let predicates = arrays.predicates.clone();
        let label = format!("{name} Select");
        if label.contains(filter) {
            let kernel = select(dtype);
            // SAFETY: as above, and there are n predicates.
            arrays.measure(&label, |a, b, out| unsafe {
                kernel(predicates.as_ptr(), a, b, out, n);
            });
        }
        let label = format!("{name} Clamp");
        if let Some(kernel) = clamp(dtype).filter(|_| label.contains(filter)) {
            // SAFETY: as above.
            arrays.measure(&label, |a, b, out| unsafe { kernel(b, a, b, out, n) });
        }
        if let Some(kernel) = reduce(BinaryOp::Add, dtype).filter(|_| filter.is_empty()) {
            let data = &arrays.first;
            let mut acc = [0u64; 2];
            // SAFETY: n elements and one accumulator.
            let t = best(|| unsafe {
                kernel(data.as_ptr().cast(), n, acc.as_mut_ptr().cast());
            });
            println!("{name} reduce add {:8.3} ns/element", t * 1e9 / n as f64);
        }
    }
}

fn transposes() {
    for (size, side) in [
        (1usize, 2048usize),
        (2, 2048),
        (4, 2048),
        (8, 2048),
        (16, 1024),
    ] {
        let src = vec![1u8; side * side * size];
        let mut dst = vec![0u8; side * side * size];
        let (s, r) = (size as isize, (side * size) as isize);
        // SAFETY: both are side×side arrays.
        let t = best(|| unsafe {
            copy_strided(
                size,
                &[side, side],
                src.as_ptr(),
                &[s, r],
                dst.as_mut_ptr(),
                &[r, s],
            );
        });
        println!(
            "transpose {size:2} bytes      {:8.2} GB/s",
            2.0 * src.len() as f64 / t / 1e9
        );
    }
}

fn products() {
    println!("BLAS: {:?}", gemm::blas::blas_name());
    for (dtype, shapes) in [
        (
            DType::F32,
            &[
                (12, 784, 1024),
                (32, 10, 128),
                (1, 4096, 4096),
                (16, 4096, 2048),
                (64, 4096, 2048),
                (256, 256, 256),
                (1024, 1024, 1024),
                (2048, 2048, 2048),
            ][..],
        ),
        (DType::F64, &[(16, 4096, 2048), (1024, 1024, 1024)][..]),
        (DType::BF16, &[(1024, 1024, 1024)][..]),
        (DType::S32, &[(1, 4096, 4096), (1024, 1024, 1024)][..]),
    ] {
        for &(m, n, k) in shapes {
            let a = vec![0u8; m * k * dtype.size_bytes()];
            let b = vec![0u8; k * n * dtype.size_bytes()];
            let mut c = vec![0u8; m * n * dtype.size_bytes()];
            let g = Gemm::dense(dtype, m, n, k);
            let mut line = format!("gemm {dtype:?} {m}x{n}x{k}:");
            for count in [1, 2] {
                let parallel = Parallel {
                    threads: count,
                    run: &threads,
                };
                // SAFETY: three dense matrices.
                let t = best(|| unsafe {
                    gemm(&g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &parallel).expect("memory");
                });
                line += &format!("  {:7.1} GFLOP/s", 2.0 * (m * n * k) as f64 / t / 1e9);
            }
            println!("{line}");
        }
    }
}
