//! The most bytes of a block in use at one moment, where values may overlap.
//!
//! Comes in: pieces of a block, each for some moments. Goes out: that number of bytes. Promise: n pieces take
//! n log n steps.

/// Pieces of a block and when they are taken.
#[derive(Default)]
pub struct Coverage {
    pieces: Vec<Piece>,
}

struct Piece {
    start: u64,
    end: u64,
    /// First and last moment.
    live: (u32, u32),
}

/// Sums over ranges of a block that is cut at the ends of all pieces.
struct Cuts {
    /// Where the block is cut, in order.
    places: Vec<u64>,
    /// By node of a binary tree over the ranges between cuts: how many pieces take all of it and were not
    /// noted at its parent, and how many of its bytes are taken.
    nodes: Vec<(u32, u64)>,
}

impl Coverage {
    /// Adds `size` bytes at `offset`, from the first moment of `live` to the last.
    pub fn add(&mut self, offset: u64, size: u64, live: (u32, u32)) {
        if size > 0 {
            self.pieces.push(Piece {
                start: offset,
                end: offset.saturating_add(size),
                live,
            });
        }
    }

    /// The most bytes that are taken at one moment; bytes that several take count once.
    pub fn most(&self) -> u64 {
        let ends = self
            .pieces
            .iter()
            .flat_map(|piece| [piece.start, piece.end]);
        let mut places: Vec<u64> = ends.collect();
        places.sort_unstable();
        places.dedup();
        let ranges = places.len().saturating_sub(1).next_power_of_two();
        let mut cuts = Cuts {
            places,
            nodes: vec![(0, 0); 2 * ranges],
        };
        // Those that end make room before others begin.
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * self.pieces.len());
        for (k, piece) in self.pieces.iter().enumerate() {
            if piece.live.0 <= piece.live.1 {
                events.push((u64::from(piece.live.0), true, k));
                events.push((u64::from(piece.live.1) + 1, false, k));
            }
        }
        events.sort_unstable();
        let mut most = 0;
        for (_, begins, k) in events {
            let piece = &self.pieces[k];
            let from = cuts.places.partition_point(|&place| place < piece.start);
            let to = cuts.places.partition_point(|&place| place < piece.end);
            cuts.change(1, (0, ranges), (from, to), begins);
            most = most.max(cuts.nodes[1].1);
        }
        most
    }
}

impl Cuts {
    /// Notes that one more, or one less, takes the ranges `wanted`, below a node over the ranges `all`.
    fn change(&mut self, node: usize, all: (usize, usize), wanted: (usize, usize), begins: bool) {
        if wanted.1 <= all.0 || all.1 <= wanted.0 {
            return;
        }
        if wanted.0 <= all.0 && all.1 <= wanted.1 {
            let takers = &mut self.nodes[node].0;
            *takers = if begins { *takers + 1 } else { *takers - 1 };
        } else {
            let middle = all.0.midpoint(all.1);
            self.change(2 * node, (all.0, middle), wanted, begins);
            self.change(2 * node + 1, (middle, all.1), wanted, begins);
        }
        let place = |k: usize| self.places.get(k).or(self.places.last()).copied();
        self.nodes[node].1 = match (self.nodes[node].0, all.1 - all.0) {
            (0, 1) => 0,
            (0, _) => self.nodes[2 * node].1 + self.nodes[2 * node + 1].1,
            _ => place(all.1).unwrap_or(0) - place(all.0).unwrap_or(0),
        };
    }
}
