//! Measures matrix products on one thread: operations per second for shapes, layouts and types.
//!
//! `cargo run --release -p hlorun-kernels --example products [filter]`

use hlorun_kernels::*;
use std::time::Instant;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let shapes = [
        (1, 1024, 1024, "nn", 1),
        (1, 4096, 4096, "nn", 1),
        (1, 4096, 4096, "nt", 1),
        (12, 784, 1024, "nn", 1),
        (12, 1024, 1024, "nn", 1),
        (12, 1024, 1024, "nt", 1),
        (784, 12, 1024, "tn", 1),
        (32, 784, 128, "nn", 1),
        (12, 1024, 10, "nn", 1),
        (16, 2048, 4096, "nn", 1),
        (16, 4096, 2048, "nt", 1),
        (64, 1024, 1024, "nn", 1),
        (64, 1024, 1024, "nt", 1),
        (4096, 64, 64, "nn", 1),
        (8192, 128, 32, "nn", 1),
        (64, 64, 64, "nn", 1),
        (128, 128, 128, "nn", 1),
        (256, 256, 256, "nn", 1),
        (512, 512, 512, "nn", 1),
        (1024, 1024, 1024, "nn", 1),
        (1024, 1024, 1024, "nt", 1),
        (1024, 1024, 1024, "tn", 1),
        (2048, 2048, 2048, "nn", 1),
        (64, 8192, 64, "nn", 1),
        (128, 64, 128, "nt", 64),
        (128, 128, 64, "nn", 64),
        (16, 16, 16, "nn", 256),
    ];
    for (dtype, name) in [
        (DType::F32, "f32"),
        (DType::F64, "f64"),
        (DType::BF16, "bf16"),
        (DType::F16, "f16"),
    ] {
        for (m, k, n, layout, batch) in shapes {
            let label = format!("{name} {batch}x{m}x{k}x{n} {layout}");
            if !label.contains(&filter) {
                continue;
            }
            let room = |count: usize| vec![0u8; batch * count * dtype.size_bytes()];
            let (a, b, mut c) = (room(m * k), room(k * n), room(m * n));
            let side = |transposed, rows, cols| {
                if transposed {
                    Matrix::row_major(rows, rows * cols).transposed()
                } else {
                    Matrix::row_major(cols, rows * cols)
                }
            };
            let g = Gemm {
                batch,
                a: side(layout.starts_with('t'), m, k),
                b: side(layout.ends_with('t'), k, n),
                c: Matrix::row_major(n, m * n),
                ..Gemm::dense(dtype, m, n, k)
            };
            let mut times = Vec::new();
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < 0.1 || times.len() < 5 {
                let t = Instant::now();
                // SAFETY: three matrices of these sizes.
                unsafe {
                    gemm(
                        &g,
                        a.as_ptr(),
                        b.as_ptr(),
                        c.as_mut_ptr(),
                        &Parallel::SERIAL,
                    )
                };
                times.push(t.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            let flops = 2.0 * (batch * m * k * n) as f64 / 1e9;
            let (best, median) = (flops / times[0], flops / times[times.len() / 2]);
            println!("{label:28} {best:8.1} best {median:8.1} median GFLOP/s");
        }
    }
}
