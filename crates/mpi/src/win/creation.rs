//! Windows are made, freed, and given memory (MPI 12.2).
//!
//! The ranks agree over a communicator of the window's own: each says what it brings, the first takes one
//! range of its share for all, and everybody maps it.
//!
//! ```text
//! | words of rank 0 | words of rank 1 | ... | tables of attached memory | memory of rank 0 | of rank 1 | ...
//! ```

use std::ptr::NonNull;

use core::ffi::c_int;

use tutti_rma::Remote;
use tutti_rma::attached::{Attached, Refusal, TABLE_BYTES, Table};
use tutti_rma::control::{Control, Layout, Thread};
use tutti_rma::part::{Part, Reach};
use tutti_shm::arena::{LARGE_BYTES, Mapping, Range};
use tutti_shm::opened::Opened;
use tutti_shm::sync::Ordering;

use super::epoch::Epochs;
use super::hints;
use super::window::{Peer, Values, Window};
use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::collective::work::Work;
use crate::errhandler;
use crate::error::{Error, Result, check};
use crate::info::Info;
use crate::process::Guard;

const PAGE_BYTES: u64 = 4096;

/// What a rank brings to a new window.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// How it is made.
    pub flavor: c_int,
    /// Its memory, if the user gives it.
    pub base: usize,
    /// Bytes of its memory.
    pub bytes: i64,
    /// Bytes of a step of displacements.
    pub disp_unit: i64,
}

/// What ranks tell each other of it.
#[derive(Clone, Copy, Debug)]
struct Record {
    is_right: bool,
    is_noncontiguous: bool,
    base: u64,
    bytes: u64,
    disp_unit: u64,
}

const RECORD_WORDS: usize = 7;

impl Record {
    fn encode(self) -> [u32; RECORD_WORDS] {
        let ([b0, b1], [n0, n1], [u0, u1]) = (halves(self.base), halves(self.bytes), halves(self.disp_unit));
        [u32::from(self.is_right) | u32::from(self.is_noncontiguous) << 1, b0, b1, n0, n1, u0, u1]
    }

    fn decode(words: [u32; RECORD_WORDS]) -> Self {
        Record {
            is_right: words[0] & 1 != 0,
            is_noncontiguous: words[0] & 2 != 0,
            base: number(&words[1..3]),
            bytes: number(&words[3..5]),
            disp_unit: number(&words[5..7]),
        }
    }
}

/// A number as agreements carry it, the lower half first.
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn number(halves: &[u32]) -> u64 {
    u64::from(halves[0]) | u64::from(halves[1]) << 32
}

impl Own {
    fn check(&self) -> Result<()> {
        check(self.bytes >= 0, MPI_ERR_SIZE, || format!("size is {}, expected 0 or more", self.bytes))?;
        check(self.disp_unit > 0, MPI_ERR_DISP, || {
            format!("disp_unit is {}, expected 1 or more", self.disp_unit)
        })?;
        let has_base = self.flavor != MPI_WIN_FLAVOR_CREATE || self.base != 0 || self.bytes == 0;
        check(has_base, MPI_ERR_BASE, || {
            format!("base is a null pointer, expected {} bytes of memory", self.bytes)
        })
    }
}

/// Where things lie in the range that the ranks of a window share.
struct Plan {
    layout: Layout,
    table_begin: u64,
    /// Where the memory of each rank begins.
    memory: Vec<u64>,
    bytes: u64,
}

impl Plan {
    /// None when it is larger than any range.
    fn new(flavor: c_int, records: &[Record]) -> Option<Self> {
        let ranks = records.len() as u64;
        let layout = Layout::new(ranks as u32, ranks as u32);
        let table_begin = ranks * layout.bytes() as u64;
        let tables = if flavor == MPI_WIN_FLAVOR_DYNAMIC { ranks * TABLE_BYTES as u64 } else { 0 };
        let mut end = table_begin + tables;
        let mut memory = Vec::new();
        if matches!(flavor, MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED) {
            let is_contiguous =
                flavor == MPI_WIN_FLAVOR_SHARED && !records.iter().any(|record| record.is_noncontiguous);
            let is_large = records.iter().any(|record| record.bytes >= LARGE_BYTES);
            end = end.next_multiple_of(if is_large { LARGE_BYTES } else { PAGE_BYTES });
            for record in records {
                let align = match is_contiguous {
                    true => 1,
                    false if record.bytes >= LARGE_BYTES => LARGE_BYTES,
                    false => PAGE_BYTES,
                };
                end = end.checked_next_multiple_of(align)?;
                memory.push(end);
                end = end.checked_add(record.bytes)?;
            }
        }
        Some(Plan { layout, table_begin, memory, bytes: end })
    }
}

impl Guard {
    /// Makes a window of a communicator's ranks.
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_SIZE, MPI_ERR_DISP, MPI_ERR_BASE; MPI_ERR_RMA_SHARED when ranks of a shared one
    /// are on several nodes; MPI_ERR_UNSUPPORTED_OPERATION when those of another one are; MPI_ERR_NO_MEM.
    pub fn make_window(&mut self, comm: MPI_Comm, own: Own, given: &Info) -> Result<MPI_Win> {
        let group = self.intracomm(comm)?.group.clone();
        if !self.is_on_this_node(&group) {
            let (class, text) = match own.flavor {
                MPI_WIN_FLAVOR_SHARED => (MPI_ERR_RMA_SHARED, "ranks of several nodes cannot share memory"),
                _ => (MPI_ERR_UNSUPPORTED_OPERATION, "windows of ranks on several nodes are not written yet"),
            };
            return Err(Error::new(class, text));
        }
        let inner = self.create_comm(comm, group)?;
        let made = self.make_window_over(inner, own, given);
        if made.is_err() {
            self.free_comm(inner)?;
        }
        made
    }

    fn make_window_over(&mut self, comm: MPI_Comm, own: Own, given: &Info) -> Result<MPI_Win> {
        let argument_error = own.check();
        let is_shared = own.flavor == MPI_WIN_FLAVOR_SHARED;
        let mut hints = hints::of_new(given, is_shared);
        let record = Record {
            is_right: argument_error.is_ok(),
            is_noncontiguous: hints.get(hints::NONCONTIGUOUS) == Some(b"true"),
            base: own.base as u64,
            bytes: own.bytes as u64,
            disp_unit: own.disp_unit as u64,
        };
        let meeting = self.whole(comm)?;
        let records = self.allgather(&meeting, record.encode());
        argument_error?;
        let records: Vec<Record> = records.into_iter().map(Record::decode).collect();
        if let Some(wrong) = records.iter().position(|record| !record.is_right) {
            let text = format_args!("the arguments of rank {wrong} are wrong, so there is no window");
            return Err(Error::new(MPI_ERR_OTHER, text));
        }
        if is_shared && records.iter().any(|record| record.is_noncontiguous) {
            hints.set(hints::NONCONTIGUOUS, b"true");
        }
        let plan = Plan::new(own.flavor, &records);
        let taken = match (&plan, meeting.me) {
            (Some(plan), 0) => self.rank.arena().and_then(|arena| arena.allocate(plan.bytes)),
            _ => None,
        };
        let Range { offset, bytes } = taken.unwrap_or_default();
        let meeting = self.whole(comm)?;
        let words = self.broadcast(&meeting, 0, [halves(offset), halves(bytes)].concat());
        let range = Range { offset: number(&words[..2]), bytes: number(&words[2..]) };
        let mapping = match range.bytes {
            0 => Err(std::io::Error::other("there is no room for it")),
            _ => self.engine.job.map(range),
        };
        // All have it, or none.
        let meeting = self.whole(comm)?;
        let have = self.allgather(&meeting, [u32::from(mapping.is_ok())]);
        let (Some(plan), true) = (plan, have.iter().all(|[has]| *has == 1)) else {
            if let Some(range) = taken {
                self.give_back(range);
            }
            let total: u128 = records.iter().map(|record| u128::from(record.bytes)).sum();
            let why =
                mapping.err().map_or("another rank cannot map it".to_owned(), |error| error.to_string());
            let text = format_args!("no memory for a window of {total} bytes on this node: {why}");
            return Err(Error::new(MPI_ERR_NO_MEM, text));
        };
        let mapping = mapping.map_err(|error| Error::new(MPI_ERR_NO_MEM, error))?;
        let window = self.put_together(comm, own, &records, &plan, mapping, taken)?;
        let index = self.wins.insert(Window { hints, ..window });
        Ok(MPI_Win(self.wins.handle(index)))
    }

    fn put_together(
        &self,
        comm: MPI_Comm,
        own: Own,
        records: &[Record],
        plan: &Plan,
        mapping: Mapping,
        taken: Option<Range>,
    ) -> Result<Window> {
        let (group, rank) = {
            let comm = self.comm(comm)?;
            (comm.group.clone(), comm.rank)
        };
        // SAFETY: every part of the plan lies inside the range that was taken for it.
        let at = |offset: u64| unsafe { mapping.base().add(offset as usize) };
        let peers = group.members().iter().zip(records).enumerate().map(|(index, (world, record))| {
            let is_self = index == rank;
            let pid = self.engine.job.endpoint(*world as usize).pid.load(Ordering::Relaxed);
            // SAFETY: the words were zero when the range was taken, and lie in a mapping that lives as long
            // as the window; all ranks have the same plan.
            let (control, attached) = unsafe {
                let control = Control::new(at(index as u64 * plan.layout.bytes() as u64), plan.layout);
                let table = at(plan.table_begin + index as u64 * TABLE_BYTES as u64);
                (control, (own.flavor == MPI_WIN_FLAVOR_DYNAMIC).then(|| Table::new(table)))
            };
            let bytes = record.bytes as usize;
            let mapped = match plan.memory.get(index) {
                Some(begin) => Some(at(*begin)),
                None if is_self => NonNull::new(std::ptr::with_exposed_provenance_mut(record.base as usize)),
                None => None,
            };
            let reach = match mapped {
                // SAFETY: memory of the mapping, or the user's, who keeps it until the window is freed.
                Some(base) => Reach::Mapped(unsafe { Opened::new(base, bytes) }),
                None => Reach::Other(Remote { pid, address: record.base }, bytes),
            };
            Peer {
                world: *world,
                disp_unit: record.disp_unit as usize,
                mapped,
                memory: Part::new(reach, control.gate(rank as u32, Thread::Program)),
                control,
                attached,
                pid,
                is_self,
                posts_used: 0,
                completions_used: 0,
            }
        });
        let peers: Box<[Peer]> = peers.collect();
        let base = match own.flavor {
            MPI_WIN_FLAVOR_DYNAMIC => 0,
            _ => peers[rank].mapped.map_or(0, |base| base.as_ptr().expose_provenance()),
        };
        let values = Values {
            base,
            bytes: own.bytes as MPI_Aint,
            disp_unit: own.disp_unit as c_int,
            flavor: own.flavor,
            model: MPI_WIN_UNIFIED,
        };
        Ok(Window {
            comm,
            rank,
            epochs: Epochs::new(peers.len()),
            group,
            peers,
            values: Box::new(values),
            hints: Info::default(),
            errhandler: MPI_ERRORS_ARE_FATAL,
            name: Vec::new(),
            mapping,
            taken,
        })
    }

    /// Frees a window when all its ranks have ended their operations (12.2.5).
    ///
    /// # Errors
    /// MPI_ERR_WIN; MPI_ERR_RMA_SYNC inside an epoch; whatever a delete callback returned.
    pub fn free_window(&mut self, win: MPI_Win) -> Result<()> {
        let window = self.window(win)?;
        window.epochs.check_free()?;
        let comm = window.comm;
        attribute_calls::delete_all(self, Owner::Win(win))?;
        self.collect(comm, &Work::Barrier)?;
        if let Some(index) = self.wins.index(win.0) {
            let window = self.wins.remove(index);
            errhandler::release(window.errhandler);
            if let Some(range) = window.taken {
                self.give_back(range);
            }
        }
        self.free_comm(comm)
    }

    fn give_back(&mut self, range: Range) {
        if let Some(arena) = self.rank.arena() {
            // Without a hole the pages stay until the job ends; the range is free all the same.
            let _ = arena.free(range);
        }
    }

    /// Opens memory of this process in a dynamic window (12.2.4).
    ///
    /// # Errors
    /// MPI_ERR_RMA_FLAVOR, MPI_ERR_SIZE, MPI_ERR_BASE; MPI_ERR_RMA_ATTACH when it overlaps other memory or
    /// the table is full.
    pub fn attach_memory(&mut self, win: MPI_Win, base: usize, bytes: i64) -> Result<()> {
        let table = self.own_table(win)?;
        check(bytes >= 0, MPI_ERR_SIZE, || format!("size is {bytes}, expected 0 or more"))?;
        if bytes == 0 {
            return Ok(());
        }
        check(base != 0, MPI_ERR_BASE, || {
            format!("base is a null pointer, expected {bytes} bytes of memory")
        })?;
        let refused = |refusal| {
            let text = match refusal {
                Refusal::Full => {
                    format!("{} ranges are attached already, which is the most", table.count())
                }
                Refusal::Overlaps(other) => format!(
                    "{bytes} bytes at {base:#x} overlap {} bytes at {:#x} that are attached",
                    other.bytes, other.address
                ),
            };
            Error::new(MPI_ERR_RMA_ATTACH, text)
        };
        table.attach(Attached { address: base as u64, bytes: bytes as u64 }).map_err(refused)
    }

    /// Closes it again (12.2.4).
    ///
    /// # Errors
    /// MPI_ERR_RMA_FLAVOR; MPI_ERR_RMA_ATTACH when none begins there.
    pub fn detach_memory(&mut self, win: MPI_Win, base: usize) -> Result<()> {
        let table = self.own_table(win)?;
        check(table.detach(base as u64), MPI_ERR_RMA_ATTACH, || {
            format!("no memory that begins at {base:#x} is attached")
        })
    }

    fn own_table(&self, win: MPI_Win) -> Result<Table> {
        let window = self.window(win)?;
        window.peers[window.rank].attached.ok_or_else(|| {
            Error::new(MPI_ERR_RMA_FLAVOR, "the window was not made by MPI_Win_create_dynamic")
        })
    }

    /// Where the memory of a rank lies in this process: address, bytes and unit. No address of no bytes, and
    /// nothing of memory that is not mapped here. MPI_PROC_NULL is the first rank that has some (12.2.3).
    ///
    /// # Errors
    /// MPI_ERR_RMA_FLAVOR for a dynamic window; MPI_ERR_RANK.
    pub fn query_shared(&self, win: MPI_Win, rank: c_int) -> Result<(usize, usize, usize)> {
        let window = self.window(win)?;
        check(!window.is_dynamic(), MPI_ERR_RMA_FLAVOR, || {
            "the window was made by MPI_Win_create_dynamic, its memory is not shared".into()
        })?;
        let mapped = |peer: &Peer| {
            let (base, bytes) = (peer.mapped?.as_ptr().expose_provenance(), peer.memory.bytes());
            Some((if bytes > 0 { base } else { 0 }, bytes, peer.disp_unit))
        };
        let found = match window.target(rank)? {
            Some(rank) => mapped(&window.peers[rank]),
            None => window.peers.iter().find(|peer| peer.memory.bytes() > 0).and_then(mapped),
        };
        Ok(found.unwrap_or((0, 0, 0)))
    }
}

impl Guard {
    /// A window by handle.
    ///
    /// # Errors
    /// MPI_ERR_WIN when it names none.
    #[inline(always)]
    pub fn window(&self, handle: MPI_Win) -> Result<&Window> {
        self.wins.find(handle.0).ok_or_else(|| attribute_calls::bad_win(handle))
    }

    /// A window by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_WIN when it names none.
    pub fn window_mut(&mut self, handle: MPI_Win) -> Result<&mut Window> {
        self.wins.find_mut(handle.0).ok_or_else(|| attribute_calls::bad_win(handle))
    }
}
