//! Windows are made, freed, and given memory (MPI 12.2).
//!
//! The ranks agree over a communicator of the window's own: each says what it brings, the first of each node
//! takes one range of its share for all there, and everybody of the node maps it.
//!
//! ```text
//! | words of mate 0 | words of mate 1 | ... | tables of attached memory | memory of mate 0 | of mate 1 | ...
//! ```
//!
//! Where the ranks are on several nodes, or of several launches, each opens its memory to the others, and
//! tells its names: one for each way to it ([`crate::engine::way`]).

use std::cell::Cell;
use std::ptr::NonNull;

use core::ffi::c_int;

use tutti_rma::attached::{Attached, Refusal, Table};
use tutti_rma::control::Thread;
use tutti_rma::part::{Part, Reach};
use tutti_rma::region::Region;
use tutti_rma::wire::Name;
use tutti_rma::{Process, Remote};
use tutti_runtime::guests::serve_meanwhile;
use tutti_runtime::word_wait;
use tutti_shm::arena::{Mapping, Range};
use tutti_shm::opened::Opened;

use super::epoch::Epochs;
use super::hints;
use super::plan::{PAGE_BYTES, Plan, Record, halves, number};
use super::window::{Fence, Peer, Regions, Values, Window};
use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::HasAttributes;
use crate::attributes::Owner;
use crate::check::inspection::Inspect;
use crate::collective;
use crate::collective::work::Work;
use crate::comm::HasComms;
use crate::comm::calls::{self, EndsComms};
use crate::datatype::HasTypes;
use crate::errhandler;
use crate::error::{Error, Result, check};
use crate::info::{self, Info};
use crate::process;
use crate::progress::Progress;
use crate::win::HasWindows;
use crate::win::other_nodes;

/// Memory and properties that a rank brings to a new window.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// How it is made.
    pub flavor: c_int,
    /// Address of its memory, if the user gives it.
    pub base: usize,
    /// Bytes of its memory.
    pub bytes: i64,
    /// Bytes of a step of displacements.
    pub disp_unit: i64,
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

/// The ranks of a window that are on this node, in its order, and which of them this one is.
#[derive(Debug)]
struct Mates {
    ranks: Vec<usize>,
    me: usize,
}

/// Parts that a window is put together of.
struct Made {
    plan: Plan,
    mates: Mates,
    /// Names that ranks give their memory, where they are on several nodes or of several launches.
    names: Vec<Name>,
    mapping: Mapping,
    taken: Option<Range>,
    regions: Regions,
}

/// How the operations of a window that is to be freed have ended.
#[derive(Debug)]
pub struct Ended {
    /// All its ranks are there: nobody works on its memory any more.
    pub has_met: bool,
    /// Error when something has been refused or lost. The window is to be freed all the same.
    pub done: Result<()>,
}

/// Takes in what guests have sent while the program computes ([`serve_meanwhile`]).
fn serve_guests(takes_in: bool) -> bool {
    process::with_state(|process| process.engine.serve_guests(takes_in))
}

/// Makes a window of a communicator's ranks.
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_SIZE, MPI_ERR_DISP, MPI_ERR_BASE; MPI_ERR_RMA_SHARED when ranks of a shared one
/// are on several nodes or of several launches; MPI_ERR_NO_MEM; MPI_ERR_PROC_ABORTED when one of another
/// launch is lost.
pub fn make_window(call: &mut impl EndsComms, comm: MPI_Comm, own: Own, given: &Info) -> Result<MPI_Win> {
    let group = call.comms().intracomm(comm)?.group.clone();
    if own.flavor == MPI_WIN_FLAVOR_SHARED && !call.engine().are_here(group.members()) {
        let which = if call.engine().spans(group.members()) { "launches" } else { "nodes" };
        let text = format_args!("ranks of several {which} cannot share memory");
        return Err(Error::new(MPI_ERR_RMA_SHARED, text));
    }
    let inner = calls::create_comm(call, comm, group)?;
    let made = make_window_over(call, inner, own, given);
    if made.is_err() {
        calls::free_comm(call, inner)?;
    }
    made
}

fn make_window_over(
    call: &mut (impl Progress + HasComms + HasWindows),
    comm: MPI_Comm,
    own: Own,
    given: &Info,
) -> Result<MPI_Win> {
    let argument_error = own.check();
    let is_shared = own.flavor == MPI_WIN_FLAVOR_SHARED;
    let mut hints = hints::of_new(given, is_shared);
    let record = Record {
        is_right: argument_error.is_ok(),
        is_noncontiguous: hints.get(hints::NONCONTIGUOUS) == Some(b"true"),
        alignment: info::memory_alignment(given) as u64,
        base: own.base as u64,
        bytes: own.bytes as u64,
        disp_unit: own.disp_unit as u64,
    };
    let meeting = calls::whole(call, comm)?;
    let records = meeting.allgather(call, record.encode())?;
    argument_error?;
    if own.flavor == MPI_WIN_FLAVOR_CREATE {
        word_wait::note_window(own.base, own.bytes as usize);
    }
    let records: Vec<Record> = records.into_iter().map(Record::decode).collect();
    if let Some(wrong) = records.iter().position(|record| !record.is_right) {
        let text = format_args!("the arguments of rank {wrong} are wrong, so there is no window");
        return Err(Error::new(MPI_ERR_OTHER, text));
    }
    if is_shared && records.iter().any(|record| record.is_noncontiguous) {
        hints.set(hints::NONCONTIGUOUS, b"true");
    }
    let mates = mates(call, comm)?;
    let is_spread = mates.ranks.len() < records.len();
    let own_records: Vec<Record> = mates.ranks.iter().map(|rank| records[*rank]).collect();
    let plan = Plan::new(own.flavor, records.len(), &own_records);
    let taken = match (&plan, mates.me) {
        (Some(plan), 0) => call.rank().allocate_shared(plan.bytes),
        _ => None,
    };
    let Range { offset, bytes } = taken.unwrap_or_default();
    let meeting = calls::whole(call, comm)?;
    let words = if is_spread {
        let ([o0, o1], [b0, b1]) = (halves(offset), halves(bytes));
        meeting.allgather(call, [o0, o1, b0, b1])?[mates.ranks[0]].to_vec()
    } else {
        meeting.broadcast(call, 0, [halves(offset), halves(bytes)].concat())?
    };
    let range = Range { offset: number(&words[..2]), bytes: number(&words[2..]) };
    let mapping = match range.bytes {
        0 => Err(std::io::Error::other("there is no room for it")),
        _ => match plan.as_ref().map_or(PAGE_BYTES, |plan| plan.alignment) {
            PAGE_BYTES => call.engine().job.map(range),
            alignment => call.engine().job.map_aligned(range, alignment as usize),
        },
    };
    let regions = match (&plan, &mapping) {
        (Some(plan), Ok(mapping)) if is_spread => open_window(call, comm, own, plan, mapping, mates.me)?,
        _ => Regions::default(),
    };
    // All have it, or none.
    let meeting = calls::whole(call, comm)?;
    let [of_nodes, of_guests] = [regions.nodes, regions.guests]
        .map(|name| name.map_or([0, 0], |Name { id, generation }| [id, generation]));
    let [n0, n1, g0, g1] = [of_nodes[0], of_nodes[1], of_guests[0], of_guests[1]];
    let have = meeting.allgather(call, [u32::from(mapping.is_ok()), n0, n1, g0, g1])?;
    let (Some(plan), true) = (plan, have.iter().all(|[has, ..]| *has == 1)) else {
        if let Some(range) = taken {
            call.rank().free_shared(range);
        }
        close_window(call, regions);
        let total: u128 = records.iter().map(|record| u128::from(record.bytes)).sum();
        let why = mapping.err().map_or("another rank cannot map it".to_owned(), |error| error.to_string());
        let text = format_args!("no memory for a window of {total} bytes on this node: {why}");
        return Err(Error::new(MPI_ERR_NO_MEM, text));
    };
    let mapping = mapping.map_err(|error| Error::new(MPI_ERR_NO_MEM, error))?;
    let members = call.comms().find(comm)?.group.clone();
    let names = members.members().iter().zip(&have).map(|(world, [_, n0, n1, g0, g1])| {
        match call.engine().is_guest(*world as usize) {
            true => Name { id: *g0, generation: *g1 },
            false => Name { id: *n0, generation: *n1 },
        }
    });
    let names: Vec<Name> = names.collect();
    if regions.guests.is_some()
        && let Some(mut memory) = call.engine_mut().guest_memory()
    {
        for (world, name) in members.members().iter().zip(&names) {
            memory.learn_name(*world as usize, *name);
        }
    }
    let made = Made { plan, mates, names, mapping, taken, regions };
    let window = put_together(call, comm, own, &records, made)?;
    Ok(call.wins_mut().keep(Window { hints, ..window }))
}

/// The ranks of a communicator that are on this node.
fn mates(call: &(impl Progress + HasComms), comm: MPI_Comm) -> Result<Mates> {
    let comm = call.comms().find(comm)?;
    let here = *call.engine().job.local_ranks();
    let members = comm.group.members().iter().enumerate();
    let ranks: Vec<usize> =
        members.filter(|(_, world)| here.contains(**world as usize)).map(|(rank, _)| rank).collect();
    let me = ranks.iter().position(|rank| *rank == comm.rank).expect("a rank is on its own node");
    Ok(Mates { ranks, me })
}

/// Opens this rank's memory to ranks of other nodes and of other launches.
fn open_window(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    own: Own,
    plan: &Plan,
    mapping: &Mapping,
    me: usize,
) -> Result<Regions> {
    let (control, table) = plan.words(own.flavor, mapping, me);
    let region = || {
        // Whoever applies operations of others holds the process lock, so they share the slot.
        let gate = control.gate(me as u32, Thread::Service);
        let region = match (table, plan.memory.get(me)) {
            (Some(table), _) => Region::attached(table, gate),
            (None, place) => {
                let user = NonNull::new(std::ptr::with_exposed_provenance_mut(own.base));
                let base = place.map_or(user, |begin| Some(plan.at(mapping, *begin)));
                // SAFETY: memory of the mapping, or the user's, who keeps it until the window is freed.
                // No bytes have any address.
                Region::gated(
                    unsafe { Opened::new(base.unwrap_or(NonNull::dangling()), own.bytes as usize) },
                    gate,
                )
            }
        };
        region.with_control(control)
    };
    let nodes = call.rank().remote_memory().map(|mut memory| memory.open(region()));
    let mut guests = None;
    if call.comms().find(comm)?.has_guests(call.engine()) {
        guests = call.engine_mut().guest_memory().map(|mut memory| memory.open(region()));
        serve_meanwhile(serve_guests);
    }
    Ok(Regions { nodes, guests })
}

fn close_window(call: &mut impl Progress, regions: Regions) {
    if let Some(region) = regions.nodes
        && let Some(mut memory) = call.rank().remote_memory()
    {
        memory.close(region);
    }
    if let Some(region) = regions.guests
        && let Some(mut memory) = call.engine_mut().guest_memory()
    {
        memory.close(region);
    }
}

fn put_together(
    call: &(impl Progress + HasComms),
    comm: MPI_Comm,
    own: Own,
    records: &[Record],
    made: Made,
) -> Result<Window> {
    let Made { plan, mates, names, mapping, taken, regions } = made;
    let (group, rank) = {
        let comm = call.comms().find(comm)?;
        (comm.group.clone(), comm.rank)
    };
    let is_spread = mates.ranks.len() < records.len();
    let has_guests = call.comms().find(comm)?.has_guests(call.engine());
    let (own_control, _) = plan.words(own.flavor, &mapping, mates.me);
    let peers = group.members().iter().zip(records).enumerate().map(|(index, (world, record))| {
        let is_self = index == rank;
        let bytes = record.bytes as usize;
        let fresh = Peer {
            world: *world,
            disp_unit: record.disp_unit as usize,
            mapped: None,
            memory: Part::new(
                // Where memory is attached the target alone knows what there is.
                Reach::OtherNode(if own.flavor == MPI_WIN_FLAVOR_DYNAMIC { usize::MAX } else { bytes }),
                own_control.gate(mates.me as u32, Thread::Program),
            ),
            control: None,
            region: Some(names[index]),
            attached: None,
            process: Process::NAMELESS,
            is_self,
            is_dirty: false,
            posts_used: 0,
            completions_used: 0,
        };
        let Some(mate) = mates.ranks.iter().position(|mate| *mate == index) else { return fresh };
        let (control, attached) = plan.words(own.flavor, &mapping, mate);
        let mapped = match plan.memory.get(mate) {
            Some(begin) => Some(plan.at(&mapping, *begin)),
            None if is_self => NonNull::new(std::ptr::with_exposed_provenance_mut(record.base as usize)),
            None => None,
        };
        let process = match (mapped, &attached) {
            (Some(_), None) => Process::NAMELESS,
            _ => call.engine().job.process_of(*world as usize),
        };
        let reach = match mapped {
            // SAFETY: memory of the mapping, or the user's, who keeps it until the window is freed.
            Some(base) => Reach::Mapped(unsafe { Opened::new(base, bytes) }),
            None => Reach::Other(Remote { process, address: record.base }, bytes),
        };
        Peer {
            mapped,
            memory: Part::new(reach, control.gate(mates.me as u32, Thread::Program)),
            control: Some(control),
            region: None,
            attached,
            process,
            ..fresh
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
    let fence = Fence::new();
    if values.flavor == MPI_WIN_FLAVOR_SHARED {
        fence.share();
    }
    Ok(Window {
        comm,
        rank,
        mate: mates.me as u32,
        is_spread,
        has_guests,
        regions,
        epochs: Epochs::new(peers.len()),
        last_change: Cell::new(None),
        fence,
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

/// Ends what a window that is to be freed has under way, at all its ranks (12.2.5). When a rank of
/// another launch is lost each frees the window by itself: see [`Ended`].
///
/// # Errors
/// MPI_ERR_WIN; MPI_ERR_RMA_SYNC inside an epoch; whatever a delete callback returned. The window stays.
pub fn end_window(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes + HasAttributes + HasWindows),
    win: MPI_Win,
) -> Result<Ended> {
    let window = call.wins().find(win)?;
    window.epochs.check_free()?;
    let comm = window.comm;
    attribute_calls::delete_all(call, Owner::Win(win))?;
    let done = other_nodes::end_all(call, win);
    let met = collective::collect(call, comm, &Work::Barrier);
    let has_met = met.is_ok();
    Ok(Ended { has_met, done: done.and(met) })
}

/// Frees a window that has ended. Nothing is done about one that is freed already, by an error handler of
/// the user.
///
/// # Errors
/// Whatever a delete callback of its communicator returned.
pub fn remove_window(call: &mut impl EndsComms, win: MPI_Win, has_met: bool) -> Result<()> {
    let Some(window) = call.wins_mut().take(win) else { return Ok(()) };
    forget_names(call, &window);
    close_window(call, window.regions);
    errhandler::release(window.errhandler);
    // Mates that have not been met may still work on it: it stays until the job ends.
    if let Some(range) = window.taken.filter(|_| has_met) {
        call.rank().free_shared(range);
    }
    calls::free_comm(call, window.comm)
}

/// No refusal of the window's guests is kept any more.
fn forget_names(call: &mut impl Progress, window: &Window) {
    if !window.has_guests {
        return;
    }
    let Some(mut memory) = call.engine_mut().guest_memory() else { return };
    for peer in &window.peers {
        if let Some(region) = peer.region {
            memory.forget_name(peer.world as usize, region);
        }
    }
}

/// Opens memory of this process in a dynamic window (12.2.4).
///
/// # Errors
/// MPI_ERR_RMA_FLAVOR, MPI_ERR_SIZE, MPI_ERR_BASE; MPI_ERR_RMA_ATTACH when it overlaps other memory or
/// the table is full.
pub fn attach_memory(call: &mut impl HasWindows, win: MPI_Win, base: usize, bytes: i64) -> Result<()> {
    let table = own_table(call, win)?;
    check(bytes >= 0, MPI_ERR_SIZE, || format!("size is {bytes}, expected 0 or more"))?;
    check(base != 0 || bytes == 0, MPI_ERR_BASE, || {
        format!("base is a null pointer, expected {bytes} bytes of memory")
    })?;
    let refused = |refusal| {
        let text = match refusal {
            Refusal::Full => "as many ranges are attached already as can be".into(),
            Refusal::Overlaps(other) => format!(
                "{bytes} bytes at {base:#x} overlap {} bytes at {:#x} that are attached",
                other.bytes, other.address
            ),
        };
        Error::new(MPI_ERR_RMA_ATTACH, text)
    };
    word_wait::note_window(base, bytes as usize);
    table.attach(Attached { address: base as u64, bytes: bytes as u64 }).map_err(refused)
}

/// Closes it again (12.2.4).
///
/// # Errors
/// MPI_ERR_RMA_FLAVOR; MPI_ERR_RMA_ATTACH when none begins there.
pub fn detach_memory(call: &mut impl HasWindows, win: MPI_Win, base: usize) -> Result<()> {
    let table = own_table(call, win)?;
    check(table.detach(base as u64), MPI_ERR_RMA_ATTACH, || {
        format!("no memory that begins at {base:#x} is attached")
    })
}

fn own_table(call: &impl HasWindows, win: MPI_Win) -> Result<Table> {
    let window = call.wins().find(win)?;
    window.peers[window.rank]
        .attached
        .ok_or_else(|| Error::new(MPI_ERR_RMA_FLAVOR, "the window was not made by MPI_Win_create_dynamic"))
}

/// Where the memory of a rank lies in this process: address, bytes and unit. No address of no bytes, and
/// nothing of memory that is not mapped here. MPI_PROC_NULL is the first rank that has some (12.2.3).
///
/// # Errors
/// MPI_ERR_RMA_FLAVOR for a dynamic window; MPI_ERR_RANK.
pub fn query_shared(call: &impl HasWindows, win: MPI_Win, rank: c_int) -> Result<(usize, usize, usize)> {
    let window = call.wins().find(win)?;
    check(!window.is_dynamic(), MPI_ERR_RMA_FLAVOR, || {
        "the window was made by MPI_Win_create_dynamic, its memory is not shared".into()
    })?;
    window.fence.share();
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
