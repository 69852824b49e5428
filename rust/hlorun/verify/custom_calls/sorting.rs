//! TopK and the radix sorts of CUB.

use super::*;
use crate::library::Config;

/// `(values, s32 positions)` of the k first elements of every row.
pub fn top_k(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 1, 1)?;
    let operand = array(i, 0)?;
    let Some((&size, rows)) = operand.dims.split_last() else {
        return Err(format!(
            "{}, expected at least one dimension",
            describe(i, 0)
        ));
    };
    let declared = results::declared(i);
    let kept = declared.first().and_then(|part| part.as_ref()?.dims.last());
    let kept = kept.copied().unwrap_or(0);
    if kept > size {
        return Err(format!("takes {kept} of rows of {size}"));
    }
    let config = Config::of(i);
    if let Some(k) = config.number("k")
        && k != kept as f64
    {
        return Err(format!(
            "its backend_config has k={k}, but it returns {kept}"
        ));
    }
    want_flag(&config, "largest")?;
    let mut dims = rows.to_vec();
    dims.push(kept);
    let slots = [
        Slot::array(operand.element_type, &dims),
        Slot::array(PrimitiveType::S32, &dims),
    ];
    returns(i, &slots).map(drop)
}

/// Keys, or keys and the values they move, as they came.
pub fn radix_sort(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 1, 2)?;
    let keys = array(i, 0)?;
    if keys.rank() == 0 {
        return Err(format!(
            "{}, expected at least one dimension",
            describe(i, 0)
        ));
    }
    want_flag(&Config::of(i), "descending")?;
    let mut slots = Vec::with_capacity(2);
    for k in 0..i.operand_ids().len() {
        want_dims(i, k, &keys.dims, " like operand 0")?;
        slots.push(Slot::array(array(i, k)?.element_type, &keys.dims));
    }
    returns(i, &slots).map(drop)
}

/// That an option is true or false where it is there.
fn want_flag(config: &Config, name: &str) -> Result<(), String> {
    match (config.text(name), config.flag(name)) {
        (Some(text), None) => Err(format!(
            "its backend_config has {name}={text}, expected true or false"
        )),
        _ => Ok(()),
    }
}
