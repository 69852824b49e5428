//! Which modules are small enough to be run thousands of times a second.

use hlorun::module::HloModule;
use hlorun::types::Shape;

/// Instructions of a module that is run.
const INSTRUCTIONS: usize = 200;
/// Elements of all arrays of a module that is run; work can be the product of several.
const ELEMENTS: i64 = 4096;
/// The largest number an attribute may hold: windows and paddings multiply the work too.
const ATTRIBUTE: i64 = 4096;

/// Whether all arrays and attributes of the module are small.
pub fn is_small(module: &HloModule) -> bool {
    if module.instruction_count() > INSTRUCTIONS {
        return false;
    }
    let mut elements = 0i64;
    for id in module.shapes().ids() {
        if let Shape::Array(array) = module.shapes().get(id) {
            let count = array
                .dims
                .iter()
                .try_fold(1i64, |product, &size| product.checked_mul(size));
            match count {
                Some(count) if (0..=ELEMENTS).contains(&count) => elements += count,
                _ => return false,
            }
        }
    }
    elements <= 8 * ELEMENTS
        && module.computation_ids().all(|id| {
            module.computation(id).instructions.iter().all(|&i| {
                let instruction = module.instruction(i);
                let small = |n: i64| n.unsigned_abs() <= ATTRIBUTE.unsigned_abs();
                instruction.dimensions().iter().all(|&n| small(n))
                    && instruction.window().is_none_or(|window| {
                        window
                            .0
                            .iter()
                            .map(|d| d.size.saturating_mul(d.window_dilation.max(1)))
                            .try_fold(1i64, |product, size| product.checked_mul(size.max(1)))
                            .is_some_and(small)
                    })
            })
        })
}
