//! The bytes of a text, kept by whoever holds them already.
//!
//! Comes in: anything that owns bytes. Goes out: those bytes, shared. Promise: they are not copied,
//! and live as long as the last clone.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes that do not change, and what keeps them. Clones share them.
#[derive(Clone)]
pub struct Source {
    bytes: NonNull<[u8]>,
    /// Never looked at again; `None` for no bytes.
    _owner: Option<Arc<dyn Send + Sync>>,
}

impl Source {
    /// The bytes of `owner`, which is kept.
    pub fn new<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> Source {
        let owner = Arc::new(owner);
        Source {
            bytes: NonNull::from(T::as_ref(&owner)),
            _owner: Some(owner),
        }
    }
}

// SAFETY: the bytes are only read, and their owner may be sent and shared.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl Deref for Source {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes were borrowed from the owner, which lies in an `Arc`, so that it does
        // not move, and which nobody can reach to change it or drop it before the last clone of
        // this goes; the borrow returned here ends before this does. Without an owner they are the
        // empty slice, which lives forever.
        unsafe { self.bytes.as_ref() }
    }
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Source {
    fn default() -> Source {
        Source {
            bytes: NonNull::from(&[]),
            _owner: None,
        }
    }
}

impl From<Arc<[u8]>> for Source {
    fn from(bytes: Arc<[u8]>) -> Source {
        Source::new(bytes)
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Source {
        Source::new(bytes)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_lives_as_long_as_the_last_clone() {
        let owner: Arc<[u8]> = Arc::from(&b"text"[..]);
        let source = Source::from(owner.clone());
        let clone = source.clone();
        drop(source);
        assert_eq!((&clone[..], Arc::strong_count(&owner)), (&b"text"[..], 2));
        drop(clone);
        assert_eq!(Arc::strong_count(&owner), 1);
        assert!(Source::default().is_empty());
    }
}
