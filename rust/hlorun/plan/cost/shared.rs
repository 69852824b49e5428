//! When what two instructions compute alike is computed once, and stored.

/// Operations that take as long as to store an element and to read it again.
const STORED: usize = 3;
/// Operations, over all elements, that take as long as a step of its own.
const STEP: usize = 1 << 12;
/// Most elements: more would leave the caches that are close to a core, so that operations cost less than memory.
const MAX_ELEMENTS: usize = 1 << 14;

/// Whether an array of so many elements, each made by so many operations, is better stored than computed again.
pub fn pays(elements: usize, operations: usize) -> bool {
    elements <= MAX_ELEMENTS && elements.saturating_mul(operations.saturating_sub(STORED)) >= STEP
}
