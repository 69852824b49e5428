use super::{Component, LaneFft, Lines, largest_prime};
use crate::Isa;

/// A sum whose error does not grow with the number of terms.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let x = x - self.lost;
        let sum = self.sum + x;
        self.lost = (sum - self.sum) - x;
        self.sum = sum;
    }
}

/// The transform by its definition, in `f64`.
fn direct(x: &[[f64; 2]], is_inverse: bool) -> Vec<[f64; 2]> {
    let n = x.len();
    let sign = if is_inverse { 1.0 } else { -1.0 };
    let at = |k: usize| {
        let mut sum = [Sum::default(); 2];
        for (j, [re, im]) in x.iter().enumerate() {
            let angle = sign * std::f64::consts::TAU * ((j * k) % n) as f64 / n as f64;
            let (s, c) = angle.sin_cos();
            for (sum, x) in sum
                .iter_mut()
                .zip([re * c, -im * s, re * s, im * c].chunks(2))
            {
                x.iter().for_each(|&x| sum.add(x));
            }
        }
        sum.map(|sum| sum.sum)
    };
    (0..n).map(at).collect()
}

trait Wide: Component {
    fn wide(self) -> f64;
}
impl Wide for f32 {
    fn wide(self) -> f64 {
        self.into()
    }
}
impl Wide for f64 {
    fn wide(self) -> f64 {
        self
    }
}

/// Numbers between -1 and 1.
fn numbers<E: Component>(count: usize, mut seed: u64) -> Vec<E> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| E::narrow(next())).collect()
}

/// Transforms the first `count` lines of those side by side, `width` of them, in `data`.
fn transform<E: Component>(
    fft: &LaneFft<E>,
    data: &mut [E],
    [width, first, count]: [usize; 3],
    is_inverse: bool,
    scale: Option<E>,
) {
    let mut scratch = Vec::with_capacity(fft.scratch());
    let at = data[2 * first..].as_mut_ptr();
    let lines = Lines {
        from: at,
        from_step: width,
        to: at,
        to_step: width,
        count,
        length: fft.length,
        is_inverse,
        scale,
    };
    // SAFETY: the lines lie in `data`.
    unsafe { fft.run(&lines, scratch.spare_capacity_mut()) };
}

fn agrees<E: Wide>(isa: Isa, length: usize, epsilon: f64) {
    let fft = LaneFft::<E>::on(isa, length);
    assert_eq!(fft.is_some(), isa != Isa::Portable, "{isa:?} {length}");
    let Some(fft) = fft else {
        return;
    };
    let (lanes, width) = (fft.lanes(), fft.lanes() + 3);
    let counts = [lanes, 1, lanes - 1, lanes / 2 + 1, 3];
    for (count, is_inverse) in counts.into_iter().zip([false, true].into_iter().cycle()) {
        let count = count.min(fft.lanes());
        let before = numbers::<E>(2 * length * width, length as u64);
        let mut after = before.clone();
        let scale = is_inverse.then(|| E::narrow(0.5));
        transform(&fft, &mut after, [width, 1, count], is_inverse, scale);
        for line in 0..width {
            let of = |data: &[E]| -> Vec<[f64; 2]> {
                let place = |k: usize| 2 * (k * width + line);
                (0..length)
                    .map(|k| [data[place(k)].wide(), data[place(k) + 1].wide()])
                    .collect()
            };
            let (x, y) = (of(&before), of(&after));
            if !(1..=count).contains(&line) {
                assert_eq!(x, y, "line {line} is not one of {count}");
                continue;
            }
            let factor = scale.map_or(1.0, Wide::wide);
            let norm = (length as f64).sqrt();
            for (k, (y, want)) in y.iter().zip(direct(&x, is_inverse)).enumerate() {
                for (y, want) in y.iter().zip(want) {
                    let error = (y - want * factor).abs() / norm;
                    assert!(error < epsilon, "{isa:?} {length} {line} {k}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn transforms_are_those_of_the_definition() {
    let primes = [7, 11, 13, 47, 127, 251];
    let composed = [
        60, 81, 125, 128, 144, 188, 210, 256, 343, 480, 517, 720, 1024,
    ];
    for isa in Isa::available() {
        for length in (2..40).chain(primes).chain(composed) {
            agrees::<f32>(isa, length, 1e-6);
            agrees::<f64>(isa, length, 4e-15);
        }
    }
}

#[test]
fn lines_do_not_depend_on_their_lane_or_the_tier() {
    for length in [24, 35, 94] {
        let mut all: Vec<Vec<u64>> = Vec::new();
        for isa in Isa::available() {
            let Some(fft) = LaneFft::<f32>::on(isa, length) else {
                continue;
            };
            let line = numbers::<f32>(2 * length, 5);
            for lane in 0..fft.lanes() {
                let width = fft.lanes();
                let mut data = numbers::<f32>(2 * length * width, 7);
                for (k, x) in line.chunks_exact(2).enumerate() {
                    data[2 * (k * width + lane)..][..2].copy_from_slice(x);
                }
                transform(&fft, &mut data, [width, 0, width], false, None);
                let mine = (0..length).flat_map(|k| {
                    let at = 2 * (k * width + lane);
                    [data[at].bits(), data[at + 1].bits()]
                });
                all.push(mine.collect());
            }
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{length}");
    }
}

#[test]
fn other_lengths_are_refused() {
    for length in [0, 1, 257, 2 * 257, super::MAX_LENGTH + 2] {
        for isa in Isa::available() {
            assert!(LaneFft::<f32>::on(isa, length).is_none(), "{length}");
        }
    }
}

#[test]
fn the_largest_prime_factor_is_found() {
    let known = [
        (0, 1),
        (1, 1),
        (2, 2),
        (64, 2),
        (96, 3),
        (188, 47),
        (221, 17),
        (289, 17),
        (509, 509),
    ];
    for (length, prime) in known {
        assert_eq!(largest_prime(length), prime, "{length}");
    }
}
