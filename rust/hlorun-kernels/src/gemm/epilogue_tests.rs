//! Epilogues against the same steps after the product, to the bit.

use super::epilogue::{Epilogue, EpilogueOp, EpilogueOperand};
use super::indirect::{Indirect, IndirectOperand, IndirectRows};
use super::packed::{fits_panels, gemm_packed, pack_bytes, packed_size, panel_width};
use super::{Gemm, Matrix, Parallel, gemm, gemm_with_epilogue, takes_epilogue};
use crate::DType;

/// Values whose sums depend on their order, and both zeros.
fn values(count: usize, seed: usize) -> Vec<f32> {
    let value = |at: usize| [1.5, -1.0, 0.1, -0.0, 0.0, 3.0, 1e-3, -7.25, 1e3][(at * 7 + seed) % 9];
    (0..count)
        .map(|at| value(at) * (1 + at % 13) as f32)
        .collect()
}

/// Operands of every kind for C of `m` rows, and of `n` columns in rows as far apart as said.
struct Operands {
    columns: Vec<f32>,
    whole: Vec<f32>,
    row: usize,
    /// The only number of an operand.
    one: Box<f32>,
}

const OPS: [EpilogueOp; 6] = [
    EpilogueOp::Subtract,
    EpilogueOp::Multiply,
    EpilogueOp::Add,
    EpilogueOp::SubtractFrom,
    EpilogueOp::AtLeast,
    EpilogueOp::AtMost,
];

/// The operand of step `nth`, and its number for a row and a column.
impl Operands {
    fn new(m: usize, n: usize) -> Operands {
        Operands {
            columns: values(n, 3),
            whole: values(m * (n + 2), 5),
            row: n + 2,
            one: Box::new(-2.5),
        }
    }

    fn operand(&self, nth: usize) -> EpilogueOperand {
        let matrix = |from: &Vec<f32>, row: usize| EpilogueOperand::Matrix {
            first: from.as_ptr().cast(),
            row_stride: row as isize,
        };
        match nth {
            0 | 2 => matrix(&self.columns, 0),
            1 | 3 => matrix(&self.whole, self.row),
            4 => EpilogueOperand::Element(std::ptr::from_ref(&*self.one).cast()),
            _ => EpilogueOperand::Scalar(u64::from(6f32.to_bits())),
        }
    }

    fn number(&self, nth: usize, i: usize, j: usize) -> f32 {
        match nth {
            0 | 2 => self.columns[j],
            1 | 3 => self.whole[i * self.row + j],
            4 => *self.one,
            _ => 6.0,
        }
    }

    fn epilogue(&self) -> Epilogue {
        let steps = OPS.iter().enumerate();
        Epilogue::new(4, steps.map(|(nth, &op)| (op, self.operand(nth))))
    }

    fn apply(&self, x: f32, i: usize, j: usize) -> f32 {
        OPS.iter().enumerate().fold(x, |x, (nth, op)| {
            let y = self.number(nth, i, j);
            match op {
                EpilogueOp::Add => x + y,
                EpilogueOp::Subtract => x - y,
                EpilogueOp::SubtractFrom => y - x,
                EpilogueOp::Multiply => x * y,
                EpilogueOp::AtLeast if x <= y => y,
                EpilogueOp::AtMost if x >= y => y,
                _ => x,
            }
        })
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn check(g: &Gemm, seed: usize) {
    let (m, n, k) = (g.m, g.n, g.k);
    let (a, b) = (values(m * k, seed), values(k * n, seed + 1));
    let operands = Operands::new(m, n);
    let epilogue = operands.epilogue();
    let old = values(m * n, seed + 2);
    let (mut want, mut got, mut packed) = (old.clone(), old.clone(), old);
    let (a_bytes, b_bytes) = (a.as_ptr().cast(), b.as_ptr().cast());
    // SAFETY: the matrices have these sizes.
    unsafe {
        gemm(
            g,
            a_bytes,
            b_bytes,
            want.as_mut_ptr().cast(),
            &Parallel::SERIAL,
        )
        .expect("memory");
        let c = got.as_mut_ptr().cast();
        gemm_with_epilogue(g, a_bytes, b_bytes, c, &epilogue, &Parallel::SERIAL).expect("memory");
    }
    for (at, x) in want.iter_mut().enumerate() {
        *x = operands.apply(*x, at / n, at % n);
    }
    assert_eq!(bits(&got), bits(&want), "{g:?}");
    if !fits_panels(g) {
        return;
    }
    let width = panel_width(DType::F32, m, n);
    let mut panels = vec![0; packed_size(DType::F32, width, k, n).expect("small")];
    let bytes: Vec<u8> = b.iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert!(pack_bytes(
        DType::F32,
        width,
        [k, n],
        &bytes,
        g.b,
        &mut panels
    ));
    // SAFETY: as above.
    unsafe {
        let c = packed.as_mut_ptr().cast();
        gemm_packed(g, a_bytes, panels.as_ptr(), c, &epilogue, &Parallel::SERIAL).expect("memory");
    }
    assert_eq!(bits(&packed), bits(&want), "{g:?} in panels");
}

#[test]
fn steps_have_the_bits_of_a_pass_for_each() {
    let mut taken = 0;
    for (m, n, k) in [
        (1, 40, 9),
        (2, 3, 5),
        (5, 32, 16),
        (7, 70, 600),
        (12, 100, 300),
        (9, 330, 900),
        (33, 17, 40),
        (64, 300, 12),
        (90, 64, 257),
        (130, 5, 70),
        (40, 1, 30),
        (200, 130, 64),
        (3, 4, 0),
    ] {
        for (beta, alpha) in [(0.0, 1.0), (1.0, -0.5)] {
            let plain = Gemm {
                beta,
                alpha: (alpha, 0.0),
                ..Gemm::dense(DType::F32, m, n, k)
            };
            let turned = Gemm {
                b: Matrix::row_major(k, 0).transposed(),
                ..plain
            };
            for g in [plain, turned] {
                taken += usize::from(takes_epilogue(&g));
                check(&g, m + k);
            }
        }
    }
    assert!(taken > 20 || crate::Isa::active() == crate::Isa::Portable);
}

#[test]
fn steps_follow_the_last_block_of_an_indirect_product() {
    for (columns, terms, depth, count) in [
        (70, 2, 300, 13),
        (16, 1, 5, 6),
        (130, 9, 40, 20),
        (5, 3, 2, 7),
    ] {
        let product = Indirect::new(DType::F32, columns, terms, depth).expect("kernels of f32");
        let (inputs, weights) = (
            values(count + depth + terms, 1),
            values(terms * depth * columns, 2),
        );
        let given = |term: usize| weights[term * depth * columns..].as_ptr().cast();
        let operand = IndirectOperand::InPlace {
            term: &given,
            steps: [columns as isize, 1],
        };
        // The rows and columns before these belong to others.
        let origin = [3, 2];
        let operands = Operands::new(count + origin[0], columns + origin[1]);
        let steps = operands.epilogue();
        let run = |epilogue: &Epilogue| {
            let mut c = vec![f32::NAN; count * columns];
            let many = product.block_terms();
            for first in (0..terms).step_by(many) {
                let own = first..terms.min(first + many);
                let entries = own
                    .clone()
                    .flat_map(|term| (0..count).map(move |row| row + term));
                let table: Vec<*const u8> =
                    entries.map(|at| inputs[at..].as_ptr().cast()).collect();
                let rows = IndirectRows {
                    table: &table,
                    count,
                    terms: own,
                    columns: 0..columns,
                    c: c.as_mut_ptr().cast(),
                    c_row: columns as isize,
                    epilogue,
                    origin,
                    check: &|| (),
                };
                // SAFETY: every row has `depth` inputs, and C its rows.
                unsafe { product.run(&rows, &operand) }.expect("memory");
            }
            c
        };
        let mut want = run(Epilogue::none());
        for (at, x) in want.iter_mut().enumerate() {
            *x = operands.apply(*x, at / columns + origin[0], at % columns + origin[1]);
        }
        assert_eq!(bits(&run(&steps)), bits(&want), "{columns} {terms} {depth}");
    }
}
