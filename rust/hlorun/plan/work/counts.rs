//! Numbers of operations by class and element type.

use crate::types::PrimitiveType;

/// Operations of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The class: the name of an elementwise operation, or a name for other work.
    pub class: String,
    /// The element type of the operands; `pred` for work that does not depend on it.
    pub element_type: PrimitiveType,
    /// How many.
    pub amount: f64,
}

/// The operations of a step; those of one class and type are summed up.
#[derive(Default)]
pub struct Counts(pub Vec<Count>);

impl Counts {
    /// Adds operations.
    pub fn add(&mut self, class: &str, element_type: PrimitiveType, amount: f64) {
        if amount <= 0.0 {
            return;
        }
        let is_same =
            |count: &&mut Count| count.class == class && count.element_type == element_type;
        match self.0.iter_mut().find(is_same) {
            Some(count) => count.amount += amount,
            None => self.0.push(Count {
                class: class.to_owned(),
                element_type,
                amount,
            }),
        }
    }
}
