//! Random edits of legal modules: whatever a pass might leave behind, the verifier returns.

use std::path::Path;
use std::sync::Arc;

use hlorun::module::{AttrValue, HloModule, HloOpcode, Id, InstructionId, PoolRange};
use hlorun::text::{self, ParseOptions};
use hlorun::types::{ArrayShape, PrimitiveType, ShapeId};
use hlorun::verify::verify;

/// Edited modules per legal module; `HLORUN_VERIFY_EDITS` makes it more.
const ROUNDS: u64 = 2_000;

/// A small xorshift generator, so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn number(&mut self) -> i64 {
        const NUMBERS: [i64; 14] = [
            0,
            1,
            2,
            3,
            4,
            5,
            7,
            63,
            64,
            65,
            -1,
            i64::MAX,
            i64::MIN,
            1 << 40,
        ];
        NUMBERS[self.below(NUMBERS.len())]
    }
}

fn legal_modules() -> Vec<HloModule> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hlo/verify");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.split("// -----\n")
                .map(|module| {
                    text::parse(Arc::from(module.as_bytes()), &ParseOptions::default()).unwrap()
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn any_shape(module: &mut HloModule, random: &mut Random) -> ShapeId {
    match random.below(4) {
        0 => {
            let types: Vec<_> = PrimitiveType::all().collect();
            let element_type = types[random.below(types.len())];
            let dims: Vec<i64> = (0..random.below(5)).map(|_| random.number()).collect();
            module
                .shapes_mut()
                .array(ArrayShape::new(element_type, &dims))
        }
        _ => {
            let ids: Vec<_> = module.shapes().ids().collect();
            ids[random.below(ids.len())]
        }
    }
}

fn edit(module: &mut HloModule, random: &mut Random) {
    let id = InstructionId::from_index(random.below(module.instruction_count()));
    match random.below(6) {
        0 => {
            let shape = any_shape(module, random);
            module.instruction_data_mut(id).shape = shape;
        }
        1 => {
            let opcodes: Vec<_> = HloOpcode::all().collect();
            module.instruction_data_mut(id).opcode = opcodes[random.below(opcodes.len())];
        }
        2 => module.instruction_data_mut(id).immediate = random.number() as u32,
        3 => {
            let other = InstructionId::from_index(random.below(module.instruction_count()));
            let mut operands = module.operand_ids(id).to_vec();
            match random.below(3) {
                0 => operands.push(other),
                1 => {
                    operands.pop();
                }
                _ => {
                    let at = random.below(operands.len());
                    if let Some(operand) = operands.get_mut(at) {
                        *operand = other;
                    }
                }
            }
            module.set_operands(id, &operands);
        }
        _ => edit_attribute(module, id, random),
    }
}

fn edit_attribute(module: &mut HloModule, id: InstructionId, random: &mut Random) {
    let count = module.attributes_of(id).len();
    if count == 0 {
        return;
    }
    let at = random.below(count);
    let mut value = module.attributes_of(id)[at].value.clone();
    let number = random.number();
    match &mut value {
        AttrValue::Int(value) => *value = number,
        AttrValue::Ints(range) => {
            let mut list = module.int_list(*range).to_vec();
            match random.below(3) {
                0 => list.push(number),
                1 => {
                    list.pop();
                }
                _ => {
                    let at = random.below(list.len());
                    if let Some(entry) = list.get_mut(at) {
                        *entry = number;
                    }
                }
            }
            let new: PoolRange = module.add_ints(&list);
            *range = new;
        }
        AttrValue::Window(window) => {
            let at = random.below(window.0.len());
            if let Some(dim) = window.0.get_mut(at) {
                match random.below(6) {
                    0 => dim.size = number,
                    1 => dim.stride = number,
                    2 => dim.padding_low = number,
                    3 => dim.padding_high = number,
                    4 => dim.window_dilation = number,
                    _ => dim.base_dilation = number,
                }
            }
        }
        AttrValue::Padding(padding) => {
            let at = random.below(padding.len());
            if let Some(dim) = padding.get_mut(at) {
                match random.below(3) {
                    0 => dim.edge_low = number,
                    1 => dim.edge_high = number,
                    _ => dim.interior = number,
                }
            }
        }
        AttrValue::Slice(slice) => {
            let at = random.below(slice.len());
            if let Some(dim) = slice.get_mut(at) {
                match random.below(3) {
                    0 => dim.start = number,
                    1 => dim.limit = number,
                    _ => dim.stride = number,
                }
            }
        }
        AttrValue::DimLabels(labels) => match random.below(4) {
            0 => labels.input_batch = number,
            1 => labels.kernel_output_feature = number,
            2 => labels.output_spatial.push(number),
            _ => {
                labels.kernel_spatial.pop();
            }
        },
        AttrValue::Computation(computation) => {
            let ids: Vec<_> = module.computation_ids().collect();
            *computation = ids[random.below(ids.len())];
        }
        // Any other value is lost, as if a pass had misread it.
        other => *other = AttrValue::Int(number),
    }
    module.attributes_of_mut(id)[at].value = value;
}

#[test]
fn edited_modules_are_judged() {
    let rounds = std::env::var("HLORUN_VERIFY_EDITS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut legal, mut broken) = (0u64, 0u64);
    for module in legal_modules() {
        for _ in 0..rounds {
            let mut edited = module.clone();
            for _ in 0..=random.below(3) {
                edit(&mut edited, &mut random);
            }
            match verify(&edited) {
                Ok(_) => legal += 1,
                Err(error) => {
                    broken += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    // Most edits break something, but not all do.
    assert!(
        legal > 0 && broken > legal,
        "{legal} legal, {broken} broken"
    );
}
