//! Protos ↔ module: `HloModuleProto`, `HloProto` and `HloSnapshot`, as XLA dumps them.
//!
//! Comes in: the bytes of a proto, or its text (`.pbtxt`), which becomes those. Goes out: the module, and
//! what else the proto holds; and back.
//! A proto is written as text first and parsed then, so that what holds for texts holds for protos:
//! the limits, the checks, and that every instruction has a text to point at. Elements of constants
//! go past the text. Promise: nothing in the bytes can panic, recurse without bound, or use memory
//! out of proportion to them.

mod numbers;
mod pbtxt;
mod profile;
mod read;
pub mod schema;
mod sniff;
mod wire;
mod write;

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use smallvec::SmallVec;

use crate::error::{HloError, Location, ParseError, Result};
use crate::module::{HloModule, ModuleText, Source};
use crate::text::ParseOptions;
use crate::types::Literal;
pub use profile::profile_modules;
use read::literal::read_literal;
use schema::{hlo_file, snapshot};
pub use sniff::{Kind, kind_of};
use wire::{Fields, Value};
pub use write::write_module;

/// What a file of a proto holds.
#[derive(Clone, Debug)]
pub struct ProtoFile {
    /// The module.
    pub module: HloModule,
    /// Which message it was.
    pub kind: Kind,
    /// Arguments of the run that a snapshot is of; empty otherwise.
    pub arguments: Vec<Literal>,
    /// The result of that run.
    pub result: Option<Literal>,
    /// Where it ran; empty where the snapshot does not say.
    pub platform: String,
}

/// An error of the whole file, which has no lines.
#[cold]
pub fn fault(filename: Option<&Arc<str>>, message: impl Into<String>) -> HloError {
    HloError::Parse(Box::new(ParseError {
        message: message.into(),
        location: Location {
            filename: filename.cloned(),
            ..Location::default()
        },
        notes: Vec::new(),
    }))
}

/// Which message `source` is or is the text of, and its bytes.
fn binary(source: &Source, options: &ParseOptions) -> Result<Option<(Kind, Source)>> {
    if let Some(kind) = sniff::binary_kind(source) {
        return Ok(Some((kind, source.clone())));
    }
    let Some(kind) = pbtxt::kind(source) else {
        return Ok(None);
    };
    let bytes = pbtxt::to_bytes(source, kind).map_err(|fault| {
        fault.into_error(&ModuleText::new(source.clone(), options.filename.clone()))
    })?;
    Ok(Some((kind, Source::from(bytes))))
}

/// The text form of the module's proto.
///
/// # Errors
/// As for [`write_module`].
pub fn write_module_text(module: &HloModule) -> Result<String> {
    let bytes = write_module(module)?;
    pbtxt::to_text(&bytes, Kind::Module).map_err(HloError::execution)
}

/// Reads the proto in `source`, whichever it is, or its text.
///
/// # Errors
/// [`HloError::Parse`] when it is none of them, or is broken.
pub fn read(source: &Source, options: &ParseOptions) -> Result<ProtoFile> {
    let filename = options.filename.as_ref();
    let broken = |what: &str| fault(filename, format!("a broken {what}"));
    if let Some(message) = options.limits.too_long(source.len()) {
        return Err(fault(filename, message));
    }
    let Some((kind, source)) = binary(source, options)? else {
        return Err(fault(
            filename,
            "expected an HloProto, HloModuleProto or HloSnapshot, found other binary data",
        ));
    };
    let bytes = Bytes::from_owner(source);
    let part = |bytes: &Bytes, number, what| nested(bytes, number).ok_or_else(|| broken(what));
    let literal = |value: &[u8]| read_literal(bytes.slice_ref(value), &options.limits, filename);
    let (mut arguments, mut result, mut platform) = (Vec::new(), &[][..], String::new());
    let module = match kind {
        Kind::Module => bytes.clone(),
        Kind::Hlo => part(&bytes, hlo_file::hlo_module, "HloProto")?,
        Kind::Snapshot => {
            let hlo = part(&bytes, snapshot::hlo, "HloSnapshot")?;
            for field in Fields(&bytes) {
                match field {
                    (snapshot::arguments, Value::Bytes(value)) => arguments.push(literal(value)?),
                    (snapshot::result, Value::Bytes(value)) => result = value,
                    (snapshot::execution_platform, Value::Bytes(value)) => {
                        platform = String::from_utf8_lossy(value).into_owned();
                    }
                    _ => {}
                }
            }
            part(&hlo, hlo_file::hlo_module, "HloProto")?
        }
    };
    Ok(ProtoFile {
        module: read::read_module(&module, options)?,
        kind,
        arguments,
        result: (!result.is_empty()).then(|| literal(result)).transpose()?,
        platform,
    })
}

/// The message in field `number` of the message in `bytes`, its parts joined; `None` where they are broken.
fn nested(bytes: &Bytes, number: u32) -> Option<Bytes> {
    let mut parts: SmallVec<[&[u8]; 1]> = SmallVec::new();
    for field in Fields(bytes) {
        match field {
            (_, Value::Broken) => return None,
            (at, Value::Bytes(part)) if at == number => parts.push(part),
            (at, _) if at == number => return None,
            _ => {}
        }
    }
    // Joined, two broken parts could be a whole one.
    let is_broken = |part: &&[u8]| Fields(part).any(|field| matches!(field.1, Value::Broken));
    match parts[..] {
        [] => Some(Bytes::new()),
        [part] => Some(bytes.slice_ref(part)),
        _ if parts.iter().any(is_broken) => None,
        _ => Some(parts.concat().into()),
    }
}

/// The buffer assignment of the HloProto or HloSnapshot in `source`, in the form of a dump; `None`
/// where it has none.
///
/// # Errors
/// [`HloError::Parse`] when the proto is broken, or assigns memory to what its module does not have.
pub fn read_assignment(source: &Source, options: &ParseOptions) -> Result<Option<String>> {
    let filename = options.filename.as_ref();
    let Some((kind, source)) = binary(source, options)? else {
        return Ok(None);
    };
    let bytes = prost::bytes::Bytes::from_owner(source.clone());
    let hlo = match kind {
        Kind::Hlo => Some(
            schema::HloProto::decode(bytes)
                .map_err(|error| fault(filename, format!("a broken HloProto: {error}")))?,
        ),
        Kind::Snapshot => schema::HloSnapshot::decode(bytes)
            .map_err(|error| fault(filename, format!("a broken HloSnapshot: {error}")))?
            .hlo
            .map(|hlo| *hlo),
        Kind::Module => None,
    };
    let Some(hlo) = hlo else { return Ok(None) };
    match (hlo.hlo_module, hlo.buffer_assignment) {
        (Some(module), Some(assignment)) if !assignment.buffer_allocations.is_empty() => {
            read::assignment::assignment_text(&module, &assignment, source.len(), options).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    #[test]
    fn a_proto_is_held_to_the_limit_of_texts() {
        let text = b"HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n";
        let mut options = ParseOptions::default();
        let module = parse(Arc::from(text.to_vec()), &options).expect("the text is legal");
        let proto = Source::from(write_module(&module).expect("it has a proto"));
        assert!(read(&proto, &options).is_ok());
        options.limits.source_bytes = proto.len() - 1;
        let error = read(&proto, &options).expect_err("it is too long");
        assert!(error.to_string().contains("more than the limit"), "{error}");
    }

    #[test]
    fn what_is_known_of_a_text_is_what_it_says() {
        let odd = "HloModule m\n\nENTRY e {\n  %0.a = f32[2,0]{1,0} parameter(0)\n  \
                   %a_name_longer_than_what_a_window_of_the_text_holds = (f32[2,0], token[]) foo(%0.a)\n  \
                   c = (s32[], pred[2]) constant((1, {1, 0}))\n  \
                   b = f32[3]{0} constant({nan, -0, inf}), control-predecessors={c}\n  \
                   ROOT %t = (f32[3]) tuple(b), metadata={op_name=\"a\\\"}b\"}, backend_config={\"a\":1}\n}\n";
        for text in [
            odd,
            include_str!("../../../tests/hlo/print/every_opcode.hlo"),
        ] {
            let options = ParseOptions::default();
            let module = parse(Arc::from(text.as_bytes()), &options).expect("the text is legal");
            let proto = write_module(&module).expect("it has a proto");
            let known = read(&Source::from(proto), &options)
                .expect("it is one")
                .module;
            let text = known.text().source().clone();
            let plain = crate::text::parse_source(text, &options).expect("it was read already");
            let shown = |module: &HloModule| {
                let ids = (0..module.instruction_count()).map(crate::module::Id::from_index);
                let records = ids.map(|id| {
                    let (record, operands) = (module.instruction_data(id), module.operand_ids(id));
                    let attributes = module.attributes_of(id);
                    let shape = module.instruction(id).shape();
                    format!("{record:?} {operands:?} {attributes:?} {shape:?}\n")
                });
                records.collect::<String>()
            };
            assert_eq!(shown(&known), shown(&plain));
            let print = crate::text::printer::print_module;
            assert_eq!(
                print(&known, &Default::default()),
                print(&plain, &Default::default())
            );
        }
    }

    /// A module of one parameter, without the message around it.
    fn small_module() -> Vec<u8> {
        let text = b"HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n";
        let options = ParseOptions::default();
        let module = parse(Arc::from(text.to_vec()), &options).expect("the text is legal");
        write_module(&module).expect("it has a proto")
    }

    /// Field `number` of a message, which holds `bytes`.
    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut made = Vec::new();
        prost::encoding::bytes::encode(number, &bytes.to_vec(), &mut made);
        made
    }

    #[test]
    fn a_module_inside_other_messages_may_come_in_parts_and_none_may_be_broken() {
        let module = small_module();
        let read = |bytes: Vec<u8>| read(&Source::from(bytes), &ParseOptions::default());
        let in_hlo = |parts: &[&[u8]]| {
            let parts = parts.iter().map(|part| field(1, part));
            parts.collect::<Vec<_>>().concat()
        };
        // The id of the module, 300, in two bytes.
        let id: &[u8] = &[5 << 3, 0xac, 2];
        for (file, is_read) in [
            (in_hlo(&[&module]), true),
            (in_hlo(&[&module, id]), true),
            (
                in_hlo(&[&[&module[..], &id[..2]].concat(), &id[2..]]),
                false,
            ),
        ] {
            assert_eq!(read(file.clone()).is_ok(), is_read);
            assert_eq!(read(field(1, &file)).is_ok(), is_read);
        }
    }

    #[test]
    fn only_the_last_result_of_a_snapshot_counts_and_an_empty_one_is_none() {
        let hlo = field(1, &field(1, &small_module()));
        let one = schema::LiteralProto {
            shape: Some(Box::new(schema::ShapeProto {
                element_type: 11,
                ..schema::ShapeProto::default()
            })),
            f32s: vec![1.0],
            ..schema::LiteralProto::default()
        };
        let (one, broken) = (field(3, &one.encode_to_vec()), field(3, &[0x1a, 2, 8, 1]));
        for (results, found) in [
            (vec![], Some(false)),
            (vec![&one], Some(true)),
            (vec![&broken, &one], Some(true)),
            (vec![&one, &broken], None),
            (vec![&one, &field(3, &[])], Some(false)),
        ] {
            let parts = std::iter::once(&hlo).chain(results).map(|part| &part[..]);
            let bytes = parts.collect::<Vec<_>>().concat();
            let read = read(&Source::from(bytes), &ParseOptions::default());
            assert_eq!(read.ok().map(|file| file.result.is_some()), found);
        }
    }

    #[test]
    fn parts_of_a_message_are_one() {
        use schema::{HloComputationProto, HloInstructionProto, HloModuleProto, OpMetadata};
        let with = |metadata| HloInstructionProto {
            metadata: Some(Box::new(metadata)),
            ..HloInstructionProto::default()
        };
        let first = HloInstructionProto {
            name: "p".into(),
            opcode: "parameter".into(),
            shape: vec![2 << 3, 11].into(),
            id: 1,
            ..with(OpMetadata {
                op_name: "name".into(),
                ..OpMetadata::default()
            })
        };
        let second = with(OpMetadata {
            source_file: "file".into(),
            ..OpMetadata::default()
        });
        let instruction = [first.encode_to_vec(), second.encode_to_vec()].concat();
        let computation = HloComputationProto {
            name: "e".into(),
            instructions: vec![instruction.into()],
            id: 1,
            root_id: 1,
            ..HloComputationProto::default()
        };
        let module = HloModuleProto {
            name: "m".into(),
            entry_computation_id: 1,
            computations: vec![computation.encode_to_vec().into()],
            ..HloModuleProto::default()
        };
        let source = Source::from(module.encode_to_vec());
        let read = read(&source, &ParseOptions::default()).expect("it is a module");
        let text = read.module.text().source().clone();
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains("metadata={op_name=\"name\" source_file=\"file\"}"),
            "{text}"
        );
    }
}
