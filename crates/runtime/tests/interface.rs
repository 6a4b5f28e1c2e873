//! An interface of its own, which knows nothing of messages: it starts the rank, waits, and gets its records
//! and bulk data.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tutti_channel::Taken;
use tutti_runtime::attach::{Network, Place};
use tutti_runtime::job::Job;
use tutti_runtime::net::Net;
use tutti_runtime::rank::{self, Interface, LOCK, LockedRank};
use tutti_runtime::router::{Client, Outbox, Router};
use tutti_runtime::sleep::SleepReport;
use tutti_runtime::waiting::{self, Waiting};
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::layout::Geometry;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_transport::udp;

/// A router of a rank of its own on this machine.
fn router(rank: u32, socket: OwnedFd, addresses: &[SocketAddr]) -> (Job, Router) {
    let world_ranks = addresses.len() as u32;
    let geometry = Geometry {
        world_ranks,
        local_ranks: 1,
        first_rank: rank,
        node: rank,
        cores: 2,
        ..Geometry::default()
    };
    let peers = Peers::new(5, 8192, (0..world_ranks).collect(), world_ranks, addresses.to_vec()).unwrap();
    let job = Job::enter(Place {
        segment: Segment::create(geometry).unwrap(),
        page: None,
        local_rank: 0,
        network: Some(Network { peers, socket }),
        starter: None,
        remark: None,
        spawned: None,
    });
    let net = Net::open(&job).unwrap().expect("there is another node");
    (job, Router::new(net, addresses.len()))
}

/// Keeps what comes; a record of one byte asks for a bulk message of [`BULK_BYTES`], which is sent to the
/// name in the answer.
#[derive(Default)]
struct Toy {
    records: Vec<Vec<u8>>,
    asked: bool,
    name: Option<u64>,
    out: Vec<u8>,
    filled: Vec<u8>,
    sent: bool,
    received: bool,
}

const BULK_BYTES: usize = 300_000;
const ASK: u8 = 0x20;
const NAME: u8 = 0x21;
const BULK_TAG: u64 = 7;

// SAFETY: no place is given; the slice is of a vector that stays as it is.
unsafe impl Client for Toy {
    fn record(&mut self, _from: usize, record: &[u8]) -> Taken {
        match record {
            [ASK] => self.asked = true,
            [NAME, name @ ..] => self.name = Some(u64::from_le_bytes(name.try_into().unwrap())),
            other => self.records.push(other.to_vec()),
        }
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        assert_eq!(tag, BULK_TAG);
        self.filled[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn place(&mut self, _tag: u64, _offset: u64, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.out[offset as usize..][..into.len()]);
    }

    fn slice(&self, _tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        Some(&self.out[offset as usize..][..bytes])
    }

    fn bulk_sent(&mut self, tag: u64) {
        assert_eq!(tag, BULK_TAG);
        self.sent = true;
    }

    fn bulk_received(&mut self, tag: u64) {
        assert_eq!(tag, BULK_TAG);
        self.received = true;
    }

    fn bulk_refused(&mut self, to: usize, tag: u64) {
        panic!("rank {to} refuses {tag:#x}");
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        if std::mem::take(&mut self.asked) {
            self.filled = vec![0; BULK_BYTES];
            let name = outbox.accept_bulk(0, BULK_BYTES, BULK_TAG).unwrap();
            outbox.try_send(0, &[NAME], &name.to_le_bytes()).unwrap();
        }
        if let Some(name) = self.name.take() {
            outbox.send_bulk(1, name, BULK_BYTES, BULK_TAG).unwrap();
        }
    }
}

thread_local! {
    static LENT: RefCell<Toy> = RefCell::default();
    static LENDINGS: Cell<usize> = const { Cell::new(0) };
}

fn lend(use_client: &mut dyn FnMut(&mut dyn Client)) {
    LENDINGS.set(LENDINGS.get() + 1);
    LENT.with_borrow_mut(|toy| use_client(toy));
}

#[test]
fn router_gives_each_interface_its_records_and_bulk_messages() {
    let (sockets, addresses): (Vec<OwnedFd>, Vec<SocketAddr>) =
        (0..2).map(|_| udp::open(Ipv4Addr::LOCALHOST.into()).unwrap()).unzip();
    let mut sockets = sockets.into_iter();
    let (_job, mut left) = router(0, sockets.next().unwrap(), &addresses);
    let (_other_job, mut right) = router(1, sockets.next().unwrap(), &addresses);
    let mut toy =
        Toy { out: (0..BULK_BYTES).map(|at| (at * 31 + at / 251) as u8).collect(), ..Toy::default() };
    let own = left.register(ASK..0x30, None);
    // On the other side the same kinds have the second route, and their interface does not poll.
    let mut first = Toy::default();
    let messages = right.register(1..ASK, None);
    right.register(ASK..0x30, Some(lend));

    left.outbox(own).try_send(1, &[ASK], &[]).unwrap();
    left.outbox(own).try_send(1, &[0x2f], b"data").unwrap();
    left.outbox(own).try_send(1, &[0x1f | 0x80], b"other").unwrap();
    // Nobody takes these.
    left.outbox(own).try_send(1, &[0x30], b"strange").unwrap();
    left.transmit_as(own, &mut toy);
    while !toy.sent || !LENT.with_borrow(|lent| lent.received) {
        left.poll_as(own, &mut toy);
        right.poll_as(messages, &mut first);
    }
    LENT.with_borrow(|lent| {
        assert_eq!(lent.records, [b"\x2fdata".to_vec()]);
        assert!(lent.filled == toy.out);
    });
    assert_eq!(first.records, [b"\x9fother".to_vec()], "the highest bit is the interface's own");
    assert!(LENDINGS.get() > 0 && !first.received && !first.asked);
    assert_eq!(wrong::counted(Wrong::Kind), 1);
}

#[test]
#[should_panic(expected = "have a route already")]
fn router_kinds_belong_to_one_interface() {
    let (socket, address) = udp::open(Ipv4Addr::LOCALHOST.into()).unwrap();
    let (_other, elsewhere) = udp::open(Ipv4Addr::LOCALHOST.into()).unwrap();
    let (_job, mut router) = router(0, socket, &[address, elsewhere]);
    router.register(1..5, None);
    router.register(4..9, None);
}

/// Polls, sleep and word of the interface below.
static POLLS: AtomicUsize = AtomicUsize::new(0);
static SLEPT: AtomicBool = AtomicBool::new(false);
static VALUE: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Counting;

impl Interface for Counting {
    fn progress(&self, _rank: &mut LockedRank) -> bool {
        POLLS.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn publish(&self) {
        SLEPT.store(true, Ordering::Release);
    }

    fn describe_background(&self, _report: &mut SleepReport) {}

    fn has_background(&self) -> bool {
        false
    }
}

struct View(LockedRank);

// SAFETY: the state is static.
unsafe impl Waiting for View {
    type State = AtomicUsize;
    type Goal<'a> = ();

    fn rank(&mut self) -> &mut LockedRank {
        &mut self.0
    }

    fn state(&mut self) -> NonNull<AtomicUsize> {
        NonNull::from(&VALUE)
    }

    fn progress(&mut self, _hint: Option<usize>) -> bool {
        false
    }

    fn describe(_state: &AtomicUsize, (): (), _report: &mut SleepReport) {}
}

#[test]
fn rank_of_any_interface_waits_sleeps_and_is_woken_by_another_thread() {
    rank::start().unwrap();
    LOCK.need();
    let mut rank = rank::enter().expect("the rank has started");
    rank.register(&Counting);
    rank.open_network().unwrap();
    tutti_runtime::service::start(&rank).unwrap();
    drop(rank);
    let waiter = std::thread::spawn(|| {
        let mut view = View(rank::enter().expect("the rank has started"));
        waiting::wait(&mut view, None, (), |value| {
            Some(value.load(Ordering::Relaxed)).filter(|value| *value > 0)
        })
    });
    while !SLEPT.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // Whoever leaves the library looks whether it has ended somebody's wait.
    let rank = rank::enter().expect("the rank has started");
    VALUE.store(42, Ordering::Relaxed);
    drop(rank);
    assert_eq!(waiter.join().expect("no panic"), 42);
    assert!(POLLS.load(Ordering::Relaxed) > 0, "the last look before a sleep is for all interfaces");
    rank::enter().expect("the rank has started").leave_job();
    assert!(rank::enter().is_none(), "the last interface has left");
}
