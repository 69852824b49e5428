//! Parses every file of `tests/hlo/parse`, and checks the rendered error of every file of
//! `tests/hlo/parse-fail` against the `.err` file beside it (`BLESS=1` rewrites those).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hlorun::HloError;
use hlorun::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionRef};
use hlorun::text::{self, Limits, ParseOptions};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "hlo" || e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hlo")
        .join(name)
}

fn parse_file(path: &Path) -> hlorun::Result<HloModule> {
    let filename = path.file_name().map(|name| name.to_string_lossy().into());
    let options = ParseOptions {
        filename,
        ..ParseOptions::default()
    };
    text::load(path, &options)
}

fn parse(source: impl AsRef<[u8]>) -> hlorun::Result<HloModule> {
    text::parse(Arc::from(source.as_ref()), &ParseOptions::default())
}

fn file(name: &str) -> HloModule {
    parse_file(&folder("parse").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn find<'m>(module: &'m HloModule, name: &str) -> InstructionRef<'m> {
    let id = module.find_instruction(name);
    module.instruction(id.unwrap_or_else(|| panic!("no instruction {name}")))
}

#[test]
fn legal_texts_parse() {
    let mut folders = vec![folder("parse")];
    folders.extend(std::env::var_os("HLORUN_PARSE_EXTRA").map(PathBuf::from));
    let mut failures = String::new();
    for path in folders.iter().flat_map(|folder| files(folder)) {
        if let Err(error) = parse_file(&path) {
            failures.push_str(&format!("{error}\n"));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn errors_read_as_recorded() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = String::new();
    for path in files(&folder("parse-fail")) {
        let golden = path.with_extension("err");
        let rendered = match parse_file(&path) {
            Ok(_) => "parsed without an error\n".to_owned(),
            Err(error @ HloError::Parse(_)) => format!("{error}\n"),
            Err(error) => format!("not a parse error: {error}\n"),
        };
        if bless {
            std::fs::write(&golden, &rendered).expect("the golden file can be written");
        }
        let recorded = std::fs::read_to_string(&golden).unwrap_or_default();
        if recorded != rendered {
            let name = path.display();
            failures.push_str(&format!(
                "{name}\nrecorded:\n{recorded}\nnow:\n{rendered}\n"
            ));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Every prefix of a text, and the text with each byte changed, must give a module or an error.
#[test]
fn damaged_texts_never_panic() {
    for path in files(&folder("parse")) {
        let source = std::fs::read(&path).expect("the file can be read");
        // Long files by larger steps: every prefix of every one would take minutes.
        let step = 1 + source.len() / 3000;
        for length in (0..source.len()).step_by(step) {
            let _ = parse(&source[..length]);
        }
        for (at, byte) in (0..source.len()).flat_map(|at| b"{}()[],=\"%#-9/\0\xff".map(|b| (at, b)))
        {
            if at % (7 * step) == byte as usize % 7 {
                let mut damaged = source.clone();
                damaged[at] = byte;
                let _ = parse(&damaged);
            }
        }
    }
}

#[test]
fn depth_costs_no_stack() {
    let n = 1_000_000;
    let body = |line: &str| format!("ENTRY main {{\n  x = f32[] parameter(0)\n  {line}\n}}\n");
    let cases = [
        "{".repeat(10 * n),
        "(".repeat(n),
        format!("HloModule m, a={}", "{".repeat(n)),
        body(&format!(
            "y = {}f32[]{} tuple(x)",
            "(".repeat(n),
            ")".repeat(n)
        )),
        body(&format!("y = {}", "(".repeat(n))),
        body(&format!("y = {}", "b(".repeat(n))),
        body(&format!(
            "y = f32[] negate({}x{})",
            "f32[] negate(".repeat(n),
            ")".repeat(n)
        )),
        body(&format!("y = f32[] negate({}", "f32[] negate(".repeat(n))),
        body(&format!(
            "y = {}f32[]{} constant({}",
            "(".repeat(n),
            ")".repeat(n),
            "(".repeat(n)
        )),
        body(&format!("y = f32[2]{{0}} constant({}", "{".repeat(n))),
        body(&format!(
            "y = f32[] call(x), to_apply={}",
            "{ z = f32[] call(x), to_apply=".repeat(n / 10)
        )),
        body(&format!(
            "y = f32[] negate(x), frontend_attributes={}",
            "{".repeat(n)
        )),
        body(&format!("y = f32[] negate(x), sharding={}", "{".repeat(n))),
        body(&format!(
            "y = f32[] negate(x), backend_config={}",
            "{".repeat(n)
        )),
        body(&format!(
            "y = f32[] custom-call(), literal={}",
            "(".repeat(n)
        )),
    ];
    for (index, case) in cases.iter().enumerate() {
        match parse(case) {
            Ok(module) => assert!(module.instruction_count() > 0, "case {index}"),
            Err(HloError::Parse(_)) => {}
            Err(error) => panic!("case {index}: {error}"),
        }
    }
}

#[test]
fn declared_sizes_cost_nothing() {
    for line in [
        "y = f32[9223372036854775807,9223372036854775807]{1,0} constant({...})",
        "y = f32[1000000000000]{0} constant({1, 2, 3})",
        "y = f32[1000000000000]{0} parameter(0)",
        "y = f32[] parameter(4000000000)",
    ] {
        let _ = parse(format!("ENTRY main {{\n  {line}\n}}\n"));
    }
    let mut bomb = String::from("(f32[], f32[])");
    for _ in 0..12 {
        bomb = format!("({bomb}, {bomb})");
    }
    let module = parse(format!("ENTRY main {{\n  y = {bomb} parameter(0)\n}}\n"));
    assert!(module.is_ok_and(|m| m.shapes().len() < 20));
}

#[test]
fn a_source_beyond_the_limit_is_refused() {
    let options = ParseOptions {
        limits: Limits {
            source_bytes: 10,
            ..Limits::default()
        },
        ..ParseOptions::default()
    };
    let error = text::parse(Arc::from(&b"HloModule m, x=1"[..]), &options);
    assert!(matches!(error, Err(HloError::Parse(_))));
}

#[test]
fn line_ends_and_byte_order_marks_do_not_matter() {
    for name in ["minimal.hlo", "attributes.hlo", "trailer.hlo"] {
        let source = std::fs::read_to_string(folder("parse").join(name)).expect("it is there");
        let plain = parse(&source).expect("it parses");
        let changed = format!("\u{feff}{}", source.replace('\n', "\r\n"));
        let other = parse(&changed).expect("it parses with other line ends");
        assert_eq!(plain.instruction_count(), other.instruction_count());
    }
}

/// `text` with a second space after every name that is given a value: read the general way.
fn widened(text: &str) -> String {
    let wide = text
        .split_inclusive('\n')
        .map(|line| match line.split_once(" = ") {
            Some((name, value)) if !name.contains(['"', '{', '(', '\'']) => {
                format!("{name}  = {value}")
            }
            _ => line.to_owned(),
        });
    wide.collect()
}

#[test]
fn what_is_printed_plainly_means_what_is_spaced_otherwise() {
    for folder in ["parse", "parse-fail", "print", "verify"].map(folder) {
        for path in files(&folder) {
            let bytes = std::fs::read(&path).expect("the file can be read");
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            match (parse(&text), parse(widened(&text))) {
                (Ok(plain), Ok(wide)) => {
                    let same = plain.structurally_equal(&wide);
                    assert_eq!(same.err(), None, "{}", path.display());
                    assert_eq!(plain.instruction_count(), wide.instruction_count());
                }
                (Err(HloError::Parse(plain)), Err(HloError::Parse(wide))) => {
                    let (message, line) = (plain.message, plain.location.line);
                    assert_eq!((message, line), (wide.message, wide.location.line));
                }
                (plain, wide) => panic!("{}: {plain:?} but {wide:?}", path.display()),
            }
        }
    }
}

#[test]
fn async_sugar_wraps_the_operation() {
    let module = file("async.hlo");
    let start = find(&module, "start");
    assert_eq!(start.opcode(), HloOpcode::AsyncStart);
    assert_eq!(
        start.string(AttrKey::AsyncExecutionThread),
        Some(&b"worker"[..])
    );
    let wrapped = start
        .computation_attribute(AttrKey::Calls)
        .expect("it calls");
    let wrapped = module.computation(wrapped);
    assert_eq!(module.str(wrapped.name), "async_wrapped");
    assert_eq!(wrapped.parameters.len(), 1);
    let root = module.instruction(wrapped.root.expect("it has a root"));
    assert_eq!(root.opcode(), HloOpcode::Slice);
    assert!(matches!(root.attribute(AttrKey::Slice), Some(AttrValue::Slice(s)) if s[0].limit == 6));
    assert_eq!(
        root.metadata().and_then(|m| m.op_name).as_deref(),
        Some("x")
    );
    assert_eq!(find(&module, "ar").opcode(), HloOpcode::AllReduceStart);
    let scatter = find(&module, "rs-start");
    let wrapped = module.computation(
        scatter
            .computation_attribute(AttrKey::Calls)
            .expect("it calls"),
    );
    let root = module.instruction(wrapped.root.expect("it has a root"));
    let called = root
        .computation_attribute(AttrKey::ToApply)
        .expect("it applies");
    assert_eq!(module.str(module.computation(called).name), "add");
    assert!(matches!(
        scatter.attribute(AttrKey::ControlPredecessors),
        Some(AttrValue::Instructions(list)) if module.instruction(list[0]).name() == "done"
    ));
}

#[test]
fn operands_may_be_instructions_and_parts() {
    let module = file("nested_operands.hlo");
    let sum = find(&module, "y");
    let opcodes: Vec<HloOpcode> = sum.operands().map(InstructionRef::opcode).collect();
    assert_eq!(opcodes, [HloOpcode::Negate, HloOpcode::Multiply]);
    let parts = find(&module, "z");
    let part = parts.operand(1).expect("two operands");
    assert_eq!(
        (part.opcode(), part.tuple_index()),
        (HloOpcode::GetTupleElement, Some(1))
    );
    assert_eq!(find(&module, "w").operand_ids()[0], part.id, "made once");
    let reduce = find(&module, "r");
    let add = reduce
        .computation_attribute(AttrKey::ToApply)
        .expect("it applies");
    assert_eq!(module.computation(add).instructions.len(), 3);
    assert_eq!(reduce.dimensions(), [0]);
    let mut names = std::collections::HashSet::new();
    let (_, entry) = module.entry_computation().expect("it has an entry");
    for &id in &entry.instructions {
        assert!(names.insert(module.instruction(id).name().into_owned()));
    }
}

#[test]
fn missing_operands_of_a_lone_instruction_become_parameters() {
    for name in ["single_instruction.hlo", "single_rhs.hlo"] {
        let module = file(name);
        let (_, entry) = module.entry_computation().expect("it has an entry");
        assert_eq!(entry.parameters.len(), 2, "{name}");
        let root = module.instruction(entry.root.expect("it has a root"));
        assert_eq!(root.operand_ids(), entry.parameters);
    }
}

#[test]
fn literals_are_exact() {
    let module = file("literals.hlo");
    let bytes = |name: &str| {
        find(&module, name)
            .literal()
            .and_then(|l| l.bytes())
            .map(<[u8]>::to_vec)
    };
    assert_eq!(bytes("a"), Some(vec![1, 0, 1]));
    assert_eq!(bytes("b"), Some(0xfc01u16.to_ne_bytes().to_vec()));
    assert_eq!(bytes("d"), Some(u64::MAX.to_ne_bytes().to_vec()));
    assert_eq!(bytes("e"), Some(i64::MIN.to_ne_bytes().to_vec()));
    assert_eq!(bytes("f"), Some(vec![0x38, 0x7e, 0x7f, 0x80]));
    assert_eq!(bytes("h"), Some(vec![]));
    assert_eq!(bytes("k"), Some(vec![0xf8, 7, 0]));
    assert_eq!(bytes("l"), Some(vec![3, 0]));
    assert_eq!(bytes("m"), Some(vec![126]));
    assert_eq!(bytes("n"), Some(vec![7, 9]));
    assert!(find(&module, "j").literal().is_some_and(|l| l.is_elided()));
}

#[test]
fn the_header_is_understood() {
    let module = file("attributes.hlo");
    let config = &module.config;
    assert!(config.is_scheduled);
    assert_eq!(
        (config.replica_count, config.num_partitions),
        (Some(2), Some(4))
    );
    assert_eq!(config.buffer_donor.len(), 2);
    assert_eq!(config.input_output_alias.len(), 1);
    let unknown: Vec<&str> = module.warnings.iter().map(|w| w.message.as_str()).collect();
    let expected = [
        "unknown attribute 'some_new_thing'",
        "unknown attribute 'brand_new'",
        "unknown attribute 'other'",
        "unknown opcode 'some-new-op'",
        "unknown attribute 'weird'",
    ];
    assert_eq!(unknown, expected);
    assert_eq!(find(&module, "novel").opcode(), HloOpcode::Unknown);
    assert_eq!(find(&module, "novel").opcode_name(), "some-new-op");
}

#[test]
fn stack_frames_are_looked_up() {
    let module = file("trailer.hlo");
    let metadata = find(&module, "y").metadata().expect("it has metadata");
    let functions: Vec<&str> = metadata
        .stack_frames
        .iter()
        .map(|f| f.function.as_str())
        .collect();
    assert_eq!(functions, ["f", "main"]);
    assert_eq!(
        (metadata.source_file.as_deref(), metadata.source_line),
        (Some("a.py"), Some(7))
    );
    assert_eq!(
        find(&module, "x")
            .metadata()
            .and_then(|m| m.source_file)
            .as_deref(),
        Some("a\"b.py")
    );
}

#[test]
fn several_modules_of_one_file() {
    let one = "HloModule a\nENTRY e {\n  ROOT x = f32[] constant(0)\n}\n";
    let bare = "m {\n  ROOT x = f32[] constant(1)\n}\n";
    let cases = [
        (format!("{one}{one}"), 2),
        (format!("{one}// -----\n{bare}// -----\n{one}"), 3),
        (format!("// -----\n{one}// -----\n"), 1),
        (one.to_owned(), 1),
    ];
    for (source, count) in cases {
        let modules = text::parse_modules(Arc::from(source.as_bytes()), &ParseOptions::default());
        let modules = modules.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(modules.len(), count, "{source}");
        for module in &modules {
            assert_eq!(module.instruction_count(), 1);
        }
    }
}

#[test]
fn compressed_files_are_unpacked_within_bounds() {
    use std::io::Write;
    let folder = std::env::temp_dir().join(format!("hlorun-parse-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder can be made");
    let source = std::fs::read(self::folder("parse").join("attributes.hlo")).expect("it is there");
    let gz = folder.join("m.txt.gz");
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(&source).expect("packing works");
    std::fs::write(&gz, writer.finish().expect("packing works")).expect("it can be written");
    let zst = folder.join("m.txt.zst");
    let packed =
        ruzstd::encoding::compress_to_vec(&source[..], ruzstd::encoding::CompressionLevel::Fastest);
    std::fs::write(&zst, [&packed[..], &packed[..0]].concat()).expect("it can be written");
    for path in [&gz, &zst] {
        let module = text::load(path, &ParseOptions::default());
        assert!(module.is_ok_and(|m| m.instruction_count() > 10));
        let mut options = ParseOptions::default();
        options.limits.unpacked_bytes = 100;
        assert!(matches!(
            text::load(path, &options),
            Err(HloError::Execution(_))
        ));
    }
    std::fs::remove_dir_all(&folder).expect("the temporary folder can be removed");
}

/// What loading a file of these bytes says.
fn loaded(bytes: &[u8], unpacked_bytes: usize) -> Result<usize, String> {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("hlorun-packed-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("it can be written");
    let mut options = ParseOptions::default();
    options.limits.unpacked_bytes = unpacked_bytes;
    let module = text::load(&path, &options);
    std::fs::remove_file(&path).expect("it can be removed");
    module
        .map(|m| m.instruction_count())
        .map_err(|e| e.to_string())
}

#[test]
fn broken_packed_files_are_errors_of_bounded_size() {
    const LIMIT: usize = 1 << 20;
    let dump = "dumps/001_ff6c88b06f55b1d5.txt.zst";
    let whole = std::fs::read(self::folder("../data").join(dump)).expect("it is there");
    let magic = &whole[..4];
    assert_eq!(loaded(&whole, LIMIT), Ok(133));
    let skipped = [
        b"\x5a\x2a\x4d\x18\x03\0\0\0abc",
        &whole[..],
        b"\x50\x2a\x4d\x18\0\0\0\0",
    ];
    assert_eq!(loaded(&skipped.concat(), LIMIT), Ok(133));

    let mut changed = whole.clone();
    *changed.last_mut().expect("it is not empty") ^= 1;
    // A hundred thousand blocks of one repeated byte, 128 KiB each, in a window of as many.
    let blocks = [0x02, 0, 0x10, b'x'].repeat(100_000);
    let bomb = [magic, &[0, 0x38], &blocks].concat();
    let window = [magic, &[0, 0xff], &blocks].concat();
    let segment = [magic, &[0xe0, 0, 0, 0, 0, 0, 1, 0, 0], &blocks].concat();
    let cases: [(&[u8], &str); 10] = [
        (&changed, "checksum"),
        (&bomb, "more than 1048576 bytes"),
        (&window, "window of 4123168604160 bytes"),
        (&segment, "window of 1099511627776 bytes"),
        (&whole[..whole.len() - 1], "incomplete"),
        (&whole[..5], "incomplete"),
        (b"\x50\x2a\x4d\x18\x09\0\0\0ab", "incomplete"),
        (
            &[&whole[..], b"\x50\x2a\x4d\x18\x09\0\0\0ab"].concat(),
            "incomplete",
        ),
        (b"\xfd7zXZ\0\0\x04", "xz -d"),
        (b"BZh91AY&SY", "bunzip2"),
    ];
    for (bytes, message) in cases {
        let found = loaded(bytes, LIMIT);
        assert!(
            found.as_ref().is_err_and(|text| text.contains(message)),
            "{message}: {found:?}"
        );
    }
    for at in 4..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 0x55;
        // Some bits mean nothing; the checksum covers what the text is made of.
        let found = loaded(&broken, LIMIT);
        assert!(found.is_err() || found == Ok(133), "byte {at}: {found:?}");
        drop(loaded(&whole[..at], LIMIT).expect_err("it is cut off"));
    }
}

#[test]
fn a_module_stays_small_beside_its_text() {
    let mut text = String::from("HloModule m\nENTRY e {\n  x.0 = f32[16,1024]{1,0} parameter(0)\n");
    for i in 0..2000 {
        let n = i + 1;
        text.push_str(&format!(
            "  x.{n} = f32[16,1024]{{1,0}} add(f32[16,1024]{{1,0}} x.{i}, f32[16,1024]{{1,0}} x.{i}), \
             metadata={{op_type=\"add\" op_name=\"jit(step)/layer_{i}/add\" source_file=\"model.py\" source_line={i}}}\n"
        ));
    }
    text.push_str("}\n");
    let module = parse(&text).expect("it parses");
    // Lines of real dumps are longer: those stay below one half.
    assert!(
        module.heap_size() * 10 <= text.len() * 6,
        "{} of {}",
        module.heap_size(),
        text.len()
    );
}

#[test]
fn shapes_may_be_left_out() {
    let module = file("no_shapes.hlo");
    let shape = |name: &str| {
        let style = hlorun::types::ShapeStyle::LOGICAL;
        let shape = find(&module, name).shape_id();
        module.shapes().display(shape, style).to_string()
    };
    assert_eq!(shape("c"), "f32[]");
    assert_eq!(shape("p"), "pred[2,3]");
    assert_eq!(shape("t"), "(f32[2,3], f32[], token[])");
    assert_eq!(shape("u"), "f32[3,2]");
    assert_eq!(shape("out"), "(f32[2], f32[])");
}

#[test]
fn strict_parsing_refuses_what_is_not_known() {
    let strict = ParseOptions {
        strict: true,
        ..ParseOptions::default()
    };
    for (line, message) in [
        ("y = f32[] negatee(x)", "unknown opcode 'negatee'"),
        (
            "y = f32[] negate(x), metadatax={}",
            "unknown attribute 'metadatax'",
        ),
        (
            "y = f32[] negate(x), metadata={opname=\"a\"}",
            "unknown field of the metadata 'opname'",
        ),
        (
            "y = f32[] fusion(x), kind=kLop, calls=main",
            "'kLop' is no kind that is known",
        ),
    ] {
        let source = format!("ENTRY main {{\n  x = f32[] parameter(0)\n  {line}\n}}\n");
        let lenient = parse(&source).expect("it parses with a warning");
        assert!(lenient.warnings[0].message.starts_with(message), "{line}");
        match text::parse(Arc::from(source.as_bytes()), &strict) {
            Err(HloError::Parse(error)) => assert_eq!(error.message, message),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn shardings_of_real_texts_are_understood() {
    use hlorun::module::Sharding;
    let module = file("jax_0_4_13_shard_lo.hlo");
    let mut tiled = 0;
    for id in module.computation_ids() {
        for &instruction in &module.computation(id).instructions {
            let instruction = module.instruction(instruction);
            if let Some(AttrValue::Sharding(sharding)) = instruction.attribute(AttrKey::Sharding) {
                let sharding = sharding.read(&module).expect("it is a sharding");
                tiled += usize::from(matches!(sharding, Sharding::Tiled { .. }));
            }
        }
    }
    assert!(tiled >= 2);
}
