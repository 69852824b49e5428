//! Where windows begin: index vectors to byte offsets.
//!
//! In: index vectors, one after the other, and for each component the bytes per unit and the largest value that keeps a
//! window inside. Out: the byte offset of each window. Promise: nothing is read or written out of order, and every
//! instruction set gives the same offsets.

use crate::Isa;

/// What is said of a window that begins outside, where such windows are left out.
pub const OUTSIDE: isize = isize::MIN;

/// Bytes per unit of a component, and the largest one that keeps the window inside: negative where none does.
pub type Component = (isize, i64);

/// Fills `out` with the offsets of as many vectors as it has elements. A component outside is moved to the nearest one
/// inside, or with `skip` the whole window is [`OUTSIDE`]. Returns whether there is such a component.
///
/// # Panics
/// If `values` is shorter than the vectors.
pub fn places(values: &[i64], components: &[Component], skip: bool, out: &mut [isize]) -> bool {
    let values = &values[..out.len() * components.len()];
    let kernel = of_tier!(Isa::active(), run);
    // SAFETY: the active instruction set is available.
    unsafe { kernel(values, components, skip, out) }
}

/// How far a component moves a window, and whether that is where it begins.
#[inline(always)]
fn place(value: i64, (step, limit): Component) -> (isize, bool) {
    let inside = value.clamp(0, limit.max(0));
    (
        (inside as isize).wrapping_mul(step),
        inside == value && limit >= 0,
    )
}

#[inline(always)]
fn vectors<const SKIP: bool>(
    vectors: impl Iterator<Item = impl IntoIterator<Item = i64>>,
    components: &[Component],
    out: &mut [isize],
) -> bool {
    let mut all_inside = true;
    for (out, vector) in out.iter_mut().zip(vectors) {
        let each = vector
            .into_iter()
            .zip(components)
            .map(|(x, &to)| place(x, to));
        let (sum, inside) = each.fold((0isize, true), |sum, one| {
            (sum.0.wrapping_add(one.0), sum.1 & one.1)
        });
        all_inside &= inside;
        *out = if SKIP && !inside { OUTSIDE } else { sum };
    }
    !all_inside
}

#[inline(always)]
fn body<const SKIP: bool>(values: &[i64], components: &[Component], out: &mut [isize]) -> bool {
    // Lengths known to the compiler are computed many vectors at a time.
    match *components {
        [] => {
            out.fill(0);
            false
        }
        [a] => vectors::<SKIP>(values.iter().map(|&x| [x]), &[a], out),
        [a, b] => vectors::<SKIP>(values.as_chunks::<2>().0.iter().copied(), &[a, b], out),
        [a, b, c] => vectors::<SKIP>(values.as_chunks::<3>().0.iter().copied(), &[a, b, c], out),
        _ => {
            let each = values.chunks_exact(components.len());
            vectors::<SKIP>(each.map(|vector| vector.iter().copied()), components, out)
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            pub unsafe fn run(values: &[i64], components: &[Component], skip: bool, out: &mut [isize]) -> bool {
                if skip {
                    body::<true>(values, components, out)
                } else {
                    body::<false>(values, components, out)
                }
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_the_nearest_window_inside_or_of_none() {
        let steps: [Component; 4] = [(100, 3), (8, 0), (4, i64::MAX), (1, -1)];
        let mut values = vec![-1, 0, 2, 4, 3, i64::MIN, i64::MAX / 4096];
        values.extend(0..40);
        for width in 0..=4 {
            let components = &steps[4 - width..];
            let n = values.len() / width.max(1);
            for skip in [false, true] {
                let mut got = vec![7; n];
                let has_outside = places(&values, components, skip, &mut got);
                let is_outside = |k: usize| {
                    let vector = values[k * width..].iter().zip(components);
                    vector.clone().any(|(&x, &(_, limit))| x < 0 || x > limit)
                };
                assert_eq!(has_outside, (0..n).any(is_outside), "{width} {skip}");
                for (k, &got) in got.iter().enumerate() {
                    let each = components.iter().enumerate();
                    let want = each.map(|(c, &(step, limit))| {
                        let x = values[k * width + c];
                        let nearest = x.min(limit).max(0);
                        let kept = !skip || (x == nearest && limit >= 0);
                        kept.then_some(nearest * step as i64)
                    });
                    let want = want.sum::<Option<i64>>();
                    assert_eq!(
                        got as i64,
                        want.unwrap_or(OUTSIDE as i64),
                        "{width} {skip} {k}"
                    );
                }
            }
        }
    }
}
