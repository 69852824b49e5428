//! Elements that lie a few apart, by vectors: short rows, small steps and elements that are repeated a few times alike.
//!
//! In: where each element lies. Out: the elements side by side ([`Picks`]), or from there to their places ([`Spread`]).
//! Which lanes go where is found once, and then serves many copies. Only elements are read, and only these are written.

use crate::isa::Isa;

/// Bytes of a vector, and of a window.
const VECTOR: usize = 64;
/// Fewest elements of a vector, and of a window, on average, for which this takes less time than to copy them one by one.
const FEWEST: usize = 4;
const FEWEST_OF_WINDOW: usize = 2;
/// Most windows that a vector is picked from.
const WINDOWS: usize = 8;

/// How the elements of a block are brought side by side: each vector of them is picked from a few windows of the source.
#[derive(Debug)]
pub struct Picks {
    block: Block<WINDOWS>,
    run: Run<WINDOWS>,
}

/// How elements that lie side by side are written to their places: each window of these has its lanes picked from a vector.
#[derive(Debug)]
pub struct Spread {
    block: Block<1>,
    run: Run<1>,
}

/// Copies blocks that lie so many bytes apart: windows at the first address to vectors at the second, or vectors to windows.
type Run<const N: usize> = unsafe fn(&Block<N>, *const u8, isize, usize, *mut u8);

/// Elements in vectors, each of which lies in N windows at most.
#[derive(Debug)]
struct Block<const N: usize> {
    /// Bytes of an element, and of a lane.
    size: usize,
    lane: usize,
    /// Elements of a block.
    count: usize,
    vectors: Vec<Vector<N>>,
    /// For each lane of a vector, the lane of a window that goes there; lanes are numbered through all windows. Turned, for each
    /// lane of a window that of the vector.
    lanes: Vec<u8>,
}

/// Elements that lie side by side, and where the windows are that they are in.
#[derive(Clone, Copy, Debug)]
struct Vector<const N: usize> {
    /// Bytes from the first element to each window; one that is not needed is where the first one is.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "no other CPU has such vectors here")
    )]
    windows: [isize; N],
    /// The lanes of each that are elements of the vector.
    masks: [u64; N],
    /// The lanes of the vector that come from each.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "no other CPU has such vectors here")
    )]
    goes: [u64; N],
    /// Elements of it.
    count: usize,
}

/// The functions for a type of lanes: to pick vectors from one window each, from two, and from more, and to spread them.
struct Runs {
    one: Run<WINDOWS>,
    two: Run<WINDOWS>,
    more: Run<WINDOWS>,
    back: Run<1>,
}

/// The functions for elements of `size` bytes, and the bytes of a lane.
fn runs_of(isa: Isa, size: usize) -> Option<(Runs, usize)> {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 && isa.is_available() {
        return match size {
            1 if is_x86_feature_detected!("avx512vbmi") => Some((x86::bytes(), 1)),
            2 => Some((x86::halves(), 2)),
            4 | 8 | 16 => Some((x86::words(), 4)),
            _ => None,
        };
    }
    let _ = (isa, size);
    None
}

impl Picks {
    /// How to pick elements of `size` bytes that lie so many elements from a first one; `None` where there is no faster way
    /// than one by one.
    pub fn new(size: usize, offsets: impl Iterator<Item = i64>) -> Option<Picks> {
        Picks::of_tier(Isa::active(), size, offsets)
    }

    fn of_tier(isa: Isa, size: usize, offsets: impl Iterator<Item = i64>) -> Option<Picks> {
        let (runs, lane) = runs_of(isa, size)?;
        let block = Block::new(size, lane, offsets)?;
        let run = match block.vectors.iter().map(Vector::windows).max() {
            Some(1) => runs.one,
            Some(2) => runs.two,
            _ => runs.more,
        };
        Some(Picks { block, run })
    }

    /// Copies `blocks` blocks that lie `step` bytes apart, the first element of the first one at `from`, to `to`.
    ///
    /// # Safety
    /// The elements are readable, and as many writable at `to`; the two do not overlap, unless all are the one at `to`.
    pub unsafe fn copy(&self, from: *const u8, step: isize, blocks: usize, to: *mut u8) {
        // SAFETY: the caller's contract; the CPU has the tier.
        unsafe { (self.run)(&self.block, from, step, blocks, to) }
    }
}

impl Spread {
    /// How to write elements of `size` bytes to places that lie so many elements from a first one, and are all different;
    /// `None` where there is no faster way than one by one.
    pub fn new(size: usize, offsets: impl Iterator<Item = i64>) -> Option<Spread> {
        Spread::of_tier(Isa::active(), size, offsets)
    }

    fn of_tier(isa: Isa, size: usize, offsets: impl Iterator<Item = i64>) -> Option<Spread> {
        let (runs, lane) = runs_of(isa, size)?;
        let block = Block::new(size, lane, offsets)?.turned();
        Some(Spread {
            block,
            run: runs.back,
        })
    }

    /// Copies elements from `from` on to `blocks` blocks that lie `step` bytes apart, the first element of the first one at
    /// `to`.
    ///
    /// # Safety
    /// As many elements are readable, and their places writable; the two do not overlap, or are the very same run.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8, step: isize, blocks: usize) {
        // SAFETY: the caller's contract; the CPU has the tier.
        unsafe { (self.run)(&self.block, from, step, blocks, to) }
    }
}

impl<const N: usize> Vector<N> {
    /// Windows that are needed.
    fn windows(&self) -> usize {
        self.masks.iter().filter(|&&mask| mask != 0).count()
    }
}

impl<const N: usize> Block<N> {
    /// `None` without elements, or where vectors or windows have too few on average.
    fn new(size: usize, lane: usize, offsets: impl Iterator<Item = i64>) -> Option<Block<N>> {
        let mut block = Block {
            size,
            lane,
            count: 0,
            vectors: Vec::new(),
            lanes: Vec::new(),
        };
        let mut open: Vec<isize> = Vec::with_capacity(VECTOR);
        let mut windows = [[0isize; 2]; N];
        for offset in offsets {
            let offset = isize::try_from(offset).ok()?.checked_mul(size as isize)?;
            let is_full = open.len() * size == VECTOR;
            if is_full || !widen(&mut windows, open.len(), offset, size as isize) {
                block.close(&open, windows);
                open.clear();
                widen(&mut windows, 0, offset, size as isize);
            }
            open.push(offset);
        }
        block.close(&open, windows);
        let windows: usize = block.vectors.iter().map(Vector::windows).sum();
        let least = (FEWEST * block.vectors.len()).max(FEWEST_OF_WINDOW * windows);
        (block.count > 0 && block.count >= least).then_some(block)
    }

    /// Makes a vector of elements at `offsets`, which lie in `windows`.
    fn close(&mut self, offsets: &[isize], windows: [[isize; 2]; N]) {
        if offsets.is_empty() {
            return;
        }
        let per_window = VECTOR / self.lane;
        let (mut masks, mut goes, first) = ([0u64; N], [0u64; N], self.lanes.len());
        for &offset in offsets {
            let window = windows.iter().position(|&w| is_in(w, offset)).unwrap_or(0);
            let from = (offset - windows[window][0]) as usize / self.lane;
            for part in from..from + self.size / self.lane {
                masks[window] |= 1 << part;
                goes[window] |= 1 << (self.lanes.len() - first);
                // The number of a lane may wrap around: with more than two windows, only its place in its window is read.
                self.lanes.push((window * per_window + part) as u8);
            }
        }
        self.lanes.resize(first + per_window, 0);
        let place = |window: usize| windows[if masks[window] == 0 { 0 } else { window }][0];
        self.vectors.push(Vector {
            windows: std::array::from_fn(place),
            masks,
            goes,
            count: offsets.len(),
        });
        self.count += offsets.len();
    }
}

impl Block<1> {
    /// Lists, for each lane of a window, the lane of its vector.
    fn turned(mut self) -> Block<1> {
        let per_window = VECTOR / self.lane;
        let parts = self.size / self.lane;
        let pairs = self.lanes.chunks_exact_mut(per_window).zip(&self.vectors);
        for (lanes, vector) in pairs {
            let mut turned = [0u8; VECTOR];
            for (at, &lane) in lanes.iter().enumerate().take(vector.count * parts) {
                turned[usize::from(lane)] = at as u8;
            }
            lanes.copy_from_slice(&turned[..per_window]);
        }
        self
    }
}

/// Whether an element lies in a window, given by the offsets of its first and its last element.
fn is_in([first, last]: [isize; 2], offset: isize) -> bool {
    (first..=last).contains(&offset)
}

/// Widens the first window that can take one more element of a vector, which has `count` so far; false where none can.
fn widen<const N: usize>(
    windows: &mut [[isize; 2]; N],
    count: usize,
    offset: isize,
    size: isize,
) -> bool {
    if count == 0 {
        // The others are empty.
        *windows = [[1, 0]; N];
        windows[0] = [offset; 2];
        return true;
    }
    for window in windows {
        let [first, last] = *window;
        let wider = match first > last {
            true => [offset; 2],
            false => [first.min(offset), last.max(offset)],
        };
        if wider[1] - wider[0] + size <= VECTOR as isize {
            *window = wider;
            return true;
        }
    }
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Block, Runs, VECTOR, WINDOWS};
    use std::arch::x86_64::*;

    /// Defines the functions for lanes of so many bytes.
    macro_rules! by_lanes {
        ($features:literal $name:ident, $picked:ident, $spread:ident, $lane:literal: $mask:ty, $lanes:ident, $load:ident, $one:ident, $two:ident, $merged:ident, $store:ident) => {
            pub fn $name() -> Runs {
                Runs {
                    one: $picked::<1>,
                    two: $picked::<2>,
                    more: $picked::<WINDOWS>,
                    back: $spread,
                }
            }

            /// # Safety
            /// As [`super::Picks::copy`]; the CPU has the features, and vectors have at most `N` windows each.
            #[target_feature(enable = $features)]
            unsafe fn $picked<const N: usize>(
                picks: &Block<WINDOWS>,
                from: *const u8,
                step: isize,
                blocks: usize,
                mut to: *mut u8,
            ) {
                let mut left = blocks * picks.count * picks.size;
                let (lanes, _) = picks.lanes.as_chunks::<{ VECTOR / $lane }>();
                for block in 0..blocks {
                    let from = from.wrapping_offset(block as isize * step);
                    for (vector, lanes) in picks.vectors.iter().zip(lanes) {
                        // SAFETY: lanes of the masks are elements; a vector that is stored whole has room, and what follows
                        // its own elements is written again.
                        unsafe {
                            let window = |at: usize| {
                                let from = from.wrapping_offset(vector.windows[at]);
                                $load(vector.masks[at] as $mask, from.cast())
                            };
                            let (lanes, first) = ($lanes(lanes), window(0));
                            let mut values = match N {
                                2 => $two(first, lanes, window(1)),
                                _ => $one(lanes, first),
                            };
                            if N > 2 {
                                for at in 1..N {
                                    if vector.masks[at] == 0 {
                                        break;
                                    }
                                    let goes = vector.goes[at] as $mask;
                                    values = $merged(values, goes, lanes, window(at));
                                }
                            }
                            if left >= VECTOR {
                                _mm512_storeu_si512(to.cast(), values);
                            } else {
                                let mask = u64::MAX >> (64 - left / $lane);
                                $store(to.cast(), mask as $mask, values);
                            }
                        }
                        let bytes = vector.count * picks.size;
                        to = to.wrapping_add(bytes);
                        left -= bytes;
                    }
                }
            }

            /// # Safety
            /// As [`super::Spread::copy`]; the CPU has the features.
            #[target_feature(enable = $features)]
            unsafe fn $spread(
                spread: &Block<1>,
                mut from: *const u8,
                step: isize,
                blocks: usize,
                to: *mut u8,
            ) {
                let mut left = blocks * spread.count * spread.size;
                let (lanes, _) = spread.lanes.as_chunks::<{ VECTOR / $lane }>();
                for block in 0..blocks {
                    let to = to.wrapping_offset(block as isize * step);
                    for (vector, lanes) in spread.vectors.iter().zip(lanes) {
                        let [window] = vector.windows.map(|at| to.wrapping_offset(at));
                        // SAFETY: a vector that is read whole is there, and lanes of the masks are places of elements.
                        unsafe {
                            let values = if left >= VECTOR {
                                _mm512_loadu_si512(from.cast())
                            } else {
                                let mask = u64::MAX >> (64 - left / $lane);
                                $load(mask as $mask, from.cast())
                            };
                            let values = $one($lanes(lanes), values);
                            $store(window.cast(), vector.masks[0] as $mask, values);
                        }
                        let bytes = vector.count * spread.size;
                        from = from.wrapping_add(bytes);
                        left -= bytes;
                    }
                }
            }
        };
    }
    by_lanes!("avx512f,avx512bw,avx512vbmi" bytes, picked_bytes, spread_bytes, 1: __mmask64, lanes_of_bytes, _mm512_maskz_loadu_epi8, _mm512_permutexvar_epi8, _mm512_permutex2var_epi8, _mm512_mask_permutexvar_epi8, _mm512_mask_storeu_epi8);
    by_lanes!("avx512f,avx512bw" halves, picked_halves, spread_halves, 2: __mmask32, lanes_of_halves, _mm512_maskz_loadu_epi16, _mm512_permutexvar_epi16, _mm512_permutex2var_epi16, _mm512_mask_permutexvar_epi16, _mm512_mask_storeu_epi16);
    by_lanes!("avx512f" words, picked_words, spread_words, 4: __mmask16, lanes_of_words, _mm512_maskz_loadu_epi32, _mm512_permutexvar_epi32, _mm512_permutex2var_epi32, _mm512_mask_permutexvar_epi32, _mm512_mask_storeu_epi32);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes_of_bytes(lanes: &[u8; 64]) -> __m512i {
        // SAFETY: as many bytes.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn lanes_of_halves(lanes: &[u8; 32]) -> __m512i {
        // SAFETY: as many bytes.
        _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes_of_words(lanes: &[u8; 16]) -> __m512i {
        // SAFETY: as many bytes.
        _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) })
    }
}

#[cfg(test)]
mod tests;
