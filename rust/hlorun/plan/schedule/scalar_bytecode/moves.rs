//! Elements moved between views and the places of scalar bytecode.

use hlorun_kernels::DType;
use hlorun_kernels::scalar_bytecode::{self, Function};

use super::builder::Builder;
use crate::plan::cost::scalar_bytecode::{
    MAX_APART, MAX_MOVED, MAX_PIECE, MAX_ROWS, MAX_UNROLLED, MIN_ROW_BYTES,
};
use crate::plan::element::elementwise::dtype;
use crate::plan::thunk::CopyThunk;
use crate::plan::thunk::scalar_bytecode::{Code, Place, ScalarOp};
use crate::plan::view::{ArrayView, BufferSlice, DynamicIndex, PRIVATE, Walk};
use crate::plan::view::{is_one_run, offset_in};

impl Builder {
    pub(crate) fn copy(&mut self, copy: &CopyThunk) -> Option<()> {
        let (source, destination) = (&copy.source, &copy.destination);
        let size = source.element_type.size_bytes();
        let n = destination.count();
        if n * size > MAX_MOVED {
            return None;
        }
        if n == 0 {
            return Some(());
        }
        // In the order of memory, as many as can be lie side by side.
        let order = destination.memory_order();
        let (from, to) = (source.walk(&order), destination.walk(&order));
        if source.dynamic.is_empty()
            && destination.dynamic.is_empty()
            && !source.slice.overlaps(&destination.slice)
            && let Some(row) = row_of(&from, &to, n, size)
        {
            let ends = (place(source)?, place(destination)?);
            return self.copy_rows(ends, (&from, &to), (n, row, size));
        }
        let staged = if source.dynamic.is_empty() && is_one_run(&from) {
            place(source)?
        } else {
            let spare = Some(Place::Scratch(MAX_MOVED));
            self.bring(source, &from, n, (Place::Scratch(0), spare))?;
            Place::Scratch(0)
        };
        self.put(staged, destination, &to, n)
    }

    /// Copies `n` elements row by row: `row` of them at a time.
    fn copy_rows(
        &mut self,
        (from, to): (Place, Place),
        (read, written): (&Walk, &Walk),
        (n, row, size): (usize, usize, usize),
    ) -> Option<()> {
        for at in (0..n).step_by(row) {
            let offset = |walk| usize::try_from(offset_in(walk, at as i64)).ok();
            let (read, written) = (offset(read)? * size, offset(written)? * size);
            self.breathe();
            self.copy_bytes(row, size, from.behind(read), to.behind(written));
        }
        Some(())
    }

    /// Brings the elements of a view to `out`. `spare` is unused scratch of [`MAX_MOVED`] bytes, if there is any.
    pub(crate) fn bring(
        &mut self,
        view: &ArrayView,
        walk: &Walk,
        n: usize,
        (out, spare): (Place, Option<Place>),
    ) -> Option<()> {
        let size = view.element_type.size_bytes();
        let from = place_of_first(view)?;
        let is_run = is_one_run(walk);
        if !view.dynamic.is_empty() {
            if is_run {
                return self.load(from, &view.dynamic, size, n * size, out);
            }
            if walk.iter().all(|step| step.1 == 0) {
                // One element for all.
                self.load(from, &view.dynamic, size, size, out)?;
                self.gather(walk, size, n, out, out);
                return Some(());
            }
            if let Some(spare) = spare
                && let Some(span) = span(walk)
                && span <= n
                && span * size <= MAX_MOVED
            {
                // Elements that are repeated or transposed are loaded once, and gathered from there.
                self.load(from, &view.dynamic, size, span * size, spare)?;
                self.breathe();
                self.gather(walk, size, n, spare, out);
                return Some(());
            }
            for (at, offset) in offsets(walk, n, MAX_APART)?.into_iter().enumerate() {
                let (from, to) = (from.behind(offset * size), out.behind(at * size));
                self.load(from, &view.dynamic, size, size, to)?;
            }
            return Some(());
        }
        self.breathe();
        if is_run {
            self.copy_bytes(n, size, from, out);
        } else {
            self.gather(walk, size, n, from, out);
        }
        Some(())
    }

    /// Loads `bytes` from where `indices` move `from`, of an array whose elements have `size` bytes, to `out`.
    pub(super) fn load(
        &mut self,
        from: Place,
        indices: &[DynamicIndex],
        size: usize,
        bytes: usize,
        out: Place,
    ) -> Option<()> {
        if indices.is_empty() {
            self.breathe();
            self.copy_bytes(bytes / size, size, from, out);
            return Some(());
        }
        self.transfer(scalar_bytecode::load, [from, out], indices, size, bytes)
    }

    /// Loads or stores `bytes` at the place that `indices` move.
    fn transfer(
        &mut self,
        function: fn(DType, usize, bool) -> Option<Function>,
        [from, to]: [Place; 2],
        indices: &[DynamicIndex],
        size: usize,
        bytes: usize,
    ) -> Option<()> {
        self.breathe();
        let (last, others) = indices.split_last()?;
        if indices.len() + 2 > MAX_PIECE {
            return None;
        }
        let more = self.indices(others, size)?;
        let op = self.push(function(dtype(last.element_type)?, bytes, more)?);
        let op = index(op, last, size)?;
        (op.operands[0], op.out, op.n) = (from, to, bytes);
        op.unit = size;
        Some(())
    }

    /// Puts `n` elements at `from` into a view.
    pub(crate) fn put(
        &mut self,
        from: Place,
        view: &ArrayView,
        walk: &Walk,
        n: usize,
    ) -> Option<()> {
        let size = view.element_type.size_bytes();
        let to = place_of_first(view)?;
        let is_run = is_one_run(walk);
        if !view.dynamic.is_empty() {
            if n * size > MAX_MOVED {
                return None;
            }
            if is_run {
                let ends = [from, to];
                return self.transfer(scalar_bytecode::store, ends, &view.dynamic, size, n * size);
            }
            for (at, offset) in offsets(walk, n, MAX_APART)?.into_iter().enumerate() {
                let (from, to) = (from.behind(at * size), to.behind(offset * size));
                let ends = [from, to];
                self.transfer(scalar_bytecode::store, ends, &view.dynamic, size, size)?;
            }
            return Some(());
        }
        self.breathe();
        if is_run {
            self.copy_bytes(n, size, from, to);
        } else {
            match unrolled(walk, n) {
                Some(offsets) => {
                    for (at, offset) in offsets.into_iter().enumerate() {
                        let to = to.behind(offset * size);
                        self.copy_bytes(1, size, from.behind(at * size), to);
                    }
                }
                None => {
                    let number = self.walks.len();
                    self.walks.push(walk.clone().into());
                    let scatter = self.push_code(Code::Scatter(number, size));
                    (scatter.operands[0], scatter.out, scatter.n) = (from, to, n);
                    self.work += n;
                }
            }
        }
        Some(())
    }

    /// All indices but the last; whether there are any.
    fn indices(&mut self, indices: &[DynamicIndex], size: usize) -> Option<bool> {
        for (at, dynamic) in indices.iter().enumerate() {
            let function = scalar_bytecode::index(dtype(dynamic.element_type)?, at == 0)?;
            index(self.push(function), dynamic, size)?;
        }
        Some(!indices.is_empty())
    }

    /// Copies `n` elements of `size` bytes.
    pub(crate) fn copy_bytes(&mut self, n: usize, size: usize, from: Place, to: Place) {
        if from != to {
            let bytes = n * size;
            let copy = self.push(scalar_bytecode::copy(bytes));
            (copy.operands[0], copy.out, copy.n) = (from, to, bytes);
            copy.unit = size;
            self.work += bytes / 64;
        }
    }

    /// Gathers `n` elements of a walk from one place to another.
    pub(super) fn gather(&mut self, walk: &Walk, size: usize, n: usize, from: Place, to: Place) {
        if let Some(offsets) = unrolled(walk, n).filter(|_| from != to) {
            for (at, offset) in offsets.into_iter().enumerate() {
                let from = from.behind(offset * size);
                self.copy_bytes(1, size, from, to.behind(at * size));
            }
            return;
        }
        let number = self.walks.len();
        self.walks.push(walk.clone().into());
        let gather = self.push_code(Code::Gather(number, size));
        (gather.operands[0], gather.out, gather.n) = (from, to, n);
        self.work += n;
    }
}

/// Elements of the rows that lie side by side in both walks, if these are few, and long.
fn row_of(read: &Walk, written: &Walk, n: usize, size: usize) -> Option<usize> {
    let run = |walk: &Walk| walk.last().filter(|row| row.1 == 1).map(|row| row.0);
    let (a, b) = (run(read)?, run(written)?);
    let (row, longer) = (a.min(b), a.max(b));
    let row = usize::try_from(row).ok().filter(|_| longer % row == 0)?;
    (row * size >= MIN_ROW_BYTES && n / row <= MAX_ROWS).then_some(row)
}

/// Elements from the first one of a walk to the last one; `None` where it has negative strides.
fn span(walk: &Walk) -> Option<usize> {
    let mut span = 1usize;
    for &(times, step) in walk {
        let last = usize::try_from(times.checked_sub(1)?).ok()?;
        span = span.checked_add(last.checked_mul(usize::try_from(step).ok()?)?)?;
    }
    Some(span)
}

/// Where a view starts, whatever its indices are.
pub(super) fn place_of_first(view: &ArrayView) -> Option<Place> {
    let offset = usize::try_from(view.offset).ok()?;
    place_in(&view.slice, offset * view.element_type.size_bytes())
}

/// Where a view is that has no indices.
pub(crate) fn place(view: &ArrayView) -> Option<Place> {
    view.dynamic.is_empty().then(|| place_of_first(view))?
}

fn place_in(slice: &BufferSlice, offset: usize) -> Option<Place> {
    let place = Place::Allocation(slice.allocation, slice.offset + offset);
    (slice.allocation < PRIVATE).then_some(place)
}

/// Gives an operation its index.
fn index<'o>(op: &'o mut ScalarOp, index: &DynamicIndex, size: usize) -> Option<&'o mut ScalarOp> {
    op.operands[1] = place_in(&index.slice, index.offset)?;
    op.x = index.limit;
    op.stride = isize::try_from(index.stride).ok()? * size as isize;
    Some(op)
}

/// Offsets of the elements of a walk that is copied element by element, being short.
fn unrolled(walk: &Walk, n: usize) -> Option<Vec<usize>> {
    offsets(walk, n, MAX_UNROLLED)
}

/// Offsets of the elements of a walk; `None` where there are more than `most`, or one lies before the first.
fn offsets(walk: &Walk, n: usize, most: usize) -> Option<Vec<usize>> {
    if n > most {
        return None;
    }
    (0..n as i64)
        .map(|at| usize::try_from(offset_in(walk, at)).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_long_and_few() {
        let walk = |walk: &[(i64, i64)]| Walk::from_slice(walk);
        let (wide, narrow) = (walk(&[(4, 60), (20, 1)]), walk(&[(80, 1)]));
        assert_eq!(row_of(&wide, &narrow, 80, 4), Some(20));
        assert_eq!(row_of(&narrow, &wide, 80, 4), Some(20));
        assert_eq!(row_of(&wide, &walk(&[(4, 90), (20, 1)]), 80, 1), Some(20));
        assert_eq!(row_of(&walk(&[(16, 60), (5, 1)]), &narrow, 80, 4), None);
        assert_eq!(row_of(&walk(&[(20, 4), (4, 1)]), &narrow, 80, 1), None);
        assert_eq!(row_of(&walk(&[(80, 2)]), &narrow, 80, 4), None);
        assert_eq!(row_of(&walk(&[(80, 0)]), &narrow, 80, 4), None);
        assert_eq!(
            row_of(
                &walk(&[(2, 90), (40, 1)]),
                &walk(&[(5, 20), (16, 1)]),
                80,
                4
            ),
            None
        );
    }
}
