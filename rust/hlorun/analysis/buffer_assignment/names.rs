//! The small phrases of a dump: names of values, parameters of allocations, uses.

use super::line::{Line, Mistake, Parsed};
use super::model::*;
use crate::module::TextRef;

/// `<46 fusion.7{0} (phi) @0>`.
pub(super) fn value_name(line: &mut Line<'_>) -> Parsed<ValueName> {
    line.expect("<")?;
    let id = line.small_number("the value's number")?;
    line.expect(" ")?;
    let instruction = line.word("an instruction's name", b"{ >")?;
    let index = line.shape_index()?;
    let is_phi = line.eat(" (phi)");
    line.expect(" @")?;
    let at = line.at;
    let color = i32::try_from(line.signed("the color")?)
        .map_err(|_| Mistake::new(at, "the color is too large a number"))?;
    line.expect(">")?;
    Ok(ValueName {
        id,
        color,
        instruction,
        index,
        is_phi,
    })
}

pub(super) fn allocation_parameter(line: &mut Line<'_>) -> Parsed<AllocationParameter> {
    let number = line.small_number("the parameter's number")?;
    let mut shape = TextRef::new(line.at, line.at);
    if line.eat(", shape |") {
        shape = line.word("a shape", b"|")?;
        line.expect("|")?;
    }
    line.expect(" at ShapeIndex ")?;
    let at = line.at;
    let index = line.shape_index()?;
    if index.len == 0 {
        return Err(Mistake::new(
            at,
            "expected a shape index such as `{}` or `{0,1}`",
        ));
    }
    Ok(AllocationParameter {
        number,
        shape,
        index,
    })
}

/// `fusion.7, operand 1 {0}`.
pub(super) fn value_use(mut line: Line<'_>) -> Parsed<ValueUse> {
    let instruction = line.word("an instruction's name", b", ")?;
    line.expect(", operand ")?;
    let operand = line.small_number("the operand's number")?;
    let index = match line.eat(" ") {
        true => line.shape_index()?,
        false => TextRef::new(line.at, line.at),
    };
    line.finish()?;
    Ok(ValueUse {
        instruction,
        operand,
        index,
    })
}

/// Where a value's name starts that ends this line behind an instruction.
pub(super) fn glued_name(line: Line<'_>) -> Option<usize> {
    let rest = line.rest();
    if rest.last() != Some(&b'>') {
        return None;
    }
    let at = line.at + memchr::memrchr(b'<', rest)?;
    let mut name = Line { at, ..line };
    (at > line.at && value_name(&mut name).is_ok() && name.finish().is_ok()).then_some(at)
}
