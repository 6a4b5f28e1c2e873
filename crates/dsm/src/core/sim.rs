//! Several members on one network, in one thread, by a seed; and a checker.
//!
//! ```text
//! step    one of: a record arrives, an acknowledgement arrives, a node sends what it owes, a program goes on
//! network as the channel leaves it: each record once, in order of a pair, after any time; room runs out
//! ```
//!
//! What the channel loses and repeats is seen here as time. A page that goes as a bulk message is read again
//! when it is sent again: so a piece of a page may hold what its home has when it arrives.
//!
//! Programs have no data races: a byte is guarded by a lock, or written by one node of a phase between two
//! barriers, or handed over by a flag, or lies in a block of one owner. So each read may return one value:
//! that of the last store in the order of the simulation, which the checker keeps.

mod pointers;
mod program;
mod updates;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use tutti_testkit::random::Random;

use super::blocks::Attributes;
use super::member::{Access, Frames, Member, Port, Sent, Touch};
use super::message::{PAGE, decode_page};
use super::notes::{Notes, words_of};
use super::page::Store;
use super::unit::{HOME_UNITS, Placement, Run, UNIT_BYTES};
use super::violation::Private;
use program::{Op, Program};

/// A rule that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The interval closes before the homes have applied its stores.
    RecordBeforeApplied,
    /// Differences by words of eight bytes, not by bytes (D12).
    WholeWords,
    /// Units go home whole.
    WholeUnits,
    /// A home's stores to its own units are in no notice.
    HomeUnnoticed,
    /// Units that were flushed at an acquire are not in the notice of the interval.
    EarlyFlushUnnoticed,
    /// A notice drops a copy with stores that have not gone home.
    StoresDropped,
    /// A lock, barrier or flag hands no time on.
    GrantWithoutTime,
    /// A grant has the notices of its keeper alone.
    OwnNoticesAlone,
    /// An owner of memory does not see what its last owner did (D7).
    AllocateWithoutTime,
    /// Noted stores do not go home.
    NotesForgotten,
    /// Notes of an interval that has ended count in the next one.
    NotesKept,
    /// Code without notes stores to units that noted stores have opened.
    ForeignStoreUnnoted,
    /// Copies with stores that have not gone home are dropped to save memory.
    WrittenEvicted,
    /// Stores to units that have their home at a mate are in no notice: their frames are shared.
    MateUnnoticed,
    /// A release does not wait until flags that were set or cleared before are so where they are kept.
    ClearOvertaken,
    /// A page that comes is stored over what was stored to it while it was not here.
    PageOverStores,
    /// Code that checks no loads loads from pages that have nothing but stores.
    ForeignLoadUnseen,
    /// A page that went to save memory is stored to without a fetch, though loads rely on their check before.
    BlindAfterEviction,
    /// The stores of the next interval to a page that is not here are in no notice.
    BlindKept,
    /// A release does not wait until all copies have its updates.
    ReleaseUnsettled,
    /// A home says that all copies have updates that it has sent (D5).
    SettledBeforeApplied,
    /// A home's own stores go to no copies (D5).
    OwnStoresUnsent,
    /// An update is not stored into the twin of a copy, so it goes home again.
    UpdateBesideTwin,
    /// The same at the home.
    HomeTwinStale,
    /// A copy that is being fetched takes no updates (D5).
    UpdateDroppedInFetch,
    /// A home goes on to update a copy that is not there any more.
    AbsentUpdated,
    /// A rank says that it has no copy of a unit that it has just asked for.
    LeftBehindFetch,
    /// A node that asks for something counts as one that has sent the notices of all it has seen.
    SeenTakenForTold,
    /// A lock goes to the next rank of the node without the time of who has released it (D9).
    PassedWithoutTime,
    /// A node keeps a lock that others wait for.
    RecallIgnored,
    /// A lock comes back from a node without the notices of those who had it there.
    ReturnedWithoutNotices,
    /// A home moves though others have written in this round.
    MovedThoughShared,
    /// A home moves to a rank that has no whole copy.
    AbsentMoved,
    /// A new home that has not left the barrier answers none of those who have (D13).
    EarlyRequestRefused,
    /// A rank takes itself for the home when it wishes to be: what others fetch and send is on its way to
    /// another.
    MovedWhenWished,
    /// A home goes on as one when it has moved.
    OldHomeKept,
    /// Ranks that shared the frame of a home that has moved take what they have for the unit.
    PartedPresent,
    /// A page that goes to a copy which is updated holds stores that its home has not released.
    UnreleasedSent,
}

thread_local! {
    /// The rule that the world of this thread leaves out.
    static LEFT_OUT: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Whether the world of this thread leaves a rule out.
pub(crate) fn is_left_out(rule: Mutation) -> bool {
    LEFT_OUT.get() == Some(rule)
}

/// Mutations that random programs find; [`updates`] has the others.
const MUTATIONS: [Mutation; 27] = [
    Mutation::RecordBeforeApplied,
    Mutation::WholeWords,
    Mutation::WholeUnits,
    Mutation::HomeUnnoticed,
    Mutation::EarlyFlushUnnoticed,
    Mutation::StoresDropped,
    Mutation::GrantWithoutTime,
    Mutation::OwnNoticesAlone,
    Mutation::AllocateWithoutTime,
    Mutation::NotesForgotten,
    Mutation::NotesKept,
    Mutation::ForeignStoreUnnoted,
    Mutation::WrittenEvicted,
    Mutation::MateUnnoticed,
    Mutation::ClearOvertaken,
    Mutation::PageOverStores,
    Mutation::ForeignLoadUnseen,
    Mutation::BlindAfterEviction,
    Mutation::BlindKept,
    Mutation::ReleaseUnsettled,
    Mutation::SettledBeforeApplied,
    Mutation::OwnStoresUnsent,
    Mutation::UpdateBesideTwin,
    Mutation::HomeTwinStale,
    Mutation::UpdateDroppedInFetch,
    Mutation::SeenTakenForTold,
    Mutation::UnreleasedSent,
];

/// Mutations of what ranks of a node and homes do, which programs of many nodes and long ones find.
const MUTATIONS_OF_HOMES: [Mutation; 9] = [
    Mutation::PassedWithoutTime,
    Mutation::RecallIgnored,
    Mutation::ReturnedWithoutNotices,
    Mutation::MovedThoughShared,
    Mutation::AbsentMoved,
    Mutation::EarlyRequestRefused,
    Mutation::MovedWhenWished,
    Mutation::OldHomeKept,
    Mutation::PartedPresent,
];

/// Bytes of the longest record: a page goes in many pieces.
const RECORD_BYTES: usize = 700;
/// An address that each node has for itself: programs do not store it.
const PRIVATE: u64 = u64::from_le_bytes([9; 8]);
/// Seeds with this rest by 4 are checked.
const CHECKED: u64 = 2;
/// Steps in which a channel repeats a lost record, at most.
const STALL_STEPS: u64 = 3000;
/// Steps of a simulation: a program that needs more waits for ever.
const STEPS_MAX: u64 = 2_000_000;

/// Whether the ranks of a node hand locks over among themselves.
fn passes_locks(seed: u64) -> bool {
    !(seed / 5).is_multiple_of(3)
}

/// Whether homes move.
fn moves_homes(seed: u64) -> bool {
    is_owned(seed) || (seed / 3).is_multiple_of(2)
}

/// Whether some units have an owner, so that homes have reason to move.
fn is_owned(seed: u64) -> bool {
    (seed / 4) % 5 == 3
}

/// The memory of a rank.
struct Memory {
    placement: Placement,
    /// Frames of copies, and those of units that have their home on this node, which its ranks share.
    copies: Vec<u8>,
    homes: Rc<RefCell<Vec<u8>>>,
    twins: Vec<Option<Vec<u8>>>,
    access: Vec<Access>,
    absent: Vec<bool>,
    notes: Notes<Vec<u64>>,
    /// Notes that leave one by one; none when they are combined.
    singles: Option<Vec<(u32, std::ops::Range<usize>)>>,
}

impl Memory {
    fn new(units: u32, placement: Placement, homes: Rc<RefCell<Vec<u8>>>) -> Self {
        let count = units as usize;
        Memory {
            placement,
            copies: vec![0; count * UNIT_BYTES],
            homes,
            twins: vec![None; count],
            access: vec![Access::None; count],
            absent: vec![false; count],
            notes: Notes::new(vec![0; words_of(count * UNIT_BYTES)]),
            singles: None,
        }
    }

    fn note(&mut self, address: usize) {
        self.notes.add(address..address + 1);
        if let Some(singles) = &mut self.singles {
            let offset = address % UNIT_BYTES;
            singles.push(((address / UNIT_BYTES) as u32, offset..offset + 1));
        }
    }

    fn range(unit: u32, offset: usize, bytes: usize) -> std::ops::Range<usize> {
        let begin = unit as usize * UNIT_BYTES + offset;
        begin..begin + bytes
    }

    fn is_shared(&self, unit: u32) -> bool {
        self.placement.is_shared(unit)
    }

    /// Bytes of a unit as its home answers with them: without stores that it finds by a twin.
    fn answer(&self, unit: u32, offset: usize, into: &mut [u8]) {
        match &self.twins[unit as usize] {
            Some(twin) if !is_left_out(Mutation::UnreleasedSent) => {
                into.copy_from_slice(&twin[offset..offset + into.len()]);
            }
            _ => self.load(unit, offset, into),
        }
    }

    fn byte(&self, address: usize) -> u8 {
        let mut byte = [0];
        self.load((address / UNIT_BYTES) as u32, address % UNIT_BYTES, &mut byte);
        byte[0]
    }
}

impl Frames for Memory {
    fn allow(&mut self, run: Run, access: Access) {
        run.units().for_each(|unit| self.access[unit as usize] = access);
    }

    fn note_absent(&mut self, run: Run, is_absent: bool) {
        run.units().for_each(|unit| self.absent[unit as usize] = is_absent);
    }

    fn make_twin(&mut self, unit: u32) {
        self.twins[unit as usize] = Some(self.frame(unit).to_vec());
    }

    fn drop_twin(&mut self, unit: u32) {
        self.twins[unit as usize] = None;
    }

    fn frame(&self, unit: u32) -> &[u8] {
        // Units of a home are compared where no frame is shared: in checked runs, and where copies are
        // updated.
        &self.copies[Memory::range(unit, 0, UNIT_BYTES)]
    }

    fn twin(&self, unit: u32) -> &[u8] {
        self.twins[unit as usize].as_deref().expect("a unit that is compared has a twin")
    }

    fn next_noted(&self, unit: u32, from: usize) -> Option<std::ops::Range<usize>> {
        self.notes.next(unit, from)
    }

    fn drop_notes(&mut self, unit: u32) {
        self.notes.drop_unit(unit);
    }

    fn drop_all_notes(&mut self) -> usize {
        self.notes.drop_all()
    }

    fn single(&self, place: usize) -> Option<(u32, std::ops::Range<usize>)> {
        self.singles.as_ref()?.get(place).cloned()
    }

    fn drop_singles(&mut self) {
        self.singles.as_mut().map(Vec::clear);
    }

    fn forget(&mut self, unit: u32) {
        self.copies[Memory::range(unit, 0, UNIT_BYTES)].fill(0xee);
    }

    fn part(&mut self, unit: u32, rank: usize) {
        self.placement.move_to(unit, rank);
        self.copies[Memory::range(unit, 0, UNIT_BYTES)].fill(0xee);
    }

    fn note_sent(&mut self, _unit: u32, _bytes: usize) {}

    fn store_twin(&mut self, unit: u32, offset: usize, bytes: &[u8]) {
        let twin = self.twins[unit as usize].as_mut().expect("a unit that is checked has a twin");
        twin[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn site_of(&self, unit: u32) -> u64 {
        u64::from(unit)
    }

    fn private_place(&self, _unit: u32, address: u64) -> Option<Private> {
        (address == PRIVATE).then_some(Private::Other)
    }

    fn store(&mut self, unit: u32, offset: usize, bytes: &[u8]) {
        let range = Memory::range(unit, offset, bytes.len());
        if self.is_shared(unit) {
            self.homes.borrow_mut()[range].copy_from_slice(bytes);
        } else {
            self.copies[range].copy_from_slice(bytes);
        }
    }

    fn load(&self, unit: u32, offset: usize, into: &mut [u8]) {
        let range = Memory::range(unit, offset, into.len());
        if self.is_shared(unit) {
            into.copy_from_slice(&self.homes.borrow()[range]);
        } else {
            into.copy_from_slice(&self.copies[range]);
        }
    }
}

/// The way from one node to another.
#[derive(Default)]
struct Channel {
    records: VecDeque<Vec<u8>>,
    sent: u64,
    taken: u64,
    acknowledged: u64,
    /// The step from which it carries again: a record was lost.
    stalled_until: u64,
    /// The number of the last record that is awaited.
    marked: u64,
}

struct Ports<'a> {
    channels: &'a mut [Channel],
    random: &'a mut Random,
}

impl Port for Ports<'_> {
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Sent {
        let channel = &mut self.channels[to];
        assert!(head.len() + body.len() <= RECORD_BYTES, "a record is too long");
        if channel.records.len() >= 4 || self.random.chance(50) {
            return Sent::Full;
        }
        channel.records.push_back([head, body].concat());
        channel.sent += 1;
        Sent::Taken
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES
    }

    fn note_awaited(&mut self, to: usize) {
        self.channels[to].marked = self.channels[to].sent;
    }

    fn is_applied(&mut self, to: usize) -> bool {
        self.channels[to].acknowledged >= self.channels[to].marked
    }
}

/// Code of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// Makes no notes.
    Plain,
    /// Makes a note before each store.
    Noted,
    /// The same, but some stores are those of functions that make none.
    Mixed,
    /// Makes notes, and looks whether a unit is here before loads; some accesses are those of functions that
    /// do neither. A load that follows another one of its unit, with no call between, relies on that
    /// one's look.
    Checked,
}

/// Codes of nodes, in turns.
const CODES: [Code; 6] = [Code::Plain, Code::Checked, Code::Noted, Code::Checked, Code::Mixed, Code::Checked];

struct Node {
    code: Code,
    member: Member,
    memory: Memory,
    /// By receiver.
    channels: Vec<Channel>,
    program: Vec<Op>,
    /// The operation that is next, or under way.
    at: usize,
    is_calling: bool,
    /// Units that were looked at since the last call.
    looked: BTreeSet<u32>,
    /// Where the blocks lie that the program has taken.
    blocks: Vec<u64>,
}

struct World {
    nodes: Vec<Node>,
    /// Contents of each byte.
    truth: Vec<u8>,
    random: Random,
    left_out: Option<Mutation>,
    /// Notices may be too long for a message.
    lacks_notices: bool,
}

impl World {
    fn new(seed: u64, left_out: Option<Mutation>) -> Self {
        let mut random = Random::new(seed);
        let count = random.between((2, 4)) as usize;
        let Program { scripts, fixed_bytes } = Program::new(&mut random, count, is_owned(seed));
        let units = HOME_UNITS * (count as u32 + 2);
        // Ranks of one node need not follow each other.
        let place =
            |rank: usize| if random.chance(600) { rank } else { random.below(rank as u64 + 1) as usize };
        let places: Vec<usize> = (0..count).map(place).collect();
        let places = if seed % 4 == CHECKED { (0..count).collect() } else { places };
        let homes: Vec<_> =
            places.iter().map(|_| Rc::new(RefCell::new(vec![0; units as usize * UNIT_BYTES]))).collect();
        let node = |(me, program)| {
            // Some units, or all; the blocks lie behind the fixed ones.
            let updated_from = (seed / 4 * 7 % u64::from(HOME_UNITS * count as u32)) as u32;
            let has_updates = (seed / 4).is_multiple_of(2);
            let updated_from = if has_updates { updated_from } else { u32::MAX };
            let placement = Placement::new(me, &places).with_updates(updated_from);
            let mut member = Member::new(me, placement.clone(), units, RECORD_BYTES);
            if seed % 2 == 1 {
                member.limit_copies(3);
            }
            if seed % 4 == CHECKED {
                member.check();
            }
            if passes_locks(seed) {
                member.pass_locks();
            }
            if moves_homes(seed) {
                member.move_homes();
            }
            let place = member.kept().blocks().allocate(fixed_bytes as u64, Attributes::default(), "fixed");
            assert_eq!(place, Ok(0), "the heap begins behind the fixed bytes");
            let channels = (0..count).map(|_| Channel::default()).collect();
            let mut memory = Memory::new(units, placement, homes[places[me]].clone());
            let is_single = seed % 4 != CHECKED && (seed / 3 + me as u64).is_multiple_of(2);
            memory.singles = is_single.then(Vec::new);
            let code = CODES[(seed as usize / 2 + me) % CODES.len()];
            if code == Code::Checked {
                member.write_absent();
            }
            if seed.is_multiple_of(7) {
                member.note_large(Run { first: 0, count: units });
            }
            member.hide_absent(&mut memory);
            let (at, is_calling, looked, blocks) = (0, false, BTreeSet::new(), Vec::new());
            Node { code, member, memory, channels, program, at, is_calling, looked, blocks }
        };
        let nodes = scripts.into_iter().enumerate().map(node).collect();
        let truth = vec![0; units as usize * UNIT_BYTES];
        World { nodes, truth, random, left_out, lacks_notices: false }
    }

    /// Runs all programs to their end.
    fn run(&mut self) -> Result<(), String> {
        LEFT_OUT.set(self.left_out);
        for step in 0..STEPS_MAX {
            if self.nodes.iter().all(|node| node.at == node.program.len()) {
                return Ok(());
            }
            let count = self.nodes.len() as u64;
            let [one, other] = [0; 2].map(|_| self.random.below(count) as usize);
            match self.random.below(10) {
                0..4 => self.deliver(one, other, step)?,
                4 => {
                    let channel = &mut self.nodes[one].channels[other];
                    channel.acknowledged = channel.taken;
                }
                5 => {
                    let Node { member, memory, channels, .. } = &mut self.nodes[one];
                    member.pump(&mut Ports { channels, random: &mut self.random }, memory);
                }
                _ => self.go_on(one)?,
            }
        }
        let waits: Vec<_> = self.nodes.iter().map(|node| (node.at, node.member.goal())).collect();
        Err(format!("it does not end: {waits:?}"))
    }

    fn deliver(&mut self, from: usize, to: usize, step: u64) -> Result<(), String> {
        let channel = &mut self.nodes[from].channels[to];
        if step < channel.stalled_until {
            return Ok(());
        }
        if self.random.chance(5) {
            channel.stalled_until = step + self.random.below(STALL_STEPS);
            return Ok(());
        }
        let Some(mut record) = channel.records.pop_front() else { return Ok(()) };
        channel.taken += 1;
        if record[0] == PAGE && self.random.chance(300) {
            // The piece was lost, and read again when it was sent again.
            let (first, offset, bytes) = decode_page(&record).expect("a page");
            let (length, head) = (bytes.len(), record.len() - bytes.len());
            let (unit, begin) = (first + (offset / UNIT_BYTES) as u32, offset % UNIT_BYTES);
            self.nodes[from].memory.answer(unit, begin, &mut record[head..head + length]);
        }
        let Node { member, memory, .. } = &mut self.nodes[to];
        if !member.handle_record(from, &record, memory) {
            return Err(format!("node {to} does not take {record:?} of node {from}"));
        }
        self.violation(to)
    }

    fn violation(&mut self, node: usize) -> Result<(), String> {
        let member = &mut self.nodes[node].member;
        if member.counters().full_drops > 0 && !self.lacks_notices {
            // Right, and slow: logs are never full here, so each acquire comes with its notices.
            return Err(format!("node {node} lacks notices and drops all copies"));
        }
        match member.take_violation() {
            Some(violation) => Err(format!("node {node}: {violation}")),
            None => Ok(()),
        }
    }

    /// One step of a program.
    fn go_on(&mut self, me: usize) -> Result<(), String> {
        let World { nodes, random, .. } = self;
        let Node { code, member, memory, channels, program, at, is_calling, looked, blocks } = &mut nodes[me];
        let Some(op) = program.get(*at).cloned() else { return Ok(()) };
        if *is_calling {
            if member.advance(&mut Ports { channels, random }, memory) {
                *is_calling = false;
                if let Op::Take { .. } = op {
                    blocks.push(member.value());
                }
                // An access is tried again; a call is over.
                *at += usize::from(!matches!(op, Op::Load { .. } | Op::Store { .. }));
            }
            return self.violation(me);
        }
        if let Op::Load { place } | Op::Store { place, .. } = &op {
            let address = place.address(blocks);
            let unit = (address / UNIT_BYTES) as u32;
            let is_write = matches!(op, Op::Store { .. });
            let is_foreign = *at % if *code == Code::Checked { 5 } else { 3 } == 0;
            let mut is_known_absent = false;
            match code {
                Code::Mixed | Code::Checked if is_write && is_foreign => member.rearm(memory),
                Code::Noted | Code::Mixed | Code::Checked if is_write => memory.note(address),
                Code::Checked if is_foreign => member.cover(memory),
                Code::Checked if !looked.contains(&unit) => {
                    is_known_absent = memory.absent[unit as usize];
                    if !is_known_absent {
                        looked.insert(unit);
                    }
                }
                _ => {}
            }
            let access = memory.access[unit as usize];
            if access == Access::Write && !is_known_absent || (access == Access::Read && !is_write) {
                return self.access(me, address, &op);
            }
            let store = if memory.notes.contains(address) { Store::Noted } else { Store::Unnoted };
            member.begin_fault(unit, if is_write { Touch::Store(store) } else { Touch::Load });
        } else {
            looked.clear();
            op.begin(member, blocks);
        }
        *is_calling = true;
        self.violation(me)
    }

    fn access(&mut self, me: usize, address: usize, op: &Op) -> Result<(), String> {
        let node = &mut self.nodes[me];
        node.at += 1;
        if let Op::Store { value, .. } = op {
            node.memory.store((address / UNIT_BYTES) as u32, address % UNIT_BYTES, &[*value]);
            self.truth[address] = *value;
        } else if node.memory.byte(address) != self.truth[address] {
            return Err(format!(
                "operation {} of node {me} loads {} from {address:#x}, {} was stored",
                node.at - 1,
                node.memory.byte(address),
                self.truth[address]
            ));
        }
        Ok(())
    }
}

/// Programs of a run: `TUTTI_SIM_TIMES`, or few.
fn runs() -> u64 {
    std::env::var("TUTTI_SIM_TIMES").ok().and_then(|runs| runs.parse().ok()).unwrap_or(300)
}

#[test]
fn dsm_simulation_reads_what_happened_before() {
    let first = tutti_testkit::random::seed();
    for seed in first..first + runs() {
        let mut world = World::new(seed, None);
        world.run().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn dsm_simulation_reads_what_happened_before_where_notices_are_too_long() {
    let (first, mut full_drops) = (tutti_testkit::random::seed(), 0);
    for seed in first..first + runs().div_ceil(4) {
        let mut world = World::new(seed, None);
        world.lacks_notices = true;
        world.nodes.iter_mut().for_each(|node| node.member.limit_notices(30));
        world.run().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        full_drops += world.nodes.iter().map(|node| node.member.counters().full_drops).sum::<u64>();
    }
    assert!(full_drops > 0 || runs() < 40, "no message was too long");
}

#[test]
fn dsm_simulation_finds_races_of_programs_without_locks() {
    let is_race = |seed: &u64| {
        let mut world = World::new(4 * seed + CHECKED, None);
        for node in &mut world.nodes {
            node.program.retain(|op| !matches!(op, Op::Lock(_) | Op::Unlock(_)));
        }
        world.run().is_err_and(|what| what.contains("data race"))
    };
    // In every second world some copies are updated.
    for rest in [0, 1] {
        let is_found = (0..50).any(|seed| is_race(&(2 * seed + rest)));
        assert!(is_found, "fifty programs without locks have no race: 2 * n + {rest}");
    }
}

/// Rules that no program finds out of those that are left out.
fn silent(mutations: &[Mutation], seeds: impl Iterator<Item = u64> + Clone) -> Vec<Mutation> {
    let is_silent = |mutation: &&Mutation| {
        let found = seeds.clone().find(|seed| World::new(*seed, Some(**mutation)).run().is_err());
        println!("{mutation:?}: program {found:?}");
        found.is_none()
    };
    mutations.iter().filter(is_silent).copied().collect()
}

#[test]
fn dsm_simulation_finds_each_rule_that_is_left_out() {
    let silent = silent(&MUTATIONS, 0..2000);
    assert!(silent.is_empty(), "programs without {silent:?} are all right");
}

#[test]
fn dsm_simulation_finds_each_rule_of_locks_and_homes_that_is_left_out() {
    let silent = silent(&MUTATIONS_OF_HOMES, (0..1500).filter(|seed| is_owned(*seed)));
    assert!(silent.is_empty(), "programs without {silent:?} are all right");
}

#[test]
fn dsm_simulation_exercises_each_part_of_the_protocol() {
    let mut sum = super::member::Counters::default();
    for seed in 0..40 {
        let mut world = World::new(seed, None);
        world.run().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        for counters in world.nodes.iter().map(|node| node.member.counters()) {
            sum.fetches += counters.fetches;
            sum.fetched_units += counters.fetched_units;
            sum.twins += counters.twins;
            sum.noted_stores += counters.noted_stores;
            sum.difference_records += counters.difference_records;
            sum.dropped_units += counters.dropped_units;
            sum.intervals += counters.intervals;
            sum.evicted_units += counters.evicted_units;
            sum.absent_stores += counters.absent_stores;
            sum.update_records += counters.update_records;
            sum.updates_taken += counters.updates_taken;
            sum.locks_lent += counters.locks_lent;
            sum.locks_passed += counters.locks_passed;
            sum.homes_moved += counters.homes_moved;
        }
    }
    assert!(sum.fetched_units > sum.fetches, "no run of units was fetched at once: {sum:?}");
    let least = [
        sum.fetches,
        sum.twins,
        sum.noted_stores,
        sum.difference_records,
        sum.dropped_units,
        sum.intervals,
        sum.evicted_units,
        sum.absent_stores,
        sum.update_records,
        sum.updates_taken,
    ];
    assert!(least.iter().all(|count| *count > 100), "{sum:?}");
    // Few worlds have nodes of several ranks, or units with an owner.
    let few = [sum.locks_lent, sum.locks_passed, sum.homes_moved];
    assert!(few.iter().all(|count| *count > 10), "{sum:?}");
}
