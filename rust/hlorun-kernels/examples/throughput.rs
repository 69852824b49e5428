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

fn elementwise(filter: &str) {
    let n = 2048;
    let x: Vec<f32> = (0..n)
        .map(|i| (i as f32 * 0.37).sin() * 3.0 + 3.5)
        .collect();
    for (dtype, name) in [
        (DType::F32, "f32"),
        (DType::F64, "f64"),
        (DType::BF16, "bf16"),
    ] {
        let mut data = vec![0u64; n];
        let mut result = vec![0u64; n];
        // SAFETY: all buffers hold n elements of up to eight bytes.
        unsafe { convert(DType::F32, dtype)(x.as_ptr().cast(), data.as_mut_ptr().cast(), n) };
        for op in UnaryOp::ALL {
            let label = format!("{name} {op:?}");
            let Some(kernel) = unary(op, dtype).filter(|_| label.contains(filter)) else {
                continue;
            };
            // SAFETY: as above.
            let t = best(|| unsafe { kernel(data.as_ptr().cast(), result.as_mut_ptr().cast(), n) });
            println!("{label:24} {:8.2} ns/element", t * 1e9 / n as f64);
        }
        for op in BinaryOp::ALL {
            let label = format!("{name} {op:?}");
            let Some(kernel) = binary(op, dtype).filter(|_| label.contains(filter)) else {
                continue;
            };
            let a = data.as_ptr().cast();
            // SAFETY: as above.
            let t = best(|| unsafe { kernel(a, a, result.as_mut_ptr().cast(), n) });
            // SAFETY: as above, in place.
            let p = best(|| unsafe {
                kernel(result.as_ptr().cast(), a, result.as_mut_ptr().cast(), n)
            });
            println!(
                "{label:24} {:8.3} ns/element, in place {:8.3}",
                t * 1e9 / n as f64,
                p * 1e9 / n as f64
            );
        }
        if let Some(kernel) = reduce(BinaryOp::Add, dtype).filter(|_| filter.is_empty()) {
            let mut acc = 0u64;
            // SAFETY: n elements and one accumulator.
            let t = best(|| unsafe {
                kernel(data.as_ptr().cast(), n, (&raw mut acc).cast());
            });
            println!(
                "{name} reduce add          {:8.3} ns/element",
                t * 1e9 / n as f64
            );
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
