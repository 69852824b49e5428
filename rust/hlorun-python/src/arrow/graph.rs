//! Modules as graphs of numbers, for learning: the features of each instruction, and edges in CSR form.

use hlorun::module::attributes::WindowDimension;
use hlorun::module::{AttrKey, HloModule, Id, InstructionId, InstructionRef};
use hlorun::types::{ArrayShape, Shape};

use super::columns::{Features, Ints, Lists, Numbers, Texts, Words, table};

table! {
    /// One row per module: its instructions as the nodes of a graph. Node k is the instruction with id k.
    Graphs "graphs" {
        /// The file, as in `modules`.
        path: Words,
        /// As in `modules`.
        fingerprint: Texts,
        /// Number of nodes.
        nodes: Ints,
        /// Number of the opcode of each node, in the order of `hlorun.batch_schema()["opcodes"]`.
        opcode: Lists<Numbers>,
        /// Number of the computation of each node.
        computation: Lists<Numbers>,
        /// The features of node 0, then of node 1, and so on; `hlorun.batch_schema()["features"]` names them.
        features: Lists<Features>,
        /// Where the operands of each node begin in `edge_sources`; one more than there are nodes.
        edge_starts: Lists<Numbers>,
        /// The operands of each node, in order: edges go from these to the node.
        edge_sources: Lists<Numbers>,
        /// The computations that each instruction calls, as pairs: a node, and the root of what it calls.
        call_edges: Lists<Numbers>,
    }
}

/// Dimensions that have features of their own; more are in the sums and products alone.
const RANK: usize = 6;
/// Window dimensions that have features of their own.
const WINDOW: usize = 3;
/// Contracting and batch dimensions of each side that have features.
const SIDE: usize = 2;

/// The names of the features of a node, in order.
pub fn feature_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "is_root",
        "element_type",
        "element_bits",
        "tuple_size",
        "rank",
        "elements",
        "bytes",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut numbered = |name: &str, count: usize| {
        names.extend((0..count).map(|k| format!("{name}_{k}")));
    };
    for name in ["dim", "is_dynamic", "minor_to_major", "dimensions"] {
        numbered(name, RANK);
    }
    for name in [
        "size",
        "stride",
        "padding_low",
        "padding_high",
        "window_dilation",
        "base_dilation",
    ] {
        numbered(&format!("window_{name}"), WINDOW);
    }
    for name in [
        "lhs_contracting_dim",
        "rhs_contracting_dim",
        "lhs_batch_dim",
        "rhs_batch_dim",
    ] {
        numbered(name, SIDE);
    }
    names.extend(
        [
            "feature_group_count",
            "batch_group_count",
            "parameter_number",
            "tuple_index",
            "operands",
        ]
        .map(str::to_owned),
    );
    names
}

/// Numbers of a shape: type, bits, parts, rank, elements and bytes, and three per dimension.
const SHAPE: usize = 6 + 3 * RANK;

/// The features of one node that are there; -1, which no such number is, stands for the rest.
struct Row<'r> {
    numbers: &'r mut [f32],
    at: usize,
}

impl Row<'_> {
    fn number(&mut self, value: f32) {
        self.numbers[self.at] = value;
        self.at += 1;
    }

    /// Up to `count` numbers in the places of `count`.
    fn fill(&mut self, values: impl IntoIterator<Item = i64>, count: usize) {
        let places = self.numbers[self.at..].iter_mut().take(count);
        for (place, value) in places.zip(values) {
            *place = value as f32;
        }
        self.at += count;
    }
}

fn shape_features(shape: &Shape) -> [f32; SHAPE] {
    let mut numbers = [-1.0; SHAPE];
    let mut row = Row {
        numbers: &mut numbers,
        at: 0,
    };
    let array = shape.as_array();
    let parts = shape.as_tuple().map_or(0, <[_]>::len);
    let elements = array.and_then(ArrayShape::element_count);
    row.number(array.map_or(-1.0, |array| f32::from(array.element_type as u8)));
    row.number(array.map_or(0, |array| array.element_type.bit_width()) as f32);
    row.number(parts as f32);
    row.number(array.map_or(0, ArrayShape::rank) as f32);
    row.number(elements.unwrap_or(0) as f32);
    row.number(array.and_then(ArrayShape::byte_size).unwrap_or(0) as f32);
    let dims = array.map_or(&[][..], |array| &array.dims);
    row.fill(dims.iter().copied(), RANK);
    let dynamic = |dim| array.is_some_and(|array| array.is_dynamic_dimension(dim));
    row.fill((0..dims.len()).map(|dim| i64::from(dynamic(dim))), RANK);
    let order = array.map(ArrayShape::minor_to_major).unwrap_or_default();
    row.fill(order.iter().map(|&dim| i64::from(dim)), RANK);
    numbers
}

/// Writes the features of a node over numbers that are -1.
fn features(numbers: &mut [f32], instruction: InstructionRef<'_>, shape: &[f32; SHAPE]) {
    let mut row = Row { numbers, at: 0 };
    row.number(f32::from(u8::from(instruction.is_root())));
    row.numbers[row.at..row.at + SHAPE].copy_from_slice(shape);
    row.at += SHAPE;
    row.fill(instruction.dimensions().iter().copied(), RANK);
    let window = instruction.window().map_or(&[][..], |window| &window.0);
    let parts: [fn(&WindowDimension) -> i64; 6] = [
        |dim| dim.size,
        |dim| dim.stride,
        |dim| dim.padding_low,
        |dim| dim.padding_high,
        |dim| dim.window_dilation,
        |dim| dim.base_dilation,
    ];
    for part in parts {
        row.fill(window.iter().map(part), WINDOW);
    }
    for key in [
        AttrKey::LhsContractingDims,
        AttrKey::RhsContractingDims,
        AttrKey::LhsBatchDims,
        AttrKey::RhsBatchDims,
    ] {
        row.fill(instruction.ints(key).iter().copied(), SIDE);
    }
    let number = |value: Option<i64>| value.unwrap_or(-1) as f32;
    row.number(number(instruction.int(AttrKey::FeatureGroupCount)));
    row.number(number(instruction.int(AttrKey::BatchGroupCount)));
    row.number(number(instruction.parameter_number().map(|n| n as i64)));
    row.number(number(instruction.tuple_index().map(|n| n as i64)));
    row.number(instruction.operand_ids().len() as f32);
}

impl Graphs {
    /// Adds a module.
    pub fn add(&mut self, module: &HloModule, path: &str, fingerprint: &str) {
        self.path.push(path);
        self.fingerprint.push(fingerprint);
        self.nodes.count(module.instruction_count());
        let mut sources = 0i64;
        let mut shapes: Vec<Option<[f32; SHAPE]>> = vec![None; module.shapes().len() + 1];
        let width = feature_names().len();
        self.edge_starts.items.0.push(sources);
        for id in (0..module.instruction_count()).map(InstructionId::from_index) {
            let instruction = module.instruction(id);
            self.opcode.items.0.push(instruction.opcode() as i64);
            let computation = instruction.computation().index() as i64;
            self.computation.items.0.push(computation);
            let numbers = &mut self.features.items.0;
            let start = numbers.len();
            numbers.resize(start + width, -1.0);
            let shape = shapes[instruction.shape_id().index()]
                .get_or_insert_with(|| shape_features(instruction.shape()));
            features(&mut numbers[start..], instruction, shape);
            let operands = instruction.operand_ids();
            sources += operands.len() as i64;
            self.edge_starts.items.0.push(sources);
            let operands = operands.iter().map(|operand| operand.index() as i64);
            self.edge_sources.items.0.extend(operands);
            for called in instruction.called_computations() {
                if let Some(root) = module.computation(called).root {
                    let pair = [id.index() as i64, root.index() as i64];
                    self.call_edges.items.0.extend(pair);
                }
            }
        }
        self.opcode.end_row();
        self.computation.end_row();
        self.features.end_row();
        self.edge_starts.end_row();
        self.edge_sources.end_row();
        self.call_edges.end_row();
    }
}
