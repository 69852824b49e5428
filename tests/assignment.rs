//! Buffer assignments: every dump prints back byte for byte, fits its module, and is found out when
//! it does not.

#[path = "assignment/bundle.rs"]
mod bundle;
#[path = "assignment/corruptions.rs"]
mod corruptions;
#[path = "assignment/dataflow.rs"]
mod dataflow;
#[path = "assignment/replay.rs"]
mod replay;

use std::collections::BTreeMap;

use bundle::{JAXLIBS, assignment_of, bundle, module, module_of, text_of};
use corruptions::CORRUPTIONS;
use hlorun::HloError;
use hlorun::analysis::buffer_assignment::{
    AssignOptions, BufferAssignmentDump, FindingKind, PlacedBuffers, assign_buffers, check, parse,
    place_buffers, print, print_file, rebuild_module,
};
use hlorun::analysis::dataflow::{HloAliasAnalysis, HloDataflowAnalysis};
use hlorun::analysis::live_range::{HloLiveRange, LiveRangeOptions};
use hlorun::analysis::schedule::HloSchedule;
use hlorun::module::{HloModule, InstructionId};

fn parse_text(text: impl Into<Vec<u8>>) -> Result<BufferAssignmentDump, HloError> {
    let text: Vec<u8> = text.into();
    parse(text, None)
}

fn expect_fit(dump: &BufferAssignmentDump, module: &HloModule, name: &str) {
    let findings = check(dump, module).unwrap_or_else(|error| panic!("{name}: {error}"));
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{name}:\n{}", shown.join("\n"));
}

#[test]
fn the_facts_of_the_two_dumps() {
    for (name, total, allocations, values, peak) in
        [("000", 2_564_824, 68, 98, 69), ("002", 525_448, 38, 51, 6)]
    {
        let dump = assignment_of(name);
        assert_eq!(dump.total_bytes(), total);
        assert_eq!(dump.allocations.len(), allocations);
        assert_eq!(dump.assigned.len(), values);
        assert_eq!(dump.used_values.len(), values);
        let range = dump.live_range.as_ref().expect("a live range");
        assert_eq!(range.peak_moment, Some(peak));
        assert_eq!(print(&dump).as_bytes(), &text_of(name)[..]);
    }
    let dump = assignment_of("000");
    let temp = &dump.allocations[67];
    assert!(temp.flags.preallocated_temp && !temp.flags.constant);
    assert_eq!(dump.str(temp.address), "0x7f56c03b34e0");
    let parameter = dump.allocations[3].parameter.expect("a parameter");
    assert_eq!(
        (parameter.number, &*dump.str(parameter.shape)),
        (8, "f32[784,128]")
    );
    let entry = dump
        .used_values
        .iter()
        .find(|v| v.name.id == 94)
        .expect("value 94");
    let places: Vec<String> = dump
        .positions_of(entry)
        .iter()
        .map(|p| dump.display_name(p.instruction, p.index))
        .collect();
    assert_eq!(
        places,
        [
            "fusion.25{0}",
            "get-tuple-element.20",
            "bitcast.3",
            "tuple.13{9}"
        ]
    );
}

#[test]
fn what_jax_writes_is_read_printed_and_fits() {
    for jaxlib in JAXLIBS {
        let dumps = bundle(jaxlib);
        assert!(dumps.len() >= 40, "{jaxlib}: {}", dumps.len());
        for dump in dumps {
            let parsed = dump.parse();
            for (file, bytes) in dump.assignment.iter().enumerate() {
                assert_eq!(print_file(&parsed, file as u32).as_bytes(), &bytes[..]);
            }
            if let Some(report) = &dump.report {
                let parsed = parse_text(report.clone()).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(print(&parsed).as_bytes(), &report[..], "{}", dump.name);
            }
            expect_fit(&parsed, &module(&dump.module, &dump.name), &dump.name);
        }
    }
}

#[test]
fn the_evaluation_step_fits_and_every_corruption_is_named() {
    let module = module_of("001");
    let text = String::from_utf8(text_of("002").to_vec()).expect("text");
    expect_fit(&assignment_of("002"), &module, "002");
    assert!(CORRUPTIONS.len() >= 40);
    for corruption in CORRUPTIONS {
        assert!(text.contains(corruption.from), "{}", corruption.what);
        let edited = text.replacen(corruption.from, corruption.to, 1);
        let dump = parse_text(edited).unwrap_or_else(|e| panic!("{}: {e}", corruption.what));
        let findings = check(&dump, &module).expect("findings");
        let named = findings.iter().any(|finding| {
            finding.kind == corruption.kind
                && corruption
                    .names
                    .iter()
                    .all(|name| finding.message.contains(name))
        });
        let shown: Vec<String> = findings
            .iter()
            .map(|f| format!("{:?}: {f}", f.kind))
            .collect();
        assert!(named, "{}:\n{}", corruption.what, shown.join("\n"));
    }
}

#[test]
fn a_loop_taken_apart_is_named() {
    let dump = bundle("0.10.2")
        .into_iter()
        .find(|dump| dump.name.contains("while_loop") && dump.name.contains("lambda"))
        .expect("a loop");
    let module = module(&dump.module, &dump.name);
    let text = String::from_utf8(dump.assignment.concat()).expect("text");
    for (from, to, kind, names) in [
        (
            "<12 copy.5 @0> (size=256,offset=0)",
            "<12 copy.5 @0> (size=256,offset=64)",
            FindingKind::MustAlias,
            ["copy.5", "byte 64"],
        ),
        (
            "    5:arg_tuple.3\n",
            "    5:arg_tuple.1\n",
            FindingKind::Schedule,
            ["arg_tuple.1", "twice"],
        ),
        (
            "    4:tuple\n    5:arg_tuple.3\n",
            "    4:arg_tuple.3\n    5:tuple\n",
            FindingKind::Schedule,
            ["arg_tuple.3", "tuple"],
        ),
        (
            "(cumulative: 512 bytes)",
            "(cumulative: 511 bytes)",
            FindingKind::Peak,
            ["511", "512"],
        ),
        (
            "<24 arg_tuple.3{} (phi) @0>\n positions",
            "<24 arg_tuple.3{} @0>\n positions",
            FindingKind::ValueAttribute,
            ["arg_tuple.3{}", "a phi"],
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let edited = parse_text(text.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{e}"));
        let findings = check(&edited, &module).expect("findings");
        let named = findings.iter().any(|finding| {
            finding.kind == kind && names.iter().all(|name| finding.message.contains(name))
        });
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(named, "{to}:\n{}", shown.join("\n"));
    }
}

/// The live ranges of a module under the schedule of a dump, in the dump's order of values.
fn live_range_lines(dump: &BufferAssignmentDump, module: &HloModule) -> (Vec<String>, Option<u32>) {
    let dumped = dump.live_range.as_ref().expect("a live range");
    let flat: Vec<InstructionId> = dumped
        .instruction_sequence
        .iter()
        .map(|entry| {
            module
                .find_instruction(&dump.str(entry.instruction))
                .expect("a name")
        })
        .collect();
    let schedule = HloSchedule::from_flat_sequence(module, &flat);
    assert!(schedule.problems(module).is_empty());
    let dataflow = HloDataflowAnalysis::run(module).expect("values");
    let alias = HloAliasAnalysis::run(module, &dataflow);
    let live = HloLiveRange::run(
        module,
        &schedule,
        &dataflow,
        &alias,
        LiveRangeOptions::default(),
    );
    assert_eq!(live.sequence(), flat);
    let mut lines = Vec::new();
    for entry in &dump.used_values {
        let id = module
            .find_instruction(&dump.str(entry.name.instruction))
            .expect("a name");
        let index = dump.shape_index(entry.name.index);
        let position = dataflow.positions.at(id, &index).expect("a position");
        let value = dataflow.value_at(position).expect("a value");
        if let Some(range) = live.range(value) {
            let name = module.instruction(id).name();
            lines.push(format!("    {name}{index}:{}-{}", range.start, range.end));
        }
    }
    (lines, live.peak_moment(module, &dataflow))
}

#[test]
fn live_ranges_are_recomputed_line_for_line() {
    let dump = assignment_of("002");
    let (lines, peak) = live_range_lines(&dump, &module_of("001"));
    let text = String::from_utf8(text_of("002").to_vec()).expect("text");
    let start = text.find("  BufferLiveRange:\n").expect("live ranges");
    let end = text.find("  Live ranges at").expect("a peak");
    let theirs: Vec<&str> = text[start..end].lines().skip(1).collect();
    assert_eq!(lines, theirs);
    assert_eq!(peak, Some(6));

    let dump = assignment_of("000");
    let (lines, peak) = live_range_lines(&dump, &rebuild_module(&dump).expect("a module"));
    assert_eq!((lines.len(), peak), (72, Some(69)));
}

#[test]
fn modules_rebuilt_from_their_assignment_fit_it() {
    for name in ["000", "002"] {
        let dump = assignment_of(name);
        let rebuilt = rebuild_module(&dump).unwrap_or_else(|error| panic!("{error}"));
        expect_fit(&dump, &rebuilt, name);
    }
    let loops = bundle("0.5.3")
        .into_iter()
        .find(|dump| dump.name.contains("while_loop"))
        .expect("a loop");
    let error = rebuild_module(&loops.parse()).expect_err("loops are not told apart");
    assert!(error.to_string().contains("while."), "{error}");
}

#[test]
fn assignments_from_the_module_alone_fit_it() {
    let mut modules: Vec<(String, HloModule)> = ["001", "003", "004"]
        .iter()
        .map(|name| (name.to_string(), module_of(name)))
        .collect();
    let mut equal = 0;
    for dump in bundle("0.10.2") {
        let module = module(&dump.module, &dump.name);
        let theirs = dump.parse().total_bytes();
        let schedule = HloSchedule::from_text_order(&module);
        let ours = assign_buffers(&module, &schedule, AssignOptions::default()).expect("buffers");
        equal += usize::from(ours.total_bytes() == theirs);
        assert!(ours.total_bytes() <= theirs + theirs / 20, "{}", dump.name);
        modules.push((dump.name, module));
    }
    // Backends allow some more sharing than the general rules, heaps differ by a gap.
    assert!(
        equal * 10 >= modules.len() * 8,
        "{equal} of {}",
        modules.len()
    );
    for (name, module) in &modules {
        let schedule = HloSchedule::from_text_order(module);
        let options = AssignOptions::default();
        let assigned = assign_buffers(module, &schedule, options).expect("buffers");
        let text = print(&assigned);
        let read = parse_text(text.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(print(&read), text, "{name}");
        expect_fit(&read, module, name);
        let placed = place_buffers(module, &schedule, options).expect("buffers");
        expect_same(&placed, &assigned, module, name);
    }
}

/// What is placed without a dump is what the dump says.
fn expect_same(
    placed: &PlacedBuffers,
    dump: &BufferAssignmentDump,
    module: &HloModule,
    name: &str,
) {
    let range = dump.live_range.as_ref().expect("live ranges");
    // Names are unique in computations alone, so of one name there may be several ranges.
    let mut live: BTreeMap<(String, String), Vec<(u32, u32)>> = BTreeMap::new();
    for range in &range.buffer_live_ranges {
        let key = (
            dump.str(range.instruction).into_owned(),
            dump.str(range.index).into_owned(),
        );
        live.entry(key).or_default().push((range.start, range.end));
    }
    assert_eq!(placed.allocations.len(), dump.allocations.len(), "{name}");
    for (ours, theirs) in placed.allocations.iter().zip(&dump.allocations) {
        assert_eq!((ours.size, ours.flags), (theirs.size, theirs.flags));
        assert_eq!(ours.parameter, theirs.parameter.map(|p| p.number), "{name}");
        let (ours, theirs) = (placed.values_of(ours), dump.values_of(theirs));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            let instruction = module.instruction(ours.instruction).name();
            let index = ours.index.as_ref().map(ToString::to_string);
            assert_eq!(instruction, dump.str(theirs.name.instruction), "{name}");
            assert_eq!(
                index.clone().unwrap_or_default(),
                dump.str(theirs.name.index)
            );
            assert_eq!((ours.size, ours.offset), (theirs.size, theirs.offset));
            let key = (
                instruction.into_owned(),
                index.unwrap_or_else(|| "{}".to_owned()),
            );
            if let Some(range) = ours.live {
                assert!(live[&key].contains(&range), "{name}: {key:?}");
            }
        }
    }
}

#[test]
fn log_prefixes_and_line_ends_do_not_matter() {
    let text = String::from_utf8(text_of("002").to_vec()).expect("text");
    let with_lines = |prefix: &str, end: &str| -> String {
        text.lines()
            .map(|line| format!("{prefix}{line}{end}"))
            .collect()
    };
    let tf =
        "2020-09-21 10:02:11.382143: I tensorflow/compiler/xla/service/buffer_assignment.cc:1401] ";
    let glog = "I0921 10:02:11.382143   23 buffer_assignment.cc:1401] ";
    let mut other = format!("W0921 cuda.cc:12] starting\n{}", with_lines(glog, "\n"));
    let middle = other.find("allocation 9").expect("an allocation");
    let line = other[..middle].rfind('\n').expect("a line") + 1;
    other.insert_str(line, "I0921 10:02:11.4 23 executor.cc:77] unrelated\n");
    for (what, log) in [
        ("tf", with_lines(tf, "\n")),
        ("glog among others", other),
        ("rank", with_lines("[rank0]: ", "\n")),
        ("quoted", with_lines("> ", "\n")),
        ("prose before", format!("This is what I get:\n\n{text}")),
    ] {
        let dump = parse_text(log).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(print(&dump).trim_start(), text, "{what}");
    }
    let dos = with_lines("", "\r\n");
    assert_eq!(print(&parse_text(dos.clone()).expect("a dump")), dos);
}

#[test]
fn out_of_memory_messages_are_read() {
    let text = "BufferAssignment OOM Debugging.\nBufferAssignment stats:\n             \
                parameter allocation:         0B\n              constant allocation:         8B\n  \
                preallocated temp fragmentation:         0B (0.00%)\nPeak buffers:\n\tBuffer 1:\n\t\t\
                Size: 3.73GiB\n\t\tOperator: op_name=\"jit(f)/add\" source_file=\"f.py\"\n\t\t\
                XLA Label: fusion\n\t\tShape: f32[1000000000]\n\t\t==========================\n\n\t\
                Buffer 2:\n\t\tSize: 128.0MiB\n\t\tEntry Parameter Subshape: f32[8]\n\t\t\
                ==========================\n\n";
    let dump = parse_text(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(print(&dump), text);
    use hlorun::analysis::buffer_assignment::report::OomLine;
    let buffers = dump.oom.iter().filter(|l| matches!(l, OomLine::Buffer(_)));
    assert_eq!(buffers.count(), 2);
}

#[test]
fn reports_in_protocol_buffer_text_are_read() {
    let text = "memory_space_allocation_entries {\n  total_bytes: 1056\n  allocation_entries {\n    \
                index: 7\n    size: 512\n    cumulative_percentage: 0.48484848484848486\n    \
                defining_positions: \"tuple.4 {1}\"\n  }\n}\nmemory_space_allocation_entries {\n  \
                memory_space_color: 5\n}\n\n";
    let dump = parse_text(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(print(&dump), text);
    assert_eq!(dump.report.len(), 12);
}

#[test]
fn mistakes_are_shown_where_they_are() {
    for (text, message, line, column) in [
        ("", "expected a buffer assignment", 1, 1),
        ("HloModule m\n", "expected a buffer assignment", 1, 1),
        (
            "BufferAssignment:\nallocation x: size 4:\n",
            "expected the allocation's number, a whole number, found `x: size 4:`",
            2,
            12,
        ),
        (
            "BufferAssignment:\nallocation 0: size 99999999999999999999:\n",
            "the size in bytes is too large a number",
            2,
            20,
        ),
        (
            "BufferAssignment:\nallocation 0: size 4:\n value: <1 x @0> (size=4;offset=0): f32[]\n",
            "expected `,offset=`, found `;offset=0): f32[]`",
            3,
            25,
        ),
        (
            "BufferAssignment:\nallocation 0: size 4:\nrubbish\n",
            "expected a section of a buffer assignment, found `rubbish`",
            3,
            1,
        ),
        (
            "Used values:\n<1 x @0>\n uses:\n",
            "expected ` positions:`, found ` uses:`",
            3,
            1,
        ),
        (
            "HloLiveRange (max 3):\n  InstructionSequence:\n    0:a\n",
            "expected `  BufferLiveRange:`, found the end of the text",
            4,
            1,
        ),
        (
            "BufferAssignment:\n\nBufferAssignment:\n",
            "this section stands twice",
            3,
            1,
        ),
    ] {
        let error = match parse_text(text) {
            Err(HloError::Parse(error)) => error,
            other => panic!("{text:?}: {other:?}"),
        };
        assert!(
            error.message.starts_with(message),
            "{text:?}: {}",
            error.message
        );
        assert_eq!(
            (error.location.line, error.location.column),
            (line, column),
            "{text:?}"
        );
    }
}

/// Damages `text` in a few places, differently for every `seed`.
fn damage(text: &[u8], seed: u64) -> Vec<u8> {
    let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut damaged = text.to_vec();
    for _ in 0..3 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let at = seed as usize % damaged.len();
        damaged[at] = b" {}<>(),:=@0129\n%aI"[(seed >> 32) as usize % 19];
    }
    damaged
}

#[test]
fn damaged_dumps_never_panic() {
    let module = module_of("001");
    let text = text_of("002");
    let cuts = (0..text.len()).step_by(211).map(|cut| text[..cut].to_vec());
    let damaged = (1..400).map(|seed| damage(&text, seed));
    for bytes in cuts.chain(damaged) {
        if let Ok(dump) = parse_text(bytes) {
            let _ = check(&dump, &module);
            let _ = rebuild_module(&dump);
            print(&dump);
        }
    }
}

#[test]
fn damaged_modules_never_panic() {
    let dump = assignment_of("002");
    let text = text_of("001");
    let mut texts: Vec<Vec<u8>> = (1..300).map(|seed| damage(&text, seed)).collect();
    for loops in bundle("0.5.3")
        .iter()
        .filter(|d| d.name.contains("nested_loops"))
    {
        texts.extend((1..300).map(|seed| damage(&loops.module, seed)));
    }
    let options = hlorun::text::ParseOptions::default();
    for bytes in texts {
        if let Ok(module) = hlorun::text::parse(bytes.into(), &options) {
            let _ = check(&dump, &module);
            let schedule = HloSchedule::from_text_order(&module);
            let _ = assign_buffers(&module, &schedule, AssignOptions::default());
        }
    }
}
