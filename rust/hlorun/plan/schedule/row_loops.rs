//! `row-loops`: fused loops and reductions over rows that are read and written where they lie.
//!
//! In: a loop, or the values of a reduction, of which an input or a result has rows that lie apart, as the inside of a matrix
//! has, or an input has one element for each row. Out: a [`RowLoop`]. Promise: the same bits, of a NaN only that it is one.
//!
//! It pays because a tile is a contiguous run of elements, into which such rows are gathered.
//!
//! Legal where the rows of each result have one length and one distance, and no element is written while another is still to be
//! read there: a result overlaps no input, or has the very places of one. Blocks of a row that share columns compute these
//! twice; then the last one is computed first, and kept until the others are there.

use hlorun_kernels::vector_bytecode::has_singles;

use super::column_folds::split_last;
use super::fold_shape::Shape;
use super::row_tiling::gcd;
use super::tiles::widest;
use crate::buffers::ALIGNMENT;
use crate::plan::cost::row_loops::{MIN_PLANE, RowWork, tile};
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::{Program, Register};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::row_loop::{RowLoop, RowSource};
use crate::plan::thunk::{Load, LoadKind, LoopThunk, ReduceThunk, Store, Thunk, ThunkKind};
use crate::plan::view::{ArrayView, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "row-loops";

/// Finds such loops and reductions in `thunks`, whose buffers have their memory, and in the loops and branches among them, but
/// not in row tiles, whose rows lie in scratch; returns how many there are.
pub fn run(thunks: &mut [Thunk]) -> usize {
    let mut count = 0;
    let mut sequences: Vec<&mut [Thunk]> = vec![thunks];
    while let Some(sequence) = sequences.pop() {
        for thunk in sequence {
            match &mut thunk.kind {
                ThunkKind::Loop(fused) if fused.small.is_none() => {
                    fused.rows = of_loop(fused).over_rows().map(Box::new);
                    count += usize::from(fused.rows.is_some());
                }
                ThunkKind::Reduce(reduction) if reduction.columns.is_none() => {
                    let values = of_reduction(reduction);
                    reduction.rows = values.and_then(|own| own.over_rows()).map(Box::new);
                    count += usize::from(reduction.rows.is_some());
                }
                _ => sequences.extend(thunk.nested_mut().into_iter().map(|inner| &mut inner[..])),
            }
        }
    }
    count
}

fn of_loop(fused: &LoopThunk) -> Values<'_> {
    Values {
        program: &fused.program,
        loads: &fused.loads,
        count: fused.count,
        stores: &fused.stores,
        results: fused.stores.iter().map(|store| store.register).collect(),
        tile: None,
    }
}

/// `None` where tiles may begin anywhere.
fn of_reduction(reduction: &ReduceThunk) -> Option<Values<'_>> {
    let count = reduction.space.iter().map(|step| step.0 as usize).product();
    let widest = widest(reduction, count);
    let unit = match Shape::of(reduction, widest) {
        Shape::ShortRows { size, .. }
        | Shape::FewColumns { size, .. }
        | Shape::FewGroups { size, .. } => size,
        Shape::Plain => return None,
    };
    Some(Values {
        program: &reduction.program,
        loads: &reduction.loads,
        count,
        stores: &[],
        results: reduction.program.outputs.clone(),
        tile: Some((unit, widest)),
    })
}

/// An array in rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct InRows {
    /// Rows at one distance, and elements from one to the next.
    rows: usize,
    step: i64,
    /// Whether a row is one element over and over; otherwise its elements lie side by side.
    is_single: bool,
}

/// How a walk goes over rows of so many elements, if it does.
fn in_rows(walk: &Walk, row: usize) -> Option<InRows> {
    let mut outer = walk.clone();
    let step = split_last(&mut outer, i64::try_from(row).ok()?)?;
    let is_row = faults::holds(Fault::ReadsOtherRows, matches!(step, 0 | 1));
    let (rows, row_step) = outer.last().copied().unwrap_or((1, 0));
    is_row.then_some(InRows {
        rows: usize::try_from(rows).ok()?,
        step: row_step,
        is_single: step == 0,
    })
}

/// A loop, or the values of a reduction.
struct Values<'t> {
    program: &'t Program,
    loads: &'t [Load],
    count: usize,
    /// Where results go; those of a reduction are folded from a tile.
    stores: &'t [Store],
    results: Vec<Register>,
    /// Of a reduction, what the elements of a tile are a multiple of, and the most of them.
    tile: Option<(usize, usize)>,
}

impl Values<'_> {
    /// Elements of the shortest rows that lie apart.
    fn row(&self) -> Option<usize> {
        let loads = self.loads.iter().filter(|load| !load.is_constant());
        let loads = loads.filter(|load| !load.is_dense && matches!(load.kind, LoadKind::View(_)));
        let stores = self.stores.iter().filter(|store| !store.is_dense);
        let walks = loads.map(|load| &load.walk).chain(stores.map(|s| &s.walk));
        let rows = walks.filter_map(|walk| match walk.last() {
            Some(&(row @ 1.., 0 | 1)) if walk.len() > 1 => usize::try_from(row).ok(),
            _ => None,
        });
        rows.min()
    }

    /// How it goes over rows, if that is legal and pays.
    fn over_rows(&self) -> Option<RowLoop> {
        let (program, row) = (self.program, self.row()?);
        let is_whole = self.tile.is_none_or(|(unit, _)| unit.is_multiple_of(row));
        if program.is_empty() || self.count == 0 || !is_whole || !self.count.is_multiple_of(row) {
            return None;
        }
        let loads = self.inputs()?;
        let found = loads
            .iter()
            .map(|&at| source(program, &self.loads[at], row));
        let found: Vec<Option<InRows>> = found.collect();
        let stores = self.stores.iter().map(|store| of_store(store, row));
        let stores: Vec<InRows> = stores.collect::<Option<_>>()?;
        let all = found.iter().flatten().chain(&stores);
        let plane = all.fold(self.count / row, |all, own| gcd(all, own.rows));
        let singles = found.iter().map(|own| own.is_some_and(|own| own.is_single));
        let is_single: Vec<bool> = singles.collect();
        let mut code = program.row_code(&is_single, &self.results)?;
        let lanes = code.min_columns();
        if plane * row < MIN_PLANE || row < lanes {
            return None;
        }
        let replaces = self.replaces()?;
        let size = |register: Register| program.types[register.0 as usize].size_bytes();
        let outside = program.inputs.iter().chain(&self.results);
        let bytes: usize = outside.map(|&register| size(register)).sum();
        let tile = tile(bytes.checked_mul(row)?)?;
        let most = self.tile.map_or(tile, |(_, elements)| elements / row);
        let are_apart = code.blocks_are_apart(row);
        let keeps = replaces && !faults::holds(Fault::ReadsReplacedElements, are_apart);
        if keeps {
            code.replace_operands(tile);
        }
        let (blocks, computed) = code.blocks_of(row);
        let work = RowWork {
            row,
            lanes,
            rows: tile.min(most).min(plane),
            blocks,
            computed,
            work: program.work,
            functions: code.functions(),
            outside: loads.len() + self.results.len(),
            spared: self.spared(&loads, &found, self.count / row),
            kept: if keeps { self.results.len() } else { 0 },
        };
        if !work.pays() {
            return None;
        }
        let mut copied = 0;
        let sources = loads.iter().zip(&found).map(|(&at, own)| {
            let source = match own {
                Some(own) => RowSource::InPlace(own.step),
                None => {
                    let bytes = row * size(self.loads[at].register);
                    let offset = copied;
                    copied += (bytes * tile).next_multiple_of(ALIGNMENT);
                    RowSource::Copied { row: bytes, offset }
                }
            };
            (at, source)
        });
        let steps = stores.iter().map(|own| own.step);
        let dense = std::iter::repeat_n(row as i64, self.results.len() - stores.len());
        Some(RowLoop {
            code,
            row,
            plane,
            tile,
            inputs: sources.collect(),
            outputs: steps.chain(dense).collect(),
        })
    }

    /// By input of the program, which of the loads it is.
    fn inputs(&self) -> Option<Vec<usize>> {
        let at = |&input| self.loads.iter().position(|load| load.register == input);
        self.program.inputs.iter().map(at).collect()
    }

    /// How many inputs and results tiles would gather or scatter; what is the same in all of `rows` rows is laid out once.
    fn spared(&self, loads: &[usize], found: &[Option<InRows>], rows: usize) -> usize {
        let changes =
            |own: &Option<InRows>| own.is_some_and(|own| own.step != 0 || own.rows < rows);
        let inputs = loads
            .iter()
            .zip(found)
            .filter(|&(&at, own)| changes(own) && !self.loads[at].is_dense);
        let stores = self.stores.iter().filter(|store| !store.is_dense);
        inputs.count() + stores.count()
    }

    /// Whether a result takes the place of an input; `None` where an element may be written while another is still read there.
    fn replaces(&self) -> Option<bool> {
        let views = self.loads.iter().flat_map(|load| {
            let views = load.views();
            views.map(move |view| (view, load))
        });
        let pairs =
            views.flat_map(|(from, load)| self.stores.iter().map(move |to| (from, load, to)));
        let mut overlapping =
            pairs.filter(|(from, _, store)| from.slice.overlaps(&store.view.slice));
        overlapping.try_fold(false, |_, (from, load, store)| {
            is_same_place(store, from, load).then_some(true)
        })
    }
}

/// Whether a store writes each element where a load reads it.
fn is_same_place(store: &Store, from: &ArrayView, load: &Load) -> bool {
    let to = &store.view;
    matches!(load.kind, LoadKind::View(_))
        && from.slice == to.slice
        && from.offset == to.offset
        && from.element_type.size_bytes() == to.element_type.size_bytes()
        && *load.walk == *store.walk
        && from.dynamic.is_empty()
        && to.dynamic.is_empty()
}

/// The rows of an input; `None` where it has to be copied into such.
fn source(program: &Program, load: &Load, row: usize) -> Option<InRows> {
    let LoadKind::View(_) = load.kind else {
        return None;
    };
    let ty = dtype(program.types[load.register.0 as usize])?;
    let found = in_rows(&load.walk, row)?;
    (!found.is_single || has_singles(ty)).then_some(found)
}

/// The rows of a result, whose elements are all different.
fn of_store(store: &Store, row: usize) -> Option<InRows> {
    in_rows(&store.walk, row).filter(|own| !own.is_single)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_merged_walks() {
        let in_rows = |walk: &[(i64, i64)]| in_rows(&Walk::from_slice(walk), 100);
        let found = |rows, step, is_single| {
            Some(InRows {
                rows,
                step,
                is_single,
            })
        };
        // Dense, apart, planes of them, the same row, an element for each row, and one for all.
        assert_eq!(in_rows(&[(800, 1)]), found(8, 100, false));
        assert_eq!(in_rows(&[(8, 120), (100, 1)]), found(8, 120, false));
        assert_eq!(
            in_rows(&[(2, 999), (4, 120), (200, 1)]),
            found(2, 100, false)
        );
        assert_eq!(in_rows(&[(8, 0), (100, 1)]), found(8, 0, false));
        assert_eq!(in_rows(&[(8, 3), (100, 0)]), found(8, 3, true));
        assert_eq!(in_rows(&[(800, 0)]), found(8, 0, true));
        assert_eq!(in_rows(&[(100, 1)]), found(1, 0, false));
        // Along the columns, and rows that end inside.
        assert_eq!(in_rows(&[(8, 1), (100, 8)]), None);
        assert_eq!(in_rows(&[(16, 60), (50, 1)]), None);
        assert_eq!(in_rows(&[]), None);
    }
}
