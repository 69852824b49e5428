//! Measures matrix products: operations per second for shapes, layouts and types.
//!
//! `cargo run --release -p hlorun-kernels --example products [filter] [threads]`

use hlorun_kernels::*;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

/// A product, `batch` times; `t` in the layout marks an operand stored transposed.
const SHAPES: [(usize, usize, usize, &str, usize); 50] = [
    (1, 1024, 1024, "nn", 1),
    (1, 4096, 4096, "nn", 1),
    (1, 4096, 4096, "nt", 1),
    (1, 2, 33, "nt", 1),
    (1, 10, 64, "nt", 1),
    (1, 16, 256, "nt", 1),
    (1, 43, 129, "nt", 1),
    (1, 128, 128, "nt", 1),
    (4, 1024, 1024, "nn", 1),
    (8, 1024, 1024, "nn", 1),
    (12, 784, 1024, "nn", 1),
    (12, 784, 1000, "nn", 1),
    (12, 1024, 1024, "nn", 1),
    (12, 1024, 1024, "nt", 1),
    (784, 12, 1024, "tn", 1),
    (1024, 12, 1024, "tn", 1),
    (4096, 12, 4096, "tn", 1),
    (32, 784, 128, "nn", 1),
    (12, 1024, 10, "nn", 1),
    (12, 1024, 1, "nn", 1),
    (100, 1024, 5, "nn", 1),
    (12, 1024, 16, "nn", 1),
    (12, 10, 1024, "nt", 1),
    (1024, 12, 10, "tn", 1),
    (16, 256, 512, "nn", 1),
    (16, 2048, 4096, "nn", 1),
    (16, 4096, 2048, "nt", 1),
    (32, 1024, 1024, "nn", 1),
    (64, 1024, 1024, "nn", 1),
    (64, 1024, 1024, "nt", 1),
    (4096, 64, 64, "nn", 1),
    (8192, 128, 32, "nn", 1),
    (17, 333, 65, "nn", 1),
    (32, 32, 32, "nn", 1),
    (64, 64, 64, "nn", 1),
    (100, 100, 100, "nn", 1),
    (128, 128, 128, "nn", 1),
    (192, 192, 192, "nn", 1),
    (256, 256, 256, "nn", 1),
    (384, 384, 384, "nn", 1),
    (512, 512, 512, "nn", 1),
    (1000, 1000, 1000, "nn", 1),
    (1024, 1024, 1024, "nn", 1),
    (1024, 1024, 1024, "nt", 1),
    (1024, 1024, 1024, "tn", 1),
    (2048, 2048, 2048, "nn", 1),
    (64, 8192, 64, "nn", 1),
    (128, 64, 128, "nt", 64),
    (128, 128, 64, "nn", 64),
    (16, 16, 16, "nn", 256),
];

static OFFER: Offer = Offer {
    body: std::cell::UnsafeCell::new(None),
    turn: AtomicUsize::new(0),
    next: AtomicUsize::new(0),
    count: AtomicUsize::new(0),
    inside: AtomicUsize::new(0),
    stop: AtomicUsize::new(0),
};

/// What the calling thread offers to the others.
struct Offer {
    body: std::cell::UnsafeCell<Option<&'static (dyn Fn(usize) + Sync)>>,
    /// Loops begun; odd while one may be joined.
    turn: AtomicUsize,
    next: AtomicUsize,
    count: AtomicUsize,
    inside: AtomicUsize,
    stop: AtomicUsize,
}
// SAFETY: the body is written while nobody is inside and `turn` is even.
unsafe impl Sync for Offer {}

impl Offer {
    fn work(&self) {
        // SAFETY: whoever works is inside, or is the owner.
        let body = unsafe { *self.body.get() };
        loop {
            let task = self.next.fetch_add(1, SeqCst);
            if task >= self.count.load(SeqCst) {
                return;
            }
            if let Some(body) = body {
                body(task);
            }
        }
    }

    fn help(&self) {
        while self.stop.load(Relaxed) == 0 {
            if self.turn.load(SeqCst) % 2 == 1 && self.next.load(SeqCst) < self.count.load(SeqCst) {
                self.inside.fetch_add(1, SeqCst);
                if self.turn.load(SeqCst) % 2 == 1 {
                    self.work();
                }
                self.inside.fetch_sub(1, SeqCst);
            }
            std::hint::spin_loop();
        }
    }

    fn run(&self, count: usize, body: &(dyn Fn(usize) + Sync)) {
        self.count.store(count, SeqCst);
        self.next.store(0, SeqCst);
        // SAFETY: only the lifetime changes; nobody reads the body once nobody is inside, below.
        unsafe {
            *self.body.get() = Some(std::mem::transmute::<
                &(dyn Fn(usize) + Sync),
                &'static (dyn Fn(usize) + Sync),
            >(body));
        }
        self.turn.fetch_add(1, SeqCst);
        self.work();
        self.turn.fetch_add(1, SeqCst);
        while self.inside.load(SeqCst) != 0 {
            std::hint::spin_loop();
        }
    }
}

fn measure(filter: &str, parallel: &Parallel) {
    for (dtype, name) in [
        (DType::F32, "f32"),
        (DType::F64, "f64"),
        (DType::BF16, "bf16"),
        (DType::F16, "f16"),
    ] {
        for (m, k, n, layout, batch) in SHAPES {
            let label = format!("{name} {batch}x{m}x{k}x{n} {layout}");
            if !filter.split(',').any(|part| label.contains(part)) {
                continue;
            }
            // No zeros: those pages would all be one page.
            let room = |count: usize| vec![0x3fu8; batch * count * dtype.size_bytes()];
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
                unsafe { gemm(&g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), parallel) }
                    .expect("memory");
                times.push(t.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            let flops = 2.0 * (batch * m * k * n) as f64 / 1e9;
            let (best, median) = (flops / times[0], flops / times[times.len() / 2]);
            println!("{label:28} {best:8.1} best {median:8.1} median GFLOP/s");
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let filter = arguments.next().unwrap_or_default();
    let threads: usize = arguments.next().map_or(1, |s| s.parse().expect("a number"));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| OFFER.help());
        }
        if threads == 1 {
            measure(&filter, &Parallel::SERIAL);
        } else {
            let run = |count: usize, body: &(dyn Fn(usize) + Sync)| OFFER.run(count, body);
            measure(&filter, &Parallel { threads, run: &run });
        }
        OFFER.stop.store(1, SeqCst);
    });
}
