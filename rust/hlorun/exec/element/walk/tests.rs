//! Parts of walks against their offsets, one by one.

use super::super::picks::spread;
use super::*;

#[test]
fn rows_are_split_at_both_ends() {
    let walk: Walk = Walk::from_slice(&[(3, 10), (4, 1)]);
    let mut seen = Vec::new();
    pieces(&walk, 2, 7, |offset, stride, done, count| {
        seen.push((offset, stride, done, count));
    });
    assert_eq!(seen, vec![(2, 1, 0, 2), (10, 1, 2, 4), (20, 1, 6, 1)]);
}

#[test]
fn runs_end_with_their_row() {
    let walk: Walk = Walk::from_slice(&[(3, 10), (2, 0), (4, 1)]);
    assert_eq!(run_at(&walk, 0, 4), Some(0));
    assert_eq!(run_at(&walk, 5, 3), Some(1));
    assert_eq!(run_at(&walk, 17, 2), Some(21));
    assert_eq!(run_at(&walk, 5, 4), None);
    assert_eq!(run_at(&Walk::from_slice(&[(4, 2)]), 0, 2), None);
    assert_eq!(rest_of_run(4, 5), 3);
}

/// Compares parts of a walk, as `gather(base, start, n, out)` copies them, with its offsets.
fn check(walk: &Walk, gather: impl Fn(*const u32, usize, usize, *mut u32)) {
    let data: Vec<u32> = (0..9000).collect();
    let total: usize = walk.iter().map(|&(times, _)| times as usize).product();
    for start in [0, 1, 5, 7, 10, 23, 37, total - 2] {
        for n in [0, 1, 3, 9, 30, 64, 100, total].map(|n| n.min(total - start)) {
            let mut out = vec![0u32; n];
            gather(data.as_ptr(), start, n, out.as_mut_ptr());
            let expected = (start..start + n).map(|at| offset_in(walk, at as i64) as u32);
            assert!(out.iter().copied().eq(expected), "{walk:?}, {start}, {n}");
        }
    }
}

#[test]
fn repeated_rows_are_those_of_the_walk() {
    let walk: Walk = Walk::from_slice(&[(4, 3), (12, 0), (3, 1)]);
    assert_eq!(repeated_row(&walk, 4, 5000), Some((3, 12)));
    let longer: Walk = Walk::from_slice(&[(4, 40), (9, 0), (40, 1)]);
    assert_eq!(repeated_row(&longer, 4, 500), Some((40, 9)));
    assert_eq!(repeated_row(&longer, 4, 1440), None);
    for (walk, row) in [(&walk, (3, 12)), (&longer, (40, 9))] {
        check(walk, |base, start, n, out| {
            // SAFETY: the walk stays inside the data, and `out` holds what is asked for.
            unsafe { gather_repeated(walk, row, base, start, n, out) }
        });
    }
}

#[test]
fn short_rows_are_those_of_the_walk() {
    for walk in [
        [(3, 40), (20, 1), (2, 0)],
        [(3, 100), (20, 5), (3, 1)],
        [(2, 1), (17, 4), (4, 2)],
        [(2, 40), (40, 1), (7, 0)],
        [(2, 3), (20, 7), (9, 0)],
    ] {
        let walk: Walk = Walk::from_slice(&walk);
        check(&walk, |base, start, n, out| {
            // SAFETY: as above.
            unsafe { gather(&walk.clone().into(), 4, base.cast(), start, n, out.cast()) }
        });
    }
}

#[test]
fn picked_elements_are_those_of_the_walk() {
    for walk in [
        vec![(40, 60), (9, 6), (3, 2)],
        vec![(7, 300), (6, 13), (7, 1)],
        vec![(2, 400), (3, 90), (20, 3)],
        vec![(30, 2), (5, 0), (2, 1)],
        vec![(50, 4), (3, 1)],
        vec![(9, 500), (11, 40), (24, 1)],
    ] {
        let total: usize = walk.iter().map(|&(times, _)| times as usize).product();
        for most in [total, 100] {
            let picked = PickedWalk::from(Walk::from_slice(&walk));
            // How to pick is found after a few copies; the last of them says how many elements there are at once.
            for n in [0, 0, 0, most] {
                picks(&picked, 4, n);
            }
            check(&picked, |base, start, n, out| {
                // SAFETY: as above.
                unsafe { gather(&picked, 4, base.cast(), start, n, out.cast()) }
            });
        }
    }
}

#[test]
fn blocks_of_short_rows_are_those_of_the_walk() {
    for (walk, depth) in [
        (vec![(30, 2), (5, 0), (2, 1)], Some(2)),
        (vec![(3, 900), (30, 7), (5, 0)], Some(1)),
        (vec![(9, 1), (5, 40), (6, 3)], Some(2)),
        (vec![(7, 100), (3, 10), (4, 2), (5, 0)], Some(3)),
        (vec![(2, 60), (4, 1), (3, 5), (2, 7)], Some(4)),
        (vec![(30, 8), (8, 1)], None),
        (vec![(40, 5), (3, 1)], Some(1)),
        (vec![(6, 70), (5, 9), (7, 1)], Some(2)),
        (vec![(6, 50), (8, 5), (4, 1)], Some(2)),
    ] {
        let walk: Walk = Walk::from_slice(&walk);
        assert_eq!(listed_block(&walk, 4), depth);
        check(&walk, |base, start, n, out| {
            // SAFETY: as above.
            unsafe { gather_blocks((&walk, depth.unwrap_or(1)), base, start, n, out) }
        });
    }
}

#[test]
fn rows_of_few_bytes_are_those_of_the_walk() {
    let data: Vec<u8> = (0..3000u32).map(|i| (i * i % 251) as u8).collect();
    for row in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31] {
        let walk = Walk::from_slice(&[(9, 300), (6, 40), (row, 1)]);
        let n = 54 * row as usize;
        let want: Vec<u8> = (0..n)
            .map(|at| data[offset_in(&walk, at as i64) as usize])
            .collect();
        let mut got = vec![0u8; n];
        // SAFETY: the walk stays inside the data, and the output holds all of it.
        unsafe { gather(&walk.into(), 1, data.as_ptr(), 0, n, got.as_mut_ptr()) };
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn rows_of_cache_lines_are_those_of_the_walk() {
    for walk in [
        [(3, 1), (7, 0), (60, 1)],
        [(2, 70), (11, 5), (60, 0)],
        [(4, 300), (3, 61), (8, 1)],
    ] {
        let walk: Walk = Walk::from_slice(&walk);
        let rows = line_rows(&walk, 4).expect("rows of cache lines");
        check(&walk, |base, start, n, out| {
            // SAFETY: as above.
            unsafe { gather_line_rows(&walk, rows, base, start, n, out) }
        });
    }
    assert!(line_rows(&Walk::from_slice(&[(4, 9), (60, 2)]), 4).is_none());
    assert!(line_rows(&Walk::from_slice(&[(4, 9), (6000, 1)]), 4).is_none());
}

#[test]
fn gather_and_scatter_are_inverse() {
    let data: Vec<u32> = (0..24).collect();
    let walk = PickedWalk::from(Walk::from_slice(&[(4, 1), (6, 4)]));
    let mut out = vec![0u32; 24];
    let mut back = vec![0u32; 24];
    // SAFETY: the walk covers exactly the 24 elements.
    unsafe {
        gather(
            &walk,
            4,
            data.as_ptr().cast(),
            0,
            24,
            out.as_mut_ptr().cast(),
        );
        scatter(
            &walk,
            4,
            back.as_mut_ptr().cast(),
            0,
            24,
            out.as_ptr().cast(),
        );
    }
    assert_eq!(out[..6], [0, 4, 8, 12, 16, 20]);
    assert_eq!(back, data);
}

#[test]
fn scattered_elements_are_where_the_walk_has_them() {
    for walk in [
        vec![(60, 2)],
        vec![(30, 4), (2, 1)],
        vec![(3, 200), (20, 10), (5, 1)],
        vec![(40, 6), (3, 2)],
        vec![(2, 1), (30, 20), (4, 3)],
        vec![(20, -9), (8, 1)],
        vec![(3, 100), (90, 1)],
    ] {
        let walk = PickedWalk::from(Walk::from_vec(walk));
        let total: usize = walk.iter().map(|&(times, _)| times as usize).product();
        // How to spread elements is found after a few copies: those of whole walks here, or of a part of longer ones below.
        if total < 100 {
            for n in [0, 0, 0, total] {
                spread(&walk, 4, n);
            }
        }
        for start in [0, 1, 7, 13, total - 2, 0, 2] {
            for n in [0, 1, 5, 33, total].map(|n| n.min(total - start)) {
                let from: Vec<u32> = (1..=n as u32).collect();
                let mut out = vec![0u32; 2000];
                let mut expected = out.clone();
                for (at, &value) in from.iter().enumerate() {
                    expected[(1000 + offset_in(&walk, (start + at) as i64)) as usize] = value;
                }
                // SAFETY: the walk stays inside the output, wherever it begins there, and `from` holds what is copied.
                unsafe {
                    let base = out.as_mut_ptr().add(1000);
                    scatter(&walk, 4, base.cast(), start, n, from.as_ptr().cast());
                }
                assert_eq!(out, expected, "{walk:?}, {start}, {n}");
            }
        }
    }
}
