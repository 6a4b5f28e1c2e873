//! The switch threads of a cluster take no memory while jobs take their turns, whichever way their words go.
//!
//! Two of them run as in two daemons; the files of the jobs' cgroups are plain ones that always say frozen.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tutti_daemon::gang::{
    Command, GangSettings, LocalRanks, Neighbour, NodeResources, SECRET_BYTES, SwitchEvent, Switcher,
    TurnKind,
};
use tutti_daemon::ids::LinkId;
use tutti_os::cgroup::JobGroup;
use tutti_sched::{Demand, JobId, NodeId, Place};
use tutti_shm::board::{Board, JobLines, OF_DAEMON};

struct Counting;

thread_local! {
    /// Whether this thread is the test, which is no part of what is counted.
    static LOOKS_ON: Cell<bool> = const { Cell::new(false) };
}
static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Place of the first of them.
static FIRST: OnceLock<Backtrace> = OnceLock::new();
/// Lines for people: to say that a node is late, or in time again, takes memory.
static SAID: AtomicU64 = AtomicU64::new(0);

fn hear(event: SwitchEvent) {
    if matches!(event, SwitchEvent::Notice(_) | SwitchEvent::Lags(_) | SwitchEvent::LogLine(_)) {
        SAID.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; what is counted is a plain thread-local
// without a destructor, and atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) && !LOOKS_ON.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // What is done to say where is not counted.
            LOOKS_ON.set(true);
            let _ = FIRST.get_or_init(Backtrace::force_capture);
            LOOKS_ON.set(false);
        }
        // SAFETY: as promised by our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LINK: LinkId = LinkId(7);

/// Jobs are shown on one.
fn board() -> Option<JobLines> {
    Some(Board::create(OF_DAEMON, 250).unwrap().split().1)
}

/// A controller and the node below it.
struct Pair {
    controller: Switcher,
    node: Switcher,
    folder: PathBuf,
}

impl Pair {
    fn new(name: &str, by_datagram: bool) -> Self {
        let folder = std::env::temp_dir().join(format!("tutti-switch-{name}-{}", std::process::id()));
        let sockets = [(); 2].map(|()| {
            by_datagram.then(|| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            })
        });
        let nowhere = "127.0.0.1:9".parse().unwrap();
        let address = sockets[0].as_ref().map_or(nowhere, |socket| socket.local_addr().unwrap());
        let gangs = GangSettings { slice_ns: 5_000_000, ..GangSettings::default() };
        let [above, below] = sockets;
        let controller = Switcher::start(&gangs, true, above, board(), hear).unwrap();
        let node = Switcher::start(&gangs, false, below, board(), hear).unwrap();
        let pair = Pair { controller, node, folder };
        let resources = NodeResources { alive: true, slots: 1, memory_bytes: 0, gpus: 0 };
        for (me, thread) in [(0, &pair.controller), (1, &pair.node)] {
            thread.send(Command::Members { me: NodeId(me), arity: 4, nodes: vec![resources; 2] });
            let secret = [3; SECRET_BYTES];
            let to = NodeId(1 - me);
            thread.send(Command::OpenLink(Neighbour {
                link: LINK,
                node: to,
                is_parent: me == 1,
                address,
                secret,
            }));
        }
        pair.controller.send(Command::ChildJoined(NodeId(1)));
        for job in [1, 2].map(JobId) {
            for (me, thread) in [(0, &pair.controller), (1, &pair.node)] {
                let cgroup = pair.folder.join(format!("{job}-{me}"));
                std::fs::create_dir_all(&cgroup).unwrap();
                std::fs::write(cgroup.join("cgroup.freeze"), "0").unwrap();
                std::fs::write(cgroup.join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
                std::fs::write(cgroup.join("cpu.stat"), "usage_usec 1\n").unwrap();
                thread.send(Command::Job(job, vec![NodeId(0), NodeId(1)]));
                let group = JobGroup::new(std::fs::File::open(&cgroup).unwrap().into()).unwrap();
                let ranks = LocalRanks { groups: vec![Arc::new(group)], ..LocalRanks::default() };
                thread.send(Command::RanksStarted(job, Box::new(ranks)));
            }
            let demand = Demand::at(Place::Given(vec![(NodeId(0), 1), (NodeId(1), 1)]));
            pair.controller.send(Command::Submit(job, Box::new(demand), true));
            pair.controller.send(Command::JobStarted(job));
        }
        pair
    }

    /// Until the node has let jobs go on so often. What goes over the links is carried; says how many words
    /// did.
    fn await_thaws(&self, count: usize) -> u64 {
        let (limit, mut seen, mut carried) = (Instant::now() + Duration::from_secs(60), 0, 0);
        while seen < count {
            assert!(Instant::now() < limit, "{seen} of {count} thaws within 60 s");
            for (from, to) in [(&self.controller, &self.node), (&self.node, &self.controller)] {
                while let Some((link, number, word)) = from.outbox().take() {
                    to.send(Command::Message(link, number, word));
                    carried += 1;
                }
            }
            self.controller.turns().take(0, 0);
            let turns = self.node.turns().take(0, 0).map(|batch| batch.turns).unwrap_or_default();
            seen += turns.iter().filter(|turn| turn.0 == TurnKind::Thaw).count();
            std::thread::sleep(Duration::from_micros(300));
        }
        carried
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn switch_allocates_nothing() {
    LOOKS_ON.set(true);
    for (name, by_datagram) in [("datagrams", true), ("links", false)] {
        let pair = Pair::new(name, by_datagram);
        // Queues have grown by then as long as they will be.
        pair.await_thaws(100);
        // A busy machine may keep one of the threads from its switches for so long that it is said: then the
        // next ones are counted.
        let carried = loop {
            ALLOCATIONS.store(0, Ordering::Relaxed);
            let said = SAID.load(Ordering::SeqCst);
            COUNTS.store(true, Ordering::Relaxed);
            let carried = pair.await_thaws(300);
            COUNTS.store(false, Ordering::Relaxed);
            // What an allocation was for is said by then.
            pair.await_thaws(10);
            if SAID.load(Ordering::SeqCst) == said {
                break carried;
            }
        };
        let first = FIRST.get();
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0, "in 300 switches by {name}: {first:?}");
        let least = if by_datagram { 0 } else { 300 };
        assert!(carried >= least, "{carried} words over the link by {name}");
    }
}
