//! Messages that are written to rooms which their receivers have offered (MPI's write protocol between
//! nodes), while one of the ranks stands still at any instruction: whatever the other does meanwhile, each
//! message comes once and whole, and no byte of a room changes that is not of its message.
//!
//! ```text
//! offers a room, tells its name  -------->
//!                                <--------  how long the message is, and the message under that name
//! ```

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tutti_channel::{Event, Rank, Sink, Source, Taken};
use tutti_runtime::job::Job;
use tutti_runtime::net::{Memory, Net};
use tutti_testkit::Random;
use tutti_testkit::stepper::{Child, Shareable, Shared, stay_on_this_core};

use crate::nodes::Nodes;
use crate::records::seed;
use crate::{Other, TIMERS_ONE_IN};

/// Time that is stepped at most; the rest is sent at full speed.
const ENOUGH: Duration = Duration::from_secs(5);
const ROOM_BYTES: usize = 18_000;
/// Bytes of the message for each room: all that there is room for, less, and one fragment. Nothing comes to
/// the last room, which is taken back.
const MESSAGES: [usize; 4] = [ROOM_BYTES, 9_001, 600, 0];
const WRITTEN: usize = MESSAGES.len() - 1;
/// Rooms are looked through at one stop in so many, at random: that takes as long as many steps.
const LOOKS_ONE_IN: u64 = 50;

/// Rooms of a rank, and its report on them, in memory that the test can see. Writer, where nothing else is
/// said: the rank.
#[repr(C)]
struct Rooms {
    /// How often the message of each room was complete, and the message to each room of the other rank sent.
    landed: [AtomicU32; MESSAGES.len()],
    sent: [AtomicU32; MESSAGES.len()],
    /// Whether the message of each room is known to come: until it is complete its place may hold anything.
    is_confirmed: [AtomicU32; MESSAGES.len()],
    /// Writer: the test. The rank may leave when nothing of its own is under way.
    may_leave: AtomicU32,
    bytes: UnsafeCell<[[u8; ROOM_BYTES]; MESSAGES.len()]>,
}

// SAFETY: zeroes are a valid value; the words are atomics; the test reads the bytes while the rank stands
// still, or is the rank.
unsafe impl Shareable for Rooms {}

/// A byte of the message to a room of a rank; none is the 0 that the rooms begin with.
fn byte(of: usize, room: usize, at: usize) -> u8 {
    1 + ((at * 7 + at / 251 + room * 31 + of * 101) % 255) as u8
}

impl Rooms {
    fn is_done(&self) -> bool {
        let is_one = |count: &AtomicU32| count.load(Ordering::Acquire) == 1;
        self.landed[..WRITTEN].iter().chain(&self.sent[..WRITTEN]).all(is_one)
    }

    /// Checks that the rooms of a rank, which stands still, have nothing but their messages, and these whole
    /// where it has said so.
    #[track_caller]
    fn check(&self, of: usize) {
        // SAFETY: see `Shareable`.
        let rooms = unsafe { &*self.bytes.get() };
        for (room, bytes) in rooms.iter().enumerate() {
            let landed = self.landed[room].load(Ordering::Acquire);
            assert!(landed <= u32::from(room < WRITTEN), "room {room} of rank {of}: complete {landed} times");
            let may_be_anything = landed == 0 && self.is_confirmed[room].load(Ordering::Acquire) > 0;
            let (message, behind) = bytes.split_at(MESSAGES[room]);
            let is_right = |at, found| found == byte(of, room, at) || landed == 0 && found == 0;
            let wrong = message.iter().enumerate().find(|&(at, found)| !is_right(at, *found));
            let wrong = wrong.filter(|_| !may_be_anything);
            assert!(wrong.is_none(), "room {room} of rank {of}, complete {landed} times: {wrong:?}");
            let is_clean = behind.iter().all(|found| *found == 0);
            assert!(is_clean, "room {room} of rank {of}: bytes behind its message");
        }
    }
}

/// Messages of a rank to the rooms of the other one.
struct Messages([Vec<u8>; MESSAGES.len()]);

impl Messages {
    fn to(other: usize) -> Self {
        let mut room = 0;
        Messages(MESSAGES.map(|bytes| {
            room += 1;
            (0..bytes).map(|at| byte(other, room - 1, at)).collect()
        }))
    }
}

impl Source for Messages {
    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(self.slice(tag, offset, into.len()).expect("it lies in one piece"));
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let offset = offset as usize;
        Some(&self.0[tag as usize][offset..offset + bytes])
    }
}

/// Events of a look at the network that the rank acts on behind it.
struct Arriving<'a> {
    rooms: &'a Rooms,
    /// Names of the other rank's rooms.
    names: Vec<u64>,
    /// Rooms whose messages have been announced, and with how many bytes.
    announced: Vec<(usize, usize)>,
}

// SAFETY: the memory of a room stays as long as the rooms, which nothing but the room's message is stored in.
unsafe impl Memory for Arriving<'_> {
    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let room = tag as usize;
        let is_inside = offset as usize + bytes <= MESSAGES[room];
        let is_confirmed = self.rooms.is_confirmed[room].load(Ordering::Relaxed) > 0;
        (is_confirmed && is_inside).then(|| self.at(room, offset as usize))
    }
}

impl Arriving<'_> {
    fn at(&self, room: usize, offset: usize) -> NonNull<u8> {
        assert!(offset < ROOM_BYTES);
        let first = NonNull::new(self.rooms.bytes.get().cast::<u8>()).expect("they are somewhere");
        // SAFETY: so far the rooms reach.
        unsafe { first.add(room * ROOM_BYTES + offset) }
    }
}

impl Sink for Arriving<'_> {
    fn record(&mut self, _from: Rank, record: &[u8]) -> Taken {
        let (words, _) = record.as_chunks::<8>();
        match words {
            [name] => self.names.push(u64::from_le_bytes(*name)),
            [room, bytes] => {
                let [room, bytes] = [room, bytes].map(|word| u64::from_le_bytes(*word) as usize);
                self.announced.push((room, bytes));
            }
            _ => panic!("a record of {} B", record.len()),
        }
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        let (room, offset) = (tag as usize, offset as usize);
        assert!(offset + bytes.len() <= ROOM_BYTES);
        // SAFETY: the rooms reach so far, and `bytes` lies in the datagram.
        unsafe { self.at(room, offset).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// A rank: it offers its rooms, and writes to those of the other one.
struct Writer<'a> {
    other: usize,
    net: Net,
    messages: Messages,
    arriving: Arriving<'a>,
    /// Names of its own rooms, and how many of them the other has been told.
    offered: Vec<u64>,
    told: usize,
    /// Messages that it has announced and begun to send.
    begun: usize,
    // Behind `net`, whose flow lies in its segment.
    _job: Job,
}

impl<'a> Writer<'a> {
    fn new(nodes: &Nodes, me: usize, rooms: &'a Rooms) -> Self {
        let (job, net) = nodes.enter(me);
        let (names, announced) = (Vec::with_capacity(8), Vec::with_capacity(8));
        let arriving = Arriving { rooms, names, announced };
        let offered = Vec::with_capacity(8);
        let (other, messages) = (1 - me, Messages::to(1 - me));
        Writer { other, net, messages, arriving, offered, told: 0, begun: 0, _job: job }
    }

    fn turn(&mut self, may_timers_fire: bool) {
        let Writer { other, net, messages, arriving, offered, told, begun, .. } = self;
        net.receive(arriving);
        if may_timers_fire {
            net.handle_timeout();
        }
        while offered.len() < MESSAGES.len() {
            offered.push(net.offer_bulk(*other, ROOM_BYTES, offered.len() as u64).expect("so few rooms"));
        }
        while *told < offered.len() && net.try_send(*other, &offered[*told].to_le_bytes(), &[]).is_ok() {
            *told += 1;
        }
        while *begun < arriving.names.len().min(WRITTEN) {
            let (room, bytes) = (*begun, MESSAGES[*begun]);
            net.try_send(*other, &(room as u64).to_le_bytes(), &(bytes as u64).to_le_bytes()).expect("room");
            net.send_bulk(*other, arriving.names[room], bytes, room as u64).expect("so few messages");
            *begun += 1;
        }
        for (room, bytes) in arriving.announced.drain(..) {
            arriving.rooms.is_confirmed[room].store(1, Ordering::Release);
            assert!(net.confirm_bulk(offered[room], bytes), "more is here than was sent");
        }
        while let Some(event) = net.poll_event() {
            let count = match event {
                Event::BulkReceived { tag, .. } => &arriving.rooms.landed[tag as usize],
                Event::BulkSent { tag, .. } => &arriving.rooms.sent[tag as usize],
                event => panic!("{event:?}"),
            };
            count.fetch_add(1, Ordering::AcqRel);
        }
        net.transmit(messages);
    }

    /// Takes back the room that nothing came to.
    fn end(&mut self) {
        self.net.cancel_bulk(self.offered[WRITTEN]);
    }
}

fn stepped_rank(nodes: &Nodes, rooms: &Rooms) {
    let mut rank = Writer::new(nodes, 0, rooms);
    tutti_testkit::stepper::stop_here();
    while !rooms.is_done() {
        rank.turn(true);
    }
    rank.end();
    while rooms.may_leave.load(Ordering::Acquire) == 0 || !rank.net.is_quiet() {
        rank.turn(true);
        std::thread::yield_now();
    }
}

fn step_through(name: &str, pace: Other) {
    let (mut random, rooms) = (Random::new(seed(name)), [Shared::<Rooms>::new(), Shared::<Rooms>::new()]);
    stay_on_this_core();
    let mut nodes = Nodes::new();
    let mut child = Child::fork_traced(|| stepped_rank(&nodes, &rooms[0]));
    let mut other = Writer::new(&nodes, 1, &rooms[1]);
    child.wait_stopped();
    let (mut stops, began) = (0, Instant::now());
    while !rooms[0].is_done() && began.elapsed() < ENOUGH {
        if random.below(pace.acts_one_in) == 0 {
            if pace.is_network_bad {
                nodes.disturb(0, &mut random);
                nodes.disturb(1, &mut random);
            }
            other.turn(random.below(TIMERS_ONE_IN) < pace.acts_one_in);
        }
        if random.below(LOOKS_ONE_IN) == 0 {
            rooms[0].check(0);
            rooms[1].check(1);
        }
        child.step();
        stops += 1;
    }
    let is_complete = rooms[0].is_done();
    child.go_on();
    child.wait_until("the end of all messages", |child| {
        other.turn(true);
        let is_over = rooms[1].is_done() && other.net.is_quiet();
        rooms[0].may_leave.store(u32::from(is_over), Ordering::Release);
        child.has_succeeded().then_some(())
    });
    other.end();
    for (of, rooms) in rooms.iter().enumerate() {
        assert!(rooms.is_done(), "messages of rank {of}");
        rooms.check(of);
    }
    println!(
        "{name}: {stops} stops, to the end: {is_complete}, {:?} lost, doubled, late, {:?}",
        nodes.faults,
        began.elapsed()
    );
    assert!(stops > 1000);
}

// Paper: M4
#[test]
fn written_messages_are_whole_wherever_a_rank_stands_still() {
    step_through("writes", Other { acts_one_in: 20, is_network_bad: false });
}

// Paper: M4
#[test]
fn written_messages_are_whole_wherever_a_rank_stands_still_on_a_faulty_network() {
    step_through("writes, bad network", Other { acts_one_in: 100, is_network_bad: true });
}
