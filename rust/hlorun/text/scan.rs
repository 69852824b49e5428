//! Short runs of bytes, found a window at a time instead of byte by byte.
//!
//! Comes in: 32 bytes of a text. Goes out: where a run ends among them, or the bytes of a short
//! word as four machine words, which compare and hash without a loop. The length of a word is a
//! coin toss to a branch predictor, so that one branch per byte costs more than all 32 compared at
//! once. Promise: the same answers on every machine; x86-64 compares 16 bytes per instruction.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Bytes looked at in one go.
pub(crate) const WIDTH: usize = 32;

/// A piece of a text.
pub(crate) type Window = [u8; WIDTH];

/// The window that starts at `at`; `None` where the text ends before the window does.
#[inline(always)]
pub(crate) fn window(source: &[u8], at: usize) -> Option<&Window> {
    source.get(at..)?.first_chunk()
}

/// The position of the lowest bit of `mask`, or [`WIDTH`].
#[inline(always)]
fn lowest(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

/// How many bytes at the start are name bytes, `[A-Za-z0-9_.-]`.
#[inline(always)]
pub(crate) fn name_run(window: &Window) -> usize {
    lowest(!mask::of_names(window))
}

/// Where `byte` first occurs, or [`WIDTH`].
#[inline(always)]
pub(crate) fn find(window: &Window, byte: u8) -> usize {
    lowest(mask::of(window, byte))
}

/// Where `a` or `b` first occurs, or [`WIDTH`].
#[inline(always)]
pub(crate) fn find_either(window: &Window, a: u8, b: u8) -> usize {
    lowest(mask::of(window, a) | mask::of(window, b))
}

/// Where the text of an array shape would end: after the first `]`, or after the first `}` beyond
/// it where a layout follows. `None` when that is not within the window, or when white space or a
/// comment stands between.
#[inline(always)]
pub(crate) fn shape_end(window: &Window) -> Option<usize> {
    let bracket = find(window, b']');
    let after = window.get(bracket + 1..bracket + 3)?;
    match after[0] {
        b'{' if after[1].is_ascii_digit() || after[1] == b':' => {
            let beyond = mask::of(window, b'}') >> bracket;
            (beyond != 0).then(|| bracket + lowest(beyond) + 1)
        }
        b'{' | b'\n' | b'\r' | b'\t' | b'/' => None,
        b' ' if matches!(after[1], b'{' | b'/') => None,
        _ => Some(bracket + 1),
    }
}

/// The first bytes of a word, zeros after its end: words of up to [`WIDTH`] bytes without zeros
/// are equal exactly when their keys are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key(pub [u64; 4]);

/// What words are hashed with: random, so that nobody can choose names that collide.
pub(crate) static SEED: LazyLock<[u64; 4]> = LazyLock::new(|| {
    let random = RandomState::new();
    std::array::from_fn(|at| random.hash_one(at))
});

/// From `WIDTH - n` on, `n` bytes of ones and then zeros.
static ONES: [u8; 2 * WIDTH] = {
    let mut bytes = [0u8; 2 * WIDTH];
    let mut at = 0;
    while at < WIDTH {
        bytes[at] = 0xff;
        at += 1;
    }
    bytes
};

#[inline(always)]
fn words(bytes: &Window) -> [u64; 4] {
    let word = |at: usize| {
        let mut word = [0u8; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    [word(0), word(8), word(16), word(24)]
}

impl Key {
    /// Of the first `length` bytes of `window`; of all where there are no more than that.
    #[inline(always)]
    pub fn new(window: &Window, length: usize) -> Key {
        let from = WIDTH - length.min(WIDTH);
        let ones = ONES[from..].first_chunk().unwrap_or(&[0; WIDTH]);
        let (words, ones) = (words(window), words(ones));
        Key([
            words[0] & ones[0],
            words[1] & ones[1],
            words[2] & ones[2],
            words[3] & ones[3],
        ])
    }

    /// Of a word anywhere.
    #[inline]
    pub fn of(word: &[u8]) -> Key {
        match word.first_chunk() {
            Some(window) => Key::new(window, WIDTH),
            None => {
                let mut window = [0; WIDTH];
                window[..word.len()].copy_from_slice(word);
                Key(words(&window))
            }
        }
    }

    /// A hash good enough for open addressing, another one in each process.
    #[inline(always)]
    pub fn hash(&self) -> u32 {
        self.hash_with(&SEED)
    }

    /// The hash that `seed` gives.
    #[inline(always)]
    pub fn hash_with(&self, seed: &[u64; 4]) -> u32 {
        let [a, b, c, d] = self.0;
        let low = fold(a ^ seed[0], b ^ seed[1]);
        let high = fold(c ^ seed[2], d ^ seed[3]);
        let hash = low ^ high;
        (hash ^ (hash >> 32)) as u32
    }
}

#[inline(always)]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(target_arch = "x86_64")]
mod mask {
    use std::arch::x86_64::*;

    use super::Window;

    #[inline(always)]
    fn halves(window: &Window) -> (__m128i, __m128i) {
        let start = window.as_ptr();
        // SAFETY: the two loads read bytes 0..16 and 16..32 of the 32 that `window` borrows, and
        // ask for no alignment. Every x86-64 has SSE2.
        unsafe {
            (
                _mm_loadu_si128(start.cast()),
                _mm_loadu_si128(start.add(16).cast()),
            )
        }
    }

    #[inline(always)]
    fn equal(bytes: __m128i, byte: u8) -> u32 {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32 }
    }

    #[inline(always)]
    pub fn of(window: &Window, byte: u8) -> u32 {
        let (low, high) = halves(window);
        equal(low, byte) | equal(high, byte) << 16
    }

    /// The bytes from `first` to `last`; both are ASCII.
    #[inline(always)]
    fn within(bytes: __m128i, first: u8, last: u8) -> __m128i {
        // Moved to the top of the signed numbers, a range is what exceeds one number.
        let (up, below) = (127 - last, 127 - (last - first) - 1);
        // SAFETY: every x86-64 has SSE2.
        unsafe {
            let moved = _mm_add_epi8(bytes, _mm_set1_epi8(up as i8));
            _mm_cmpgt_epi8(moved, _mm_set1_epi8(below as i8))
        }
    }

    #[inline(always)]
    fn names(bytes: __m128i) -> u32 {
        // SAFETY: every x86-64 has SSE2.
        unsafe {
            let letter = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', b'z');
            // `-`, `.`, `/` and the digits are neighbours.
            let slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'/' as i8));
            let other = _mm_andnot_si128(slash, within(bytes, b'-', b'9'));
            let underscore = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'_' as i8));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letter, other), underscore)) as u32
        }
    }

    #[inline(always)]
    pub fn of_names(window: &Window) -> u32 {
        let (low, high) = halves(window);
        names(low) | names(high) << 16
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod mask {
    use super::Window;
    use crate::text::lexer::is_name_byte;

    #[inline(always)]
    fn bits(window: &Window, test: impl Fn(u8) -> bool) -> u32 {
        let set = |mask, (i, &byte)| mask | u32::from(test(byte)) << i;
        window.iter().enumerate().fold(0, set)
    }

    #[inline(always)]
    pub fn of(window: &Window, byte: u8) -> u32 {
        bits(window, |found| found == byte)
    }

    #[inline(always)]
    pub fn of_names(window: &Window) -> u32 {
        bits(window, is_name_byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lexer::is_name_byte;

    #[test]
    fn every_byte_is_classified_as_the_lexer_does() {
        for byte in 0..=255u8 {
            for at in [0, 7, 15, 16, 31] {
                let mut window = [b'a'; WIDTH];
                window[at] = byte;
                let wanted = if is_name_byte(byte) { WIDTH } else { at };
                assert_eq!(name_run(&window), wanted, "byte {byte} at {at}");
                let wanted = if byte == b'a' { 0 } else { at };
                assert_eq!(find(&window, byte), wanted);
                assert_eq!(find_either(&window, byte, 1), wanted);
            }
        }
    }

    #[test]
    fn a_key_is_the_same_in_a_window_and_on_its_own() {
        for length in 0..=WIDTH + 1 {
            let word: Vec<u8> = (1..=length as u8).collect();
            let mut window = [0xff; WIDTH];
            let kept = length.min(WIDTH);
            window[..kept].copy_from_slice(&word[..kept]);
            assert!(
                Key::of(&word) == Key::new(&window, length),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn shapes_end_after_their_layout() {
        let end = |text: &str| {
            let mut window = [b' '; WIDTH];
            window[..text.len()].copy_from_slice(text.as_bytes());
            shape_end(&window)
        };
        assert_eq!(end("f32[2,3]{1,0} add("), Some(13));
        assert_eq!(end("f32[] add(f32[2]{0} %x"), Some(5));
        assert_eq!(end("f32[2]{:T(8)} x"), Some(13));
        assert_eq!(end("f32[2]) x {0}"), Some(6));
        for slow in [
            "f32[2] {0} x",
            "f32[2] /*a*/ x",
            "f32[2]/*a*/ x",
            "f32[2]{ 0} x",
            "f32[2]{0, x",
            "f32[2,3",
        ] {
            assert_eq!(end(slow), None, "{slow}");
        }
    }

    #[test]
    fn keys_hold_the_word_and_nothing_else() {
        let window = *b"0123456789abcdefghijklmnopqrstuv";
        for length in 0..=WIDTH {
            assert_eq!(Key::new(&window, length), Key::of(&window[..length]));
        }
        assert_ne!(Key::of(b"a"), Key::of(b"ab"));
    }
}
