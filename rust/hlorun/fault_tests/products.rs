//! Faults around products and convolutions: what they share, and what is done to their results.

use super::{entry, misleads, refused};
use crate::plan::faults::Fault;

#[test]
fn kernels_in_strips() {
    let row = |k: i32| {
        let weights = (0..16).map(|f| (k * 16 + f).to_string());
        format!("{{{}}}", weights.collect::<Vec<_>>().join(","))
    };
    let rows: Vec<String> = (0..4)
        .map(|k| format!("{{{},{}}}", row(2 * k), row(2 * k + 1)))
        .collect();
    let sides = entry(&format!(
        "  p = f32[1,64,2] parameter(0)
  k = f32[4,2,16] constant({{{}}})
  a = f32[1,61,16] convolution(p, k), window={{size=4}}, dim_labels=b0f_0io->b0f
  b = f32[1,61,16] convolution(p, k), window={{size=4 rhs_reversal=1}}, dim_labels=b0f_0io->b0f
  ROOT d = f32[1,61,16] subtract(a, b)",
        rows.join(",")
    ));
    misleads(Fault::SharesOtherPacking, &sides, "pack-constants");
}

#[test]
fn operands_in_panels() {
    let row = |i: i32| {
        let elements = (0..128).map(|j| ((i * 7 + j * 3) % 11 - 5).to_string());
        format!("{{{}}}", elements.collect::<Vec<_>>().join(","))
    };
    let rows: Vec<String> = (0..128).map(row).collect();
    let sides = entry(&format!(
        "  p = f32[40,128] parameter(0)
  k = f32[128,128] constant({{{}}})
  a = f32[40,128] dot(p, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[40,128] dot(p, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT d = f32[40,128] subtract(a, b)",
        rows.join(",")
    ));
    misleads(Fault::SharesOtherPacking, &sides, "pack-constants");
}

#[test]
fn epilogues_of_products() {
    let read_later = entry(
        "  p = f32[20,24] parameter(0)
  w = f32[24,32] parameter(1)
  v = f32[32,32] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[20,32] broadcast(zero), dimensions={}
  d = f32[20,32] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[20,32] maximum(d, zeros)
  e = f32[20,32] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[20,32], f32[20,32]) tuple(h, e)",
    );
    refused(Fault::EpilogueForgetsResult, &read_later);
    let turned = entry(
        "  p = f32[32,24] parameter(0)
  w = f32[24,32] parameter(1)
  q = f32[32,32] parameter(2)
  t = f32[32,32] transpose(q), dimensions={1,0}
  d = f32[32,32] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[32,32] multiply(d, t)",
    );
    misleads(Fault::EpilogueTurnsOperand, &turned, "product-epilogues");
    let early =
        include_str!("../../../tests/hlo/passes/product-epilogues/not_before_its_operand.hlo");
    refused(Fault::EpilogueReadsLater, module_of(early));
    let moved =
        include_str!("../../../tests/hlo/passes/product-epilogues/not_read_by_the_other.hlo");
    refused(Fault::EpilogueReadsMoved, module_of(moved));
}

/// The module of a text that also says what a pass makes of it.
fn module_of(text: &str) -> &str {
    text.split("// -----").next().unwrap_or(text)
}
