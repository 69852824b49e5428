//! Whether results go past the caches to memory.
//!
//! In: how many bytes a step moves. Out: whether the last of them will have driven the first out of
//! the last cache before anybody reads them. Results then need not be fetched to be overwritten.

use crate::plan::cost::tiles::USUAL_CACHE;
use std::sync::LazyLock;

/// Whether a step that moves so many bytes should write past the caches.
pub fn pays(bytes: usize) -> bool {
    static LEAST: LazyLock<usize> = LazyLock::new(|| {
        let path = "/sys/devices/system/cpu/cpu0/cache/index3/size";
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let cache = size(text.trim()).unwrap_or(USUAL_CACHE);
        cache.saturating_add(cache / 2)
    });
    bytes >= *LEAST
}

/// A size as Linux writes it: `32768K`.
fn size(text: &str) -> Option<usize> {
    let split = text.len() - usize::from(text.ends_with(['K', 'M', 'G']));
    let unit = match &text[split..] {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    let count: usize = text[..split].parse().ok()?;
    count.checked_mul(1 << unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("32768K"), Some(32 << 20));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("512"), Some(512));
        assert_eq!(size(""), None);
        assert_eq!(size("K"), None);
        assert_eq!(size("0K"), None);
    }

    #[test]
    fn small_steps_stay_in_the_caches() {
        assert!(!pays(1 << 16));
        assert!(pays(usize::MAX / 2));
    }
}
