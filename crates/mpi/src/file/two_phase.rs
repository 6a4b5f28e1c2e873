//! Collective access in two phases: each rank sends its data to the ranks that write them (aggregators), or
//! gets them from those that read them, so that many small pieces become few large ones.
//!
//! ```text
//! all ranks      what each accesses, or its error            allgather
//! each round     runs in the window, data   rank -> aggregator -> file
//!                runs in the window         rank -> aggregator <- file, data aggregator -> rank
//! all ranks      how far it was written, or an error         allgather
//! ```
//!
//! An error of one rank is known to all before anything is moved, and one of the file behind it, so that no
//! rank waits for another that has left. When a rank of another launch is lost, all receives of the file fail
//! at each rank, and each gives up by itself once what it has started has ended. Inside a node the engine
//! copies the data from the memory of the user to the window of the aggregator. A rank's data of a window are
//! one stretch of its stream, since views go forward only.

use std::cell::Cell;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::transfer::{Map, Program};
use tutti_datatype::view::{RunList, Runs};
use tutti_datatype::{Buffer, View};

use super::domains::{Domains, Extent, cover};
use super::hints::{Hints, Key};
use super::independent::{self, Direction};
use super::opened::{Opened, class_of};
use super::pointer::Pointer;
use super::representation::Converted;
use super::system::{self, Lock};
use crate::abi::*;
use crate::collective::memory::Memory;
use crate::collective::schedule::copy;
use crate::collective::task::{Done, Turn};
use crate::engine::LOST;
use crate::error::{Error, class_text};
use crate::events::{self, Event};
use crate::tally;

/// Bytes that each aggregator has at once.
const WINDOW_BYTES: Key = Key::of("cb_buffer_size");
/// Collective writes go through aggregators.
const COLLECT_WRITES: Key = Key::of("romio_cb_write");
/// Collective reads go through aggregators.
const COLLECT_READS: Key = Key::of("romio_cb_read");
/// The borders between aggregators are multiples of it.
const ALIGNMENT: Key = Key::of("striping_unit");

/// Where a collective access begins.
#[derive(Debug)]
pub enum Place {
    /// At this position of the view, in bytes.
    At(u64),
    /// At the shared pointer, behind the data of the ranks before this one.
    Ordered(Rc<Pointer>),
}

/// A collective access of this rank.
#[derive(Debug)]
pub struct Access {
    /// The file.
    pub opened: Rc<Opened>,
    /// View of the file.
    pub view: Rc<View>,
    /// Bytes of an etype.
    pub etype_bytes: u64,
    /// Where it begins.
    pub place: Place,
    /// The data as they are in the file.
    pub buffer: Buffer,
    /// The same in memory, if they look different there.
    pub converted: Option<Converted>,
    /// Which way they go.
    pub direction: Direction,
    /// Hints that hold.
    pub hints: Hints,
    /// Tag of its first messages; the next three are its own.
    pub tag: i32,
    /// Why this rank cannot take part, which it does all the same.
    pub refused: Option<Error>,
}

/// Numbers of a list of runs in the message that announces it.
const INLINE: usize = 4;
/// Bytes, number of entries, entries.
const HEADER: usize = 2 + INLINE * ENTRY;
const ENTRY: usize = 4;

/// Tags behind that of the access.
const LISTS: i32 = 1;
const TO_FILE: i32 = 2;
const FROM_FILE: i32 = 3;

/// No rank has failed to access the file from here on.
const NOWHERE: i64 = i64::MAX;

/// Does a collective access.
pub async fn run(turn: Rc<Turn>, access: Access) -> Done {
    let is_lost = Cell::new(false);
    let mut work = Work { turn, access, position: 0, bytes: 0, limit: NOWHERE, failure: None, is_lost };
    match work.all().await {
        Ok(()) => {}
        Err(error) => return Done { bytes: 0, error: Some(error) },
    }
    work.done()
}

struct Work {
    turn: Rc<Turn>,
    access: Access,
    position: u64,
    /// Bytes that have been moved, from the first on.
    bytes: u64,
    /// Offset at which this rank's part of the file failed.
    limit: i64,
    failure: Option<Error>,
    /// A receive has failed: a rank of another launch is lost.
    is_lost: Cell<bool>,
}

/// A list of runs that a rank has in a window.
struct Wanted {
    rank: usize,
    runs: RunList,
}

fn words(memory: &mut [u64]) -> Buffer {
    Buffer::contiguous(memory.as_mut_ptr().cast(), size_of_val(memory))
}

impl Work {
    async fn all(&mut self) -> Result<(), Error> {
        self.find_place().await?;
        let mine = self.extent();
        let class = self.access.refused.as_ref().map_or(MPI_SUCCESS, |error| error.class);
        let overlaps = u64::from(self.access.view.overlaps());
        let record = [mine.first as u64, mine.end as u64, mine.bytes, mine.runs, class as u64, overlaps];
        let records = self.allgather(record).await?;
        if let Some(error) = self.access.refused.take() {
            return Err(error);
        }
        if let Some(rank) = records.iter().position(|record| record[4] != 0) {
            let class = records[rank][4] as c_int;
            return Err(Error::new(class, format_args!("rank {rank} of the file: {}", text_of(class))));
        }
        let extents: Vec<Extent> = records
            .iter()
            .map(|r| Extent { first: r[0] as i64, end: r[1] as i64, bytes: r[2], runs: r[3] })
            .collect();
        let Access { opened, hints, direction, .. } = &self.access;
        let choice = match direction {
            Direction::Read => hints.choice(COLLECT_READS),
            Direction::Write => hints.choice(COLLECT_WRITES),
        };
        let aggregators: Vec<usize> =
            opened.aggregators[..opened.aggregators_with(hints)].iter().map(|rank| *rank as usize).collect();
        let any_overlaps = records.iter().any(|record| record[5] != 0);
        let (window, alignment) = (hints.number(WINDOW_BYTES), hints.number(ALIGNMENT));
        let domains = Domains::new(&extents, choice, aggregators.len(), window, alignment);
        match domains.filter(|_| !any_overlaps) {
            None => self.alone((mine.first, mine.end)),
            Some(domains) => self.together(&extents, &aggregators, domains).await,
        }
        self.learn_errors().await
    }

    /// Result of the access, for the user.
    fn done(mut self) -> Done {
        let mut bytes = self.bytes as usize;
        if let Some(mut converted) = self.access.converted.take() {
            let turn = self.turn.clone();
            let unlocked = |action: &mut dyn FnMut()| turn.unlocked(action);
            bytes = match self.access.direction {
                Direction::Write => converted.native_bytes(bytes),
                Direction::Read => converted.read_in(bytes, &unlocked).unwrap_or_else(|error| {
                    self.failure.get_or_insert(error);
                    0
                }),
            };
        }
        Done { bytes, error: self.failure }
    }

    /// Ordered access: the ranks' data lie one behind the other.
    async fn find_place(&mut self) -> Result<(), Error> {
        let pointer = match &self.access.place {
            Place::At(position) => {
                self.position = *position;
                return Ok(());
            }
            Place::Ordered(pointer) => pointer.clone(),
        };
        let bytes = if self.access.refused.is_some() { 0 } else { self.access.buffer.bytes as u64 };
        let etypes = bytes / self.access.etype_bytes;
        let all = self.allgather([etypes]).await?;
        let total: u64 = all.iter().map(|[etypes]| *etypes).sum();
        let me = self.access.opened.me;
        let begin = if me == 0 { pointer.add(total as i64).unwrap_or(0) } else { 0 };
        let begin = self.allgather([begin as u64]).await?[0][0];
        let before: u64 = all[..me].iter().map(|[etypes]| *etypes).sum();
        self.position = (begin + before).saturating_mul(self.access.etype_bytes);
        Ok(())
    }

    /// Part of the file that this rank accesses.
    fn extent(&mut self) -> Extent {
        let nothing = Extent { first: 0, end: 0, bytes: 0, runs: 0 };
        let Access { view, buffer, .. } = &self.access;
        let bytes = buffer.bytes as u64;
        if self.access.refused.is_some() || bytes == 0 {
            return nothing;
        }
        let (Some(first), Some(end)) = (view.offset_of(self.position), view.end_of(self.position, bytes))
        else {
            let text = format_args!("{bytes} bytes from position {} on end beyond any file", self.position);
            self.access.refused = Some(Error::new(MPI_ERR_ARG, text));
            return nothing;
        };
        let mut runs = 0;
        view.for_each(self.position, bytes, &mut |more| {
            runs += more.count;
            true
        });
        Extent { first, end, bytes, runs }
    }

    fn alone(&mut self, range: (i64, i64)) {
        let Access { opened, view, buffer, direction, hints, .. } = &self.access;
        if buffer.bytes == 0 {
            return;
        }
        let kind = if *direction == Direction::Read { Lock::Shared } else { Lock::Exclusive };
        let is_locked = hints.is_nfs() && lock(&self.turn, opened, kind, range);
        // SAFETY: the user's memory, or ours, stays as long as the access is pending.
        let moved = unsafe { independent::transfer(opened, view, self.position, buffer, *direction, hints) };
        if is_locked {
            opened.unlock(range.0, range.1 - range.0);
        }
        self.bytes = moved.bytes as u64;
        if let Some((_, error)) = moved.error {
            self.failure = Some(error);
        }
    }

    async fn together(&mut self, extents: &[Extent], aggregators: &[usize], domains: Domains) {
        self.bytes = self.access.buffer.bytes as u64;
        let me = self.access.opened.me;
        let own = aggregators.iter().position(|rank| *rank == me);
        tally::FILES_AGGREGATED.add(1);
        tally::FILE_BYTES_AGGREGATED.add(self.bytes);
        events::raise(Event::Aggregated, || {
            let writes = u64::from(self.access.direction == Direction::Write);
            [writes, aggregators.len() as u64, domains.rounds() as u64, self.bytes]
        });
        let mut stage = own.map(|_| Memory::new(domains.window_bytes()));
        for round in 0..domains.rounds() {
            if self.is_lost.get() {
                return;
            }
            // What is sent stays until the end of the round.
            let mut messages: Vec<Box<[u64]>> = Vec::new();
            let (mut sent, mut awaited, mut mine) = (Vec::new(), Vec::new(), None);
            for (index, &rank) in aggregators.iter().enumerate() {
                let Some((begin, end)) = domains.window(index, round) else { continue };
                if !extents[me].touches(begin, end) {
                    continue;
                }
                let (from, bytes) = self.part(begin, end);
                let runs = self.access.view.runs(from, bytes);
                if rank == me {
                    mine = Some((Wanted { rank: me, runs }, from));
                    continue;
                }
                self.announce(rank, &runs, &mut messages, &mut sent);
                if bytes == 0 {
                    continue;
                }
                let part = self.access.buffer.part((from - self.position) as usize, bytes as usize);
                match self.access.direction {
                    Direction::Write => sent.extend(self.send(rank, TO_FILE, part)),
                    Direction::Read => awaited.push((self.receive(rank, FROM_FILE, part), from, bytes)),
                }
            }
            if let (Some(index), Some(stage)) = (own, &mut stage)
                && let Some(window) = domains.window(index, round)
            {
                let stage = stage.address();
                let others: Vec<usize> = (0..extents.len())
                    .filter(|rank| *rank != me && extents[*rank].touches(window.0, window.1))
                    .collect();
                match self.access.direction {
                    Direction::Write => self.collect(window, stage, &others, mine).await,
                    Direction::Read => self.distribute(window, stage, &others, mine).await,
                }
            }
            for (request, from, bytes) in awaited {
                let got = self.received(request).await;
                if got < bytes {
                    self.bytes = self.bytes.min(from - self.position + got);
                }
            }
            self.turn.all_finished(sent).await;
        }
    }

    /// The part of this rank's data that lies in a window: position in the view, and bytes.
    fn part(&self, begin: i64, end: i64) -> (u64, u64) {
        let Access { view, buffer, .. } = &self.access;
        let last = self.position + buffer.bytes as u64;
        let first = view.position_of(begin).clamp(self.position, last);
        let end = view.position_of(end).clamp(first, last);
        (first, end - first)
    }

    /// Tells an aggregator which runs this rank has in its window.
    fn announce(&self, rank: usize, runs: &RunList, messages: &mut Vec<Box<[u64]>>, sent: &mut Vec<u32>) {
        let entries = runs.entries();
        let encode = |runs: &Runs| [runs.offset as u64, runs.bytes, runs.stride as u64, runs.count];
        let mut header = vec![runs.total(), entries.len() as u64];
        header.extend(entries.iter().take(INLINE).flat_map(encode));
        header.resize(HEADER, 0);
        let rest: Vec<u64> = entries.iter().skip(INLINE).flat_map(encode).collect();
        for message in [header, rest] {
            if !message.is_empty() {
                let mut message = message.into_boxed_slice();
                sent.extend(self.send(rank, LISTS, words(&mut message)));
                messages.push(message);
            }
        }
    }

    /// Lists of what all others have in the window of this aggregator.
    async fn lists(&self, others: &[usize]) -> Vec<Wanted> {
        let mut headers = vec![[0_u64; HEADER]; others.len()];
        let mut requests = Vec::new();
        for (&rank, header) in others.iter().zip(&mut headers) {
            requests.push(self.receive(rank, LISTS, words(header)));
        }
        self.all_received(requests).await;
        let mut lists = Vec::new();
        if self.is_lost.get() {
            return lists;
        }
        for (&rank, header) in others.iter().zip(&headers) {
            let entries = header[1] as usize;
            let mut numbers = header[2..2 + entries.min(INLINE) * ENTRY].to_vec();
            if entries > INLINE {
                let mut rest = vec![0_u64; (entries - INLINE) * ENTRY];
                let request = self.receive(rank, LISTS, words(&mut rest));
                self.received(request).await;
                if self.is_lost.get() {
                    return Vec::new();
                }
                numbers.extend(rest);
            }
            let decode =
                |n: &[u64]| Runs { offset: n[0] as i64, bytes: n[1], stride: n[2] as i64, count: n[3] };
            let runs: Vec<Runs> = numbers.chunks_exact(ENTRY).map(decode).collect();
            lists.push(Wanted { rank, runs: RunList::from(runs) });
        }
        lists
    }

    /// The data of a list, where they lie in the window in memory.
    fn staged(stage: *mut u8, begin: i64, runs: &RunList) -> Buffer {
        let bytes = runs.total() as usize;
        match (runs.entries(), runs.node(begin)) {
            ([], _) | (_, None) => Buffer::empty(),
            ([one], _) if one.count == 1 => {
                Buffer::contiguous(stage.wrapping_add((one.offset - begin) as usize), bytes)
            }
            (_, Some(node)) => {
                let program = Rc::new(Program::new(&node, bytes as isize));
                Buffer { at: stage, bytes, map: Some(Map::new(program)) }
            }
        }
    }

    /// An aggregator gets the data of its window, and writes them.
    async fn collect(
        &mut self,
        window: (i64, i64),
        stage: *mut u8,
        others: &[usize],
        mine: Option<(Wanted, u64)>,
    ) {
        let mut lists = self.lists(others).await;
        let mut requests = Vec::new();
        for wanted in lists.iter().filter(|wanted| wanted.runs.total() > 0) {
            requests.push(self.receive(wanted.rank, TO_FILE, Self::staged(stage, window.0, &wanted.runs)));
        }
        if let Some((wanted, from)) = mine {
            let to = Self::staged(stage, window.0, &wanted.runs);
            let from = self.access.buffer.part((from - self.position) as usize, to.bytes);
            // SAFETY: the user's data, and the window, which has room for them.
            unsafe { copy(&from, &to) };
            lists.push(wanted);
        }
        self.all_received(requests).await;
        if self.limit < NOWHERE || self.is_lost.get() {
            // What follows is not written, so that what is written is the beginning of everybody's data.
            return;
        }
        let lists: Vec<RunList> = lists.into_iter().map(|wanted| wanted.runs).collect();
        let (opened, is_nfs) = (self.access.opened.clone(), self.access.hints.is_nfs());
        let mut failed = None;
        let is_locked = is_nfs && lock(&self.turn, &opened, Lock::Exclusive, window);
        cover(&lists, &mut |offset, bytes| {
            let from = stage.wrapping_add((offset - window.0) as usize).cast_const();
            // SAFETY: the stretch lies in the window, and its data have come.
            let moved = unsafe { system::write(&opened.file, from, bytes as usize, offset) };
            if let Some(error) = moved.error {
                let end = offset + moved.bytes as i64;
                failed = Some((
                    end,
                    class_of(&error),
                    opened.failed("write", bytes as usize - moved.bytes, end, &error),
                ));
            }
            failed.is_none()
        });
        if is_locked {
            opened.unlock(window.0, window.1 - window.0);
        }
        if let Some((end, _, error)) = failed {
            self.limit = end;
            self.failure = Some(error);
        }
    }

    /// An aggregator reads its window, and sends each rank its data.
    async fn distribute(
        &mut self,
        window: (i64, i64),
        stage: *mut u8,
        others: &[usize],
        mine: Option<(Wanted, u64)>,
    ) {
        let lists = self.lists(others).await;
        let all = || lists.iter().chain(mine.iter().map(|(wanted, _)| wanted)).flat_map(|w| w.runs.entries());
        let begin = all().map(|runs| runs.offset).min().unwrap_or(window.0);
        let end = all().map(Runs::end).max().unwrap_or(begin);
        let (opened, is_nfs) = (self.access.opened.clone(), self.access.hints.is_nfs());
        let to = stage.wrapping_add((begin - window.0) as usize);
        let is_locked = is_nfs && begin < end && lock(&self.turn, &opened, Lock::Shared, (begin, end));
        // SAFETY: the stretch lies in the window.
        let moved = unsafe { system::read(&opened.file, to, (end - begin) as usize, begin) };
        if is_locked {
            opened.unlock(begin, end - begin);
        }
        let valid = begin + moved.bytes as i64;
        if let Some(error) = moved.error
            && self.limit == NOWHERE
        {
            self.limit = valid;
            self.failure = Some(opened.failed("read", (end - valid) as usize, valid, &error));
        }
        let before =
            |runs: &RunList| runs.entries().iter().map(|r| r.total_before(valid)).sum::<u64>() as usize;
        let mut sent = Vec::new();
        for wanted in lists.iter().filter(|wanted| wanted.runs.total() > 0) {
            let part = Self::staged(stage, window.0, &wanted.runs).part(0, before(&wanted.runs));
            sent.extend(self.send(wanted.rank, FROM_FILE, part));
        }
        if let Some((wanted, from)) = mine {
            let got = before(&wanted.runs);
            let part = Self::staged(stage, window.0, &wanted.runs).part(0, got);
            let first = (from - self.position) as usize;
            // SAFETY: what was read of the window, and the user's memory.
            unsafe { copy(&part, &self.access.buffer.part(first, got)) };
            if (got as u64) < wanted.runs.total() {
                self.bytes = self.bytes.min((first + got) as u64);
            }
        }
        self.turn.all_finished(sent).await;
    }

    /// All learn what has failed, and how much of their own data that leaves.
    async fn learn_errors(&mut self) -> Result<(), Error> {
        let class = self.failure.as_ref().map_or(MPI_SUCCESS, |error| error.class);
        let records = self.allgather([class as u64, self.limit as u64]).await?;
        let Some(rank) = records.iter().position(|[class, _]| *class != 0) else { return Ok(()) };
        let limit = records.iter().map(|[_, limit]| *limit as i64).min().unwrap_or(NOWHERE);
        if limit < NOWHERE {
            let left = self.access.view.position_of(limit).saturating_sub(self.position);
            self.bytes = self.bytes.min(left);
        }
        if self.failure.is_none() {
            let class = records[rank][0] as c_int;
            let (verb, name) = (self.access.direction.verb(), self.access.opened.name());
            let text = format!("rank {rank} of the file could not {verb} {name}: {}", text_of(class));
            self.failure = Some(Error::new(class, text));
        }
        Ok(())
    }

    /// Waits for a receive; gives its bytes. It may have failed.
    async fn received(&self, request: u32) -> u64 {
        let outcome = self.turn.finished(request).await;
        if outcome.error == MPI_ERR_PROC_ABORTED {
            self.is_lost.set(true);
        }
        outcome.bytes as u64
    }

    /// Waits for receives.
    async fn all_received(&self, requests: Vec<u32>) {
        for request in requests {
            self.received(request).await;
        }
    }

    fn send(&self, rank: usize, tag: i32, buffer: Buffer) -> Option<u32> {
        let Access { opened, tag: first, .. } = &self.access;
        self.turn.send(opened.members[rank], opened.context, first + tag, buffer)
    }

    fn receive(&self, rank: usize, tag: i32, buffer: Buffer) -> u32 {
        let Access { opened, tag: first, .. } = &self.access;
        self.turn.receive(opened.members[rank] as i32, opened.context, first + tag, buffer)
    }

    /// Everybody gets the records of all, in the order of ranks (Bruck's algorithm), unless one is lost.
    async fn allgather<const N: usize>(&self, record: [u64; N]) -> Result<Vec<[u64; N]>, Error> {
        let (ranks, me) = (self.access.opened.members.len(), self.access.opened.me);
        let mut known = record.to_vec();
        let mut have = 1;
        while have < ranks && !self.is_lost.get() {
            let count = have.min(ranks - have) * N;
            let mut more = vec![0_u64; count];
            let received = self.receive((me + have) % ranks, 0, words(&mut more));
            let sent = self.send((me + ranks - have) % ranks, 0, words(&mut known[..count]));
            self.received(received).await;
            self.turn.all_finished(sent).await;
            known.extend(more);
            have += count / N;
        }
        if self.is_lost.get() {
            return Err(Error::new(MPI_ERR_PROC_ABORTED, LOST));
        }
        let mut records: Vec<[u64; N]> =
            known.chunks_exact(N).map(|chunk| chunk.try_into().expect("chunks of N")).collect();
        records.rotate_right(me);
        Ok(records)
    }
}

fn text_of(class: c_int) -> &'static str {
    class_text(class).unwrap_or("an error")
}

/// Locks a range of a file on NFS, which drops what the client has kept of it; whether it has, since a file
/// system may have no locks. Another job, or another thread of this process, can be in the way for the time
/// of one access.
fn lock(turn: &Turn, opened: &Opened, kind: Lock, (begin, end): (i64, i64)) -> bool {
    loop {
        if let Some(locked) = opened.try_lock(kind, begin, end - begin) {
            return locked.is_ok();
        }
        turn.unlocked(|| std::thread::sleep(std::time::Duration::from_millis(1)));
    }
}
