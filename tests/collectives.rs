//! Collectives through the core's own interface: devices of one process, and processes that
//! exchange messages over channels.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hlorun::HloError;
use hlorun::exec::RunOptions;
use hlorun::exec::collectives::{Network, Transport};
use hlorun::exec::replicas::DeviceArrays;
use hlorun::plan::{CompileOptions, Executable, compile};
use hlorun::text::ParseOptions;

fn executable(text: &str, replicas: u32, partitions: u32, threads: usize) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &ParseOptions::default()).unwrap();
    hlorun::verify::verify(&module).unwrap();
    let options = CompileOptions {
        replicas,
        partitions,
        threads,
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
    let networks = networks(3, Duration::from_secs(1));
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
