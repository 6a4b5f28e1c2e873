//! Start and end of a rank with shared memory. The object that `tutticc` links calls [`begin`] before `main`.
//!
//! ```text
//! begin    MPI; the arena's address; cards of all ranks; the arena of this job, the protocol if it has several
//!          nodes
//! main     rank 0 on the arena itself; the others on private memory at its address, silent (replay)
//! CREATE   the others see the arena (create)
//! leave    at exit: all ranks have come to their end; MPI's end
//! ```
//!
//! | job | arena | locks, barriers, flags |
//! |---|---|---|
//! | one node | one range that all ranks map | words in it ([`crate::node`]) |
//! | several nodes | frames of each rank for copies; those of a node's homes, which its ranks share | the protocol |

use std::collections::BTreeSet;
use std::ptr::NonNull;

use tutti_mpi::abi::*;
use tutti_mpi::{above, api};
use tutti_runtime::job::Job;
use tutti_runtime::log;
use tutti_runtime::rank::{self, LOCK};
use tutti_shm::arena::Range;

use crate::arena::{Arena, BASE, Shared};
use crate::core::blocks::Blocks;
use crate::core::unit::{Placement, UNIT_BYTES};
use crate::heap::Heap;
use crate::mates::{self, Mail};
use crate::node::{WORDS_BYTES, Words};
use crate::note::{CheckedRange, OpenRange};
use crate::permissions::{self, Backend, Permissions};
use crate::process::{Processes, Running, Stage, View, Way, running};
use crate::size::{Updates, Wishes};
use crate::states::States;
use crate::{
    executor, failure, fault, foreign, freed, globals, keep, maps, note, os, present, replay, sites, size,
    statistics, views,
};

/// Changes with what ranks tell each other at the start, and with the records.
const VERSION: u64 = 6;
/// Bytes that objects leave: their stores are noted, or their loads checked too.
const MODES: std::ops::RangeInclusive<u8> = 1..=2;
/// No memory.
const NOTHING: Range = Range { offset: 0, bytes: 0 };

/// Facts that a rank sends the others at the start.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Card {
    version: u64,
    bytes: u64,
    build: u64,
    /// Ways of the protocol that the environment chooses.
    ways: u64,
    range: [u64; 2],
    /// Memory that ranks of a node share: from the first of them.
    shared: [u64; 2],
    /// Error number by which the system refuses userfaultfd to who asks for it; 0: it does not.
    refusal: u64,
}

/// Treatment of loads and stores by the objects of a program.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Some make no notes: pages are compared.
    Twin {
        /// Number of objects that make notes, in vain.
        noting: usize,
    },
    /// All make notes, and none looks at the states of pages: objects of an older compiler.
    Noted(NonNull<OpenRange>),
    /// All make notes.
    Checked {
        /// The open range of the calling thread.
        range: NonNull<CheckedRange>,
        /// How many objects there are, and how many of them check their loads.
        objects: usize,
        /// See above.
        checking: usize,
    },
}

impl Mode {
    /// Whether stores to pages that are not here may bring none: no load would find that out by itself.
    fn writes_absent(self) -> bool {
        matches!(self, Mode::Checked { objects, checking, .. } if objects == checking)
    }

    /// The mode of a program, by the length of its open range and a byte of each object that makes notes: 1,
    /// or 2 where it checks its loads too. `are_all`: there are no other objects.
    ///
    /// # Errors
    /// Refusal in a line, when the program was made for a newer library.
    pub fn of_program(
        open: NonNull<OpenRange>,
        open_bytes: usize,
        modes: &[u8],
        are_all: bool,
    ) -> Result<Mode, String> {
        const NOTED: usize = size_of::<OpenRange>();
        const CHECKED: usize = size_of::<CheckedRange>();
        if open_bytes > CHECKED {
            return Err(format!(
                "a newer tutticc has linked the program: its record of notes has {open_bytes} bytes, \
                 this libtutti knows {CHECKED}; link it again, or run it with that tutticc's libtutti"
            ));
        }
        if let Some(mode) = modes.iter().find(|mode| !MODES.contains(mode)) {
            return Err(format!(
                "an object of the program was compiled by a newer tutticc: its mode is {mode}, this libtutti \
                 knows {} to {}; compile it again, or run it with that tutticc's libtutti",
                MODES.start(),
                MODES.end()
            ));
        }
        let (objects, checking) = (modes.len(), modes.iter().filter(|mode| *mode == MODES.end()).count());
        Ok(match open_bytes {
            _ if !are_all => Mode::Twin { noting: objects },
            ..NOTED => Mode::Twin { noting: objects },
            CHECKED => Mode::Checked { range: open.cast(), objects, checking },
            _ => Mode::Noted(open),
        })
    }

    fn open(self) -> Option<NonNull<OpenRange>> {
        match self {
            Mode::Twin { .. } => None,
            Mode::Noted(open) => Some(open),
            Mode::Checked { range, .. } => Some(range.cast()),
        }
    }

    /// Common mode of objects of several modes, if there are such.
    fn mixture(self) -> Option<String> {
        match self {
            Mode::Twin { noting } if noting > 0 => Some(format!(
                "{noting} objects of the program make notes of their stores, others do not: pages are compared (--dsm=twin)"
            )),
            Mode::Checked { objects, checking, .. } if checking > 0 && checking < objects => Some(format!(
                "{checking} of {objects} objects of the program check their loads: stores bring pages as without checks (--dsm=adsm)"
            )),
            _ => None,
        }
    }
}

/// Takes this process's place in its job. Called once, before `main`. A program without a mode is refused.
pub fn begin(mode: Result<Mode, String>) {
    let bytes = size::wanted();
    // SAFETY: the places are null, which MPI allows.
    unsafe { api::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) };
    let job = rank::enter().map(|rank| rank.job.clone()).expect("MPI has started");
    let (me, ranks, nodes) = (job.world_place(), job.world().len(), job.nodes());
    let say = |what: std::fmt::Arguments<'_>| -> ! {
        if me == 0 { failure::end(what) } else { failure::await_end() }
    };
    let bytes = bytes.unwrap_or_else(|what| say(format_args!("{what}")));
    let wishes = size::wishes().unwrap_or_else(|what| say(format_args!("{what}")));
    let mode = mode.unwrap_or_else(|what| say(format_args!("{what}")));
    let wishes = Wishes { writes_absent: mode.writes_absent(), ..wishes };
    let asked = bytes;
    let bytes = if nodes > 1 { asked + wishes.updates.bytes_beside(asked) } else { asked };
    if let Some(mixture) = mode.mixture().filter(|_| me == 0 && nodes > 1) {
        log::line(format_args!("{mixture}"));
    }
    if me == 0 && ranks > 1 {
        foreign::name_variables();
    }
    if let Err(error) = os::reserve(BASE, bytes) {
        failure::end(format_args!(
            "{bytes} bytes of shared memory cannot be at {BASE:#x}: {error}; {} sets the size, ulimit -v the address space",
            size::VARIABLE
        ));
    }
    if wishes.is_checked && nodes > 1 {
        maps::keep_malloc_apart();
    }
    let mut heap = Heap::new(Blocks::new(bytes, asked));
    fault::note_allocated(globals::take_block(&mut heap).unwrap_or_else(|what| say(format_args!("{what}"))));
    let is_owner = nodes > 1 || me == 0;
    let range = if is_owner { take_range(bytes + WORDS_BYTES) } else { Range { offset: 0, bytes: 0 } };
    let places: Vec<usize> = (0..job.ranks()).map(|rank| job.node_of(rank)).collect();
    let placement = Placement::new(job.rank(), &places);
    let shared = if nodes > 1 { take_shared(bytes, &placement, job.rank()) } else { NOTHING };
    let build = tutti_shmem::statics::build();
    let ways = wishes.ways();
    let pair = |range: Range| [range.offset, range.bytes];
    let (range_told, shared_told) = (pair(range), pair(shared));
    let (permissions, refusal) =
        if nodes > 1 { choose_permissions(wishes.backend, bytes) } else { (None, 0) };
    let card = Card {
        version: VERSION,
        bytes: bytes as u64,
        build,
        ways,
        range: range_told,
        shared: shared_told,
        refusal,
    };
    // SAFETY: a card has numbers alone; all ranks start together.
    let cards = unsafe { above::exchange(&card, MPI_COMM_WORLD) };
    compare(me, &cards);
    if me == 0 {
        say_refusal(&cards);
    }
    let found = |[offset, bytes]: [u64; 2]| Range { offset, bytes };
    let range = if is_owner { range } else { found(cards[0].range) };
    let first = cards.get(placement.mates()[0]).unwrap_or(&cards[0]);
    let has_mates = nodes > 1 && first.shared[1] > 0;
    let placement = if wishes.is_checked { placement.apart() } else { placement };
    let placement = match wishes.updates {
        Updates::Off => placement,
        Updates::Marked => placement.with_updates((asked / UNIT_BYTES) as u32),
        Updates::All => placement.with_updates(0),
    };
    let shared = has_mates.then(|| (found(first.shared), placement.clone()));
    let view = View { bytes, range, shared };
    let way = match permissions {
        Some(permissions) => begin_protocol(&job, &view, placement, (wishes, permissions), mode),
        None => {
            if ranks > 1 {
                // Without it the process ends as well, and without the line.
                let _ = fault::install(me, 0, u32::MAX, libc::SIGSEGV);
            }
            begin_words(&job, bytes, range)
        }
    };
    let stage = if me == 0 { Stage::Main } else { Stage::Replaying };
    let processes = Processes::default();
    let started = Running { job, way, stage, processes, objects: 0, held: Vec::new(), heap, view };
    let held = if me == 0 { globals::held() } else { Vec::new() };
    views::show(&started);
    *running() = Some(started);
    replay::begin(me, ranks);
    keep::note_own();
    meet();
    held.iter().for_each(|(address, page)| os::store(*address, page));
    at_exit(leave);
}

/// The program has come to its end, by whatever way: `exit` calls it.
extern "C" fn leave() {
    let facts = |running: &Running| {
        let Processes { created, awaited, .. } = running.processes;
        (running.me(), running.ranks(), running.stage, created, awaited)
    };
    let Some((me, ranks, stage, created, awaited)) = running().as_ref().map(facts) else { return };
    match stage {
        Stage::Main if created != awaited => failure::end(format_args!(
            "rank 0 ends before WAIT_FOR_END: {created} processes were created beside it"
        )),
        Stage::Main => replay::end(),
        Stage::Replaying => replay::expect_end(),
        Stage::Created => failure::end(format_args!(
            "rank {me} ends inside the function that CREATE was given; others may wait for it"
        )),
        Stage::Ended => {}
    }
    os::flush_streams();
    meet();
    statistics::print(me, ranks);
    let counters = executor::with_member(|member| member.counters()).unwrap_or_default();
    sites::write(me, ranks, &counters, &executor::costs());
    *running() = None;
    // SAFETY: all ranks end MPI, which we have started.
    unsafe { api::MPI_Finalize() };
}

/// From now on this rank sees the shared memory.
pub(crate) fn join(running: &mut Running) {
    views::open(running);
}

/// All ranks have come here. Homes answer meanwhile.
fn meet() {
    // SAFETY: the communicator is MPI's; errors end the job.
    unsafe { api::MPI_Barrier(MPI_COMM_WORLD) };
}

fn at_exit(function: extern "C" fn()) {
    os::at_exit(function);
}

/// Memory that the ranks of this node share: the frames of their homes, and their mail. The first rank of the
/// node takes it.
fn take_shared(bytes: usize, placement: &Placement, me: usize) -> Range {
    let mates = placement.mates();
    if mates.len() == 1 || mates[0] != me {
        NOTHING
    } else {
        take_range(bytes + mates::bytes_for(mates.len()))
    }
}

fn take_range(bytes: usize) -> Range {
    let found = rank::enter().and_then(|rank| rank.allocate_shared(bytes as u64));
    found.unwrap_or_else(|| {
        failure::end(format_args!(
            "there is no room for shared memory of {bytes} bytes: the job's shared file is limited (ulimit -f), or {} is too large",
            size::VARIABLE
        ))
    })
}

/// All ranks are the same program with the same memory; the first that is not is named once.
fn compare(me: usize, cards: &[Card]) {
    for (rank, card) in cards.iter().enumerate() {
        let what = if card.version != cards[0].version {
            format!("libtutti of version {} of shared memory, rank 0 of {}", card.version, cards[0].version)
        } else if card.build != cards[0].build {
            "another program than rank 0: all ranks must run the same file".to_owned()
        } else if card.bytes != cards[0].bytes {
            format!("{} of {} bytes, rank 0 of {}", size::VARIABLE, card.bytes, cards[0].bytes)
        } else if card.ways != cards[0].ways {
            format!("another {} than rank 0", size::WAYS.join(" or "))
        } else {
            continue;
        };
        if me == 0 {
            failure::end(format_args!("rank {rank} has {what}"));
        }
        failure::await_end();
    }
}

/// Back end of this rank, and the number of the error by which the system refuses the one that is wished.
fn choose_permissions(wished: Option<Backend>, bytes: usize) -> (Option<Box<dyn Permissions>>, u64) {
    let choose = |wished| {
        let chosen = permissions::choose(wished, BASE, (bytes / UNIT_BYTES) as u32);
        chosen
            .unwrap_or_else(|error| failure::end(format_args!("shared memory cannot be protected: {error}")))
    };
    let (mut permissions, mut refusal) = choose(wished);
    if permissions.backend() == Backend::Userfaultfd {
        // Calls of the system get another view of the arena, whose address space the user may not have.
        match os::reserve_anywhere(bytes) {
            Ok(view) => present::reserve_view(view),
            Err(error) => (permissions, refusal) = (choose(Some(Backend::Mprotect)).0, Some(error)),
        }
    }
    let permissions = globals::with_window(permissions);
    let number = refusal.filter(|_| wished.is_some()).map(|error| error.raw_os_error().unwrap_or(libc::EIO));
    (Some(permissions), number.unwrap_or(0) as u64)
}

/// Says once, for all ranks, that the back end which the user wants is refused.
fn say_refusal(cards: &[Card]) {
    let refused = |card: &Card| card.refusal != 0;
    let Some(rank) = cards.iter().position(refused) else { return };
    let (count, ranks) = (cards.iter().filter(|card| refused(card)).count(), cards.len());
    let error = std::io::Error::from_raw_os_error(cards[rank].refusal as i32);
    log::line(format_args!(
        "userfaultfd is refused on {count} of {ranks} ranks, first rank {rank} ({error}): accesses to shared memory are \
         noticed by mprotect there, which is slower"
    ));
}

fn begin_protocol(
    job: &Job,
    view: &View,
    placement: Placement,
    (wishes, permissions): (Wishes, Box<dyn Permissions>),
    mode: Mode,
) -> Way {
    let bytes = view.bytes;
    let refuse = |error: std::io::Error| -> ! {
        failure::end(format_args!("shared memory of {bytes} bytes cannot be mapped: {error}"))
    };
    let map = |range| {
        let mapping = job.map(range).unwrap_or_else(|error| refuse(error));
        let address = mapping.base().as_ptr().expose_provenance();
        // It stays until the process ends.
        std::mem::forget(mapping);
        os::note_own(address, range.bytes as usize);
        address
    };
    let system = map(view.range);
    let shared = view.shared.as_ref().map(|(range, placement)| Shared {
        system: map(*range),
        placement: placement.clone(),
        own: Box::new(views::Own { job: job.clone(), range: view.range }),
        parted: BTreeSet::new(),
    });
    let mail = shared.as_ref().map(|shared| Mail::new(shared.system + bytes, job, mates_of(job)));
    let has_mail = mail.is_some();
    let signal = permissions.backend().signal();
    let mut arena = Arena::new(bytes, system, shared, permissions).unwrap_or_else(|error| refuse(error));
    if let Some(open) = mode.open() {
        note::install(open, BASE, bytes, wishes.combines || wishes.is_checked)
            .unwrap_or_else(|error| refuse(error));
    }
    if let Mode::Checked { range, .. } = mode {
        let states = States::new(bytes).unwrap_or_else(|error| refuse(error));
        arena.keep_states(states);
        note::install_states(range, states);
    }
    let rank = rank::enter().expect("MPI has started");
    let updated_from = placement.updated_from();
    executor::register(&rank, (bytes / UNIT_BYTES) as u32, placement, arena, mail, wishes);
    LOCK.name_owner();
    drop(rank);
    if has_mail && let Err(error) = executor::serve_mates() {
        refuse(error);
    }
    let installed =
        freed::install(bytes).and_then(|()| fault::install(job.world_place(), bytes, updated_from, signal));
    if let Err(error) = installed {
        failure::end(format_args!("faults of shared memory cannot be handled: {error}"));
    }
    Way::Nodes
}

fn begin_words(job: &Job, bytes: usize, range: Range) -> Way {
    let words = Range { offset: range.offset + bytes as u64, bytes: WORDS_BYTES as u64 };
    let mapping = job.map(words).unwrap_or_else(|error| {
        failure::end(format_args!("the words of shared memory cannot be mapped: {error}"))
    });
    let address = mapping.base().as_ptr().expose_provenance();
    std::mem::forget(mapping);
    Way::Node(Box::new(Words::new(address, job.clone())))
}

fn mates_of(job: &Job) -> Vec<usize> {
    let here = job.node_of(job.rank());
    (0..job.ranks()).filter(|rank| job.node_of(*rank) == here).collect()
}
