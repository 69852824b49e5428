//! Any bytes give a module that is consistent in itself, or an error that can be shown; memory
//! stays in proportion to the input.

#![no_main]

use std::sync::Arc;

use hlorun::module::{AttrKey, AttrValue, HloModule, Id};
use hlorun::text::{self, ParseOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ParseOptions::default();
    let module = text::parse(Arc::from(data), &options);
    let wide = text::parse(Arc::from(widened(data)), &options);
    match (module, wide) {
        (Ok(module), Ok(wide)) => {
            check(&module, data.len());
            check_same(&module, &wide);
        }
        (Err(error), Err(_)) => drop(error.to_string()),
        (module, wide) => panic!("{module:?} but spaced otherwise {wide:?}"),
    }
    if let Ok(modules) = text::parse_modules(Arc::from(data), &options) {
        modules.iter().for_each(|module| check(module, data.len()));
    }
});

/// The text with a second space before every ` = ` that follows a name: the parser then does not
/// take the short way of texts that are printed plainly.
fn widened(data: &[u8]) -> Vec<u8> {
    let mut wide = Vec::new();
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        let at = line.windows(3).position(|three| three == b" = ");
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b" %_.-".contains(byte);
        match at.filter(|&at| line[..at].iter().all(is_name)) {
            Some(at) => {
                wide.extend_from_slice(&line[..at]);
                wide.push(b' ');
                wide.extend_from_slice(&line[at..]);
            }
            None => wide.extend_from_slice(line),
        }
    }
    wide
}

/// Strings and other text kept as written may hold what looks like a definition, so that they are
/// not compared.
fn check_same(module: &HloModule, wide: &HloModule) {
    assert_eq!(module.instruction_count(), wide.instruction_count());
    assert_eq!(module.computation_count(), wide.computation_count());
    for index in 0..module.instruction_count() {
        let id = Id::from_index(index);
        let (a, b) = (module.instruction(id), wide.instruction(id));
        assert_eq!(a.name(), b.name());
        assert_eq!(a.opcode_name(), b.opcode_name());
        assert_eq!(a.shape_id(), b.shape_id());
        assert_eq!(a.operand_ids(), b.operand_ids());
        assert_eq!(a.computation(), b.computation());
        assert_eq!(a.attributes().len(), b.attributes().len());
    }
}

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
