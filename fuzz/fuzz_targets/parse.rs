//! Any bytes give a module that is consistent in itself, or an error that can be shown; memory
//! stays in proportion to the input.

#![no_main]

use std::sync::Arc;

use hlorun::module::{AttrKey, AttrValue, HloModule, Id};
use hlorun::text::{self, ParseOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ParseOptions::default();
    match text::parse(Arc::from(data), &options) {
        Ok(module) => check(&module, data.len()),
        Err(error) => drop(error.to_string()),
    }
    if let Ok(modules) = text::parse_modules(Arc::from(data), &options) {
        modules.iter().for_each(|module| check(module, data.len()));
    }
});

fn check(module: &HloModule, length: usize) {
    assert!(module.heap_size() <= 20 * length + (64 << 10));
    assert!(module.entry.is_some());
    let computations = module.computation_count();
    for id in module.computation_ids() {
        let computation = module.computation(id);
        let root = computation.root.expect("every computation has a root");
        assert!(computation.instructions.contains(&root));
        assert!(!module.str(computation.name).is_empty());
        for (number, &parameter) in computation.parameters.iter().enumerate() {
            assert_eq!(
                module.instruction(parameter).parameter_number(),
                Some(number)
            );
        }
        for &instruction in &computation.instructions {
            let instruction = module.instruction(instruction);
            assert_eq!(instruction.computation(), id);
            assert!(!instruction.name().is_empty());
            assert!(!instruction.opcode_name().is_empty());
            for operand in instruction.operands() {
                assert_eq!(operand.computation(), id);
            }
            for called in instruction.called_computations() {
                assert!(called.index() < computations);
            }
            if let Some(AttrValue::Sharding(sharding)) = instruction.attribute(AttrKey::Sharding) {
                assert!(sharding.read(module).is_ok());
            }
            let _ = instruction.metadata();
            let _ = instruction.backend_config();
            let _ = instruction.frontend_attributes();
            let _ = instruction.literal();
        }
    }
}
