//! Handles of objects that C destroys.
//!
//! In: objects that go out. Out: addresses of places, each of which holds one object. Promise: a place
//! is never freed, so that a handle that C uses after its `Destroy`, or destroys again, finds an empty
//! place; and an object lives until the last call that found it returns, whichever thread destroys it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{Failure, Outcome};

/// How many empty places of a kind wait before one holds an object again: as many others have to be
/// destroyed before an old handle stands for another object.
const WAITING: usize = 1024;

/// Where an object is until C destroys it.
pub struct Place<T>(Mutex<Option<Arc<T>>>);

/// The empty places of a kind of objects, those that have been empty longest first.
pub struct Places<T: 'static>(Mutex<VecDeque<&'static Place<T>>>);

/// A kind of objects that C destroys.
pub trait Object: Send + Sync + Sized + 'static {
    /// The empty places.
    fn places() -> &'static Places<Self>;
}

/// Implements [`Object`].
macro_rules! objects {
    ($($type:ty),* $(,)?) => { $(
        impl $crate::pjrt::handles::Object for $type {
            fn places() -> &'static $crate::pjrt::handles::Places<$type> {
                static PLACES: $crate::pjrt::handles::Places<$type> =
                    $crate::pjrt::handles::Places::new();
                &PLACES
            }
        }
    )* };
}
pub(super) use objects;

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Places<T> {
    /// None yet.
    pub const fn new() -> Places<T> {
        Places(Mutex::new(VecDeque::new()))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<&'static Place<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle: null, or one that [`give`] made.
#[repr(transparent)]
pub struct Handle<T: 'static>(*const Place<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: it leads to a place, whose lock and objects any thread may use.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// No object.
    pub const fn null() -> Handle<T> {
        Handle(std::ptr::null())
    }

    fn place(&self) -> Option<&'static Place<T>> {
        // SAFETY: handles are null or places of their kind, says the folder's `//!`, and no place is freed.
        unsafe { self.0.as_ref() }
    }

    /// The object, which is a `what`.
    pub fn get(&self, what: &str) -> Outcome<Arc<T>> {
        let Some(place) = self.place() else {
            return Err(Failure::argument(format!("the {what} is null")));
        };
        let object = place.lock().clone();
        object.ok_or_else(|| Failure::argument(format!("the {what} has been destroyed")))
    }

    /// Takes the object out of its place; `None` for null, and where somebody did so before.
    pub fn destroy(&self) -> Option<Arc<T>> {
        let place = self.place()?;
        let object = place.lock().take()?;
        T::places().lock().push_back(place);
        Some(object)
    }

    /// What tells it from other handles.
    pub fn pointer(&self) -> *const Place<T> {
        self.0
    }
}

/// Hands an object out, until C destroys it.
pub fn give<T: Object>(object: T) -> Handle<T> {
    give_shared(Arc::new(object))
}

/// Hands an object out once more: each handle is destroyed for itself.
pub fn give_shared<T: Object>(object: Arc<T>) -> Handle<T> {
    let mut places = T::places().lock();
    let empty = match places.len() > WAITING {
        true => places.pop_front(),
        false => None,
    };
    drop(places);
    let place = empty.unwrap_or_else(|| Box::leak(Box::new(Place(Mutex::new(None)))));
    *place.lock() = Some(object);
    Handle(place)
}
