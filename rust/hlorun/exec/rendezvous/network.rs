//! Devices in other processes: packets over a transport that somebody else brings.
//!
//! In: bytes for a device, and packets that arrive. Out: packets with a header that says of which
//! run, collective and device they are. Promise: the packets from one device to another arrive in
//! order; a process that falls silent ends the run with an error that names it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::plan::spmd::groups::Devices;

/// Moves bytes between processes, as MPI does.
pub trait Transport: Send + Sync {
    /// Number of this process, below [`Transport::size`].
    fn rank(&self) -> u32;

    /// Number of processes.
    fn size(&self) -> u32;

    /// Begins to send; messages from one process to another arrive in the order of these calls.
    fn send(&self, rank: u32, message: Vec<u8>) -> Result<()>;

    /// The next message and who sent it, or `None` after `patience` without one. One thread calls
    /// this while others send.
    fn receive(&self, patience: Duration) -> Result<Option<(u32, Vec<u8>)>>;
}

/// The processes of all runs over one transport.
pub struct Network {
    pub(super) transport: Box<dyn Transport>,
    pub(super) silence: Duration,
    runs: AtomicU64,
    early: Mutex<Vec<(u32, Vec<u8>)>>,
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageKind {
    /// Bytes for a device.
    Data,
    /// A device has ended well.
    Ended,
    /// A device has failed; the bytes are its error.
    Failed,
    /// The process is there.
    Alive,
}

/// What every message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub run: u64,
    pub kind: MessageKind,
    pub collective: u32,
    pub source: u32,
    pub target: u32,
}

/// Bytes of a [`Header`].
const HEADER: usize = 24;
/// Most bytes of data in one message.
const PACKET: usize = 64 << 20;

impl Header {
    fn message(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend(self.run.to_le_bytes());
        for word in [self.kind as u32, self.collective, self.source, self.target] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    pub(super) fn read(message: &[u8]) -> Option<(Header, &[u8])> {
        let (head, payload) = message.split_at_checked(HEADER)?;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?))
        };
        let kind = match word(8)? {
            0 => MessageKind::Data,
            1 => MessageKind::Ended,
            2 => MessageKind::Failed,
            3 => MessageKind::Alive,
            _ => return None,
        };
        let header = Header {
            run: u64::from_le_bytes(head.get(..8)?.try_into().ok()?),
            kind,
            collective: word(12)?,
            source: word(16)?,
            target: word(20)?,
        };
        Some((header, payload))
    }
}

impl Network {
    /// The processes of `transport`; one that is silent for `silence` counts as dead.
    pub fn new(transport: Box<dyn Transport>, silence: Duration) -> Network {
        Network {
            transport,
            silence,
            runs: AtomicU64::new(0),
            early: Mutex::default(),
        }
    }

    pub(super) fn early(&self) -> MutexGuard<'_, Vec<(u32, Vec<u8>)>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The devices that run in this process: an equal share of all, in order.
    pub fn local(&self, devices: Devices) -> Range<u32> {
        devices_of(self.transport.rank(), self.transport.size(), devices)
    }

    pub(crate) fn link(&self) -> Link<'_> {
        Link {
            network: self,
            run: self.runs.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The devices of process `rank` of `size`.
pub(super) fn devices_of(rank: u32, size: u32, devices: Devices) -> Range<u32> {
    let at =
        |rank: u32| (u64::from(devices.count()) * u64::from(rank) / u64::from(size.max(1))) as u32;
    at(rank)..at(rank + 1)
}

/// A network during one run.
pub(crate) struct Link<'r> {
    pub(super) network: &'r Network,
    pub(super) run: u64,
}

impl Link<'_> {
    pub(super) fn size(&self) -> u32 {
        self.network.transport.size()
    }

    fn owner(&self, device: u32, devices: Devices) -> u32 {
        (0..self.size())
            .find(|&rank| devices_of(rank, self.size(), devices).contains(&device))
            .unwrap_or(0)
    }

    /// How many messages [`Link::data`] makes of these bytes.
    pub fn packets(bytes: &[u8]) -> u64 {
        bytes.len().div_ceil(PACKET) as u64
    }

    /// Sends bytes to a device.
    pub fn data(
        &self,
        collective: u32,
        source: u32,
        target: u32,
        devices: Devices,
        bytes: &[u8],
    ) -> Result<()> {
        let header = Header {
            run: self.run,
            kind: MessageKind::Data,
            collective,
            source,
            target,
        };
        let rank = self.owner(target, devices);
        for packet in bytes.chunks(PACKET) {
            self.network.transport.send(rank, header.message(packet))?;
        }
        Ok(())
    }

    /// Tells every other process something about a device of this one.
    pub fn announce(&self, kind: MessageKind, device: u32, payload: &[u8]) -> Result<()> {
        let header = Header {
            run: self.run,
            kind,
            collective: 0,
            source: device,
            target: 0,
        };
        let mut result = Ok(());
        for rank in 0..self.size() {
            if rank != self.network.transport.rank() {
                let sent = self.network.transport.send(rank, header.message(payload));
                result = result.and(sent);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive() {
        let header = Header {
            run: 7,
            kind: MessageKind::Failed,
            collective: 3,
            source: 1,
            target: 2,
        };
        let message = header.message(b"why");
        assert_eq!(Header::read(&message), Some((header, &b"why"[..])));
        assert_eq!(Header::read(&message[..20]), None);
    }

    #[test]
    fn every_device_has_one_process() {
        let devices = Devices {
            replicas: 5,
            partitions: 2,
        };
        let all: Vec<u32> = (0..3)
            .flat_map(|rank| devices_of(rank, 3, devices))
            .collect();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
