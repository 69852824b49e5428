//! Whether all processes of a run wait for each other.
//!
//! In: what each process says of itself at every beat. Out: whether nothing can happen any more.
//! Promise: it is never said of a run that can go on. Each process has then said twice and once more
//! that none of its devices runs and that it has sent and received nothing since, so that there is
//! a moment for which all have said so; and as many packets were received by then as were sent, so
//! that none is on its way to wake a device.

use std::time::{Duration, Instant};

/// What a process says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// None of its devices runs.
    pub is_idle: bool,
    /// Packets it has sent.
    pub sent: u64,
    /// Packets it has received.
    pub received: u64,
}

impl Report {
    /// As a message.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_idle)];
        bytes.extend(self.sent.to_le_bytes());
        bytes.extend(self.received.to_le_bytes());
        bytes
    }

    /// From a message.
    pub fn read(bytes: &[u8]) -> Option<Report> {
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        Some(Report {
            is_idle: *bytes.first()? != 0,
            sent: word(1)?,
            received: word(9)?,
        })
    }
}

/// A process's last report, how often it was repeated, and when it came.
type Heard = (Report, u32, Instant);

/// The reports of all processes.
pub struct DeadlockDetector {
    heard: Vec<Option<Heard>>,
    /// Time between two reports of a process.
    beat: Duration,
}

/// How often a report is repeated before it counts.
const REPEATS: u32 = 2;

impl DeadlockDetector {
    /// Nobody has said anything.
    pub fn new(processes: u32, beat: Duration) -> DeadlockDetector {
        DeadlockDetector {
            heard: vec![None; processes as usize],
            beat,
        }
    }

    /// Notes what process `rank` says.
    pub fn hear(&mut self, rank: u32, report: Report) {
        let Some(heard) = self.heard.get_mut(rank as usize) else {
            return;
        };
        let repeats = match heard {
            Some((last, repeats, _)) if *last == report => repeats.saturating_add(1),
            _ => 0,
        };
        *heard = Some((report, repeats, Instant::now()));
    }

    /// Whether nothing can happen any more.
    pub fn is_final(&self) -> bool {
        let (mut sent, mut received) = (0u64, 0u64);
        for heard in &self.heard {
            let Some((report, repeats, when)) = heard else {
                return false;
            };
            let is_recent = when.elapsed() < self.beat * 3 / 2;
            if !report.is_idle || *repeats < REPEATS || !is_recent {
                return false;
            }
            sent = sent.wrapping_add(report.sent);
            received = received.wrapping_add(report.received);
        }
        sent == received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_balance_is_final() {
        let idle = |sent, received| Report {
            is_idle: true,
            sent,
            received,
        };
        let mut detector = DeadlockDetector::new(2, Duration::from_secs(100));
        for _ in 0..3 {
            detector.hear(0, idle(4, 1));
            assert!(!detector.is_final());
            detector.hear(1, idle(1, 3));
        }
        assert!(!detector.is_final(), "a packet is under way");
        for beat in 0..3 {
            detector.hear(1, idle(1, 4));
            assert_eq!(detector.is_final(), beat == 2);
        }
        detector.hear(
            0,
            Report {
                is_idle: false,
                ..idle(4, 1)
            },
        );
        assert!(!detector.is_final());
        let report = idle(7, 9);
        assert_eq!(Report::read(&report.bytes()), Some(report));
    }
}
