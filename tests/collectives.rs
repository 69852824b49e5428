//! Collectives through the core's own interface: devices of one process, and processes that
//! exchange messages over channels.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hlorun::HloError;
use hlorun::exec::{DeviceArrays, Network, RunOptions, Transport};
use hlorun::plan::{Check, CompileOptions, Executable, compile};
use hlorun::text::ParseOptions;
use hlorun::verify::verify;

fn executable(text: &str, replicas: u32, partitions: u32, threads: usize) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &ParseOptions::default()).unwrap();
    let module = verify(&module).unwrap();
    let options = CompileOptions {
        replicas,
        partitions,
        threads,
        check: Check::Plan,
        ..CompileOptions::default()
    };
    compile(&module, &options).unwrap()
}

/// Runs the devices `first..first + inputs.len()`; every input and output is an array of `f32`.
fn run(
    executable: &Executable,
    inputs: &[Vec<Vec<f32>>],
    network: Option<&Network>,
    options: &RunOptions<'_>,
) -> hlorun::Result<Vec<Vec<Vec<f32>>>> {
    let mut outputs: Vec<Vec<Vec<f32>>> = inputs
        .iter()
        .map(|_| {
            let leaves = executable.outputs().iter();
            leaves.map(|leaf| vec![0.0; leaf.byte_size() / 4]).collect()
        })
        .collect();
    let arrays: Vec<DeviceArrays> = inputs
        .iter()
        .zip(&mut outputs)
        .map(|(inputs, outputs)| DeviceArrays {
            inputs: inputs.iter().map(|a| a.as_ptr().cast()).collect(),
            outputs: outputs.iter_mut().map(|a| a.as_mut_ptr().cast()).collect(),
        })
        .collect();
    // SAFETY: every array has its leaf's size and outlives the call.
    unsafe { executable.run_devices(&arrays, network, options)? };
    Ok(outputs)
}

/// Values that round when they are added.
fn values(device: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + device * 104_729) % 10_007) as f32 / 9973.0 - 0.5)
        .collect()
}

const ALL: &str = "HloModule all

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  p = f32[24,100] parameter(0)
  sum = f32[24,100] all-reduce(p), replica_groups={{5,1,3},{0,2,4}}, to_apply=add
  part = f32[4,100] reduce-scatter(sum), replica_groups={}, dimensions={0}, to_apply=add
  whole = f32[24,100] all-gather(part), replica_groups={}, dimensions={0}
  turned = f32[24,100] all-to-all(whole), replica_groups=[2,3]<=[3,2]T(1,0), dimensions={0}
  moved = f32[24,100] collective-permute(turned), source_target_pairs={{0,5},{5,3},{3,0},{1,2}}
  first = f32[24,100] collective-broadcast(sum), replica_groups={{4,0,1},{2,5}}
  ROOT r = (f32[24,100], f32[24,100], f32[24,100]) tuple(sum, moved, first)
}
";

/// One end of a set of channels.
struct Channels {
    rank: u32,
    peers: Vec<Sender<(u32, Vec<u8>)>>,
    inbox: Mutex<Receiver<(u32, Vec<u8>)>>,
    is_cut: Arc<AtomicBool>,
}

impl Transport for Channels {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    fn send(&self, rank: u32, message: Vec<u8>) -> hlorun::Result<()> {
        if !self.is_cut.load(Ordering::Relaxed) {
            let _ = self.peers[rank as usize].send((self.rank, message));
        }
        Ok(())
    }

    fn receive(&self, patience: Duration) -> hlorun::Result<Option<(u32, Vec<u8>)>> {
        match self.inbox.lock().unwrap().recv_timeout(patience) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(HloError::execution("all are gone")),
        }
    }
}

/// Networks of `size` processes that are threads, and the switches that cut each off.
fn networks(size: u32, silence: Duration) -> Vec<(Network, Arc<AtomicBool>)> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
    receivers
        .into_iter()
        .zip(0..)
        .map(|(inbox, rank)| {
            let is_cut = Arc::new(AtomicBool::new(false));
            let transport = Channels {
                rank,
                peers: senders.clone(),
                inbox: Mutex::new(inbox),
                is_cut: is_cut.clone(),
            };
            (Network::new(Box::new(transport), silence), is_cut)
        })
        .collect()
}

#[test]
fn threads_and_processes_change_no_bit() {
    let inputs: Vec<_> = (0..6).map(|device| vec![values(device, 2400)]).collect();
    let options = RunOptions::default();
    let want = run(&executable(ALL, 6, 1, 1), &inputs, None, &options).unwrap();
    // Combined in the order of the group.
    let sum = |i: usize| (inputs[5][0][i] + inputs[1][0][i]) + inputs[3][0][i];
    assert!((0..2400).all(|i| want[1][0][i].to_bits() == sum(i).to_bits()));
    assert_eq!(want[5][0], want[3][0]);
    for threads in [2, 16] {
        let got = run(&executable(ALL, 6, 1, threads), &inputs, None, &options).unwrap();
        assert_eq!(got, want, "{threads} threads");
    }
    for size in [2, 4, 6] {
        let executable = executable(ALL, 6, 1, 1);
        let networks = networks(size, Duration::from_secs(20));
        std::thread::scope(|scope| {
            for (network, _) in &networks {
                let (executable, inputs, want) = (&executable, &inputs, &want);
                scope.spawn(move || {
                    let local = network.local(executable.devices());
                    let local = local.start as usize..local.end as usize;
                    for _ in 0..3 {
                        let here = &inputs[local.clone()];
                        let got = run(executable, here, Some(network), &RunOptions::default());
                        assert_eq!(got.unwrap(), want[local.clone()], "{size} processes");
                    }
                });
            }
        });
    }
}

const SPIN: &str = "HloModule spin

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

forever {
  s = f32[4] parameter(0)
  ROOT t = pred[] constant(true)
}

turn {
  s = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(s), replica_groups={}, to_apply=add
}

ENTRY e {
  p = f32[4] parameter(0)
  ROOT w = f32[4] while(p), condition=forever, body=turn
}
";

#[test]
fn an_interrupt_ends_all_devices() {
    let executable = executable(SPIN, 5, 1, 2);
    let inputs: Vec<_> = (0..5).map(|device| vec![values(device, 4)]).collect();
    let start = Instant::now();
    let options = RunOptions {
        interrupted: &|| start.elapsed() > Duration::from_millis(200),
        ..RunOptions::default()
    };
    let error = run(&executable, &inputs, None, &options).unwrap_err();
    assert_eq!(error.to_string(), "interrupted");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_silent_process_is_named() {
    let executable = executable(SPIN, 3, 1, 1);
    // Long enough that a busy machine does not make the others silent.
    let networks = networks(3, Duration::from_secs(4));
    let start = Instant::now();
    let errors: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = networks
            .iter()
            .map(|(network, is_cut)| {
                let executable = &executable;
                scope.spawn(move || {
                    let rank = network.local(executable.devices()).start as usize;
                    let options = RunOptions {
                        interrupted: &|| {
                            if rank == 1 && start.elapsed() > Duration::from_millis(300) {
                                is_cut.store(true, Ordering::Relaxed);
                                return true;
                            }
                            false
                        },
                        ..RunOptions::default()
                    };
                    let inputs = [vec![values(rank, 4)]];
                    let error = run(executable, &inputs, Some(network), &options).unwrap_err();
                    error.to_string()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        errors[0].contains("rank 1, which runs replica 1, has been silent"),
        "{errors:?}"
    );
    assert!(
        errors[2].contains("silent") || errors[2].contains("replica 0 failed"),
        "{errors:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_error_reaches_all_processes() {
    let executable = executable(SPIN, 4, 1, 1);
    let networks = networks(2, Duration::from_secs(20));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (network, _) in &networks {
            let executable = &executable;
            scope.spawn(move || {
                let first = network.local(executable.devices()).start;
                let options = RunOptions {
                    interrupted: &|| first == 2 && start.elapsed() > Duration::from_millis(200),
                    ..RunOptions::default()
                };
                let inputs = [vec![values(0, 4)], vec![values(1, 4)]];
                let error = run(executable, &inputs, Some(network), &options).unwrap_err();
                let want = if first == 2 {
                    "interrupted"
                } else {
                    "failed: interrupted"
                };
                assert!(error.to_string().ends_with(want), "{error}");
            });
        }
    });
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[test]
fn the_devices_must_fit() {
    let executable = executable(SPIN, 3, 1, 1);
    let inputs = [vec![values(0, 4)]];
    let error = run(&executable, &inputs, None, &RunOptions::default()).unwrap_err();
    assert!(matches!(error, HloError::Argument(_)), "{error}");
    let mut outputs = [0f32; 4];
    // SAFETY: the arrays have their leaves' sizes.
    let error = unsafe {
        executable.run(
            &[inputs[0][0].as_ptr().cast()],
            &[outputs.as_mut_ptr().cast()],
            &RunOptions::default(),
        )
    };
    assert!(matches!(error, Err(HloError::Argument(_))));
}

const TRAIN: &str = "HloModule train

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

cond {
  s = (s32[], f32[400,500]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT t = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[400,500]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[400,500] get-tuple-element(s), index=1
  w = f32[400,500] multiply(v, v)
  ROOT r = (s32[], f32[400,500]) tuple(j, w)
}

ENTRY e {
  weights = f32[400,500] parameter(0)
  x = f32[20,400] parameter(1)
  y = f32[20,500] dot(x, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gradient = f32[400,500] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  small = f32[500] reduce(y, zero), dimensions={0}, to_apply=add
  sums = (f32[400,500], f32[500]) all-reduce(gradient, small), replica_groups={}, to_apply=add
  whole = f32[400,500] get-tuple-element(sums), index=0
  line = f32[500] get-tuple-element(sums), index=1
  next = f32[400,500] subtract(weights, whole)
  start = s32[] constant(0)
  state = (s32[], f32[400,500]) tuple(start, next)
  loop = (s32[], f32[400,500]) while(state), condition=cond, body=body
  squares = f32[400,500] get-tuple-element(loop), index=1
  rows = f32[20,500] broadcast(line), dimensions={1}
  mixed = f32[20,500] add(y, rows)
  id = u32[] replica-id()
  number = f32[] convert(id)
  ROOT r = (f32[400,500], f32[400,500], f32[20,500], f32[500], f32[], f32[400,500]) tuple(next, squares, mixed, line, number, weights)
}
";

fn compiled(text: &str, replicas: u32, disable: &[&str]) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &ParseOptions::default()).unwrap();
    let module = verify(&module).unwrap();
    let options = CompileOptions {
        replicas,
        threads: 2,
        disable: disable.iter().map(|&name| name.to_owned()).collect(),
        check: Check::Plan,
        ..CompileOptions::default()
    };
    compile(&module, &options).unwrap()
}

/// Runs the devices of one process; inputs may be shared, outputs are where `common_outputs` says.
fn run_shared(executable: &Executable, inputs: &[Vec<&[f32]>]) -> (Vec<bool>, Vec<Vec<Vec<f32>>>) {
    let mut arrays: Vec<DeviceArrays> = inputs
        .iter()
        .map(|inputs| DeviceArrays {
            inputs: inputs.iter().map(|a| a.as_ptr().cast()).collect(),
            outputs: Vec::new(),
        })
        .collect();
    let common = executable.common_outputs(&arrays);
    let mut outputs: Vec<Vec<Vec<f32>>> = inputs
        .iter()
        .map(|_| {
            let leaves = executable.outputs().iter();
            leaves.map(|leaf| vec![7.0; leaf.byte_size() / 4]).collect()
        })
        .collect();
    for (device, arrays) in arrays.iter_mut().enumerate() {
        for (leaf, &is_common) in common.iter().enumerate() {
            let owner = if is_common { 0 } else { device };
            let pointer = outputs[owner][leaf].as_mut_ptr().cast();
            arrays.outputs.push(pointer);
        }
    }
    // SAFETY: every array has its leaf's size and outlives the call.
    unsafe { executable.run_devices(&arrays, None, &RunOptions::default()) }.unwrap();
    for leaf in (0..common.len()).filter(|&leaf| common[leaf]) {
        for device in 1..outputs.len() {
            outputs[device][leaf] = outputs[0][leaf].clone();
        }
    }
    (common, outputs)
}

#[test]
fn what_is_the_same_everywhere_is_computed_once_with_the_same_bits() {
    let n = 5;
    let executable = compiled(TRAIN, n, &[]);
    let each = compiled(TRAIN, n, &["replicated-values"]);
    let weights: Vec<Vec<f32>> = (0..n as usize).map(|d| values(d, 200_000)).collect();
    let data: Vec<Vec<f32>> = (0..n as usize).map(|d| values(d + 9, 8000)).collect();
    let cases: [(&str, [bool; 2], [bool; 6]); 3] = [
        (
            "batches",
            [true, false],
            [true, true, false, true, false, true],
        ),
        (
            "apart",
            [false, false],
            [false, false, false, false, false, false],
        ),
        ("same", [true, true], [true, true, true, true, false, true]),
    ];
    for (name, shared, want_common) in cases {
        let inputs: Vec<Vec<&[f32]>> = (0..n as usize)
            .map(|d| {
                let pick = |k: usize| if shared[k] { 0 } else { d };
                vec![&weights[pick(0)][..], &data[pick(1)][..]]
            })
            .collect();
        let copies: Vec<Vec<Vec<f32>>> = inputs
            .iter()
            .map(|inputs| inputs.iter().map(|a| a.to_vec()).collect())
            .collect();
        let want = run(&each, &copies, None, &RunOptions::default()).unwrap();
        let (common, got) = run_shared(&executable, &inputs);
        assert!(got == want, "{name}");
        if name != "apart" {
            assert_eq!(common, want_common, "{name}");
        }
        // Arrays of their own for every device are filled too.
        assert!(run_shared(&each, &inputs).1 == want, "{name}");
        let options = RunOptions::default();
        assert!(
            run(&executable, &copies, None, &options).unwrap() == want,
            "{name}"
        );
        // Processes, which share nothing, agree.
        let networks = networks(2, Duration::from_secs(20));
        std::thread::scope(|scope| {
            for (network, _) in &networks {
                let (executable, copies, want) = (&executable, &copies, &want);
                scope.spawn(move || {
                    let local = network.local(executable.devices());
                    let local = local.start as usize..local.end as usize;
                    let here = &copies[local.clone()];
                    let got = run(executable, here, Some(network), &RunOptions::default());
                    assert!(got.unwrap() == want[local], "{name}");
                });
            }
        });
    }
}

const RING: &str = "HloModule ring

ENTRY e {
  p = f32[70] parameter(0)
  after = token[] after-all()
  recv = (f32[70], u32[], token[]) recv(after), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}
  send = (f32[70], u32[], token[]) send(p, after), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}
  got = (f32[70], token[]) recv-done(recv), channel_id=3
  sent = token[] send-done(send), channel_id=3
  ROOT r = f32[70] get-tuple-element(got), index=0
}
";

#[test]
fn transfers_go_between_processes() {
    let executable = executable(RING, 4, 1, 1);
    let inputs: Vec<_> = (0..4).map(|device| vec![values(device, 70)]).collect();
    for size in [2, 3, 4] {
        let networks = networks(size, Duration::from_secs(20));
        std::thread::scope(|scope| {
            for (network, _) in &networks {
                let (executable, inputs) = (&executable, &inputs);
                scope.spawn(move || {
                    let local = network.local(executable.devices());
                    let local = local.start as usize..local.end as usize;
                    let here = &inputs[local.clone()];
                    let got = run(executable, here, Some(network), &RunOptions::default()).unwrap();
                    for (device, got) in local.zip(got) {
                        assert_eq!(got[0], inputs[(device + 3) % 4][0]);
                    }
                });
            }
        });
    }
}

#[test]
fn processes_that_wait_for_each_other_end() {
    // Each sends what it has received.
    let line = |word: &str| RING.lines().find(|line| line.contains(word)).unwrap();
    let text = RING
        .replace(line(" send("), "")
        .replace(line(" send-done("), "")
        .replace("  ROOT r =", "  r =")
        .replace(
            "\n}\n",
            "\n  SEND\n  SENT\n  ROOT copy = f32[70] copy(r)\n}\n",
        )
        .replace("SENT", line(" send-done("))
        .replace("SEND", &line(" send(").replace("send(p,", "send(r,"));
    let executable = executable(&text, 4, 1, 1);
    let networks = networks(2, Duration::from_secs(3));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (network, _) in &networks {
            let executable = &executable;
            scope.spawn(move || {
                let inputs = [vec![values(0, 70)], vec![values(1, 70)]];
                let error = run(executable, &inputs, Some(network), &RunOptions::default());
                let error = error.unwrap_err().to_string();
                assert!(
                    error.contains("waits in recv-done got for others"),
                    "{error}"
                );
            });
        }
    });
    assert!(start.elapsed() < Duration::from_secs(20));
}
