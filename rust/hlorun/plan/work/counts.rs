//! Operations by class.

use crate::types::PrimitiveType;

/// Operations of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The class: an elementwise operation by its name, or what else is counted.
    pub class: String,
    /// The type of what goes in.
    pub element_type: PrimitiveType,
    /// How many.
    pub amount: f64,
}

/// Collects the operations of a step; those of one class and type are summed up.
#[derive(Default)]
pub struct Counts(pub Vec<Count>);

impl Counts {
    /// Counts operations.
    pub fn add(&mut self, class: &str, element_type: PrimitiveType, amount: f64) {
        if amount <= 0.0 {
            return;
        }
        let is_it = |count: &&mut Count| count.class == class && count.element_type == element_type;
        match self.0.iter_mut().find(is_it) {
            Some(count) => count.amount += amount,
            None => self.0.push(Count {
                class: class.to_owned(),
                element_type,
                amount,
            }),
        }
    }
}
