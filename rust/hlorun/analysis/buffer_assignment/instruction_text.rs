//! The pieces of one instruction's text, `%x = f32[2] add(%a, %b), …`, without understanding it.

/// Where the pieces are.
pub(super) struct InstructionText<'a> {
    pub name: &'a [u8],
    pub shape: &'a [u8],
    /// Byte at which the shape starts.
    pub shape_at: usize,
    pub opcode: &'a [u8],
    /// Between the parentheses.
    pub operand_list: &'a [u8],
    /// What follows the closing parenthesis.
    pub tail: &'a [u8],
}

/// An operand as the text writes it.
pub(super) struct OperandText<'a> {
    pub name: &'a [u8],
    /// Empty in the short dialect.
    pub shape: &'a [u8],
}

impl<'a> InstructionText<'a> {
    pub fn split(text: &'a [u8]) -> Option<InstructionText<'a>> {
        let equals = memchr::memmem::find(text, b" = ")?;
        let name = &text[..equals];
        let name = name.strip_prefix(b"ROOT ").unwrap_or(name);
        let name = name.strip_prefix(b"%").unwrap_or(name);
        let shape_at = equals + 3;
        let space = top_level(&text[shape_at..], b' ')?;
        let shape = &text[shape_at..shape_at + space];
        let rest = &text[shape_at + space + 1..];
        let open = memchr::memchr(b'(', rest)?;
        let close = open + closing(&rest[open..])?;
        Some(InstructionText {
            name,
            shape,
            shape_at,
            opcode: &rest[..open],
            operand_list: &rest[open + 1..close],
            tail: &rest[close + 1..],
        })
    }

    /// The operands, whether or not their shapes stand before them.
    pub fn operands(&self) -> Vec<OperandText<'a>> {
        split_top_level(self.operand_list)
            .into_iter()
            .map(|operand| {
                let operand = match operand.strip_prefix(b"/*") {
                    Some(_) => match memchr::memmem::find(operand, b"*/") {
                        Some(end) => operand[end + 2..].trim_ascii_start(),
                        None => operand,
                    },
                    None => operand,
                };
                let space = operand.iter().rposition(|b| *b == b' ');
                let (shape, name) = match space {
                    Some(at) => (operand[..at].trim_ascii(), &operand[at + 1..]),
                    None => (&operand[..0], operand),
                };
                OperandText {
                    name: name.strip_prefix(b"%").unwrap_or(name),
                    shape,
                }
            })
            .collect()
    }

    /// The attributes, `key=value` each.
    pub fn attributes(&self) -> Vec<&'a [u8]> {
        split_top_level(self.tail.strip_prefix(b",").unwrap_or(self.tail))
    }
}

/// Walks a text; `visit` sees bytes that are outside strings, with the depth of brackets before
/// them, and says whether to stop.
fn scan(text: &[u8], mut visit: impl FnMut(usize, u8, usize) -> bool) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if visit(at, byte, depth) {
            return Some(at);
        }
        match byte {
            b'"' => in_string = true,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The first `wanted` outside brackets and strings.
fn top_level(text: &[u8], wanted: u8) -> Option<usize> {
    scan(text, |_, byte, depth| byte == wanted && depth == 0)
}

/// Where the parenthesis `text` starts with closes.
fn closing(text: &[u8]) -> Option<usize> {
    scan(text, |_, byte, depth| byte == b')' && depth == 1)
}

fn split_top_level(text: &[u8]) -> Vec<&[u8]> {
    let mut cuts = Vec::new();
    scan(text, |at, byte, depth| {
        if byte == b',' && depth == 0 {
            cuts.push(at);
        }
        false
    });
    cuts.push(text.len());
    let mut pieces = Vec::with_capacity(cuts.len());
    let mut start = 0;
    for cut in cuts {
        let piece = text[start..cut].trim_ascii();
        if !piece.is_empty() {
            pieces.push(piece);
        }
        start = cut + 1;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_fall_into_the_same_pieces() {
        let long =
            b"%a.1 = (f32[2]{0}, s32[]) fusion(f32[2]{0} %b, /*index=5*/(s32[], f32[]) %c), \
                     kind=kLoop, metadata={op_name=\"x, y) {\"}, calls=%f";
        let short = b"ROOT a.1 = (f32[2]{0}, s32[]) fusion(b, /*index=5*/c), kind=kLoop";
        for text in [&long[..], &short[..]] {
            let parts = InstructionText::split(text).expect("an instruction");
            assert_eq!(parts.name, b"a.1");
            assert_eq!(parts.shape, b"(f32[2]{0}, s32[])");
            assert_eq!(parts.opcode, b"fusion");
            let names: Vec<_> = parts.operands().into_iter().map(|o| o.name).collect();
            assert_eq!(names, [&b"b"[..], b"c"]);
        }
        let parts = InstructionText::split(long).expect("an instruction");
        assert_eq!(parts.operands()[1].shape, b"(s32[], f32[])");
        assert_eq!(parts.attributes().len(), 3);
        assert!(InstructionText::split(b"no instruction").is_none());
    }
}
