//! Copies any range of the data of a buffer to or from a stream of bytes.
//!
//! A message leaves in pieces whose borders fall anywhere. Every call finds its place by one division per
//! nested loop; in lists it begins to look where the last call ended ([`Hints`]), so going on costs the same
//! however long the list is, and any other place is found by binary search.

use std::cell::Cell;
use std::rc::Rc;

use super::kernels::{COLUMNS_ABREAST, PACK, UNPACK, copy, copy_blocks, copy_columns, copy_places};
use super::node::{Item, Loop, Node, Run, Shape};
use crate::note::Note;

/// A committed type, ready to be copied: its elements repeated without end.
#[derive(Debug)]
pub struct Program {
    /// Node that is repeated: one element, or a part of it where the pattern goes on from one element to the
    /// next.
    body: Node,
    /// Bytes from one to the next in memory.
    stride: isize,
    /// Bytes best moved at once; 0 when it does not matter.
    portion: usize,
    /// Note of what the data are, while the program is being checked.
    note: Option<Note>,
}

/// A program with the place where the last piece ended.
#[derive(Clone, Debug)]
pub struct Map {
    program: Rc<Program>,
    /// Bytes of data of the program that do not belong to the buffer.
    skip: usize,
    hints: Hints,
}

/// Entries of the lists, outermost first, at which the last piece ended. Wrong ones cost time only.
#[derive(Clone, Debug, Default)]
struct Hints([Cell<u32>; 2]);

/// How many runs of a body may be copied one after the other for many elements.
const COLUMNS_MAX: usize = 16;
/// Runs from this length on gain nothing by that.
const COLUMN_BYTES_MAX: usize = 128;
/// Memory that is walked through several times should stay in the nearest cache.
const TILE_BYTES: usize = 8 << 10;

/// Bytes of the columns that are kept at once between memory and the pieces of a message, at most.
const PORTION_BYTES_MAX: usize = 512 << 10;
/// Bytes in which memory is fetched.
const LINE_BYTES: usize = 64;
/// Fewest and most rows of a tile of a transposed matrix: each is a cache line or two, and perhaps a page, of
/// its own.
const ROWS: (usize, usize) = (16, 1024);
/// The distance at which lines of memory take the same place in a cache, of many a second-level cache.
const SAME_PLACE_BYTES: usize = 64 << 10;

impl Program {
    /// The program of a type of this shape and extent.
    pub fn new(node: &Node, extent: isize) -> Self {
        if let Shape::Loop(inner) = &node.shape
            && inner.stride.checked_mul(inner.count as isize) == Some(extent)
        {
            let body = inner.body.clone().shifted(node.at);
            return Program::repeating(body, inner.stride);
        }
        Program::repeating(node.clone(), extent)
    }

    fn repeating(body: Node, stride: isize) -> Self {
        let portion = match &body.shape {
            Shape::Loop(inner) if is_transposed(inner, stride, COLUMNS_ABREAST) => {
                COLUMNS_ABREAST * body.bytes
            }
            _ => 0,
        };
        let portion = if portion <= PORTION_BYTES_MAX { portion } else { 0 };
        Program { body, stride, portion, note: None }
    }

    /// The same with a note of what the data are; never one run.
    pub fn noted(node: &Node, extent: isize, note: Note) -> Self {
        Program { note: Some(note), ..Program::new(node, extent) }
    }

    /// Where the first `bytes` bytes of data begin, if they are one run.
    pub fn single_run(&self, bytes: usize) -> Option<isize> {
        let is_one = matches!(self.body.shape, Shape::Run) && bytes <= self.body.bytes && self.note.is_none();
        is_one.then_some(self.body.at)
    }
}

impl Map {
    /// The data of a program, from the beginning.
    #[inline(always)]
    pub fn new(program: Rc<Program>) -> Self {
        Map { program, skip: 0, hints: Hints::default() }
    }

    /// Whether both lead to the same places.
    pub(crate) fn is_same(&self, other: &Map) -> bool {
        Rc::ptr_eq(&self.program, &other.program) && self.skip == other.skip
    }

    /// The same data without the first `bytes` bytes.
    pub fn behind(&self, bytes: usize) -> Self {
        Map { program: self.program.clone(), skip: self.skip + bytes, hints: Hints::default() }
    }

    /// Note of what the data are, while the program is being checked and all of them are meant.
    pub fn note(&self) -> Option<&Note> {
        self.program.note.as_ref().filter(|_| self.skip == 0)
    }

    /// Bytes of data that are best moved at once, counted from the beginning; 0 when it does not matter.
    #[inline(always)]
    pub fn portion(&self) -> usize {
        self.program.portion
    }

    /// Calls `visit` with address and length of each run of `bytes` bytes, which are whole elements, until it
    /// gives false.
    pub fn runs(&self, base: usize, bytes: usize, visit: &mut impl FnMut(usize, usize) -> bool) {
        let Program { body, stride, .. } = &*self.program;
        if matches!(body.shape, Shape::Run) && *stride == body.bytes as isize {
            visit(base.wrapping_add_signed(body.at), bytes);
            return;
        }
        for element in 0..bytes.div_ceil(body.bytes) {
            let base = base.wrapping_add_signed((element as isize).wrapping_mul(*stride));
            if !body.for_each_run(base, visit) {
                return;
            }
        }
    }

    /// Copies data bytes `[offset, offset + bytes)` to `to`.
    ///
    /// # Safety
    /// `base` leads to memory laid out as the type says; `to` is valid for writing.
    #[inline]
    pub unsafe fn pack(&self, base: *const u8, offset: usize, to: *mut u8, bytes: usize) {
        // SAFETY: our contract; when packing, memory is only read.
        unsafe { self.transfer::<PACK>(base.cast_mut(), offset, to, bytes) }
    }

    /// Copies `bytes` bytes from `from` to the data at `offset`.
    ///
    /// # Safety
    /// As [`Map::pack`].
    #[inline]
    pub unsafe fn unpack(&self, base: *mut u8, offset: usize, from: *const u8, bytes: usize) {
        // SAFETY: our contract; when unpacking, the stream is only read.
        unsafe { self.transfer::<UNPACK>(base, offset, from.cast_mut(), bytes) }
    }

    #[inline(always)]
    unsafe fn transfer<const DIRECTION: bool>(
        &self,
        base: *mut u8,
        offset: usize,
        stream: *mut u8,
        bytes: usize,
    ) {
        let Program { body, stride, .. } = &*self.program;
        let offset = offset + self.skip;
        let (first, skip) = if offset == 0 { (0, 0) } else { (offset / body.bytes, offset % body.bytes) };
        let memory = base.wrapping_offset((first as isize).wrapping_mul(*stride));
        // SAFETY: the contract of pack and unpack.
        unsafe { some::<DIRECTION>(body, *stride, memory, skip, bytes, stream, &self.hints, 0) }
    }
}

/// A part of a body that is repeated: `bytes` bytes from `skip` on. `memory` is where the first copy begins.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
unsafe fn some<const DIRECTION: bool>(
    body: &Node,
    stride: isize,
    mut memory: *mut u8,
    skip: usize,
    mut bytes: usize,
    mut stream: *mut u8,
    hints: &Hints,
    depth: usize,
) {
    // SAFETY: the contract of pack and unpack, for each part.
    unsafe {
        if skip > 0 {
            let part = bytes.min(body.bytes - skip);
            piece::<DIRECTION>(body, memory, skip, part, stream, hints, depth);
            memory = memory.wrapping_offset(stride);
            stream = stream.add(part);
            bytes -= part;
        }
        if bytes >= body.bytes {
            let count = bytes / body.bytes;
            repeated::<DIRECTION>(body, stride, memory, count, stream);
            memory = memory.wrapping_offset(stride.wrapping_mul(count as isize));
            stream = stream.add(count * body.bytes);
            bytes -= count * body.bytes;
        }
        if bytes > 0 {
            piece::<DIRECTION>(body, memory, 0, bytes, stream, hints, depth);
        }
    }
}

/// A part of one node: `bytes` bytes from `skip` on.
unsafe fn piece<const DIRECTION: bool>(
    node: &Node,
    memory: *mut u8,
    skip: usize,
    bytes: usize,
    stream: *mut u8,
    hints: &Hints,
    depth: usize,
) {
    if bytes == 0 {
        return;
    }
    let memory = memory.wrapping_offset(node.at);
    // SAFETY: the contract of pack and unpack, for each part.
    unsafe {
        match &node.shape {
            Shape::Run => copy::<DIRECTION>(memory.wrapping_add(skip), stream, bytes),
            Shape::Loop(l) => {
                let memory = memory.wrapping_offset((skip / l.body.bytes) as isize * l.stride);
                let inside = skip % l.body.bytes;
                some::<DIRECTION>(&l.body, l.stride, memory, inside, bytes, stream, hints, depth);
            }
            Shape::Gather { bytes: each, places } => {
                piece_of_places::<DIRECTION>(places, *each, memory, skip, bytes, stream);
            }
            Shape::Runs(runs) => {
                let first = hints.find(depth, runs.len() - 1, skip, |i| runs[i].offset, node.bytes);
                let last = piece_of_runs::<DIRECTION>(&runs[first..], memory, skip, bytes, stream);
                hints.set(depth, first + last);
            }
            Shape::List(items) => {
                let first = hints.find(depth, items.len(), skip, |i| items[i].offset, node.bytes);
                let last =
                    piece_of_list::<DIRECTION>(&items[first..], memory, skip, bytes, stream, hints, depth);
                hints.set(depth, first + last);
            }
        }
    }
}

unsafe fn piece_of_places<const DIRECTION: bool>(
    places: &[isize],
    each: usize,
    memory: *mut u8,
    skip: usize,
    mut bytes: usize,
    mut stream: *mut u8,
) {
    let (mut index, skip) = (skip / each, skip % each);
    // SAFETY: the contract of pack and unpack, for each part.
    unsafe {
        if skip > 0 {
            let part = bytes.min(each - skip);
            copy::<DIRECTION>(memory.wrapping_offset(places[index]).wrapping_add(skip), stream, part);
            stream = stream.add(part);
            bytes -= part;
            index += 1;
        }
        let whole = bytes / each;
        copy_places::<DIRECTION>(memory, &places[index..index + whole], stream, each);
        let rest = bytes - whole * each;
        if rest > 0 {
            copy::<DIRECTION>(memory.wrapping_offset(places[index + whole]), stream.add(whole * each), rest);
        }
    }
}

/// Returns the index of the run in which the piece ended.
unsafe fn piece_of_runs<const DIRECTION: bool>(
    runs: &[Run],
    memory: *mut u8,
    skip: usize,
    mut bytes: usize,
    mut stream: *mut u8,
) -> usize {
    let mut index = 0;
    let mut inside = skip - runs[0].offset;
    loop {
        let left = runs[index + 1].offset - runs[index].offset - inside;
        let part = left.min(bytes);
        // SAFETY: the contract of pack and unpack.
        unsafe {
            copy::<DIRECTION>(memory.wrapping_offset(runs[index].at).wrapping_add(inside), stream, part);
            stream = stream.add(part);
        }
        bytes -= part;
        if bytes == 0 {
            return index;
        }
        index += 1;
        inside = 0;
    }
}

/// Returns the index of the item in which the piece ended.
unsafe fn piece_of_list<const DIRECTION: bool>(
    items: &[Item],
    memory: *mut u8,
    skip: usize,
    mut bytes: usize,
    mut stream: *mut u8,
    hints: &Hints,
    depth: usize,
) -> usize {
    let mut index = 0;
    let mut inside = skip - items[0].offset;
    loop {
        let node = &items[index].node;
        let part = (node.bytes - inside).min(bytes);
        // SAFETY: the contract of pack and unpack.
        unsafe {
            if part == node.bytes {
                whole::<DIRECTION>(node, memory, stream);
            } else {
                piece::<DIRECTION>(node, memory, inside, part, stream, hints, depth + 1);
            }
            stream = stream.add(part);
        }
        bytes -= part;
        if bytes == 0 {
            return index;
        }
        index += 1;
        inside = 0;
    }
}

/// One whole node.
unsafe fn whole<const DIRECTION: bool>(node: &Node, memory: *mut u8, mut stream: *mut u8) {
    let memory = memory.wrapping_offset(node.at);
    // SAFETY: the contract of pack and unpack, for each part.
    unsafe {
        match &node.shape {
            Shape::Run => copy::<DIRECTION>(memory, stream, node.bytes),
            Shape::Loop(l) => {
                let Loop { count, stride, body } = &**l;
                repeated::<DIRECTION>(body, *stride, memory, *count, stream);
            }
            Shape::Gather { bytes, places } => copy_places::<DIRECTION>(memory, places, stream, *bytes),
            Shape::Runs(runs) => {
                for pair in runs.windows(2) {
                    let bytes = pair[1].offset - pair[0].offset;
                    copy::<DIRECTION>(memory.wrapping_offset(pair[0].at), stream, bytes);
                    stream = stream.add(bytes);
                }
            }
            Shape::List(items) => {
                for item in items.iter() {
                    whole::<DIRECTION>(&item.node, memory, stream.add(item.offset));
                }
            }
        }
    }
}

/// A node `count` times, `stride` apart in memory.
unsafe fn repeated<const DIRECTION: bool>(
    body: &Node,
    stride: isize,
    memory: *mut u8,
    count: usize,
    stream: *mut u8,
) {
    // SAFETY: the contract of pack and unpack, for each part.
    unsafe {
        match &body.shape {
            Shape::Run => {
                let memory = memory.wrapping_offset(body.at);
                copy_blocks::<DIRECTION>(memory, stride, stream, body.bytes, count, body.bytes);
            }
            Shape::Gather { bytes, places }
                if count > 3 && places.len() <= COLUMNS_MAX && *bytes < COLUMN_BYTES_MAX =>
            {
                let columns = places.iter().enumerate().map(|(i, at)| (i * bytes, *at, *bytes));
                by_columns::<DIRECTION>(columns, body, stride, memory, count, stream);
            }
            Shape::Runs(runs) if count > 3 && runs.len() <= COLUMNS_MAX => {
                let columns = runs.windows(2).map(|w| (w[0].offset, w[0].at, w[1].offset - w[0].offset));
                by_columns::<DIRECTION>(columns, body, stride, memory, count, stream);
            }
            Shape::Loop(inner) if is_transposed(inner, stride, count) => {
                transposed::<DIRECTION>(inner, stride, memory.wrapping_offset(body.at), count, stream);
            }
            _ => {
                for i in 0..count {
                    let memory = memory.wrapping_offset(stride.wrapping_mul(i as isize));
                    whole::<DIRECTION>(body, memory, stream.add(i * body.bytes));
                }
            }
        }
    }
}

/// Whether neighbours in the outer loop share cache lines that the inner loop would have to fetch again:
/// columns of a matrix.
fn is_transposed(inner: &Loop, stride: isize, count: usize) -> bool {
    count > 3
        && inner.count > 2 * ROWS.0
        && matches!(inner.body.shape, Shape::Run)
        && 2 * stride.unsigned_abs() <= LINE_BYTES
        && inner.stride.unsigned_abs() >= LINE_BYTES
}

/// How many rows' lines a cache keeps until the next columns want them: it has few ways where rows are a
/// power of two apart.
fn tile_rows(stride: isize) -> usize {
    let power = 1 << stride.unsigned_abs().trailing_zeros().min(SAME_PLACE_BYTES.trailing_zeros());
    (2 * SAME_PLACE_BYTES / power).clamp(ROWS.0, ROWS.1)
}

/// A loop of runs, `count` times: in tiles of as many columns as two cache lines hold, and of as many rows as
/// a cache does.
unsafe fn transposed<const DIRECTION: bool>(
    inner: &Loop,
    stride: isize,
    memory: *mut u8,
    count: usize,
    stream: *mut u8,
) {
    let Loop { count: rows, stride: row, body } = inner;
    let columns = 2 * LINE_BYTES / stride.unsigned_abs().max(1);
    let tile_rows = tile_rows(*row);
    let column_bytes = rows * body.bytes;
    let memory = memory.wrapping_offset(body.at);
    for first in (0..count).step_by(columns) {
        for top in (0..*rows).step_by(tile_rows) {
            let some_rows = tile_rows.min(rows - top);
            let memory = memory.wrapping_offset(row.wrapping_mul(top as isize));
            // SAFETY: the contract of pack and unpack, for each piece of a column.
            unsafe {
                let memory = memory.wrapping_offset(stride.wrapping_mul(first as isize));
                let stream = stream.add(first * column_bytes + top * body.bytes);
                let some_columns = (stride, columns.min(count - first));
                copy_columns::<DIRECTION>(
                    memory,
                    some_columns,
                    (*row, some_rows),
                    stream,
                    column_bytes,
                    body.bytes,
                );
            }
        }
    }
}

/// Few short runs, many times: the first run of many elements, then the second of them ... A column is
/// `(offset, at, bytes)`.
#[inline(always)]
unsafe fn by_columns<const DIRECTION: bool>(
    columns: impl Iterator<Item = (usize, isize, usize)> + Clone,
    body: &Node,
    stride: isize,
    memory: *mut u8,
    count: usize,
    stream: *mut u8,
) {
    let tile = (TILE_BYTES / stride.unsigned_abs().max(body.bytes)).max(4);
    let mut done = 0;
    while done < count {
        let some = tile.min(count - done);
        let memory = memory.wrapping_offset(stride.wrapping_mul(done as isize)).wrapping_offset(body.at);
        // SAFETY: the contract of pack and unpack, for each column.
        unsafe {
            let stream = stream.add(done * body.bytes);
            for (offset, at, bytes) in columns.clone() {
                let (memory, stream) = (memory.wrapping_offset(at), stream.add(offset));
                copy_blocks::<DIRECTION>(memory, stride, stream, body.bytes, some, bytes);
            }
        }
        done += some;
    }
}

impl Hints {
    /// The entry of a list of `entries` that holds the byte `offset`, which is below `end`; `begin` tells
    /// where an entry begins.
    #[inline(always)]
    fn find(
        &self,
        depth: usize,
        entries: usize,
        offset: usize,
        begin: impl Fn(usize) -> usize,
        end: usize,
    ) -> usize {
        debug_assert!(offset < end);
        let holds = |i: usize| begin(i) <= offset && (i + 1 == entries || offset < begin(i + 1));
        if let Some(hint) = self.0.get(depth) {
            let hint = hint.get() as usize;
            if hint < entries && holds(hint) {
                return hint;
            }
            if hint + 1 < entries && holds(hint + 1) {
                return hint + 1;
            }
        }
        let (mut low, mut high) = (0, entries);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if begin(middle) <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline(always)]
    fn set(&self, depth: usize, entry: usize) {
        if let Some(hint) = self.0.get(depth) {
            hint.set(entry as u32);
        }
    }
}
