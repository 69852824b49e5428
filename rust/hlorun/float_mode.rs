//! The floating-point mode of the threads that compute.
//!
//! A caller may have told its thread to round in another direction, or to take numbers near zero for
//! zero. Results must not depend on that, and Rust knows the default mode alone: so it is set for as
//! long as a [`DefaultMode`] lives. What computes numbers enters it where callers come in: reading a
//! text, compiling, running. On other processors than x86-64 and AArch64 nothing is changed.

use std::marker::PhantomData;

/// Round to nearest, keep subnormal numbers, no traps; the mode before it is back once this is dropped.
pub struct DefaultMode {
    before: Register,
    /// The mode is the thread's.
    _not_send: PhantomData<*const ()>,
}

impl DefaultMode {
    /// Sets the default mode of this thread.
    pub fn enter() -> DefaultMode {
        let before = read();
        if before != DEFAULT {
            write(DEFAULT);
        }
        DefaultMode {
            before,
            _not_send: PhantomData,
        }
    }
}

impl Drop for DefaultMode {
    fn drop(&mut self) {
        if self.before != DEFAULT {
            write(self.before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// MXCSR.
    pub(super) type Register = u32;
    /// All exceptions are masked, and none is flagged.
    pub(super) const DEFAULT: Register = 0x1F80;

    pub(super) fn read() -> Register {
        let mut value: Register = 0;
        // SAFETY: stores the register in `value`, and changes nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Register) {
        // SAFETY: the value is the default, or was read from the register, so no reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    /// FPCR.
    pub(super) type Register = u64;
    pub(super) const DEFAULT: Register = 0;

    pub(super) fn read() -> Register {
        let value: Register;
        // SAFETY: reads a register every thread has.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Register) {
        // SAFETY: the value is the default, or was read from the register.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub(super) type Register = ();
    pub(super) const DEFAULT: Register = ();
    pub(super) fn read() -> Register {}
    pub(super) fn write((): Register) {}
}

use register::{DEFAULT, Register, read, write};

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Rounds upwards and takes subnormal numbers for zero.
    #[cfg(target_arch = "x86_64")]
    const ODD: Register = DEFAULT | 0x4000 | 0x8040;
    #[cfg(target_arch = "aarch64")]
    const ODD: Register = 1 << 22 | 1 << 24;

    fn third() -> f64 {
        black_box(1.0) / black_box(3.0)
    }

    fn half_of_the_least() -> f64 {
        black_box(f64::MIN_POSITIVE) / black_box(2.0)
    }

    #[test]
    fn the_mode_is_the_default_meanwhile_and_the_old_one_afterwards() {
        let (usual, small) = (third(), half_of_the_least());
        let before = read();
        write(ODD);
        let odd = (third(), half_of_the_least());
        let inside = {
            let _mode = DefaultMode::enter();
            let _again = DefaultMode::enter();
            (third(), half_of_the_least())
        };
        let after = (third(), half_of_the_least());
        write(before);
        assert!(odd.0 > usual && odd.1 == 0.0);
        assert_eq!(inside, (usual, small));
        assert_eq!(after, odd);
    }
}
