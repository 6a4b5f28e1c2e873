//! A rank that stands still at any instruction of sending and receiving over UDP: the cut taken from outside,
//! out of the words and FIFOs in the segments, is exact, also while the other rank goes on; and afterwards
//! every record has arrived once, in order.
//!
//! Rank 0 is a child process that is stepped by ptrace through the code of a rank, from `Net` down to the
//! system calls. Rank 1 is in the test. The records tell what each rank has and has not; they are compared
//! with the words byte for byte.

mod nodes;
mod other_side;
mod records;
mod storm;
mod written;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_channel::SendError;
use tutti_channel::cut::{Cut, cut, in_flight};
use tutti_runtime::net::Net;
use tutti_testkit::Random;
use tutti_testkit::stepper::{Child, Shared, stay_on_this_core, stop_here};

use crate::nodes::Nodes;
use crate::other_side::OtherSide;
use crate::records::{NoBulk, Plan, Reported, Taker, plan, seed};

/// On a crowded machine the stepping ends before all is sent; the rest is sent at full speed.
const ENOUGH: Duration = Duration::from_secs(10);
/// Timers of the other rank may fire at one stop in so many. The stepped rank is ten thousand times as slow
/// as it is; by the clock it would be asked more often than it can answer.
const TIMERS_ONE_IN: u64 = 2000;
/// The first records of a run that begins with a full FIFO: they are acknowledged when the first stop comes.
const EARLY: usize = 32;

/// Events while the stepped rank stands still.
#[derive(Clone, Copy, Debug)]
struct Other {
    /// The other rank acts at one stop in so many, at random.
    acts_one_in: u64,
    /// The network loses, doubles and delays datagrams.
    is_network_bad: bool,
}

/// Observations over all stops.
#[derive(Debug, Default)]
struct Seen {
    stops: u32,
    /// The stepping went to its end.
    is_complete: bool,
    /// Stops with records in flight from the stepped rank, and to it.
    in_flight: [u32; 2],
    /// Stops at which the sink had taken a record that was not yet published as received.
    between_sink_and_word: u32,
    /// Stops at which the FIFO of the stepped rank went on at its start.
    wrapped: u32,
}

/// The stepped rank: sends all its records, then takes the rest of what comes. Before the first stop it sends
/// `before` records.
fn stepped_rank(nodes: &Nodes, plan: &Plan, reported: &Shared<Reported>, before: usize) {
    let (_job, mut net) = nodes.enter(0);
    let mut sink = Taker(reported);
    let turn = |net: &mut Net, sink: &mut Taker<'_>| {
        net.receive(sink);
        net.handle_timeout();
        net.transmit(&mut NoBulk);
    };
    let try_send = |net: &mut Net, n: usize| {
        let (head, body) = plan[0][n].split_at(plan[0][n].len() / 2);
        match net.try_send(1, head, body) {
            Ok(()) => reported.sent.store(n as u32 + 1, Ordering::Release),
            Err(SendError::Full) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    };
    let mut sent = 0;
    while sent < before {
        assert!(try_send(&mut net, sent), "the FIFO holds {sent} records");
        sent += 1;
        if sent == EARLY {
            net.transmit(&mut NoBulk);
        }
    }
    if before > 0 {
        while reported.may_stop.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        turn(&mut net, &mut sink);
    }
    stop_here();
    // One by one, or as many as there is room for, before acknowledgements come and behind them.
    let at_once = if before == 0 { 1 } else { usize::MAX };
    let mut push = |net: &mut Net| {
        let end = plan[0].len().min(sent.saturating_add(at_once));
        while sent < end && try_send(net, sent) {
            sent += 1;
        }
        sent == plan[0].len()
    };
    loop {
        push(&mut net);
        net.receive(&mut sink);
        net.handle_timeout();
        if push(&mut net) && reported.taken() as usize == plan[1].len() {
            break;
        }
        net.transmit(&mut NoBulk);
    }
    reported.is_done.store(1, Ordering::Release);
    while reported.may_leave.load(Ordering::Acquire) == 0 || !net.is_quiet() {
        turn(&mut net, &mut sink);
        std::thread::yield_now();
    }
}

/// Takes the cut while rank 0 stands still, and compares it with what the two ranks have.
fn observe(nodes: &Nodes, plan: &Plan, reported: &Reported, other: &OtherSide<'_>, seen: &mut Seen) {
    let words = [nodes.words(0), nodes.words(1)];
    let at = seen.stops;
    for from in 0..2 {
        let (sender, receiver) = (words[from], words[1 - from]);
        let found = cut(&sender, &receiver).unwrap_or_else(|wrong| panic!("stop {at}, from {from}: {wrong}"));
        seen.in_flight[from] += u32::from(found.count() > 0);
        // What the receiver has; a stepped one may stand between its sink and its word.
        let (has, late_max) = if from == 0 { (other.received(), 0) } else { (reported.taken(), 1) };
        let late = has.wrapping_sub(found.from.0);
        assert!(late <= late_max, "stop {at}, from {from}: {has} records are there, {found:?}");
        seen.between_sink_and_word += late;
        // What the sender has sent; a stepped one may stand between its word and its own count.
        let (sent, late_max) =
            if from == 0 { (reported.sent.load(Ordering::Acquire), 1) } else { (other.sent, 0) };
        let late = sender.snd_nxt.0.wrapping_sub(sent);
        assert!(late <= late_max, "stop {at}, from {from}: {sent} records were sent, {sender:?}");
        // All that the receiver lacks, in flight or not yet sent, lies in the sender's FIFO.
        let lacking = Cut { from: found.from, end: sender.snd_nxt };
        let mut walked = 0;
        for record in in_flight(&sender, &lacking, nodes.fifo(from)) {
            let (seq, record) = record.unwrap_or_else(|wrong| panic!("stop {at}, from {from}: {wrong}"));
            assert_eq!(seq, found.from.plus(walked));
            assert!(
                record == plan[from][seq.0 as usize],
                "stop {at}, from {from}: record {seq:?} in the FIFO"
            );
            walked += 1;
        }
        assert_eq!(walked, lacking.count(), "stop {at}, from {from}");
    }
    let is_wrapped = words[0].snd_nxt != words[0].snd_una && nodes.end_offset(0) <= words[0].una_offset;
    seen.wrapped += u32::from(is_wrapped);
}

/// Steps rank 0 to the end of its part and looks at every stop.
fn step_through(name: &str, lengths: [Vec<usize>; 2], before: usize, pace: Other) -> Seen {
    let (mut random, plan, reported) = (Random::new(seed(name)), plan(lengths), Shared::<Reported>::new());
    stay_on_this_core();
    let mut nodes = Nodes::new();
    let mut child = Child::fork_traced(|| stepped_rank(&nodes, &plan, &reported, before));
    let mut other = OtherSide::new(&nodes, &plan);
    if before > 0 {
        child.wait_until("the early records", |_| {
            other.turn(&nodes, true);
            (other.received() as usize == EARLY).then_some(())
        });
    }
    reported.may_stop.store(1, Ordering::Release);
    child.wait_stopped();
    let (mut seen, mut judged, began) = (Seen::default(), 0, Instant::now());
    while reported.is_done.load(Ordering::Acquire) == 0 && began.elapsed() < ENOUGH {
        observe(&nodes, &plan, &reported, &other, &mut seen);
        let Other { acts_one_in, is_network_bad } = pace;
        if random.below(acts_one_in) == 0 {
            if is_network_bad {
                nodes.disturb(0, &mut random);
                nodes.disturb(1, &mut random);
            }
            other.turn(&nodes, random.below(TIMERS_ONE_IN) < acts_one_in);
            // What it has received was claimed before, and what it was acknowledged had been taken.
            observe(&nodes, &plan, &reported, &other, &mut seen);
        }
        child.step();
        seen.stops += 1;
    }
    seen.is_complete = reported.is_done.load(Ordering::Acquire) != 0;
    child.go_on();
    child.wait_until("the end of all that was to be sent", |child| {
        other.turn(&nodes, true);
        reported.may_leave.store(u32::from(other.is_finished()), Ordering::Release);
        child.has_succeeded().then_some(())
    });
    assert_eq!(reported.taken() as usize, plan[1].len());
    while judged < reported.taken() {
        assert!(reported.record(judged) == plan[1][judged as usize], "record {judged} that it took");
        judged += 1;
    }
    assert!(other.is_finished());
    println!("{name}: {seen:?}, {:?} lost, doubled, late, {:?}", nodes.faults, began.elapsed());
    seen
}

impl Seen {
    /// Whether what the test is about was met: known only when the machine was not too crowded to come to the
    /// end.
    #[track_caller]
    fn expect(&self, is_met: impl FnOnce(&Seen) -> bool) {
        assert!(self.stops > 0);
        assert!(!self.is_complete || is_met(self), "{self:?}");
    }
}

// Paper: S16
#[test]
fn cut_is_exact_at_every_instruction_of_send_and_receive() {
    let lengths = |shift: usize| (0..12).map(|n| [1, 8, 36, 300, 1400][(n + shift) % 5]).collect();
    let eager = Other { acts_one_in: 1, is_network_bad: false };
    let seen = step_through("other rank always", [lengths(0), lengths(2)], 0, eager);
    seen.expect(|seen| seen.stops > 10_000 && seen.in_flight.iter().all(|stops| *stops > 1000));
    seen.expect(|seen| seen.between_sink_and_word > 12);
}

// Paper: S16
#[test]
fn cut_is_exact_at_every_instruction_on_a_faulty_network() {
    let lengths = |shift: usize| (0..12).map(|n| [0, 40, 2500, 300, 100, 3][(n + shift) % 6]).collect();
    let bad = Other { acts_one_in: 100, is_network_bad: true };
    let seen = step_through("bad network", [lengths(0), lengths(3)], 0, bad);
    seen.expect(|seen| seen.stops > 10_000 && seen.in_flight.iter().all(|stops| *stops > 1000));
}

// Paper: S16
#[test]
fn cut_is_exact_at_every_instruction_where_the_fifo_wraps() {
    // 95 fill 256 KiB. The first 32 of them are acknowledged: the others go behind the last, then in front;
    // there the FIFO is full again, and what is left goes where an acknowledgement makes room.
    let lengths =
        [500; EARLY].into_iter().chain((0..63).map(|n| 3900 - 16 * (n % 7))).chain([1000; 24]).collect();
    let slow = Other { acts_one_in: 40, is_network_bad: false };
    let seen = step_through("full FIFO", [lengths, vec![64; 3]], 95, slow);
    seen.expect(|seen| seen.stops > 5000 && seen.wrapped > 1000);
}
