//! Remote memory between nodes: [`tutti_rma::engine`] over the network of this rank.
//!
//! ```text
//! open      memory gets a name, which the interface tells those who may use it
//! push      hands an operation over as far as there is room; the caller waits and pushes the rest
//! is_done   everything handed over to a rank has been applied there, and its answers are here
//! close     behind a barrier of all who know the name
//! ```
//!
//! The first region that is opened registers the records of remote memory with the router. A rank opens one
//! before anybody learns a name of it, so no record comes before. From then on whoever looks at the network
//! applies what has come: a thread of the program that waits, or the service thread while it computes.
//!
//! The state is reached under the process lock alone.

use std::cell::{RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_channel::{BulkError, Mark, SendError, Taken};
use tutti_rma::claims::Claims;
use tutti_rma::control::Count;
use tutti_rma::done::DoneAt;
use tutti_rma::engine::{Engine, Offered, Port, Pushed, Room};
use tutti_rma::operation::{Kept, Operation};
use tutti_rma::region::Region;
use tutti_rma::wire::{self, KINDS, Name, Record, Refusal};
use tutti_shm::report::{Wait, What};
use tutti_shm::window_lock::Mode;

use crate::job::Job;
use crate::rank::{LockedRank, Rank};
use crate::router::{Client, Outbox, RouteId, Router};
use crate::service_state;
use crate::sleep::{self, SleepReport};
use crate::stamps::{self, Mark as Stamped};
use crate::wait::Backoff;
use crate::waiting::{self, Idle, Waiting};

static STATE: Cell = Cell(UnsafeCell::new(None));

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: the content is reached only by who holds the process lock.
unsafe impl Sync for Cell {}

/// Part of the stream to a rank that has been handed over.
#[derive(Clone, Copy, Debug)]
struct Handed {
    /// Where it ends.
    end: Mark,
    /// Up to where the rank has been asked to acknowledge at once.
    asked: Option<Mark>,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    job: Job,
    router: Rc<RefCell<Router>>,
    route: RouteId,
    /// By rank.
    handed: Vec<Option<Handed>>,
}

/// Remote memory of this process, for a thread that holds the process lock.
#[derive(Debug)]
pub struct RemoteMemory(());

struct ToRouter<'a, 'b>(&'a mut Outbox<'b>);

impl Port for ToRouter<'_, '_> {
    fn offer(&mut self, to: usize, head: &[u8], body: &[u8]) -> Offered {
        match self.0.try_send(to, head, body) {
            Ok(()) => {
                if let Some(now_ns) = stamps::begin() {
                    stamps::note(Stamped::Handed, now_ns, head.len() + body.len());
                }
                Offered::Taken
            }
            Err(SendError::Full) => Offered::Full,
            Err(SendError::Exited(_)) => Offered::Gone,
            Err(error) => panic!("an operation on the memory of rank {to} cannot be sent: {error}"),
        }
    }

    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Room {
        match self.0.accept_bulk(from, bytes, tag) {
            Ok(name) => Room::Named(name),
            Err(BulkError::Full) => Room::Full,
            Err(_) => Room::Never,
        }
    }

    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Offered {
        match self.0.send_bulk(to, name, bytes, tag) {
            Ok(()) => {
                if let Some(now_ns) = stamps::begin() {
                    stamps::note(Stamped::Handed, now_ns, bytes);
                }
                Offered::Taken
            }
            Err(BulkError::Full) => Offered::Full,
            Err(_) => Offered::Gone,
        }
    }

    fn cancel_bulk(&mut self, _from: usize, name: u64) {
        self.0.cancel_bulk(name);
    }

    fn has_bulk(&self) -> bool {
        true
    }
}

impl State {
    fn ring(&mut self) {
        for rank in self.engine.rings() {
            if self.job.local_ranks().contains(rank as usize) {
                self.job.ring(rank as usize);
            }
        }
    }
}

// SAFETY: open memory and results stay while their messages come (contracts of `Region` and of
// `Operation::new`); a region that is closed has no place.
unsafe impl Client for State {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        let begun_ns = stamps::begin();
        self.engine.take(from, record);
        if let Some(begun_ns) = begun_ns {
            stamps::note(Stamped::Applied, begun_ns, record.len());
        }
        service_state::note_applied();
        self.ring();
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        self.engine.store_bulk(tag, offset, bytes);
    }

    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.engine.bulk_place(tag, offset, bytes)
    }

    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        self.engine.load_bulk(tag, offset, into);
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let place = self.engine.bulk_place(tag, offset, bytes)?;
        // SAFETY: so many bytes that stay; nobody but the kernel reads them by it.
        Some(unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes) })
    }

    fn bulk_sent(&mut self, tag: u64) {
        if self.engine.handle_bulk_sent(tag) {
            stamp_applied();
        }
    }

    fn bulk_received(&mut self, tag: u64) {
        self.engine.handle_bulk_received(tag);
        stamp_applied();
        service_state::note_applied();
    }

    fn bulk_refused(&mut self, _to: usize, tag: u64) {
        self.engine.handle_bulk_refused(tag);
    }

    fn peer_exited(&mut self, rank: usize) {
        self.engine.handle_exit(rank);
        self.ring();
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        self.engine.pump(&mut ToRouter(outbox));
        outbox.note_owing(!self.engine.is_flushed());
        self.ring();
    }
}

/// A long operation has come, or its answer.
fn stamp_applied() {
    if let Some(now_ns) = stamps::begin() {
        stamps::note(Stamped::Applied, now_ns, 0);
    }
}

/// Lends remote memory's records to whoever polls the network.
fn lend(use_client: &mut dyn FnMut(&mut dyn Client)) {
    // SAFETY: who polls holds the process lock; the state is not borrowed while the router is in use by
    // somebody else.
    let state = unsafe { (*STATE.0.get()).as_mut() };
    use_client(state.expect("what is registered has a state"));
}

/// Whether something here waits for a change of shared memory that nobody rings for: a rank of another node
/// for a lock that a rank of this node holds.
pub(crate) fn has_waiting() -> bool {
    // SAFETY: the caller holds the process lock.
    unsafe { (*STATE.0.get()).as_ref() }.is_some_and(|state| state.engine.has_waiting())
}

/// Describes which places in the queues of locks here this rank holds for ranks of other nodes.
fn describe_background(report: &mut SleepReport) {
    // SAFETY: the caller holds the process lock.
    let Some(state) = (unsafe { (*STATE.0.get()).as_ref() }) else { return };
    for place in state.engine.places() {
        if report.is_full() {
            break;
        }
        let wait = Wait {
            what: if place.has_entered { What::Held } else { What::Place },
            tag: place.region.id as i32,
            bytes: place.number.into(),
            moved: place.from as u64,
            ..Wait::other(0, true)
        };
        report.put_alternative(|report| {
            let before = report.count();
            place.visit_before(&mut |rank| report.put(Wait { peer: rank as i32, ..wait }));
            if report.count() == before {
                report.put(Wait { matched: !place.has_entered, ..wait });
            }
        });
    }
}

impl Rank {
    /// Operations of ranks of other nodes that were refused here for this reason.
    pub fn refused_for(&self, refusal: Refusal) -> u64 {
        // SAFETY: as in [`Self::remote_memory`].
        let state = unsafe { &*STATE.0.get() };
        state.as_ref().map_or(0, |state| state.engine.refused_for(refusal))
    }

    /// Remote memory between nodes; none in a job that has one node.
    pub fn remote_memory(&self) -> Option<RemoteMemory> {
        let router = self.router.clone()?;
        // SAFETY: we hold the process lock, and nothing borrows the state while its thread is here.
        let state = unsafe { &mut *STATE.0.get() };
        if state.is_none() {
            let record_bytes_max = router.borrow().record_bytes_max();
            let route = router.borrow_mut().register(KINDS, Some(lend));
            sleep::describe_also(describe_background);
            let job = self.job.clone();
            let engine = Engine::new(job.rank() as u32, record_bytes_max);
            let handed = vec![None; self.job.ranks()];
            *state = Some(State { engine, job, router, route, handed });
        }
        Some(RemoteMemory(()))
    }

    /// The process of a rank of another node has ended, and nothing names it any more.
    pub fn forget_remote(&self, rank: usize) {
        // SAFETY: as above.
        if let Some(state) = unsafe { (*STATE.0.get()).as_mut() } {
            state.engine.forget(rank);
            state.handed[rank] = None;
            state.ring();
        }
    }
}

impl RemoteMemory {
    /// The same, where the lock is known to be held: in the test of a wait.
    ///
    /// # Safety
    /// The calling thread holds the process lock as long as it uses the value, and
    /// [`Rank::remote_memory`] has given one before.
    pub unsafe fn assume_locked() -> Self {
        RemoteMemory(())
    }

    fn state(&mut self) -> &mut State {
        // SAFETY: the value says that the lock is ours and that there is a state.
        unsafe { (*STATE.0.get()).as_mut().unwrap_unchecked() }
    }

    /// From now on requests of other nodes are claimed before they are applied: somebody else may apply them.
    pub fn set_claims(&mut self, claims: Claims) {
        let State { engine, job, .. } = self.state();
        engine.set_claims(claims, job.ranks());
    }

    /// The answer to a request has come by another way than its rank's network.
    fn take_answer(&mut self, from: usize, record: &[u8]) {
        if matches!(wire::parse(record), Some(Record::Reply { .. } | Record::Status { .. })) {
            self.state().engine.take(from, record);
        }
    }

    /// Whether the answer to a record that was kept is awaited still.
    pub fn awaits(&mut self, to: usize, kept: &Kept) -> bool {
        self.state().engine.awaits(to, kept)
    }

    /// Number of the first record that is kept and whose answer is awaited ([`Engine::first_kept`]).
    pub fn first_kept(&mut self, to: usize) -> Option<u64> {
        self.state().engine.first_kept(to)
    }

    /// Opens memory to the ranks that will learn its name.
    pub fn open(&mut self, region: Region) -> Name {
        service_state::note_open(true);
        self.state().engine.open(region)
    }

    /// Begins to close memory that others may still work on: what they ask for from now on is refused. It may
    /// be closed when it is not [`RemoteMemory::is_in_use`].
    pub fn retire(&mut self, name: Name) {
        self.state().engine.retire(name);
    }

    /// Whether a long operation of another rank on this memory is under way.
    pub fn is_in_use(&mut self, name: Name) -> bool {
        self.state().engine.is_in_use(name)
    }

    /// Closes it. Nobody has an operation on it under way.
    pub fn close(&mut self, name: Name) {
        let engine = &mut self.state().engine;
        engine.close(name);
        if engine.is_closed() {
            service_state::note_open(false);
        }
    }

    /// Hands over as much of an operation as there is room for. [`RemoteMemory::send`] lets it go.
    pub fn push(&mut self, operation: &mut Operation) -> Pushed {
        let (to, is_answered) = (operation.to, operation.is_answered());
        self.hand_over(to, is_answered, |engine, port| engine.push(operation, port))
    }

    /// Asks for the lock of a window: it is locked when [`RemoteMemory::is_done`].
    pub fn lock(&mut self, to: usize, region: Name, mode: Mode) -> Pushed {
        self.hand_over(to, true, |engine, port| engine.lock(to, region, mode, port))
    }

    /// Gives it back, behind the operations before.
    pub fn unlock(&mut self, to: usize, region: Name) -> Pushed {
        self.hand_over(to, true, |engine, port| engine.unlock(to, region, port))
    }

    /// Takes a step of post-start-complete-wait as rank `own` of the window, behind the operations before.
    pub fn count(&mut self, to: usize, region: Name, count: Count, own: u32) -> Pushed {
        self.hand_over(to, true, |engine, port| engine.count(to, region, count, own, port))
    }

    /// Asks for an answer behind the operations before: their refusals are here when it is.
    pub fn settle(&mut self, to: usize, region: Name) -> Pushed {
        self.hand_over(to, true, |engine, port| engine.settle(to, region, port))
    }

    /// The same for all regions of a rank; the answer is noted.
    pub fn settle_all(&mut self, to: usize, done: DoneAt) -> Pushed {
        self.hand_over(to, true, |engine, port| engine.settle_all(to, done, port))
    }

    fn hand_over(
        &mut self,
        to: usize,
        is_answered: bool,
        push: impl FnOnce(&mut Engine, &mut dyn Port) -> Pushed,
    ) -> Pushed {
        let State { engine, router, route, handed, .. } = self.state();
        let mut router = router.borrow_mut();
        let mut outbox = router.outbox(*route);
        let pushed = push(engine, &mut ToRouter(&mut outbox));
        outbox.note_owing(!engine.is_flushed());
        let Some(end) = outbox.completion(to) else { return pushed };
        if handed[to].is_some_and(|handed| handed.end == end) {
            // Nothing has gone: no more is to be asked for.
            return pushed;
        }
        let before = handed[to].and_then(|handed| handed.asked);
        // The first of a burst asks; who waits for the last one asks again.
        let asks = !is_answered && before.is_none_or(|asked| outbox.is_complete(to, asked));
        if asks {
            outbox.ask_now(to);
        }
        handed[to] = Some(Handed { end, asked: if asks { Some(end) } else { before } });
        router.note_unsent();
        pushed
    }

    /// Lets what was handed over to a rank go: at once, or soon with what follows.
    pub fn send(&mut self, to: usize) {
        let state = self.state();
        let (router, route) = (state.router.clone(), state.route);
        let mut router = router.borrow_mut();
        if !router.may_wait(to) {
            router.transmit_as(route, state);
        }
    }

    /// Lets everything go at once, and has a rank acknowledge it.
    pub fn hurry(&mut self, to: usize) {
        let state = self.state();
        let (router, route) = (state.router.clone(), state.route);
        let mut router = router.borrow_mut();
        if let Some(handed) = &mut state.handed[to]
            && handed.asked != Some(handed.end)
            && !router.is_complete(to, handed.end)
        {
            handed.asked = Some(handed.end);
            router.outbox(route).ask_now(to);
            router.note_unsent();
        }
        if router.has_unsent() {
            router.transmit_as(route, state);
        }
    }

    /// Whether everything handed over to a rank has been applied there and its answers are here, or the rank
    /// has left.
    pub fn is_done(&mut self, to: usize) -> bool {
        let state = self.state();
        if state.engine.outstanding(to) > 0 {
            return false;
        }
        state.handed[to].is_none_or(|handed| state.router.borrow().is_complete(to, handed.end))
    }

    /// Whether answers of a rank are awaited.
    pub fn has_answers_outstanding(&mut self, to: usize) -> bool {
        self.state().engine.outstanding(to) > 0
    }

    /// Describes the wait for what a rank has to do, to an onlooker: only the grant of a lock may take as
    /// long as others want.
    pub fn put_wait(&self, to: usize, context: u32, report: &mut SleepReport) {
        // SAFETY: the value says that the lock is ours and that there is a state.
        let state = unsafe { (*STATE.0.get()).as_ref().unwrap_unchecked() };
        let is_taken =
            state.handed[to].is_none_or(|handed| state.router.borrow().is_complete(to, handed.end));
        let other = Wait::other(0, false);
        report.put(if is_taken && state.engine.outstanding(to) > 0 && state.engine.is_flushed() {
            Wait { what: What::Lock, peer: to as i32, context, ..other }
        } else {
            other
        });
    }

    /// Whether a rank has left its job.
    pub fn has_left(&mut self, rank: usize) -> bool {
        self.state().engine.has_left(rank)
    }

    /// Why the first operation on a region was refused since this was asked last.
    pub fn take_refusal(&mut self, to: usize, region: Name) -> Option<Refusal> {
        self.state().engine.take_refusal(to, region)
    }

    /// Grants locks of this rank that have come free, and sends what follows from it.
    pub fn advance(&mut self) {
        let state = self.state();
        let (router, route) = (state.router.clone(), state.route);
        router.borrow_mut().advance_as(route, state);
        service_state::sent();
    }

    /// Whether nothing is owed to anybody.
    pub fn is_flushed(&mut self) -> bool {
        self.state().engine.is_flushed()
    }
}

/// Somebody else who may give the answer to a request of this rank.
pub trait Otherwise {
    /// The rank of which the answer is.
    fn of(&self) -> usize;
    /// When it is to be asked next; none: not any more.
    fn due(&self) -> Option<Instant>;
    /// Looks what has been answered, and whether the first request that has not may be asked for.
    fn look(&mut self, memory: &mut RemoteMemory) -> bool;
    /// Asks for it, and waits shortly for the answer, without the process lock: its record.
    fn ask(&mut self) -> Option<Vec<u8>>;
}

/// A thread that waits for a rank of another node, outside of messages.
struct RemoteWait<'a> {
    rank: &'a mut LockedRank,
    otherwise: Option<&'a mut dyn Otherwise>,
}

// SAFETY: there is no state.
unsafe impl Waiting for RemoteWait<'_> {
    type State = ();
    type Goal<'a> = ();

    fn rank(&mut self) -> &mut LockedRank {
        self.rank
    }

    fn state(&mut self) -> NonNull<()> {
        NonNull::dangling()
    }

    fn progress(&mut self, _: Option<usize>) -> bool {
        self.rank.progress_all()
    }

    fn describe((): &(), (): (), report: &mut SleepReport) {
        report.put_alternative(|report| report.put(Wait::other(0, false)));
    }

    fn idle(&mut self, (): (), _: Backoff) -> Idle {
        let RemoteWait { rank, otherwise: Some(otherwise) } = self else { return Idle::Usual };
        let left = otherwise.due().map(|due| due.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => {
                let mut record = None;
                if rank.remote_memory().is_some_and(|mut memory| otherwise.look(&mut memory)) {
                    rank.in_between(|| record = otherwise.ask());
                }
                if let (Some(record), Some(mut memory)) = (record, rank.remote_memory())
                    && otherwise.look(&mut memory)
                {
                    memory.take_answer(otherwise.of(), &record);
                }
                Idle::Look
            }
            // Nobody asks in the place of a thread that sleeps.
            Some(left) => Idle::Until(left),
            None => Idle::Usual,
        }
    }
}

/// Waits for something that a rank of another node does by itself, or somebody in its place.
pub fn wait_or(rank: &mut LockedRank, otherwise: &mut dyn Otherwise, mut is_over: impl FnMut() -> bool) {
    let mut host = RemoteWait { rank, otherwise: Some(otherwise) };
    waiting::wait_until(&mut host, None, (), |()| is_over());
}

/// Waits for something that a rank of another node does by itself. Remote memory is in use.
pub fn wait(rank: &mut LockedRank, mut is_over: impl FnMut(&mut RemoteMemory) -> bool) {
    waiting::wait_until(&mut RemoteWait { rank, otherwise: None }, None, (), |()| {
        // SAFETY: tests of waits run under the process lock.
        is_over(&mut unsafe { RemoteMemory::assume_locked() })
    });
}

/// Takes in what has come, and goes on with what was started.
pub fn look(rank: &mut LockedRank) {
    rank.progress_all();
}
