//! Named values: options that come in, attributes that go out.

use std::ffi::c_void;

use super::abi::Extension;
use super::error::{Failure, Outcome};

/// `PJRT_NamedValue`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NamedValue {
    struct_size: usize,
    extension_start: *const Extension,
    name: *const u8,
    name_len: usize,
    kind: i32,
    value: Bits,
    value_len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Bits {
    pointer: *const c_void,
    int: i64,
    float: f32,
}

const STRING: i32 = 0;
const INT: i32 = 1;
const INTS: i32 = 2;
const FLOAT: i32 = 3;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Float(f32),
}

impl NamedValue {
    /// Shows a value under a name, both of which outlive it.
    pub fn new(name: &str, value: Value<'_>) -> NamedValue {
        let (kind, bits, len) = match value {
            Value::Int(int) => (INT, Bits { int }, 1),
            Value::Ints(ints) => (
                INTS,
                Bits {
                    pointer: ints.as_ptr().cast(),
                },
                ints.len(),
            ),
            Value::Float(float) => (FLOAT, Bits { float }, 1),
        };
        NamedValue {
            struct_size: size_of::<NamedValue>(),
            extension_start: std::ptr::null(),
            name: name.as_ptr(),
            name_len: name.len(),
            kind,
            value: bits,
            value_len: len,
        }
    }

    /// Its name.
    pub fn name<'a>(&self) -> Outcome<&'a str> {
        if self.name.is_null() {
            return Err(Failure::argument("an option without a name"));
        }
        // SAFETY: C promises so many bytes, which nobody changes during the call.
        let bytes = unsafe { std::slice::from_raw_parts(self.name, self.name_len) };
        std::str::from_utf8(bytes)
            .map_err(|error| Failure::argument(format!("an option's name is not UTF-8: {error}")))
    }

    /// The number, or the text that says one.
    pub fn int(&self) -> Outcome<i64> {
        let wrong = |got: &str| {
            let name = self.name().unwrap_or("an option");
            Failure::argument(format!("{name} is a whole number, not {got}"))
        };
        match self.kind {
            // SAFETY: of this kind, the union holds a number, and any bits are one.
            INT => Ok(unsafe { self.value.int }),
            STRING => {
                // SAFETY: of this kind, the union holds a pointer to so many bytes.
                let text = unsafe {
                    let pointer = self.value.pointer.cast::<u8>();
                    if pointer.is_null() {
                        return Err(wrong("nothing"));
                    }
                    std::slice::from_raw_parts(pointer, self.value_len)
                };
                let text = String::from_utf8_lossy(text);
                text.trim().parse().map_err(|_| wrong(&format!("{text:?}")))
            }
            kind => Err(wrong(&format!("a value of kind {kind}"))),
        }
    }
}

/// Values that an object shows for as long as it lives.
pub struct Shown(Vec<NamedValue>);

impl Shown {
    /// Shows `values`, which outlive this.
    pub fn new(values: Vec<NamedValue>) -> Shown {
        Shown(values)
    }

    /// The values.
    pub fn values(&self) -> &[NamedValue] {
        &self.0
    }
}

// SAFETY: the pointers lead to what outlives the list and is only read.
unsafe impl Send for Shown {}
// SAFETY: as above.
unsafe impl Sync for Shown {}
