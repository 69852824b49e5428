//! Products by a table of pointers against sums in their order.

use super::epilogue::Epilogue;
use super::indirect::*;
use crate::{DType, Isa};
use std::ops::Range;

/// Values whose sums depend on their order.
fn value(at: usize) -> f32 {
    [1e6, 1.5, -1e6, 0.1, -0.0, 3.0, 1e-3, -7.25][at * 5 % 8] * (1 + at % 13) as f32
}

/// Element `j` of the row that sees the inputs which begin at `starts`: blocks of the depth in turn.
fn expected(p: &Indirect, inputs: &[f32], starts: &[usize], weights: &[f32], j: usize) -> f32 {
    let mut total = None;
    let steps = |term: usize, steps: Range<usize>| {
        steps.map(move |step| {
            let b = (term * p.depth + step) * p.columns + j;
            (inputs[starts[term] + step], weights[b])
        })
    };
    let many = p.block_terms();
    for first in (0..p.terms).step_by(many) {
        for from in (0..p.depth).step_by(p.part_steps()) {
            let block = from..p.depth.min(from + p.part_steps());
            let terms = first..p.terms.min(first + many);
            let mut pairs = terms.flat_map(|term| steps(term, block.clone()));
            let sum = pairs.try_fold(0f32, |sum, (x, w)| {
                Some(match Isa::active().is_fused() {
                    true => x.mul_add(w, sum),
                    false => x * w + sum,
                })
            });
            let sum = sum.expect("every step");
            total = Some(total.map_or(sum, |total: f32| sum + total));
        }
    }
    total.expect("one block")
}

fn check(columns: usize, terms: usize, depth: usize, count: usize) {
    let product = Indirect::new(DType::F32, columns, terms, depth).expect("kernels of f32");
    let inputs: Vec<f32> = (0..4 * depth + 64).map(value).collect();
    let weights: Vec<f32> = (0..terms * depth * columns)
        .map(|at| value(at + 3))
        .collect();
    let bytes = |values: &[f32]| {
        values
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect::<Vec<u8>>()
    };
    let mut packed = vec![0u8; product.packed_size().expect("a small kernel")];
    let steps = [columns as isize, 1];
    for term in 0..terms {
        let from = bytes(&weights[term * depth * columns..]);
        assert!(product.pack_bytes(term, &from, steps, &mut packed));
        assert!(!product.pack_bytes(term, &from[4..depth * columns * 4], steps, &mut packed));
    }
    let start = |row: usize, term: usize| (row * 7 + term * 5) % (3 * depth + 64);
    let width = columns + 3;
    let given = |term: usize| weights[term * depth * columns..].as_ptr().cast();
    let operands = [
        IndirectOperand::Strips(packed.as_ptr()),
        IndirectOperand::InPlace {
            term: &given,
            steps,
        },
    ];
    let chunk = 2 * product.block_terms();
    let results = operands.map(|operand| {
        let mut c = vec![f32::NAN; count * width];
        for first in (0..terms).step_by(chunk) {
            let own = first..terms.min(first + chunk);
            let entries = own
                .clone()
                .flat_map(|term| (0..count).map(move |row| start(row, term)));
            let table: Vec<*const u8> = entries.map(|at| inputs[at..].as_ptr().cast()).collect();
            // All columns at once, or strip by strip.
            let step = [columns, product.strip()][terms % 2];
            for column in (0..columns).step_by(step) {
                let rows = IndirectRows {
                    table: &table,
                    count,
                    terms: own.clone(),
                    columns: column..columns.min(column + step),
                    c: c[column..].as_mut_ptr().cast(),
                    c_row: width as isize,
                    epilogue: Epilogue::none(),
                    origin: [0, 0],
                    check: &|| (),
                };
                // SAFETY: every start has `depth` inputs behind it, and the rows of C lie in `c`.
                unsafe { product.run(&rows, &operand) }.expect("memory");
            }
        }
        c
    });
    let [c, in_place] = results;
    let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&c), bits(&in_place), "{columns} {terms} {depth}");
    for (row, got) in c.chunks(width).enumerate() {
        assert!(
            got[columns..].iter().all(|x| x.is_nan()),
            "beyond the columns"
        );
        let starts: Vec<usize> = (0..terms).map(|term| start(row, term)).collect();
        for (j, got) in got[..columns].iter().enumerate() {
            let want = expected(&product, &inputs, &starts, &weights, j);
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{columns} {terms} {depth}: {row}, {j}"
            );
        }
    }
}

#[test]
fn an_element_is_one_sum_for_each_block() {
    for columns in [1, 15, 16, 17, 33, 48, 64, 100, 300] {
        for (terms, depth) in [(1, 1), (9, 3), (3, 40), (7, 100), (1, 257), (2, 600)] {
            check(columns, terms, depth, 13);
        }
    }
    for count in 1..20 {
        check(70, 2, 5, count);
    }
}

#[test]
fn operands_out_of_bounds_are_refused() {
    let product = Indirect::new(DType::F64, 3, 2, 4).expect("kernels of f64");
    let mut packed = vec![0u8; product.packed_size().expect("a small kernel")];
    let from = [0u8; 96];
    assert!(product.pack_bytes(1, &from, [3, 1], &mut packed));
    assert!(!product.pack_bytes(2, &from, [3, 1], &mut packed));
    assert!(!product.pack_bytes(0, &from, [-3, 1], &mut packed));
    assert!(!product.pack_bytes(0, &from, [isize::MAX, 1], &mut packed));
    assert!(!product.pack_bytes(0, &from, [3, 1], &mut packed[1..]));
}

#[test]
fn integers_have_no_such_kernels() {
    assert_eq!(Indirect::new(DType::S32, 3, 2, 4).map(|p| p.columns), None);
}
