//! What this process says of its waits while all its threads sleep (`tutti_shm::report::Sleep`): for a snapshot, and for whoever looks for
//! deadlocks from outside.
//!
//! It is said behind the last look before a sleep and taken back after it, so a wait that is over sooner costs nothing. The service
//! thread takes it back before it looks at the network, since it may take what the sleeper waits for.
//!
//! Each thread that waits has a [`Goal`]. It becomes one alternative, or several of which one is enough; all parts of an alternative must end. A
//! collective operation that was started goes on by itself, and may let others go on: it is told as an alternative of the background.

use std::fmt;

use crate::abi::{MPI_Request, MPI_THREAD_MULTIPLE};
use crate::collective::schedule::Schedule;
use crate::compound::Extra;
use crate::engine::steps;
use crate::partitioned::Partitioned;
use crate::point_to_point::Named as NamedRequest;
use crate::process::{Guard, Process};
use crate::request::{Request, RequestKind};
use tutti_shm::report::{Asleep, Named, Sleep, Wait, What};
use tutti_shm::sync::Ordering;

/// Names ranks of the world to the function that it is given.
pub type Members<'a> = dyn Fn(&mut dyn FnMut(u32)) + 'a;

/// What a thread waits for, as it is told to an onlooker if the thread sleeps.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// This request.
    Request(u32),
    /// This request and then all of these, as far as they are active.
    All(u32, &'a [MPI_Request]),
    /// One of these requests, each with its place in an array.
    Any(&'a [(usize, u32)]),
    /// All that the schedule of a collective operation awaits at its step.
    Step(&'a Schedule),
    /// A message that no receive was posted for.
    Message {
        /// Context of the communicator.
        context: u32,
        /// World rank of the sender, or MPI_ANY_SOURCE.
        source: i32,
        /// Tag, or MPI_ANY_TAG.
        tag: i32,
    },
    /// All members of a collective operation that this function names, by their ranks in the world.
    Members {
        /// Context of the communicator.
        context: u32,
        /// Names them.
        missing: &'a Members<'a>,
    },
    /// All requests that have not ended of which this function says so.
    Pending(&'a dyn Fn(&Request) -> bool),
}

impl fmt::Debug for Goal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Goal::Request(_) => "Request",
            Goal::All(..) => "All",
            Goal::Any(_) => "Any",
            Goal::Step(_) => "Step",
            Goal::Message { .. } => "Message",
            Goal::Members { .. } => "Members",
            Goal::Pending(_) => "Pending",
        })
    }
}

impl Process {
    fn own_sleep(&self) -> &Sleep {
        &self.engine.job.report(self.engine.job.rank()).sleep
    }

    /// All threads of the process that are in the library sleep, or are about to, and have looked at everything; `own` is the goal of the
    /// calling thread if it waits.
    pub fn report_sleep(&self, own: Option<Goal<'_>>) {
        let sleep = self.own_sleep();
        let mut advertising =
            SleepReport { process: self, named: Named::default(), alternative: 0, background: false };
        for goal in own.into_iter().chain(self.goals_of_sleepers()) {
            advertising.put_goal(goal);
        }
        advertising.background = true;
        for schedule in &self.schedules {
            if advertising.named.has_more_background() {
                break;
            }
            advertising.put_alternative(|advertising| advertising.put_step(schedule));
        }
        let wait_goal = Asleep {
            threads: self.waits.waiting(),
            multiple: self.thread_level >= MPI_THREAD_MULTIPLE,
            unasked: self.engine.unasked(),
            owes: self.engine.owes(),
            ..Asleep::default()
        };
        // Where any thread may call, the last call need not be the one that waits.
        let call = if wait_goal.multiple { c"" } else { self.call };
        sleep.write_call(call.to_bytes());
        sleep.write(&advertising.named, &wait_goal);
        let endpoint = self.engine.job.endpoint(self.engine.job.rank());
        sleep.settled.store(endpoint.sleeping.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Somebody looks: whether it was said that all sleep.
    pub fn take_back_asleep(&self) -> bool {
        let settled = &self.own_sleep().settled;
        let said = settled.load(Ordering::Relaxed) != 0;
        if said {
            settled.store(0, Ordering::Release);
        }
        said
    }
}

/// Parts of an alternative that are looked at: with all of those under way, it is as well to say no more of the others, which may be
/// many. A part that never ends is named when those have ended.
const LOOKED_AT_MAX: usize = 1000;

/// The waits of a process as they are being told.
struct SleepReport<'a> {
    process: &'a Process,
    named: Named,
    /// Number of the alternative that is being told.
    alternative: u32,
    background: bool,
}

impl SleepReport<'_> {
    fn put_goal(&mut self, goal: Goal<'_>) {
        match goal {
            Goal::Any(requests) => {
                for (_, index) in requests {
                    if self.named.has_more() {
                        break;
                    }
                    self.put_alternative(|advertising| advertising.put_request(*index));
                }
            }
            Goal::Request(index) => self.put_alternative(|advertising| advertising.put_request(index)),
            Goal::All(first, rest) => self.put_alternative(|advertising| {
                advertising.put_request(first);
                let process = advertising.process;
                advertising.put_some(rest.iter().filter_map(|handle| match process.named_request(*handle) {
                    Ok(NamedRequest::Pending(index)) => Some(index),
                    _ => None,
                }));
            }),
            Goal::Step(schedule) => self.put_alternative(|advertising| advertising.put_step(schedule)),
            Goal::Message { context, source: peer, tag } => self.put_alternative(|advertising| {
                advertising.put(Wait { what: What::Probe, peer, tag, context, ..Wait::other(0, false) });
            }),
            Goal::Members { context, missing } => self.put_alternative(|advertising| {
                missing(&mut |world| {
                    let peer = world as i32;
                    advertising.put(Wait { what: What::Member, peer, context, ..Wait::other(0, false) });
                });
            }),
            Goal::Pending(which) => self.put_alternative(|advertising| advertising.put_pending(which)),
        }
    }

    /// One with nothing in it is told to be something else: it must not look as if it were not there.
    fn put_alternative(&mut self, put_parts: impl FnOnce(&mut Self)) {
        let before = self.named.count();
        put_parts(self);
        if self.named.count() == before {
            self.put(Wait::other(0, false));
        }
        self.alternative += 1;
    }

    fn put(&mut self, wait: Wait) {
        let (alternative, background) = (self.alternative, self.background);
        self.named.push(Wait { alternative, background, ..wait });
    }

    fn put_step(&mut self, schedule: &Schedule) {
        for index in schedule.awaited() {
            self.put_request(index);
        }
    }

    fn put_pending(&mut self, which: &dyn Fn(&Request) -> bool) {
        let requests = self.process.engine.requests.iter();
        self.put_some(requests.filter(|(_, request)| which(request)).map(|(index, _)| index));
    }

    /// Puts requests of one alternative until those that follow would not be named.
    fn put_some(&mut self, requests: impl Iterator<Item = u32>) {
        let is_pending = |index: &u32| !self.process.engine.is_done(*index);
        for (looked_at, index) in requests.filter(is_pending).enumerate() {
            steps::count(1);
            if looked_at == LOOKED_AT_MAX || self.named.is_settled(self.alternative, self.background) {
                return self.put(Wait { matched: true, ..Wait::other(0, false) });
            }
            self.put_request(index);
        }
    }

    fn put_request(&mut self, index: u32) {
        let engine = &self.process.engine;
        if engine.is_done(index) {
            return;
        }
        let request = engine.requests.get(index);
        let what = match request.kind {
            RequestKind::Send => What::Send,
            RequestKind::Receive => What::Receive,
            RequestKind::Collective => {
                let mut schedules = self.process.schedules.iter();
                match schedules.find(|schedule| schedule.request() == index) {
                    Some(schedule) => self.put_step(schedule),
                    None => self.put(Wait::other(0, false)),
                }
                return;
            }
            RequestKind::Compound | RequestKind::Generalized => {
                let before = self.named.count();
                if let Some(Extra::Flush(attached)) = request.extra.as_deref() {
                    self.put_pending(&|request| attached.holds(request));
                }
                let partitions = engine.partitioned(index).into_iter().flat_map(Partitioned::under_way);
                self.put_some(engine.pending_parts(index).chain(partitions));
                if self.named.count() == before {
                    self.put(Wait::other(0, false));
                }
                return;
            }
        };
        let (moved, bytes) = engine.moved_bytes(index);
        let (peer, tag, context) = (request.peer, request.tag, request.context);
        let matched = engine.is_matched(index);
        self.put(Wait { what, matched, peer, tag, context, bytes, moved, ..Wait::other(0, false) });
    }
}

impl Guard {
    /// Waits until `find` gives something about a message that no receive was posted for. It runs under the lock, maybe on another
    /// thread of this process: what it takes, no other wait takes.
    pub fn await_message<T>(
        &mut self,
        context: u32,
        source: i32,
        tag: i32,
        find: impl FnMut(&mut Process) -> Option<T>,
    ) -> T {
        let hint = usize::try_from(source).ok();
        self.wait(hint, Goal::Message { context, source, tag }, find)
    }
}
