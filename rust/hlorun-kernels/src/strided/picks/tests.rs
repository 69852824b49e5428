//! Picked and spread elements against their offsets, one by one.

use super::*;

/// Elements before each element of a walk, from the first one.
fn offsets(walk: &[(i64, i64)]) -> Vec<i64> {
    walk.iter().fold(vec![0], |all, &(times, stride)| {
        let steps = |&at: &i64| (0..times).map(move |i| at + i * stride);
        all.iter().flat_map(steps).collect()
    })
}

/// Walks whose vectors have several elements each.
const WALKS: [&[(i64, i64)]; 13] = [
    &[(7, 3)],
    &[(40, 2)],
    &[(50, -1)],
    &[(20, 6), (3, 1)],
    &[(5, 60), (9, 6), (3, 2)],
    &[(30, 1), (5, 0)],
    &[(3, 1), (4, 100), (8, 1)],
    &[(16, 5), (4, -1)],
    &[(2, -90), (33, 1)],
    &[(40, 1), (3, 300)],
    &[(31, 1), (4, -200)],
    &[(50, 1), (8, 110)],
    &[(9, 11), (7, 70), (5, 1)],
];

/// Bytes before the first element.
const MIDDLE: usize = 4000;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn picked_elements_are_those_of_the_walk() {
    let from = bytes(3 * MIDDLE);
    for (size, walk) in [1, 2, 4, 8, 16]
        .into_iter()
        .flat_map(|s| WALKS.map(|w| (s, w)))
    {
        let offsets = offsets(walk);
        let Some(picks) = Picks::of_tier(Isa::Avx512, size, offsets.iter().copied()) else {
            continue;
        };
        assert_eq!(picks.block.count, offsets.len());
        for (blocks, step) in [(1, 9), (2, 3), (5, 3), (3, 0), (4, -2)] {
            let step = step * size as isize;
            let starts = (0..blocks).map(|block| MIDDLE.wrapping_add_signed(block as isize * step));
            let places = starts.flat_map(|start| {
                let place = move |&at: &i64| start.wrapping_add_signed(at as isize * size as isize);
                offsets.iter().map(place)
            });
            let want: Vec<u8> = places
                .flat_map(|at| &from[at..at + size])
                .copied()
                .collect();
            let mut got = vec![0xAA; want.len() + 64];
            // SAFETY: elements lie inside both arrays.
            unsafe {
                let first = from.as_ptr().add(MIDDLE);
                picks.copy(first, step, blocks, got.as_mut_ptr());
            }
            let (got, behind) = got.split_at(want.len());
            assert!(got == want, "{walk:?} of {size}, {blocks} times");
            assert!(
                behind.iter().all(|&byte| byte == 0xAA),
                "{walk:?} of {size}"
            );
        }
    }
}

#[test]
fn spread_elements_are_where_the_walk_has_them() {
    let from = bytes(12 * MIDDLE);
    let is_one_to_one = |walk: &&[(i64, i64)]| walk.iter().all(|&(_, stride)| stride != 0);
    let walks = WALKS.into_iter().filter(is_one_to_one);
    for (walk, size) in walks.flat_map(|w| [1, 2, 4, 8, 16].map(|s| (w, s))) {
        let offsets = offsets(walk);
        let Some(spread) = Spread::of_tier(Isa::Avx512, size, offsets.iter().copied()) else {
            continue;
        };
        assert_eq!(spread.block.count, offsets.len());
        for blocks in [1, 2, 4] {
            let step = 400 * size;
            let mut want = vec![0xAA; 12 * MIDDLE];
            let mut got = want.clone();
            let places = (0..blocks).flat_map(|block| {
                let first = MIDDLE + block * step;
                let place = move |&at: &i64| first.wrapping_add_signed(at as isize * size as isize);
                offsets.iter().map(place)
            });
            for (at, value) in places.zip(from.chunks_exact(size)) {
                want[at..at + size].copy_from_slice(value);
            }
            // SAFETY: elements lie inside both arrays.
            unsafe {
                let first = got.as_mut_ptr().add(MIDDLE);
                spread.copy(from.as_ptr(), first, step as isize, blocks);
            }
            assert!(got == want, "{walk:?} of {size}, {blocks} times");
        }
    }
}

#[test]
fn elements_may_be_the_last_of_their_memory() {
    let from: Box<[u32]> = (0..10).collect();
    let picks = Picks::of_tier(Isa::Avx512, 4, [9i64, 6, 3, 0, 9].into_iter());
    if let Some(picks) = picks {
        let mut to = [0u32; 5];
        // SAFETY: the elements lie inside both arrays.
        unsafe { picks.copy(from.as_ptr().cast(), 0, 1, to.as_mut_ptr().cast()) };
        assert_eq!(to, [9, 6, 3, 0, 9]);
    }
}

#[test]
fn elements_far_apart_are_left_alone() {
    let far = || (0..100).map(|at| at * 20);
    assert!(Picks::of_tier(Isa::Avx512, 4, far()).is_none());
    assert!(Spread::of_tier(Isa::Avx512, 4, far()).is_none());
    assert!(Picks::of_tier(Isa::Portable, 4, 0..100).is_none());
    assert!(Picks::of_tier(Isa::Avx512, 3, 0..100).is_none());
}
