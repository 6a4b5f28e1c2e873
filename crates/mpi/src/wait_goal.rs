//! Goal of a thread that waits in a call of MPI ([`Goal`]), and how that is described to an onlooker if all
//! threads sleep ([`tutti_runtime::sleep`]).
//!
//! A goal becomes one alternative, or several of which one is enough. A collective operation that was started
//! goes on by itself, and may let others go on: it is an alternative of the background.

use std::fmt;

use crate::abi::MPI_Request;
use crate::collective::schedule::Schedule;
use crate::engine::steps;
use crate::process::Process;
use crate::request::Named as NamedRequest;
use crate::request::extra::Extra;
use crate::request::partition::Partitioned;
use crate::request::{Request, RequestKind};
use tutti_runtime::remote_memory::RemoteMemory;
use tutti_runtime::sleep::SleepReport;
use tutti_shm::report::{Wait, What};
use tutti_shm::window_lock::{Ticket, WindowLock};

/// Names ranks of the world to the function that it is given.
pub(crate) type Members<'a> = dyn Fn(&mut dyn FnMut(u32)) + 'a;

/// Goal of a thread that waits, as it is told to an onlooker if the thread sleeps.
#[derive(Clone, Copy)]
pub enum Goal<'a> {
    /// End of this request.
    Request(u32),
    /// End of this request and then of all of these, as far as they are active.
    All(u32, &'a [MPI_Request]),
    /// Any of these requests, each with its place in an array.
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
    /// All ranks that this function names, by their ranks in the world, for their next step in the
    /// synchronisation of a window.
    Window {
        /// Context of the window's communicator.
        context: u32,
        /// Names them.
        missing: &'a Members<'a>,
    },
    /// The turn of a ticket of the lock of a window, at a rank of this node.
    WindowLock {
        /// Context of the window's communicator.
        context: u32,
        /// The rank.
        keeper: u32,
        /// The lock.
        lock: WindowLock,
        /// The ticket.
        ticket: Ticket,
    },
    /// Action of a rank of another node by itself, or the lock that it grants.
    OtherNode {
        /// Context of the window's communicator.
        context: u32,
        /// The rank.
        to: usize,
        /// Ranks of other launches may be before in the queue of the lock, or are what is waited for.
        has_guests: bool,
    },
    /// All requests that have not ended of which this function says so.
    Pending(&'a dyn Fn(&Request) -> bool),
    /// Goal other than a rank, which no rank need end.
    Outside(Outside),
}

/// Goal of a wait that is no rank. No deadlock follows from such a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The lock of a range of a file.
    FileLock,
    /// The other end of a socket of the user.
    Socket,
    /// Published names, of another node.
    Names,
    /// The starter, for more ranks.
    Starter,
    /// Another launch.
    Launch,
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
            Goal::Window { .. } => "Window",
            Goal::WindowLock { .. } => "WindowLock",
            Goal::OtherNode { .. } => "OtherNode",
            Goal::Pending(_) => "Pending",
            Goal::Outside(Outside::FileLock) => "Outside(FileLock)",
            Goal::Outside(Outside::Socket) => "Outside(Socket)",
            Goal::Outside(Outside::Names) => "Outside(Names)",
            Goal::Outside(Outside::Starter) => "Outside(Starter)",
            Goal::Outside(Outside::Launch) => "Outside(Launch)",
        })
    }
}

/// Describes what a thread waits for.
pub(crate) fn describe(process: &Process, goal: Goal<'_>, report: &mut SleepReport) {
    Description { process, report }.put_goal(goal);
}

/// Describes the collective operations that go on by themselves, and what holds besides the waits.
pub(crate) fn describe_background(process: &Process, report: &mut SleepReport) {
    let mut description = Description { process, report: &mut *report };
    for schedule in process.colls.schedules.iter() {
        if description.report.is_full() {
            break;
        }
        description.put_alternative(|description| description.put_step(schedule));
    }
    let multiple = process.env.has_threads();
    // Where any thread may call, the last call need not be the one that waits.
    let call = if multiple { c"" } else { process.env.call };
    let engine = &process.engine;
    report.put_facts(engine.unasked(), engine.owes(), multiple, call.to_bytes());
}

/// Parts of an alternative that are looked at: with all of those under way, it is as well to say no more of
/// the others, which may be many. A part that never ends is named when those have ended.
const LOOKED_AT_MAX: usize = 1000;

/// A wait of a process as it is being described.
struct Description<'a, 'b> {
    process: &'a Process,
    report: &'b mut SleepReport,
}

impl Description<'_, '_> {
    fn put_alternative(&mut self, put_parts: impl FnOnce(&mut Description<'_, '_>)) {
        let process = self.process;
        self.report.put_alternative(|report| put_parts(&mut Description { process, report }));
    }

    /// Puts a wait. What another launch can end is nothing that a rank need end: no deadlock follows from it.
    fn put(&mut self, wait: Wait) {
        let engine = &self.process.engine;
        let of_guest = match wait.what {
            What::Other => false,
            _ if wait.peer < 0 => engine.may_have_guests(),
            _ => engine.is_guest(wait.peer as usize),
        };
        self.report.put(if of_guest { Wait::other(0, false) } else { wait });
    }

    fn put_goal(&mut self, goal: Goal<'_>) {
        match goal {
            Goal::Any(requests) => {
                for (_, index) in requests {
                    if self.report.is_full() {
                        break;
                    }
                    self.put_alternative(|description| description.put_request(*index));
                }
            }
            Goal::Request(index) => self.put_alternative(|description| description.put_request(index)),
            Goal::All(first, rest) => self.put_alternative(|description| {
                description.put_request(first);
                let process = description.process;
                description.put_some(rest.iter().filter_map(|handle| {
                    match process.engine.named_request(*handle) {
                        Ok(NamedRequest::Pending(index)) => Some(index),
                        _ => None,
                    }
                }));
            }),
            Goal::Step(schedule) => self.put_alternative(|description| description.put_step(schedule)),
            Goal::Message { context, source: peer, tag } => self.put_alternative(|description| {
                description.put(Wait { what: What::Probe, peer, tag, context, ..Wait::other(0, false) });
            }),
            Goal::Members { context, missing } => self.put_ranks(What::Member, context, missing),
            Goal::Window { context, missing } => self.put_ranks(What::Window, context, missing),
            Goal::WindowLock { context, keeper, lock, ticket } => self.put_alternative(|description| {
                description.put_tickets_before(context, keeper, &lock, ticket);
            }),
            Goal::OtherNode { has_guests: true, .. } => {
                self.put_alternative(|description| description.put(Wait::other(0, false)));
            }
            Goal::OtherNode { context, to, .. } => self.put_alternative(|description| {
                // SAFETY: waits are described under the process lock; who waits so has remote memory.
                let memory = unsafe { RemoteMemory::assume_locked() };
                memory.put_wait(to, context, description.report);
            }),
            Goal::Pending(which) => self.put_alternative(|description| description.put_pending(which)),
            Goal::Outside(_) => self.put_alternative(|description| description.put(Wait::other(0, false))),
        }
    }

    fn put_ranks(&mut self, what: What, context: u32, missing: &Members<'_>) {
        self.put_alternative(|description| {
            missing(&mut |world| {
                let peer = world as i32;
                description.put(Wait { what, peer, context, ..Wait::other(0, false) });
            });
        });
    }

    /// Puts those that a ticket waits for. Places of ranks of other nodes are held by the keeper, which says
    /// for whom.
    fn put_tickets_before(&mut self, context: u32, keeper: u32, lock: &WindowLock, ticket: Ticket) {
        lock.visit_before(ticket, &mut |number, owner| {
            let other = Wait { peer: owner as i32, context, ..Wait::other(0, false) };
            self.put(match lock.name().filter(|_| owner == keeper) {
                Some(name) => Wait { what: What::Lock, tag: name as i32, bytes: number.into(), ..other },
                None => Wait { what: What::Window, ..other },
            });
        });
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
            if looked_at == LOOKED_AT_MAX || self.report.is_settled() {
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
                match self.process.colls.schedules.of(index) {
                    Some(schedule) => self.put_step(schedule),
                    None => self.put(Wait::other(0, false)),
                }
                return;
            }
            RequestKind::Compound | RequestKind::Generalized => {
                let before = self.report.count();
                if let Some(Extra::Flush(attached)) = request.extra.as_deref() {
                    self.put_pending(&|request| request.is_from(attached));
                }
                let partitions = engine.partitioned(index).into_iter().flat_map(Partitioned::under_way);
                self.put_some(engine.pending_parts(index).chain(partitions));
                if let Some(made) = engine.partitioned(index)
                    && let Some((peer, tag, context)) = made.wait_at_ring()
                {
                    let what = if made.is_sender() { What::Send } else { What::Receive };
                    self.put(Wait { what, peer: peer as i32, tag, context, ..Wait::other(0, false) });
                }
                self.report.put_unless_since(before);
                return;
            }
        };
        let (moved, bytes) = engine.moved_bytes(index);
        let (peer, tag, context) = (request.peer, request.tag, request.context);
        let matched = engine.is_matched(index);
        self.put(Wait { what, matched, peer, tag, context, bytes, moved, ..Wait::other(0, false) });
    }
}
