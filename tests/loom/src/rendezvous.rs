//! Devices that meet, send packets and end, under every order of events.

use loom::sync::Arc;

use crate::model;
use crate::protocol::{Arrival, Deadlock, Protocol, Rules, Status, Waiter};

struct Plain;

impl Rules for Plain {
    type Place = u32;
    type Post = u32;
    type Route = (u32, u32);
    type Error = &'static str;

    fn deadlock(&self, _: &Deadlock<'_>) -> &'static str {
        "deadlock"
    }
}

struct Device(u32);

impl Waiter<&'static str> for Device {
    fn device(&self) -> u32 {
        self.0
    }

    fn place(&self) -> Box<str> {
        "here".into()
    }

    fn gone(&self, _: u32) -> &'static str {
        "gone"
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

type Result<T> = std::result::Result<T, &'static str>;
type Board = Protocol<Plain>;

fn meet(board: &Board, place: u32, members: &[u32], device: u32, post: u32) -> Result<u32> {
    let rank = members.iter().position(|&m| m == device).unwrap();
    let arrival = Arrival {
        place,
        members,
        rank,
        size: members.len(),
        post: Some(post),
    };
    let posts = board.meet(&Device(device), arrival)?;
    Ok(posts.iter().flatten().sum())
}

/// Runs `body` for each of two devices at once, and gives what each returned. Whoever waits for ever
/// is a fault that loom reports.
fn both(body: fn(&Board, u32) -> Result<u32>, check: fn([Result<u32>; 2])) {
    model(move || {
        let board = Arc::new(Board::new(Plain, 2, false));
        let run = move |board: &Board, device: u32| {
            let result = body(board, device);
            board.ended(device, result.map(|_| ()));
            result
        };
        let other = loom::thread::spawn({
            let board = board.clone();
            move || run(&board, 1)
        });
        let first = run(&board, 0);
        check([first, other.join().unwrap()]);
        assert!(board.lock().status.iter().all(|s| *s == Status::Ended));
    });
}

#[test]
fn a_group_meets_again_and_again() {
    both(
        |board, device| {
            let first = meet(board, 7, &[0, 1], device, device + 1)?;
            // The same place once more: nobody takes the posts of the first time.
            let second = meet(board, 7, &[0, 1], device, 10 * (device + 1))?;
            Ok(100 * first + second)
        },
        |results| assert_eq!(results, [Ok(330), Ok(330)]),
    );
}

#[test]
fn packets_arrive_in_order_and_wait_for_room() {
    both(
        |board, device| {
            let me = Device(device);
            if device == 0 {
                for byte in 1..=2 {
                    // Room for one at a time.
                    board.post(&me, (0, 1), 1, vec![byte], 1)?;
                }
                return Ok(0);
            }
            let first = board.fetch(&me, (0, 1), 0)?[0];
            let second = board.fetch(&me, (0, 1), 0)?[0];
            Ok(u32::from(first) * 10 + u32::from(second))
        },
        |results| assert_eq!(results, [Ok(0), Ok(12)]),
    );
}

#[test]
fn a_failure_ends_who_waits() {
    both(
        |board, device| match device {
            0 => meet(board, 7, &[0, 1], 0, 1),
            _ => Err("broken"),
        },
        |results| assert_eq!(results, [Err("broken"), Err("broken")]),
    );
}

#[test]
fn who_a_failure_ended_in_a_group_stays_ended() {
    both(
        |board, device| {
            if device == 1 {
                board.note(&mut board.lock(), "interrupted");
            }
            meet(board, 7, &[0, 1], device, 1)
        },
        |results| assert!(results.contains(&Err("interrupted"))),
    );
}

#[test]
fn who_ends_without_coming_is_named() {
    both(
        |board, device| match device {
            0 => meet(board, 7, &[0, 1], 0, 1),
            _ => Ok(0),
        },
        |results| assert!(matches!(results, [Err("gone" | "deadlock"), Ok(0)])),
    );
}

#[test]
fn devices_in_different_places_are_a_deadlock() {
    both(
        |board, device| meet(board, device, &[0, 1], device, 1),
        |results| assert_eq!(results, [Err("deadlock"), Err("deadlock")]),
    );
}

#[test]
fn no_deadlock_is_seen_where_a_packet_is_on_its_way() {
    both(
        |board, device| {
            let me = Device(device);
            let (out, back) = ((device, 1 - device), (1 - device, device));
            board.post(&me, out, 1 - device, vec![device as u8], 1)?;
            let byte = board.fetch(&me, back, 1 - device)?[0];
            meet(board, 7, &[0, 1], device, u32::from(byte))
        },
        |results| assert_eq!(results, [Ok(1), Ok(1)]),
    );
}

#[test]
fn who_waits_for_the_end_is_woken() {
    model(|| {
        let board = Arc::new(Board::new(Plain, 1, false));
        let device = loom::thread::spawn({
            let board = board.clone();
            move || board.ended(0, Ok(()))
        });
        let mut state = board.lock();
        while state.status[0] != Status::Ended {
            state = board.wait_for_end(state);
        }
        drop(state);
        device.join().unwrap();
    });
}
