//! Bytes → text, by the tables of the schema.

use std::fmt::Write;

use super::{MOST_NESTED, table_of};
use crate::proto::schema::numbered::{Form, Row, Table};
use crate::proto::sniff::Kind;
use crate::proto::wire::{Value, read_field, varint};
use crate::text::printer::{write_escaped, write_f32, write_f64};

/// The text of the message in `bytes`; what is wrong where they are broken or hold what has no name.
pub fn to_text(bytes: &[u8], kind: Kind) -> Result<String, String> {
    let mut out = String::with_capacity(2 * bytes.len());
    let mut open: Vec<(&[u8], &Table)> = vec![(bytes, table_of(kind))];
    while let Some((rest, table)) = open.last_mut() {
        let table: &Table = table;
        if rest.is_empty() {
            open.pop();
            if !open.is_empty() {
                indent(&mut out, open.len());
                out.push_str("}\n");
            }
            continue;
        }
        let Some((number, value)) = read_field(rest) else {
            return Err(format!("a broken {}", table.name));
        };
        let Some(row) = table.numbered(number) else {
            return Err(format!("{} has no field {number}", table.name));
        };
        indent(&mut out, open.len());
        out.push_str(row.name);
        match (row.form, value) {
            (Form::Message(inner), Value::Bytes(bytes)) => {
                if open.len() > MOST_NESTED {
                    return Err(format!("messages nested deeper than {MOST_NESTED}"));
                }
                out.push_str(" {\n");
                open.push((bytes, inner()));
            }
            (_, value) => {
                out.push_str(": ");
                field(&mut out, row, value)
                    .ok_or_else(|| format!("a broken field '{}'", row.name))?;
                out.push('\n');
            }
        }
    }
    Ok(out)
}

fn indent(out: &mut String, depth: usize) {
    (1..depth).for_each(|_| out.push_str("  "));
}

/// Appends a field that is no message; numbers that stand together are a list.
fn field(out: &mut String, row: &Row, value: Value<'_>) -> Option<()> {
    let mut packed = match (row.form, value) {
        (Form::String, Value::Bytes(bytes)) => {
            out.push('"');
            write_escaped(out, bytes);
            out.push('"');
            return Some(());
        }
        (_, Value::Bytes(packed)) if row.is_repeated => packed,
        (form, value) => return number(out, form, value),
    };
    out.push('[');
    let mut is_first = true;
    while !packed.is_empty() {
        let value = match row.form {
            Form::Float => Value::Float(f32::from_le_bytes(*packed.split_off(..4)?.first_chunk()?)),
            Form::Double => {
                Value::Double(f64::from_le_bytes(*packed.split_off(..8)?.first_chunk()?))
            }
            _ => Value::Number(varint(&mut packed)?),
        };
        out.push_str(if is_first { "" } else { ", " });
        is_first = false;
        number(out, row.form, value)?;
    }
    out.push(']');
    Some(())
}

/// Appends a number; `None` where `value` is none of this form.
fn number(out: &mut String, form: Form, value: Value<'_>) -> Option<()> {
    let number = match (form, value) {
        // What else is in it has no place in a text.
        (Form::Float, Value::Float(number)) if number.is_nan() => {
            out.push_str("nan");
            return Some(());
        }
        (Form::Double, Value::Double(number)) if number.is_nan() => {
            out.push_str("nan");
            return Some(());
        }
        (Form::Float, Value::Float(number)) => {
            write_f32(out, number);
            return Some(());
        }
        (Form::Double, Value::Double(number)) => {
            write_f64(out, number);
            return Some(());
        }
        (_, Value::Number(number)) => number,
        _ => return None,
    };
    let _ = match form {
        Form::Bool => write!(out, "{}", number != 0),
        Form::Int32 => write!(out, "{}", number as i32),
        Form::Int64 => write!(out, "{}", number as i64),
        Form::Uint32 => write!(out, "{}", number as u32),
        Form::Uint64 => write!(out, "{number}"),
        Form::Enumeration(words) => match words.word(number as i32) {
            Some(word) => write!(out, "{word}"),
            None => write!(out, "{}", number as i32),
        },
        Form::Float | Form::Double | Form::String | Form::Message(_) => return None,
    };
    Some(())
}
