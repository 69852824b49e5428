//! The thread that receives what other processes send.

use std::time::{Duration, Instant};

use super::deadlock::{DeadlockDetector, Report};
use super::network::{Header, Link, MessageKind, devices_of};
use super::{Progress, Rendezvous};
use crate::error::{HloError, Result};

/// How long the receiver waits before it looks at the run again.
const TICK: Duration = Duration::from_millis(20);

/// Silent processes say that they live this often within the time that is allowed.
const BEATS: u32 = 10;

impl Rendezvous<'_> {
    /// Receives for the devices of this process, and ends them when the caller wants that, until the
    /// run is over. One thread runs this beside the devices' own.
    pub fn attend(&self, interrupted: &dyn Fn() -> bool) {
        let Some(link) = self.link() else {
            return self.watch(interrupted);
        };
        if let Err(error) = self.receive_all(link, interrupted) {
            self.fail(error);
            self.watch(interrupted);
        }
    }

    fn receive_all(&self, link: &Link<'_>, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let network = link.network;
        let mut heard = vec![Instant::now(); link.size() as usize];
        let mut spoke = Instant::now();
        let beat = network.silence / BEATS;
        let mut detector = DeadlockDetector::new(link.size(), beat);
        let mine = network.local(self.devices());
        let early = std::mem::take(&mut *network.early());
        for (rank, message) in early {
            self.take(link, rank, message, &mut detector);
        }
        while self.progress() != Progress::Over {
            if interrupted() {
                self.fail(HloError::execution("interrupted"));
            }
            if spoke.elapsed() > beat {
                spoke = Instant::now();
                let report = self.report();
                detector.hear(network.transport.rank(), report);
                link.announce(MessageKind::Alive, mine.start, &report.bytes())?;
                if detector.is_final() {
                    self.give_up();
                }
            }
            if let Some((rank, message)) = network.transport.receive(TICK)? {
                if let Some(heard) = heard.get_mut(rank as usize) {
                    *heard = Instant::now();
                }
                self.take(link, rank, message, &mut detector);
                continue;
            }
            for (rank, heard) in heard.iter().enumerate() {
                let theirs = devices_of(rank as u32, link.size(), self.devices());
                if theirs == mine || heard.elapsed() < network.silence {
                    continue;
                }
                if let Some(&device) = self.running(theirs).first() {
                    return Err(HloError::execution(format!(
                        "rank {rank}, which runs {}, has been silent for {} s: it is dead or \
                         unreachable",
                        self.devices().name(device),
                        heard.elapsed().as_secs()
                    )));
                }
            }
        }
        Ok(())
    }

    fn take(&self, link: &Link<'_>, rank: u32, message: Vec<u8>, detector: &mut DeadlockDetector) {
        match Header::read(&message) {
            Some((header, payload)) if header.run == link.run => {
                if let (MessageKind::Alive, Some(report)) = (header.kind, Report::read(payload)) {
                    detector.hear(rank, report);
                }
                self.deliver(&header, payload);
            }
            // A process that is through with this run may have begun the next one.
            Some((header, _)) if header.run > link.run => {
                link.network.early().push((rank, message));
            }
            _ => {}
        }
    }
}
