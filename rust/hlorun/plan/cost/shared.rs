//! When what two instructions compute alike is computed once, and stored.

/// Operations that take as long as to store an element and to read it again.
const STORED: usize = 3;
/// Operations, of all elements together, that take as long as to run one more step.
const STEP: usize = 1 << 12;
/// Most elements: larger arrays leave the caches that are close to a core, and to read them takes longer than to compute them.
const MAX_ELEMENTS: usize = 1 << 14;

/// Whether an array of so many elements, each made by so many operations, is better stored than computed again.
pub fn pays(elements: usize, operations: usize) -> bool {
    elements <= MAX_ELEMENTS && elements.saturating_mul(operations.saturating_sub(STORED)) >= STEP
}
