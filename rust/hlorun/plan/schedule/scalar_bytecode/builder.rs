//! Code that is being put together.

use foldhash::HashMap;
use hlorun_kernels::scalar_bytecode::{self, Function};
use hlorun_kernels::{CompareDirection, DType, Gemm};

use crate::plan::cost::scalar_bytecode::MAX_PIECE;
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::scalar_bytecode::{Code, ColumnChoice, Path, Place, ScalarOp};
use crate::plan::thunk::small_loop::Line;

#[derive(Default)]
pub(super) struct Builder {
    pub(super) ops: Vec<ScalarOp>,
    pub(super) known: Vec<Line>,
    /// Where single elements are among what is known.
    pub(super) constants: HashMap<[u8; 16], Place>,
    pub(super) walks: Vec<PickedWalk>,
    pub(super) products: Vec<Gemm>,
    pub(super) choices: Vec<ColumnChoice>,
    pub(super) outside: Vec<Path>,
    pub(super) path: Path,
    /// Work of the operations so far.
    pub(super) work: usize,
    /// Operations since the last that gave the stack back.
    pub(super) since_jump: usize,
    /// The last comparison of single elements, and what it compares.
    pub(super) comparison: Option<(usize, CompareDirection, DType)>,
    /// Thunks that have become code.
    pub(super) steps: usize,
    /// Whether these are the entry's thunks, whose loops have code of their own.
    pub(super) is_entry: bool,
}

/// The length of everything, to go back to.
pub(super) struct Mark {
    pub(super) ops: usize,
    pub(super) known: usize,
    pub(super) walks: usize,
    pub(super) products: usize,
    pub(super) choices: usize,
    pub(super) work: usize,
    pub(super) since_jump: usize,
    pub(super) outside: usize,
    pub(super) path: usize,
    pub(super) steps: usize,
}

impl Builder {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            ops: self.ops.len(),
            known: self.known.len(),
            walks: self.walks.len(),
            products: self.products.len(),
            choices: self.choices.len(),
            work: self.work,
            since_jump: self.since_jump,
            outside: self.outside.len(),
            path: self.path.len(),
            steps: self.steps,
        }
    }

    pub(super) fn go_back(&mut self, mark: &Mark) {
        self.ops.truncate(mark.ops);
        self.known.truncate(mark.known);
        self.walks.truncate(mark.walks);
        self.products.truncate(mark.products);
        self.choices.truncate(mark.choices);
        self.work = mark.work;
        self.since_jump = mark.since_jump;
        self.outside.truncate(mark.outside);
        self.path.truncate(mark.path);
        self.steps = mark.steps;
        self.comparison = None;
        self.constants.clear();
    }

    pub(super) fn push(&mut self, function: Function) -> &mut ScalarOp {
        self.push_code(Code::Function(function))
    }

    pub(super) fn push_code(&mut self, code: Code) -> &mut ScalarOp {
        let at = self.ops.len();
        self.work += 1;
        self.since_jump += 1;
        self.ops.push(ScalarOp {
            code,
            operands: [Place::Nowhere; 3],
            out: Place::Nowhere,
            n: 1,
            x: 0,
            stride: 0,
            unit: 1,
            sizes: [0; 3],
            element: None,
        });
        &mut self.ops[at]
    }

    /// Ends a run of operations before it is too long; called where none is being put together.
    pub(super) fn breathe(&mut self) {
        if self.since_jump + MAX_PIECE > scalar_bytecode::MAX_RUN {
            self.push(scalar_bytecode::jump()).x = 1;
            self.since_jump = 0;
        }
    }

    /// Lets the jump at `from` go to the next operation.
    pub(super) fn land(&mut self, from: usize) {
        self.ops[from].x = (self.ops.len() - from) as i64;
    }

    /// Keeps an element for all runs.
    pub(super) fn keep(&mut self, element: [u8; 16]) -> Place {
        *self.constants.entry(element).or_insert_with(|| {
            let mut line = Line([0; size_of::<Line>()]);
            line.0[..element.len()].copy_from_slice(&element);
            self.known.push(line);
            Place::Known((self.known.len() - 1) * size_of::<Line>())
        })
    }
}
