//! `window={size=3x3 stride=2x2 pad=1_1x1_1 …}`, `padding=0_1_2x…`, `dim_labels=b01f_01io->b01f`.

use smallvec::SmallVec;

use super::error::{Fault, Parsed};
use super::parser::Parser;
use crate::module::AttrValue;
use crate::module::attributes::{
    ConvolutionDimensionNumbers, PaddingDimension, Window, WindowDimension,
};

impl Parser<'_> {
    pub(super) fn window(&mut self) -> Parsed<Window> {
        self.cursor.expect(b'{', "'{' of the window")?;
        let mut dims: SmallVec<[WindowDimension; 4]> = SmallVec::new();
        let mut given = false;
        while !self.cursor.eat(b'}') {
            let at = self.cursor.position;
            let key = self.cursor.word("a field of the window or '}'")?;
            let field = self.cursor.bytes(key);
            self.cursor.expect(b'=', "'=' after the field's name")?;
            self.cursor.skip_space();
            let mut index = 0;
            loop {
                let first = self.cursor.integer("a number")?;
                if !given && index == dims.len() {
                    dims.push(WindowDimension::default());
                }
                let Some(dim) = dims.get_mut(index) else {
                    return Err(Fault::new(at, "the fields of the window differ in rank"));
                };
                match field {
                    b"size" => dim.size = first,
                    b"stride" => dim.stride = first,
                    b"lhs_dilate" => dim.base_dilation = first,
                    b"rhs_dilate" => dim.window_dilation = first,
                    b"rhs_reversal" => dim.window_reversal = first != 0,
                    b"pad" => {
                        dim.padding_low = first;
                        if self.cursor.peek() != b'_' {
                            return Err(self.cursor.expected("'_' between low and high padding"));
                        }
                        self.cursor.position += 1;
                        dim.padding_high = self.cursor.integer("the high padding")?;
                    }
                    _ => {
                        return Err(Fault::new(
                            at,
                            format!("'{}' is no field of a window", self.module.str(key)),
                        ));
                    }
                }
                index += 1;
                if self.cursor.peek() != b'x' {
                    break;
                }
                self.cursor.position += 1;
            }
            if given && index != dims.len() {
                return Err(Fault::new(at, "the fields of the window differ in rank"));
            }
            given = true;
        }
        Ok(Window(dims))
    }

    /// `0_1x2_3_4`, of `pad`.
    pub(super) fn padding(&mut self) -> Parsed<AttrValue> {
        let mut list: Vec<PaddingDimension> = Vec::new();
        loop {
            let mut parts: SmallVec<[i64; 3]> = SmallVec::new();
            loop {
                parts.push(self.cursor.integer("a padding")?);
                if self.cursor.peek() != b'_' || parts.len() == 3 {
                    break;
                }
                self.cursor.position += 1;
            }
            if parts.len() < 2 {
                return Err(self.cursor.expected("'_' between low and high padding"));
            }
            list.push(PaddingDimension {
                edge_low: parts[0],
                edge_high: parts[1],
                interior: parts.get(2).copied().unwrap_or(0),
            });
            if self.cursor.peek() != b'x' {
                break;
            }
            self.cursor.position += 1;
        }
        Ok(AttrValue::Padding(list.into_boxed_slice()))
    }

    pub(super) fn dim_labels(&mut self) -> Parsed<ConvolutionDimensionNumbers> {
        let start = self.cursor.position;
        let run = |from: usize| {
            self.cursor.source[from..]
                .iter()
                .take_while(|b| b.is_ascii_alphanumeric() || **b == b'?')
                .count()
        };
        let bad = |at: usize| {
            Fault::new(
                at,
                "expected dimension labels such as b01f_01io->b01f".to_owned(),
            )
        };
        let input = start..start + run(start);
        if self.cursor.source.get(input.end) != Some(&b'_') {
            return Err(bad(start));
        }
        let kernel_start = input.end + 1;
        let kernel = kernel_start..kernel_start + run(kernel_start);
        if !self.cursor.source[kernel.end..].starts_with(b"->") {
            return Err(bad(start));
        }
        let output_start = kernel.end + 2;
        let output = output_start..output_start + run(output_start);
        let end = output.end;
        let source = self.cursor.source;
        let mut numbers = ConvolutionDimensionNumbers::default();
        let spatial = |range: std::ops::Range<usize>, names: [u8; 2]| {
            labels(&source[range], names).ok_or_else(|| bad(start))
        };
        (
            numbers.input_batch,
            numbers.input_feature,
            numbers.input_spatial,
        ) = spatial(input, *b"bf")?;
        (
            numbers.kernel_input_feature,
            numbers.kernel_output_feature,
            numbers.kernel_spatial,
        ) = spatial(kernel, *b"io")?;
        (
            numbers.output_batch,
            numbers.output_feature,
            numbers.output_spatial,
        ) = spatial(output, *b"bf")?;
        if numbers.input_spatial.len() != numbers.kernel_spatial.len()
            || numbers.input_spatial.len() != numbers.output_spatial.len()
        {
            return Err(bad(start));
        }
        self.cursor.position = end;
        Ok(numbers)
    }
}

/// Positions of the two named dimensions and of the spatial ones, in their order.
fn labels(text: &[u8], names: [u8; 2]) -> Option<(i64, i64, SmallVec<[i64; 3]>)> {
    let count = text.iter().filter(|&&b| b.is_ascii_digit()).count();
    let mut spatial: SmallVec<[i64; 3]> = SmallVec::from_elem(-1, count);
    let mut named = [-1i64; 2];
    for (position, &byte) in text.iter().enumerate() {
        let slot = if byte == names[0] {
            &mut named[0]
        } else if byte == names[1] {
            &mut named[1]
        } else if byte.is_ascii_digit() {
            spatial.get_mut(usize::from(byte - b'0'))?
        } else if byte == b'?' {
            continue;
        } else {
            return None;
        };
        if *slot != -1 {
            return None;
        }
        *slot = position as i64;
    }
    (!named.contains(&-1)).then_some((named[0], named[1], spatial))
}
