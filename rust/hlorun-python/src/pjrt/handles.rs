//! Handles of objects that C destroys.
//!
//! In: objects that go out. Out: addresses of places, each of which holds one object. Promise: an address
//! is looked for among the places of its kind and never followed, so that what is no handle of the kind is
//! an error; a place is never freed, so that a handle that C uses after its `Destroy`, or destroys again,
//! finds an empty one; and an object lives until the last call that found it returns, whichever thread
//! destroys it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::{Failure, Outcome};

/// How many empty places of a kind wait before one holds an object again: as many others have to be
/// destroyed before an old handle stands for another object.
const WAITING: usize = 1024;
/// Places in the first block of a kind; each further one has twice as many as the one before.
const FIRST: usize = 256;
/// Blocks of a kind: more places than memory holds.
const BLOCKS: usize = 40;

/// Where an object is until C destroys it.
pub struct Place<T>(Mutex<Option<Arc<T>>>);

/// The places of a kind of objects.
pub struct Places<T: 'static> {
    blocks: [OnceLock<Box<[Place<T>]>>; BLOCKS],
    state: Mutex<State<T>>,
}

/// Which places an object may have next.
struct State<T: 'static> {
    /// Those that had objects, the ones that have been empty longest first.
    empty: VecDeque<&'static Place<T>>,
    /// How many ever had one.
    used: usize,
}

/// A kind of objects that C destroys.
pub trait Object: Send + Sync + Sized + 'static {
    /// Its places.
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
        Places {
            blocks: [const { OnceLock::new() }; BLOCKS],
            state: Mutex::new(State {
                empty: VecDeque::new(),
                used: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty place.
    fn take(&'static self) -> &'static Place<T> {
        let mut state = self.lock();
        if state.empty.len() > WAITING
            && let Some(place) = state.empty.pop_front()
        {
            return place;
        }
        let number = (state.used / FIRST + 1).ilog2();
        let len = FIRST << number;
        let block = self.blocks[number as usize]
            .get_or_init(|| (0..len).map(|_| Place(Mutex::new(None))).collect());
        let place = &block[state.used - (len - FIRST)];
        state.used += 1;
        place
    }

    /// The place at an address.
    fn find(&'static self, address: *const Place<T>) -> Option<&'static Place<T>> {
        let blocks = self.blocks.iter().map_while(OnceLock::get);
        for block in blocks {
            let offset = (address as usize).wrapping_sub(block.as_ptr() as usize);
            if offset < size_of_val::<[Place<T>]>(block) {
                let is_one = offset.is_multiple_of(size_of::<Place<T>>());
                return is_one.then(|| &block[offset / size_of::<Place<T>>()]);
            }
        }
        None
    }
}

/// A handle: one that [`give`] made, or any other address.
#[repr(transparent)]
pub struct Handle<T: 'static>(*const Place<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: an address, which nobody follows.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// No object.
    pub const fn null() -> Handle<T> {
        Handle(std::ptr::null())
    }

    fn place(&self) -> Option<&'static Place<T>> {
        T::places().find(self.0)
    }

    /// The object, which is a `what`.
    pub fn get(&self, what: &str) -> Outcome<Arc<T>> {
        let Some(place) = self.place() else {
            return Err(Failure::argument(match self.0.is_null() {
                true => format!("the {what} is null"),
                false => format!("the {what} is none that was given out: {:?}", self.0),
            }));
        };
        let object = place.lock().clone();
        object.ok_or_else(|| Failure::argument(format!("the {what} has been destroyed")))
    }

    /// Takes the object out of its place; `None` for what is no handle, and where somebody did so before.
    pub fn destroy(&self) -> Option<Arc<T>> {
        let place = self.place()?;
        let object = place.lock().take()?;
        T::places().lock().empty.push_back(place);
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
    let place = T::places().take();
    *place.lock() = Some(object);
    Handle(place)
}
