//! The forms of PJRT's C interface: argument structs, handles, arrays.
//!
//! In: the `args` of a call. Out: references and slices, checked for null and for the size the caller
//! knows. Promise: [`entry`] is the only way from C into the folder.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::{Failure, Outcome};
use super::handles::{Handle, give, objects};

/// An argument struct: `repr(C)`, begins with [`Head`].
pub trait Args: Sized {
    /// Bytes up to the end of the last field that is looked at, as the C header counts them.
    const SIZE: usize;
    /// The function's name, for messages.
    const NAME: &'static str;
}

/// What one function does.
pub trait Call: Args {
    /// Does it.
    fn call(&mut self) -> Outcome<()>;
}

/// How every argument struct begins.
#[repr(C)]
pub struct Head {
    pub struct_size: usize,
    pub extension_start: *const Extension,
}

/// What further abilities a struct brings: a list.
#[repr(C)]
pub struct Extension {
    pub struct_size: usize,
    pub kind: i32,
    pub next: *const Extension,
}

/// Declares argument structs: the fields that follow [`Head`], in C's order.
macro_rules! args {
    ($($(#[$doc:meta])* $name:ident $function:literal { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            head: $crate::pjrt::abi::Head,
            $($field: $type,)*
        }

        impl $crate::pjrt::abi::Args for $name {
            const SIZE: usize = {
                let size = size_of::<$crate::pjrt::abi::Head>();
                $(let size = $crate::pjrt::abi::larger(
                    size,
                    std::mem::offset_of!($name, $field) + size_of::<$type>(),
                );)*
                size
            };
            const NAME: &'static str = $function;
        }
    )* };
}
pub(super) use args;

/// The larger one, while compiling.
pub const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// The function of the API whose arguments are `A`.
///
/// # Safety
///
/// `args` is null, or points to at least as many bytes as its first field says, which stay valid and
/// are nobody else's during the call; what they point to is as this folder's `//!` says.
pub unsafe extern "C" fn entry<A: Call>(args: *mut A) -> Handle<Failure> {
    let work = || {
        // SAFETY: by this function's contract.
        let args = unsafe { checked(args) }?;
        args.call()
    };
    // What a panic leaves is either the call's own or behind a lock that looks past poisoning.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    match outcome {
        Ok(Ok(())) => Handle::null(),
        Ok(Err(failure)) => give(failure),
        Err(payload) => give(Failure::of_panic(A::NAME, payload)),
    }
}

/// The arguments, where the caller's struct holds all that is looked at.
///
/// # Safety
/// As for [`entry`].
pub unsafe fn checked<'a, A: Args>(args: *mut A) -> Outcome<&'a mut A> {
    if args.is_null() {
        return Err(Failure::argument(format!("{}: no arguments", A::NAME)));
    }
    if !args.is_aligned() {
        let message = format!("{}: the arguments are not aligned", A::NAME);
        return Err(Failure::argument(message));
    }
    // SAFETY: not null, and every struct begins with its size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < A::SIZE {
        return Err(Failure::argument(format!(
            "{}: its arguments have {size} bytes, {} are needed: the caller's PJRT is too old",
            A::NAME,
            A::SIZE
        )));
    }
    // SAFETY: the struct holds every field, whose types take any bits that C may leave in them, and is
    // the call's own.
    Ok(unsafe { &mut *args })
}

/// What comes in as an address: null, a struct of the caller's, or one of our objects that live as
/// long as the process.
#[repr(transparent)]
pub struct Ref<T>(*const T);

impl<T> Ref<T> {
    /// No object.
    pub const fn null() -> Ref<T> {
        Ref(std::ptr::null())
    }

    /// The object, which is a `what`.
    pub fn get<'a>(&self, what: &str) -> Outcome<&'a T> {
        self.optional()
            .ok_or_else(|| Failure::argument(format!("the {what} is null")))
    }

    /// The object, where there is one.
    pub fn optional<'a>(&self) -> Option<&'a T> {
        // SAFETY: null, or an object that lives during the call, says the folder's `//!`.
        unsafe { self.0.as_ref() }
    }
}

/// An array that comes in: its first element, and how many there are.
#[repr(C)]
pub struct In<T> {
    data: *const T,
    len: usize,
}

impl<T> In<T> {
    /// `len` elements from `data` on.
    ///
    /// # Safety
    /// `data` is null, or there are so many elements, which nobody changes while this is used.
    pub unsafe fn new(data: *const T, len: usize) -> In<T> {
        In { data, len }
    }

    /// The elements; `what` is the array's name.
    pub fn get<'a>(&self, what: &str) -> Outcome<&'a [T]> {
        if self.len == 0 {
            return Ok(&[]);
        }
        let bytes = self.len.checked_mul(size_of::<T>());
        if self.data.is_null() || bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            let message = format!("{what}: {} elements at {:?}", self.len, self.data);
            return Err(Failure::argument(message));
        }
        // SAFETY: C promises so many elements, which nobody changes during the call.
        Ok(unsafe { std::slice::from_raw_parts(self.data, self.len) })
    }
}

impl In<u8> {
    /// The text; `what` is its name.
    pub fn text<'a>(&self, what: &str) -> Outcome<&'a str> {
        std::str::from_utf8(self.get(what)?)
            .map_err(|error| Failure::argument(format!("{what} is not UTF-8: {error}")))
    }
}

/// An array that goes out, owned by the object it is asked of.
#[repr(C)]
pub struct Out<T> {
    data: *const T,
    len: usize,
}

impl<T> Out<T> {
    /// Shows `values`, which live as long as the object.
    pub fn set(&mut self, values: &[T]) {
        (self.data, self.len) = (values.as_ptr(), values.len());
    }
}

impl Out<u8> {
    /// Shows a text.
    pub fn text(&mut self, text: &str) {
        self.set(text.as_bytes());
    }
}

/// C's `bool`, which may hold anything until it is written.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Flag(u8);

impl From<bool> for Flag {
    fn from(value: bool) -> Flag {
        Flag(u8::from(value))
    }
}

/// Bytes that go out together with what owns them, which the caller hands to `deleter`.
#[repr(C)]
pub struct OwnedBytes {
    data: *const u8,
    len: usize,
    owner: Handle<Vec<u8>>,
    deleter: Option<extern "C" fn(Handle<Vec<u8>>)>,
}

objects!(Vec<u8>);

impl OwnedBytes {
    /// Hands `bytes` out.
    pub fn set(&mut self, bytes: Vec<u8>) {
        (self.data, self.len) = (bytes.as_ptr(), bytes.len());
        self.owner = give(bytes);
        self.deleter = Some(delete);
    }
}

extern "C" fn delete(bytes: Handle<Vec<u8>>) {
    drop(bytes.destroy());
}

/// A list of handles that an object shows: it does not own what they point to.
pub struct Handles<T>(Vec<*const T>, PhantomData<T>);

impl<T> Handles<T> {
    /// Handles of `objects`, which stay where they are.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a T>) -> Handles<T>
    where
        T: 'a,
    {
        let pointers = objects.into_iter().map(|object| object as *const T);
        Handles(pointers.collect(), PhantomData)
    }

    /// The pointers.
    pub fn pointers(&self) -> &[*const T] {
        &self.0
    }
}

impl<T> Handles<T> {
    /// The first object.
    ///
    /// # Safety
    /// It lives as long as the process.
    pub unsafe fn first(&self) -> Option<&'static T> {
        // SAFETY: by this function's contract.
        self.0.first().map(|pointer| unsafe { &**pointer })
    }
}

// SAFETY: the pointers are only handed to C; what they point to is shared between threads.
unsafe impl<T: Sync> Send for Handles<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Handles<T> {}
