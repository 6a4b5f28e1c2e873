//! Progress of ranks of other nodes that a rank waits for (SSS-CORE, SS-Wait over nodes): how many steps they
//! have made, and whether they sleep.
//!
//! ```text
//! waiter --ASK--> partner: a thread that looks at the network, or the service thread while the program computes
//!        <-ANSWER- steps, asleep
//! ```
//!
//! | record | content |
//! |---|---|
//! | ASK | kind 1, zero 7 |
//! | ANSWER | kind 1, asleep 1, zero 6, steps 8 |
//!
//! A waiter asks when a wait has begun to cost it time, and not again before it has been answered. A partner
//! that does not answer within [`PATIENCE`] stands still: it is stopped, or others have its turn. What was
//! answered holds for [`FRESH`]. Every rank of a job over nodes answers, whatever its program uses. The state
//! is reached under the process lock alone.

use std::cell::{RefCell, UnsafeCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_channel::{SendError, Taken};

use crate::job::Job;
use crate::router::{Client, Outbox, RouteId, Router};
use crate::wrong::{self, Wrong};

const ASK: u8 = 0x48;
const ANSWER: u8 = 0x49;
const KINDS: std::ops::Range<u8> = ASK..ANSWER + 1;
const ASK_BYTES: usize = 8;
const ANSWER_BYTES: usize = 16;
/// Time for which an answer holds.
const FRESH: Duration = Duration::from_millis(1);
/// A service thread whose program computes looks each millisecond, and then at once.
const PATIENCE: Duration = Duration::from_millis(3);

/// Knowledge of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Since when it is asked; none: it has answered.
    asked: Option<Instant>,
    answered: Option<Instant>,
    steps: u64,
    is_asleep: bool,
}

#[derive(Debug)]
struct State {
    job: Job,
    router: Rc<RefCell<Router>>,
    route: RouteId,
    /// By rank; ranks that were never asked may be missing at the end.
    known: Vec<Known>,
    /// Ranks that are to be answered.
    asking: BTreeSet<usize>,
}

static STATE: StateCell = StateCell(UnsafeCell::new(None));

struct StateCell(UnsafeCell<Option<State>>);

// SAFETY: the content is reached only by who holds the process lock.
unsafe impl Sync for StateCell {}

/// Lends the state to whoever polls the network.
fn lend(use_client: &mut dyn FnMut(&mut dyn Client)) {
    // SAFETY: who polls holds the process lock, and the state is not borrowed meanwhile.
    let state = unsafe { (*STATE.0.get()).as_mut() };
    use_client(state.expect("what is registered has a state"));
}

/// From now on this rank answers. The caller holds the process lock.
pub(crate) fn register(job: &Job, router: &Rc<RefCell<Router>>) {
    let route = router.borrow_mut().register(KINDS, Some(lend));
    let (job, router) = (job.clone(), router.clone());
    let state = State { job, router, route, known: Vec::new(), asking: BTreeSet::new() };
    // SAFETY: the lock is our caller's.
    unsafe { *STATE.0.get() = Some(state) };
}

/// Whether a rank of another node is known to be away: it sleeps, stands still, or has made fewer steps than
/// `least`. It is asked when that is not known. The caller holds the process
/// lock.
pub(crate) fn is_away(mate: usize, least: u64) -> bool {
    // SAFETY: the lock is our caller's, and nothing borrows the state while its thread is here.
    let Some(state) = (unsafe { (*STATE.0.get()).as_mut() }) else { return false };
    if state.known.len() <= mate {
        state.known.resize(mate + 1, Known::default());
    }
    let now = Instant::now();
    let known = &mut state.known[mate];
    if let Some(asked) = known.asked {
        return now.duration_since(asked) > PATIENCE;
    }
    if known.answered.is_none_or(|answered| now.duration_since(answered) > FRESH) {
        let mut record = [0; ASK_BYTES];
        record[0] = ASK;
        let (router, route) = (state.router.clone(), state.route);
        let sent = router.borrow_mut().outbox(route).try_send(mate, &record, &[]);
        if sent.is_ok() {
            known.asked = Some(now);
            router.borrow_mut().transmit_as(route, state);
            return false;
        }
    }
    known.is_asleep || known.steps < least
}

// SAFETY: it has no bulk messages.
unsafe impl Client for State {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        match (record[0], <&[u8; ANSWER_BYTES]>::try_from(record)) {
            (ASK, _) if record.len() == ASK_BYTES => {
                self.asking.insert(from);
            }
            (ANSWER, Ok(record)) if self.known.get(from).is_some_and(|known| known.asked.is_some()) => {
                let steps = u64::from_ne_bytes(record[8..].try_into().expect("eight bytes"));
                let answered = Some(Instant::now());
                self.known[from] = Known { asked: None, answered, steps, is_asleep: record[1] != 0 };
            }
            (ANSWER, Ok(_)) => wrong::count(from, Wrong::Answer),
            _ => wrong::count(from, Wrong::Form),
        }
        Taken::Yes
    }

    fn peer_exited(&mut self, rank: usize) {
        self.asking.remove(&rank);
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        if self.asking.is_empty() {
            return;
        }
        let own = self.job.endpoint(self.job.rank());
        let mut record = [0; ANSWER_BYTES];
        record[0] = ANSWER;
        record[1] = u8::from(own.sleeping.load(Ordering::Relaxed) != 0);
        record[8..].copy_from_slice(&own.progress.load(Ordering::Acquire).to_ne_bytes());
        self.asking.retain(|to| outbox.try_send(*to, &record, &[]) == Err(SendError::Full));
        outbox.note_owing(!self.asking.is_empty());
    }
}
