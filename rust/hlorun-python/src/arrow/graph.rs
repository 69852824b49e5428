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

/// Numbers of a shape by their places: each with how often it follows itself.
type ShapeRuns = Vec<(u32, u32)>;

/// The features of nodes as they are added.
struct Row<'r> {
    features: &'r mut Features,
    /// The place of -1, which no such number is and which stands for what is not there.
    none: u32,
}

impl Row<'_> {
    fn number(&mut self, value: f32) {
        let place = self.features.place(value);
        self.features.push_place(place, 1);
    }

    fn maybe(&mut self, value: Option<i64>) {
        match value {
            Some(value) => self.number(value as f32),
            None => self.features.push_place(self.none, 1),
        }
    }

    /// The numbers of a shape, which are found out once.
    fn shape(&mut self, instruction: InstructionRef<'_>, known: &mut Option<ShapeRuns>) {
        if let Some(runs) = known {
            for &(place, count) in &*runs {
                self.features.push_place(place, count);
            }
            return;
        }
        // Made apart, as runs of a row may go on from those before.
        *known = Some(self.features.apart(|features| {
            let none = self.none;
            shape_features(&mut Row { features, none }, instruction.shape());
        }));
        self.shape(instruction, known);
    }

    /// Up to `count` numbers in the places of `count`.
    fn fill(&mut self, values: impl IntoIterator<Item = i64>, count: usize) {
        let mut left = count as u32;
        for value in values.into_iter().take(count) {
            self.number(value as f32);
            left -= 1;
        }
        self.features.push_place(self.none, left);
    }
}

/// The numbers of a shape: type, bits, parts, rank, elements and bytes, and three per dimension.
fn shape_features(row: &mut Row<'_>, shape: &Shape) {
    let array = shape.as_array();
    let parts = shape.as_tuple().map_or(0, <[_]>::len);
    let elements = array.and_then(ArrayShape::element_count);
    row.maybe(array.map(|array| array.element_type as i64));
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
}

/// The numbers of a node that follow those of its shape.
fn node_features(row: &mut Row<'_>, instruction: InstructionRef<'_>) {
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
    row.maybe(instruction.int(AttrKey::FeatureGroupCount));
    row.maybe(instruction.int(AttrKey::BatchGroupCount));
    row.maybe(instruction.parameter_number().map(|n| n as i64));
    row.maybe(instruction.tuple_index().map(|n| n as i64));
    row.number(instruction.operand_ids().len() as f32);
}

impl Graphs {
    /// Adds a module.
    pub fn add(&mut self, module: &HloModule, path: &str, fingerprint: &str) {
        self.path.push(path);
        self.fingerprint.push(fingerprint);
        self.nodes.count(module.instruction_count());
        let mut sources = 0i64;
        let mut shapes: Vec<Option<ShapeRuns>> = vec![None; module.shapes().len() + 1];
        let features = &mut self.features.items;
        let (none, [no, yes]) = (features.place(-1.0), [0.0, 1.0].map(|n| features.place(n)));
        self.edge_starts.items.0.push(sources);
        for id in (0..module.instruction_count()).map(InstructionId::from_index) {
            let instruction = module.instruction(id);
            self.opcode.items.0.push(instruction.opcode() as i64);
            let computation = instruction.computation().index() as i64;
            self.computation.items.0.push(computation);
            let features = &mut self.features.items;
            features.push_place(if instruction.is_root() { yes } else { no }, 1);
            let mut row = Row { features, none };
            row.shape(instruction, &mut shapes[instruction.shape_id().index()]);
            node_features(&mut row, instruction);
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
