//! Runs loops and reductions over the same rows together, tile by tile.
//!
//! Every thread has scratch for one tile of each private value. Its address is shifted so that row
//! `r` of the value is where row `r` would be if all of it were there, so members need not know.
//! Tiles are the same ones on any number of threads, since a product may sum in another way when it
//! has few rows.

use super::element::loops::{self, Running};
use super::element::program::Frame;
use super::element::stream;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, try_parallel};
use crate::exec::memory::Memory;
use crate::exec::reduce::fold::Tile;
use crate::exec::reduce::job::{Accumulators, Job};
use crate::exec::reduce::{start, wide_type};
use crate::plan::element::elementwise::dtype;
use crate::plan::thunk::{GemmThunk, LoopThunk, ReduceThunk, RowTiledThunk, Thunk, ThunkKind};
use smallvec::smallvec;

/// Parts per thread, so that one that is held up does not hold up everything.
const PARTS_PER_THREAD: usize = 4;

/// Runs a group.
pub fn run(thunk: &RowTiledThunk, environment: &Environment<'_>) -> Result<()> {
    let rows = thunk.rows;
    let traffic = thunk.members.iter().map(|member| match &member.kind {
        ThunkKind::Loop(fused) => loops::traffic(fused),
        _ => 0,
    });
    let is_much = stream::pays(traffic.sum::<usize>().saturating_mul(environment.crowd));
    let streams = |buffer: u32| is_much && !thunk.members.iter().any(|member| member.reads(buffer));
    let tiles = rows.div_ceil(thunk.tile_rows);
    let tasks = if environment.threads > 1 {
        (environment.threads * PARTS_PER_THREAD).min(tiles)
    } else {
        1
    };
    try_parallel(environment, tasks, &|task| {
        let first = |task: usize| (tiles * task / tasks * thunk.tile_rows).min(rows);
        let (mut row, end) = (first(task), first(task + 1));
        let scratch = thunk
            .privates
            .iter()
            .map(|private| AlignedBytes::uninitialized(private.row_bytes * thunk.tile_rows))
            .collect::<Result<Vec<_>>>()?;
        let place = |row: usize| {
            let each = scratch.iter().zip(&thunk.privates);
            each.map(|(bytes, private)| bytes.shared_ptr().wrapping_sub(row * private.row_bytes))
                .collect()
        };
        let mut memory = environment.memory.clone();
        memory.set_privates(place(row));
        let mut members = thunk
            .members
            .iter()
            .map(|member| Member::new(member, &memory, thunk, &streams))
            .collect::<Result<Vec<_>>>()?;
        while row < end {
            let next = (row + thunk.tile_rows).min(end);
            memory.set_privates(place(row));
            for member in &mut members {
                member.run(&memory, row, next)?;
            }
            row = next;
        }
        for member in &members {
            if let Member::Loop { running, .. } = member {
                running.finish();
            }
        }
        Ok(())
    })
}

/// A member with its addresses resolved.
enum Member<'t> {
    Loop {
        running: Running<'t>,
        frame: Frame,
        /// Elements per row.
        row: usize,
    },
    Reduce {
        thunk: &'t ReduceThunk,
        job: Box<Job<'t>>,
        tile: Box<Tile>,
        /// Elements per row, read and written.
        row: usize,
        results: usize,
        /// Where narrow floats of a tile are accumulated.
        wide: Option<AlignedBytes>,
    },
    Product {
        thunk: &'t GemmThunk,
        /// Rows of the product per row of the group, and the bytes of one.
        rows: usize,
        row_bytes: usize,
    },
}

impl<'t> Member<'t> {
    fn new(
        thunk: &'t Thunk,
        memory: &Memory,
        group: &RowTiledThunk,
        streams: &dyn Fn(u32) -> bool,
    ) -> Result<Member<'t>> {
        let (rows, tile_rows) = (group.rows, group.tile_rows);
        match &thunk.kind {
            ThunkKind::Loop(fused) => Member::of_loop(fused, memory, rows, streams),
            ThunkKind::Reduce(reduce) => Member::of_reduction(reduce, memory, rows, tile_rows),
            ThunkKind::Gemm(gemm) => {
                let (_, m, n, _) = gemm.sizes();
                Ok(Member::Product {
                    thunk: gemm,
                    rows: m as usize / rows,
                    row_bytes: n as usize * gemm.c.element_type.size_bytes(),
                })
            }
            _ => Err(HloError::execution("a row-tiled group of something else")),
        }
    }

    fn of_loop(
        thunk: &'t LoopThunk,
        memory: &Memory,
        rows: usize,
        streams: &dyn Fn(u32) -> bool,
    ) -> Result<Member<'t>> {
        let running = Running::new(thunk, memory, streams)?;
        Ok(Member::Loop {
            frame: running.frame()?,
            running,
            row: thunk.count / rows,
        })
    }

    fn of_reduction(
        thunk: &'t ReduceThunk,
        memory: &Memory,
        rows: usize,
        tile_rows: usize,
    ) -> Result<Member<'t>> {
        let total: usize = thunk.space.iter().map(|s| s.0 as usize).product();
        let results = thunk.outputs.first().map_or(0, |o| o.count()) / rows;
        let job = Job::new(thunk, memory, total)?;
        Ok(Member::Reduce {
            thunk,
            tile: Box::new(job.tile()?),
            job: Box::new(job),
            row: total / rows,
            results,
            wide: wide_type(thunk)
                .map(|wide| AlignedBytes::uninitialized(tile_rows * results * wide.size_bytes()))
                .transpose()?,
        })
    }

    /// Computes rows `begin..end`.
    fn run(&mut self, memory: &Memory, begin: usize, end: usize) -> Result<()> {
        match self {
            Member::Product {
                thunk,
                rows,
                row_bytes,
            } => {
                let own = begin * *rows..end * *rows;
                let c = memory.first(&thunk.c).wrapping_add(own.start * *row_bytes);
                // SAFETY: rows of the product; C is dense, so that they lie one after the other, and
                // tasks have rows of their own.
                unsafe { crate::exec::gemm::block(thunk, own, memory, c)? };
            }
            Member::Loop {
                running,
                frame,
                row,
            } => {
                running.rebase(memory);
                running.range(frame, begin * *row..end * *row);
            }
            Member::Reduce {
                thunk,
                job,
                tile,
                row,
                results,
                wide,
            } => {
                job.rebase(memory);
                let own = Accumulators {
                    pointers: thunk.outputs.iter().map(|o| memory.first(o)).collect(),
                    sizes: thunk
                        .outputs
                        .iter()
                        .map(|o| o.element_type.size_bytes())
                        .collect(),
                };
                let (first, count) = (begin * *results, (end - begin) * *results);
                let accumulators = match (&wide, wide_type(thunk)) {
                    (Some(bytes), Some(ty)) => Accumulators {
                        pointers: smallvec![
                            bytes.shared_ptr().wrapping_sub(first * ty.size_bytes())
                        ],
                        sizes: smallvec![ty.size_bytes()],
                    },
                    _ => own.clone(),
                };
                start(thunk, memory, &accumulators, first, count);
                job.range_with(tile, begin * *row..end * *row, &accumulators);
                if wide.is_some()
                    && let Some(narrow) = dtype(thunk.outputs[0].element_type)
                {
                    let convert = hlorun_kernels::convert(hlorun_kernels::DType::F32, narrow);
                    // SAFETY: both hold `count` elements of their types from `first` on.
                    unsafe { convert(accumulators.at(0, first), own.at(0, first), count) };
                }
            }
        }
        Ok(())
    }
}
