//! Running modules inside assignments: the same bits as the plan, and every harmful edit found.

use hlorun::HloError;
use hlorun::analysis::buffer_assignment::{
    AssignOptions, BufferAssignmentDump, FindingKind, assign_buffers, check, parse,
};
use hlorun::analysis::schedule::HloSchedule;
use hlorun::exec::RunOptions;
use hlorun::module::HloModule;
use hlorun::plan::{self, Check, CompileOptions, Executable, Leaf};
use hlorun::replay::Replay;
use hlorun::types::PrimitiveType;
use hlorun::verify::{VerifiedModule, verify};

use crate::bundle::{JAXLIBS, assignment_of, bundle, module, module_of, text_of};
use crate::corruptions::CORRUPTIONS;

fn legal(module: &HloModule) -> VerifiedModule<'_> {
    verify(module).unwrap_or_else(|error| panic!("{error}"))
}

fn compile(module: &HloModule, fuse: bool) -> Executable {
    let options = CompileOptions {
        fuse,
        threads: 1,
        check: Check::Plan,
        ..CompileOptions::default()
    };
    plan::compile(&legal(module), &options).expect("a plan")
}

fn replay(module: &HloModule, dump: &BufferAssignmentDump) -> Result<Replay, HloError> {
    let options = CompileOptions {
        threads: 1,
        check: Check::Plan,
        ..CompileOptions::default()
    };
    Replay::new(&legal(module), dump, &compile(module, true), &options)
}

/// Memory aligned for any element.
fn memory(bytes: usize) -> Vec<u128> {
    vec![0u128; bytes.div_ceil(16) + 1]
}

fn inputs(leaves: &[Leaf], seed: u64) -> Vec<Vec<u128>> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u32
    };
    let fill = |leaf: &Leaf| {
        let size = leaf.element_type.size_bytes();
        let mut block = memory(leaf.byte_size());
        // SAFETY: the block has room for the leaf's bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<u8>(), leaf.byte_size())
        };
        for element in bytes.chunks_exact_mut(size.max(1)) {
            let value = f64::from(next() % 2000) / 1000.0 - 1.0;
            match leaf.element_type {
                PrimitiveType::F32 => element.copy_from_slice(&(value as f32).to_ne_bytes()),
                PrimitiveType::F64 => element.copy_from_slice(&value.to_ne_bytes()),
                PrimitiveType::Pred => element[0] = (next() % 2) as u8,
                PrimitiveType::F16 => element.copy_from_slice(&0x3c00u16.to_ne_bytes()),
                PrimitiveType::BF16 => {
                    let bits = ((value as f32).to_bits() >> 16) as u16;
                    element.copy_from_slice(&bits.to_ne_bytes());
                }
                _ => element[0] = (next() % 8) as u8,
            }
        }
        block
    };
    leaves.iter().map(fill).collect()
}

type Outcome = Result<Vec<Vec<u8>>, HloError>;

fn outputs(
    leaves: &[Leaf],
    inputs: &[Vec<u128>],
    run: impl FnOnce(&[*const u8], &[*mut u8]) -> Result<(), HloError>,
) -> Outcome {
    let mut blocks: Vec<Vec<u128>> = leaves.iter().map(|l| memory(l.byte_size())).collect();
    let from: Vec<*const u8> = inputs.iter().map(|block| block.as_ptr().cast()).collect();
    let to: Vec<*mut u8> = blocks.iter_mut().map(|b| b.as_mut_ptr().cast()).collect();
    run(&from, &to)?;
    let bytes = leaves.iter().zip(&blocks).map(|(leaf, block)| {
        // SAFETY: the block has the leaf's bytes.
        unsafe { std::slice::from_raw_parts(block.as_ptr().cast::<u8>(), leaf.byte_size()) }
            .to_vec()
    });
    Ok(bytes.collect())
}

fn run_plan(executable: &Executable, inputs: &[Vec<u128>]) -> Outcome {
    outputs(executable.outputs(), inputs, |from, to| {
        // SAFETY: blocks of the leaves' sizes, aligned for all elements.
        unsafe { executable.run(from, to, &RunOptions::default()) }
    })
}

fn run_replay(replay: &Replay, executable: &Executable, inputs: &[Vec<u128>]) -> Outcome {
    outputs(executable.outputs(), inputs, |from, to| {
        // SAFETY: blocks of the leaves' sizes, aligned for all elements.
        unsafe { replay.run(from, to, &RunOptions::default()) }
    })
}

#[test]
fn the_evaluation_step_gives_the_same_bits_inside_its_assignment() {
    let module = module_of("001");
    let executable = compile(&module, true);
    let replay = replay(&module, &assignment_of("002")).expect("a replay");
    for seed in 1..6 {
        let inputs = inputs(executable.inputs(), seed);
        let expected = run_plan(&executable, &inputs).expect("a run");
        assert_eq!(run_replay(&replay, &executable, &inputs), Ok(expected));
    }
}

/// Edits of the schedule that leave it a legal order of what computes: a parameter is there from
/// the start, whenever it is listed.
const MILD: &[&str] = &[
    "an instruction scheduled twice",
    "an instruction not scheduled",
    "a wrong moment",
    "a wrong last moment",
];

#[test]
fn harmful_edits_of_an_assignment_are_caught() {
    let module = module_of("001");
    let executable = compile(&module, true);
    let inputs = inputs(executable.inputs(), 3);
    let expected = run_plan(&executable, &inputs);
    let text = String::from_utf8(text_of("002").to_vec()).expect("text");
    let mut caught = 0;
    for corruption in CORRUPTIONS {
        let edited = text.replacen(corruption.from, corruption.to, 1);
        let dump = parse(edited.into_bytes(), None).expect("a dump");
        let outcome =
            replay(&module, &dump).and_then(|replay| run_replay(&replay, &executable, &inputs));
        let shown = format!("{:?} {}: {outcome:?}", corruption.kind, corruption.what);
        match &outcome {
            Err(HloError::Execution(message)) => {
                println!("{}: {message}", corruption.what);
                caught += 1;
            }
            Err(_) => panic!("{shown}"),
            Ok(_) => assert_eq!(outcome, expected, "{shown}"),
        }
        // What changes where values lie, or when they are made, must not go unseen.
        let moved = matches!(
            corruption.kind,
            FindingKind::Overlap | FindingKind::OutOfBounds | FindingKind::Schedule
        );
        let mild = MILD.contains(&corruption.what);
        assert!(outcome.is_err() || !moved || mild, "{shown}");
    }
    assert!(caught >= 8, "{caught}");
}

#[test]
fn a_clobber_names_both_sides() {
    let module = module_of("001");
    let text = String::from_utf8(text_of("002").to_vec()).expect("text");
    for (from, to, names) in [
        (
            "<42 fusion.1 @0> (size=128,offset=128)",
            "<42 fusion.1 @0> (size=128,offset=16384)",
            ["cublas-gemm.7", "fusion.1"],
        ),
        (
            "<33 reduce.110 @0> (size=128,offset=0)",
            "<33 reduce.110 @0> (size=128,offset=16384)",
            ["reduce.110", "cublas-gemm.7"],
        ),
    ] {
        assert!(text.contains(from));
        let dump = parse(text.replacen(from, to, 1).into_bytes(), None).expect("a dump");
        let executable = compile(&module, true);
        let replay = replay(&module, &dump).expect("a replay");
        let inputs = inputs(executable.inputs(), 3);
        let error = run_replay(&replay, &executable, &inputs).expect_err("a clobber");
        let message = error.to_string();
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

/// Values moved onto others, in whole and in part: what the replay names, the check names.
#[test]
fn the_check_names_what_the_replay_names() {
    let module = module_of("001");
    let executable = compile(&module, true);
    let inputs = inputs(executable.inputs(), 3);
    let original = assignment_of("002");
    let mut clobbered = 0;
    for allocation in &original.allocations {
        let range = allocation.values.range();
        for (moved, onto) in range
            .clone()
            .flat_map(|i| range.clone().map(move |j| (i, j)))
        {
            let (size, target) = (original.assigned[moved].size, original.assigned[onto]);
            for shift in [0, 16, target.size / 32 * 16] {
                let offset = target.offset + shift;
                // Each third, so that it takes seconds.
                let is_taken = (moved + onto + shift as usize / 16).is_multiple_of(3);
                if moved == onto || !is_taken || offset + size > allocation.size {
                    continue;
                }
                let mut dump = original.clone();
                dump.assigned[moved].offset = offset;
                let outcome = replay(&module, &dump)
                    .and_then(|replay| run_replay(&replay, &executable, &inputs));
                let Err(error) = outcome else { continue };
                clobbered += 1;
                let findings = check(&dump, &module).expect("a check");
                let name = dump.display_name(target.name.instruction, target.name.index);
                let place = format!("value {moved} at {offset}, on {name}");
                assert!(!findings.is_empty(), "{place}: {error}");
            }
        }
    }
    assert!(clobbered > 20, "{clobbered}");
}

/// hlorun's own assignment of a module holds the module too.
#[test]
fn every_module_runs_inside_its_own_assignment() {
    let mut ran = 0;
    for dump in bundle(JAXLIBS[3]) {
        let module = module(&dump.module, &dump.name);
        let schedule = HloSchedule::from_text_order(&module);
        let Ok(own) = assign_buffers(&module, &schedule, AssignOptions::default()) else {
            continue;
        };
        let options = CompileOptions::default();
        let Ok(executable) = plan::compile(&legal(&module), &options) else {
            continue;
        };
        let inputs = inputs(executable.inputs(), 11);
        let Ok(expected) = run_plan(&executable, &inputs) else {
            continue;
        };
        let replay = replay(&module, &own).unwrap_or_else(|e| panic!("{}: {e}", dump.name));
        let got = run_replay(&replay, &executable, &inputs);
        assert_eq!(got, Ok(expected), "{}", dump.name);
        ran += 1;
    }
    assert!(ran >= 20, "{ran}");
}

#[test]
fn what_jax_writes_runs_inside_its_assignments() {
    let (mut same, mut ran, mut refused) = (0, 0, Vec::new());
    for jaxlib in JAXLIBS {
        for dump in bundle(jaxlib) {
            let module = module(&dump.module, &dump.name);
            // A replay folds the windows that XLA wrote.
            let options = CompileOptions {
                threads: 1,
                check: Check::Plan,
                disable: vec!["tree-reductions".to_owned()],
                ..CompileOptions::default()
            };
            let Ok(executable) = plan::compile(&legal(&module), &options) else {
                continue;
            };
            let replay = match Replay::new(&legal(&module), &dump.parse(), &executable, &options) {
                Ok(replay) => replay,
                Err(error) => {
                    refused.push(format!("{}: {error}", dump.name));
                    continue;
                }
            };
            let inputs = inputs(executable.inputs(), 7);
            // Callbacks into Python have no meaning here.
            let Ok(expected) = run_plan(&executable, &inputs) else {
                continue;
            };
            let got = match run_replay(&replay, &executable, &inputs) {
                Ok(got) => got,
                Err(error) => {
                    refused.push(format!("{}: {error}", dump.name));
                    continue;
                }
            };
            ran += 1;
            same += usize::from(got == expected);
            if got != expected {
                println!("{}: other bits", dump.name);
            }
        }
    }
    println!(
        "{ran} ran, {same} with the same bits; refused:\n{}",
        refused.join("\n")
    );
    assert!(refused.is_empty() && ran > 150 && same == ran);
}
