//! The protocols between two engines in one process: every step of either is taken on purpose, so that each
//! race of the rendezvous protocols is a script.

use tutti_datatype::Buffer;
use tutti_runtime::attach::Place;
use tutti_shm::layout::Geometry;
use tutti_shm::segment::Segment;

use super::message::Mode;
use super::*;

const CONTEXT: u32 = 5;
const LARGE: usize = 100_000;
const SMALL: usize = 8;
const A: usize = 0;
const B: usize = 1;

/// Ranks 0 and 1 (and 2, if asked for) of one node, each with its engine, and their segment.
pub(super) struct World(pub Vec<Engine>, pub Segment);

pub(super) fn world(ranks: u32) -> World {
    world_in(Geometry { world_ranks: ranks, local_ranks: ranks, cores: 64, ..Geometry::default() })
}

fn world_in(geometry: Geometry) -> World {
    let first = Segment::create(geometry).expect("a segment");
    let engines: Vec<Engine> = (0..geometry.local_ranks)
        .map(|local_rank| {
            let descriptor = first.descriptor().try_clone_to_owned().expect("dup");
            let segment = Segment::open(descriptor).expect("our own segment");
            Engine::new(
                Job::enter(Place {
                    segment,
                    page: None,
                    local_rank,
                    starter: None,
                    network: None,
                    remark: None,
                    spawned: None,
                }),
                None,
                None,
            )
        })
        .collect();
    World(engines, first)
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

impl World {
    fn send(&mut self, from: usize, to: usize, tag: i32, data: &[u8]) -> Started {
        let buffer = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
        self.0[from].send(Message { to: to as u32, context: CONTEXT, tag, buffer, mode: Mode::Standard })
    }

    fn send_synchronously(&mut self, from: usize, to: usize, tag: i32, data: &[u8]) -> u32 {
        let buffer = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
        let mode = Mode::Synchronous;
        match self.0[from].send(Message { to: to as u32, context: CONTEXT, tag, buffer, mode }) {
            Started::Pending(index) => index,
            Started::Done => panic!("a synchronous send waits for its receive"),
        }
    }

    fn receive(&mut self, at: usize, source: i32, tag: i32, data: &mut [u8]) -> u32 {
        let buffer = Buffer::contiguous(data.as_mut_ptr(), data.len());
        self.0[at].receive(Request::new(RequestKind::Receive, buffer, CONTEXT, source, tag))
    }

    fn progress(&mut self, rank: usize) {
        while self.0[rank].progress(None) {}
    }

    /// Until nothing moves on any rank.
    fn settle(&mut self) {
        for _ in 0..4 {
            for rank in 0..self.0.len() {
                for _ in 0..100 {
                    self.progress(rank);
                }
            }
        }
    }

    fn is_done(&self, rank: usize, index: u32) -> bool {
        self.0[rank].requests.get(index).done
    }

    fn is_sent(&self, rank: usize, started: Started) -> bool {
        match started {
            Started::Done => true,
            Started::Pending(index) => self.is_done(rank, index),
        }
    }

    /// Written, announced, eager messages of a rank.
    fn ways(&self, rank: usize) -> (u64, u64, u64) {
        let counters = &self.0[rank].counters;
        (counters.remote_write, counters.rendezvous, counters.eager + counters.streamed)
    }
}

#[test]
fn rtr_send_is_written_into_the_advertised_buffer() {
    let mut world = world(2);
    let (data, mut place) = (pattern(LARGE, 1), vec![0; LARGE]);
    let receive = world.receive(B, A as i32, 3, &mut place);
    let sent = world.send(A, B, 3, &data);
    // The sender alone moves the data: remote write, no library buffer, nothing done by the receiver.
    world.progress(A);
    assert!(world.is_sent(A, sent), "the sender needs nobody");
    assert_eq!(place, data);
    assert_eq!((world.ways(A), world.0[A].counters.copied_bytes), ((1, 0, 0), LARGE as u64));
    world.progress(B);
    assert!(world.is_done(B, receive));
    assert_eq!(world.0[B].counters.unexpected, 0);
}

#[test]
fn synchronous_messages_that_come_together_have_one_answer() {
    const MESSAGES: usize = 40;
    let mut world = world(2);
    let data: Vec<Vec<u8>> = (0..MESSAGES).map(|i| pattern(SMALL, i as u8)).collect();
    let mut places = vec![vec![0; SMALL]; MESSAGES];
    let receives: Vec<u32> = places.iter_mut().map(|place| world.receive(B, A as i32, 3, place)).collect();
    let sends: Vec<u32> = data.iter().map(|data| world.send_synchronously(A, B, 3, data)).collect();
    assert!(sends.iter().all(|&send| !world.is_done(A, send)));
    let before = world.0[B].peers[A].rings.out.position();
    world.settle();
    assert_eq!(world.0[B].peers[A].rings.out.position() - before, 1, "lines of answers");
    assert!(sends.iter().all(|&send| world.is_done(A, send)));
    assert!(receives.iter().all(|&receive| world.is_done(B, receive)));
    assert_eq!(places, data);
}

#[test]
fn synchronous_messages_are_answered_each_whatever_comes_between_them() {
    let mut world = world(2);
    let (data, large) = (pattern(SMALL, 1), pattern(LARGE, 2));
    let (mut places, mut large_place) = (vec![vec![0; SMALL]; 6], vec![0; LARGE]);
    let mut receives: Vec<u32> =
        places.iter_mut().map(|place| world.receive(B, A as i32, 3, place)).collect();
    let mut sends: Vec<u32> = (0..3).map(|_| world.send_synchronously(A, B, 3, &data)).collect();
    // A number of its own, whose answer comes later.
    let between = world.send(A, B, 4, &large);
    sends.extend((0..3).map(|_| world.send_synchronously(A, B, 3, &data)));
    world.settle();
    assert!(sends.iter().all(|&send| world.is_done(A, send)) && !world.is_sent(A, between));
    receives.push(world.receive(B, A as i32, 4, &mut large_place));
    world.settle();
    assert!(world.is_sent(A, between) && receives.iter().all(|&receive| world.is_done(B, receive)));
    assert!(large_place == large && places.iter().all(|place| *place == data));
}

#[test]
fn rtr_small_message_is_eager() {
    let mut world = world(2);
    let mut place = vec![0; LARGE];
    for bytes in [1, LOCAL_EAGER_BYTES_MAX, LOCAL_EAGER_BYTES_MAX + 1] {
        let data = pattern(bytes, 2);
        // A large message lets the receiver tell again.
        let first = world.receive(B, A as i32, 3, &mut place);
        world.settle();
        world.send(A, B, 3, &data);
        world.settle();
        assert!(world.is_done(B, first) && place[..bytes] == data);
    }
    assert_eq!(world.ways(A).0, 0, "a receive that got a small message does not tell the next one");
    let first = world.receive(B, A as i32, 3, &mut place);
    world.settle();
    let data = pattern(LARGE, 3);
    world.send(A, B, 3, &data);
    world.settle();
    assert!(world.is_done(B, first));
    assert_eq!(world.ways(A).0, 1, "after a large one it does");
}

#[test]
fn eager_send_without_a_receive_completes() {
    let mut world = world(2);
    let data = pattern(1000, 4);
    let sent = world.send(A, B, 3, &data);
    assert_eq!(sent, Started::Done, "it waits for no receive");
    let mut place = vec![0; 1000];
    world.progress(B);
    assert_eq!(world.0[B].counters.unexpected, 1);
    let receive = world.receive(B, A as i32, 3, &mut place);
    assert!(world.is_done(B, receive) && place == data);
}

#[test]
fn rtr_is_sent_after_unexpected_queue_and_ring_were_searched() {
    let mut world = world(2);
    let (first, second) = (pattern(LARGE, 5), pattern(LARGE, 6));
    let mut places = [vec![0; LARGE], vec![0; LARGE], vec![0; LARGE]];
    let [one, two, three] = &mut places;
    world.send(A, B, 1, &first);
    world.progress(B);
    assert_eq!(world.0[B].counters.unexpected, 1, "the first message is on the list");
    world.send(A, B, 1, &second);
    let listed = world.receive(B, A as i32, 1, one);
    let in_ring = world.receive(B, A as i32, 1, two);
    assert_eq!(world.0[B].counters.rtr, 0, "both had their message");
    let neither = world.receive(B, A as i32, 1, three);
    assert_eq!(world.0[B].counters.rtr, 1);
    world.settle();
    assert!(world.is_done(B, listed) && world.is_done(B, in_ring) && !world.is_done(B, neither));
    assert!(places[0] == first && places[1] == second);
}

#[test]
fn matching_prefers_earlier_receives() {
    let mut world = world(2);
    let (first, second) = (pattern(LARGE, 7), pattern(LARGE, 8));
    let mut places = [vec![0; LARGE], vec![0; LARGE]];
    let [one, two] = &mut places;
    // Told, and crossed by its message: the request is of no use, the message comes through the ring.
    let earlier = world.receive(B, A as i32, 1, one);
    world.0[A].peers[B].rings.inbox.is_ready().then_some(()).expect("the request has come");
    send_rts_blindly(&mut world, &first);
    // The later receive finds that message in the ring first, and must leave it to the earlier one.
    let later = world.receive(B, A as i32, 1, two);
    world.send(A, B, 1, &second);
    world.settle();
    assert!(world.is_done(B, earlier) && world.is_done(B, later));
    assert!(places[0] == first && places[1] == second);
}

/// A sends a large message before it looks at what B has advertised.
fn send_rts_blindly(world: &mut World, data: &[u8]) -> u32 {
    let buffer = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
    let mut request = Request::new(RequestKind::Send, buffer, CONTEXT, B as i32, 1);
    request.bytes = data.len();
    let sender = &mut world.0[A];
    let index = sender.requests.insert(request);
    sender.peers[B].backlog.push_back(Outgoing::Send { request: index, mode: Mode::Standard });
    sender.push_out(B);
    index
}

#[test]
fn unexpected_messages_are_kept_per_source_in_order() {
    let mut world = world(3);
    let messages: Vec<(usize, i32, Vec<u8>)> =
        (0..12).map(|i| (i % 2, i as i32 / 2 % 3, pattern(50 + i * 3, i as u8))).collect();
    for (from, tag, data) in &messages {
        world.send(*from, 2, *tag, data);
    }
    world.progress(2);
    assert_eq!(world.0[2].counters.unexpected, 12);
    for tag in [2, 0, 1] {
        for from in [1, 0] {
            for (_, _, data) in messages.iter().filter(|(f, t, _)| (*f, *t) == (from, tag)) {
                let mut place = vec![0; 200];
                let receive = world.receive(2, from as i32, tag, &mut place);
                assert!(world.is_done(2, receive) && place[..data.len()] == *data, "{tag} from {from}");
            }
        }
    }
}

#[test]
fn rtr_stale_request_is_rejected_once() {
    let mut world = world(2);
    let (first, second) = (pattern(LARGE, 9), pattern(LARGE, 10));
    let mut places = [vec![0; LARGE], vec![0; LARGE]];
    let [one, two] = &mut places;
    let crossed = world.receive(B, A as i32, 1, one);
    let sent = send_rts_blindly(&mut world, &first);
    world.progress(A);
    assert_eq!(world.0[A].counters.stale, 1, "the request had been crossed");
    world.settle();
    assert!(world.is_done(B, crossed) && world.is_done(A, sent), "the message came in the ordinary way");
    assert_eq!(world.ways(A), (0, 1, 0));
    // The next one is neither taken by the stale request nor lost.
    let next = world.receive(B, A as i32, 1, two);
    world.send(A, B, 1, &second);
    world.settle();
    assert!(world.is_done(B, next));
    assert_eq!((world.ways(A), world.0[A].counters.stale), ((1, 1, 0), 1));
    assert!(places[0] == first && places[1] == second);
}

#[test]
fn rtr_any_source_is_never_advertised() {
    let mut world = world(2);
    let mut places = [vec![0; LARGE], vec![0; LARGE], vec![0; LARGE], vec![0; LARGE]];
    let [any, later, other_tag, after] = &mut places;
    let wild = world.receive(B, MPI_ANY_SOURCE, 1, any);
    let held = world.receive(B, A as i32, 1, later);
    assert_eq!(world.0[B].counters.rtr, 0);
    world.receive(B, A as i32, 2, other_tag);
    assert_eq!(world.0[B].counters.rtr, 1, "no message could match both: this one may be told");
    let (first, second, third) = (pattern(LARGE, 11), pattern(LARGE, 12), pattern(LARGE, 13));
    for data in [&first, &second] {
        world.send(A, B, 1, data);
        world.settle();
    }
    assert!(world.is_done(B, wild) && world.is_done(B, held));
    assert_eq!(world.ways(A).0, 0);
    let rtr = world.receive(B, A as i32, 1, after);
    assert_eq!(world.0[B].counters.rtr, 2, "satisfied, it holds back no more");
    world.send(A, B, 1, &third);
    world.settle();
    assert!(world.is_done(B, rtr) && world.ways(A).0 == 1);
    assert!(places[0] == first && places[1] == second && places[3] == third);
}

#[test]
fn messages_never_overtake_across_protocols() {
    let mut world = world(2);
    // Eager and large in turn, receives posted before and after: written, announced, streamed and inline ones
    // mix.
    let sizes = [LARGE, 10, LARGE, 5000, 300_000, 0, LARGE, 20_000, 1, LARGE];
    let messages: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &n)| pattern(n, i as u8)).collect();
    for posted_before in 0..=messages.len() {
        let mut places: Vec<Vec<u8>> = messages.iter().map(|_| vec![0; 300_000]).collect();
        let mut receives = Vec::new();
        for place in &mut places[..posted_before] {
            receives.push(world.receive(B, A as i32, 1, place));
        }
        for (i, data) in messages.iter().enumerate() {
            world.send(A, B, 1, data);
            if i % 3 == 0 {
                world.progress(B);
                world.progress(A);
            }
        }
        for place in &mut places[posted_before..] {
            receives.push(world.receive(B, A as i32, 1, place));
        }
        world.settle();
        for (i, (data, place)) in messages.iter().zip(&places).enumerate() {
            assert!(world.is_done(B, receives[i]), "message {i}, {posted_before} posted before");
            assert_eq!(world.0[B].requests.get(receives[i]).bytes, data.len());
            assert!(place[..data.len()] == data[..], "message {i}, {posted_before} posted before");
        }
    }
    let (remote_write, rendezvous, eager) = world.ways(A);
    assert!(remote_write > 0 && rendezvous > 0 && eager > 0, "{remote_write} {rendezvous} {eager}");
}

#[test]
fn messages_of_different_tags_may_be_received_out_of_order() {
    let mut world = world(2);
    let messages: Vec<Vec<u8>> = (0..6).map(|i| pattern(if i % 2 == 0 { LARGE } else { 100 }, i)).collect();
    let sent: Vec<Started> =
        messages.iter().enumerate().map(|(tag, data)| world.send(A, B, tag as i32, data)).collect();
    for (tag, data) in messages.iter().enumerate().rev() {
        let mut place = vec![0; LARGE];
        let receive = world.receive(B, A as i32, tag as i32, &mut place);
        world.settle();
        assert!(world.is_done(B, receive) && place[..data.len()] == data[..], "tag {tag}");
    }
    assert!(sent.into_iter().all(|sent| world.is_sent(A, sent)));
}

#[test]
fn rtr_off_advertises_nothing() {
    let mut world = world(2);
    world.0[B].write_protocol = false;
    let (data, mut place) = (pattern(LARGE, 14), vec![0; LARGE]);
    let receive = world.receive(B, A as i32, 1, &mut place);
    world.send(A, B, 1, &data);
    world.settle();
    assert!(world.is_done(B, receive) && place == data);
    assert_eq!((world.ways(A), world.0[B].counters.rtr), ((0, 1, 0), 0));
}

#[test]
fn rtr_remote_write_bytes_are_counted() {
    let mut world = world(2);
    let (small, large) = (pattern(1000, 15), pattern(99_000, 16));
    let mut places = [vec![0; LARGE], vec![0; LARGE]];
    let [one, two] = &mut places;
    world.receive(B, A as i32, 1, one);
    world.send(A, B, 1, &large);
    world.send(A, B, 2, &small);
    world.settle();
    world.receive(B, A as i32, 2, two);
    let counters = world.0[A].counters;
    assert_eq!((counters.messages, counters.bytes, counters.written_bytes), (2, 100_000, 99_000));
    assert_eq!((counters.remote_write, counters.eager, world.0[B].counters.unexpected), (1, 1, 1));
}

#[test]
fn rtr_receive_can_be_cancelled_alone() {
    let mut world = world(2);
    let data = pattern(LARGE, 17);
    let mut places = [vec![0; LARGE], vec![0; LARGE]];
    let [one, two] = &mut places;
    let cancelled = world.receive(B, A as i32, 1, one);
    world.progress(A);
    world.0[B].cancel(cancelled);
    assert!(world.is_done(B, cancelled) && world.0[B].requests.get(cancelled).cancelled);
    world.send(A, B, 1, &data);
    let next = world.receive(B, A as i32, 1, two);
    world.settle();
    assert!(world.is_done(B, next));
    assert!(
        places[0].iter().all(|&b| b == 0) && places[1] == data,
        "nothing was written to the cancelled one"
    );
}

#[test]
fn rtr_receive_with_a_message_under_way_is_not_cancelled() {
    let mut world = world(2);
    let (data, mut place) = (pattern(LARGE, 18), vec![0; LARGE]);
    let receive = world.receive(B, A as i32, 1, &mut place);
    world.send(A, B, 1, &data);
    world.0[B].cancel(receive);
    world.settle();
    assert!(world.is_done(B, receive) && !world.0[B].requests.get(receive).cancelled);
    assert_eq!(place, data);
}

#[test]
fn rtr_longer_message_is_truncated() {
    let mut world = world(2);
    let (data, mut place) = (pattern(LARGE, 19), vec![0; LARGE]);
    let (room, behind) = place.split_at_mut(50_000);
    let receive = world.receive(B, A as i32, 1, room);
    world.send(A, B, 1, &data);
    world.settle();
    let request = world.0[B].requests.get(receive);
    assert_eq!((request.done, request.error, request.bytes), (true, MPI_ERR_TRUNCATE, LARGE));
    assert!(behind.iter().all(|&b| b == 0) && room[..] == data[..50_000]);
}

#[test]
fn rtr_uses_the_bulk_ring_without_process_vm() {
    for (refused_at, refuses_in_the_middle) in [(A, false), (A, true), (B, true)] {
        let mut world = world(2);
        let messages = [pattern(1 << 20, 20), pattern(LARGE, 21), pattern(200, 22), pattern(LARGE, 23)];
        let mut places: Vec<Vec<u8>> = messages.iter().map(|data| vec![0; data.len()]).collect();
        let mut receives = Vec::new();
        for (tag, place) in places.iter_mut().enumerate() {
            receives.push(world.receive(B, A as i32, tag as i32, place));
        }
        if refuses_in_the_middle {
            // No number names the other process.
            let other = 1 - refused_at;
            let endpoint = world.0[refused_at].job.endpoint(other);
            endpoint.proof_at.store(0, tutti_shm::sync::Ordering::Relaxed);
        } else {
            world.0[refused_at].peers[B].single_copy_works = false;
        }
        let sent: Vec<Started> =
            messages.iter().enumerate().map(|(tag, data)| world.send(A, B, tag as i32, data)).collect();
        if refused_at == B {
            // The receiver comes first and takes a piece.
            world.progress(B);
        }
        for _ in 0..200 {
            world.settle();
        }
        for (tag, (data, place)) in messages.iter().zip(&places).enumerate() {
            assert!(world.is_done(B, receives[tag]), "message {tag}, refused at {refused_at}");
            assert!(place == data, "message {tag}, refused at {refused_at}");
        }
        assert!(sent.into_iter().all(|sent| world.is_sent(A, sent)));
    }
}

/// Ranks that read and write in turn have both messages in the wrong cache.
#[test]
fn crossing_messages_are_read_by_their_receivers() {
    const BYTES: usize = 8 << 20;
    let mut world = world(2);
    let data = [pattern(BYTES, 24), pattern(BYTES, 25)];
    let mut places = [vec![0; BYTES], vec![0; BYTES]];
    for (rank, other) in [(A, B), (B, A)] {
        // As if the other stood in a call, on its own core, and the ring were slow.
        world.0[rank].job.endpoint(other).waiting.store(1, tutti_shm::sync::Ordering::Relaxed);
        for _ in 0..2 {
            let took = std::time::Duration::from_secs(100);
            world.0[rank].peers[other].pace.learn(pace::Way::Ring, BYTES, took);
        }
    }
    let sent = [world.send(A, B, 3, &data[A]), world.send(B, A, 3, &data[B])];
    let receives = [(A, B), (B, A)].map(|(at, from)| world.receive(at, from as i32, 3, &mut places[at]));
    // Each asks the other to help.
    world.0[A].progress(None);
    world.0[B].progress(None);
    let (mut reads, mut writes) = (0, 0);
    while !world.is_sent(A, sent[A]) || !world.is_done(A, receives[A]) {
        let (own, others) = (places[A].clone(), places[B].clone());
        if !world.0[A].progress(None) {
            world.0[B].progress(None);
            continue;
        }
        reads += u32::from(places[A] != own);
        if places[B] != others {
            writes += 1;
            assert!(places[A] == data[B], "it has more to read");
        }
    }
    world.settle();
    assert!(world.is_sent(B, sent[B]) && world.is_done(B, receives[B]));
    assert!(places[A] == data[B] && places[B] == data[A]);
    assert!(reads > 0 && writes > 0, "{reads} pieces read, {writes} written");
}

#[test]
fn bulk_ring_progress_is_known_on_both_sides() {
    let mut world = world(2);
    for (rank, other) in [(A, B), (B, A)] {
        world.0[rank].peers[other].single_copy_works = false;
    }
    let (data, mut place) = (pattern(LARGE, 2), vec![0; 2 * LARGE]);
    let Started::Pending(send) = world.send(A, B, 3, &data) else { panic!("it is announced") };
    world.progress(A);
    assert_eq!(world.0[A].moved_bytes(send), (0, LARGE as u64), "nobody has asked for it");
    let receive = world.receive(B, A as i32, 3, &mut place);
    world.progress(B);
    world.progress(A);
    let (left, bytes) = world.0[A].moved_bytes(send);
    assert!(left > 0 && left < bytes && bytes == LARGE as u64, "{left} of {bytes}");
    assert_eq!(world.0[B].moved_bytes(receive), (0, LARGE as u64), "of the message, not of the buffer");
    world.progress(B);
    assert_eq!(world.0[B].moved_bytes(receive), (left, LARGE as u64));
    assert_eq!(place[..left as usize], data[..left as usize]);
    (0..10).for_each(|_| world.settle());
    assert!(world.is_done(A, send) && world.is_done(B, receive) && place[..LARGE] == data);
}

#[test]
fn cancelled_send_is_dropped_by_its_receiver_unless_it_is_matched() {
    for bytes in [8, LARGE] {
        let mut world = world(2);
        let (data, mut place) = (pattern(bytes, 20), vec![0; bytes]);
        let sent = world.send_synchronously(A, B, 1, &data);
        world.progress(B);
        world.0[A].cancel(sent);
        world.settle();
        assert!(world.is_done(A, sent) && world.0[A].requests.get(sent).cancelled);
        assert_eq!(world.0[B].probe(CONTEXT, A as i32, 1), None, "the message is gone");

        let late = world.send_synchronously(A, B, 1, &data);
        let receive = world.receive(B, A as i32, 1, &mut place);
        world.progress(B);
        world.0[A].cancel(late);
        world.settle();
        assert!(world.is_done(B, receive) && world.is_done(A, late));
        assert!(!world.0[A].requests.get(late).cancelled, "it was matched first");
        assert_eq!(place, data);

        let own = world.send_synchronously(A, A, 1, &data);
        world.0[A].cancel(own);
        assert!(world.is_done(A, own) && world.0[A].requests.get(own).cancelled);
        assert_eq!(world.0[A].probe(CONTEXT, A as i32, 1), None);
    }
}

#[test]
fn written_message_that_is_opened_while_another_is_read_wakes_its_receiver() {
    const C: usize = 2;
    let mut world = world(3);
    let (announced, written) = (pattern(20 * LARGE, 1), pattern(LARGE, 2));
    let (mut read, mut taken) = (vec![0; 20 * LARGE], vec![0; LARGE]);
    world.send(C, A, 4, &announced);
    world.progress(C);
    let takes = world.receive(B, A as i32, 3, &mut taken);
    world.progress(B);
    world.progress(A);
    let reads = world.receive(A, C as i32, 4, &mut read);
    while world.0[A].counters.copied_bytes == 0 {
        world.0[A].progress(None);
    }
    world.send(A, B, 3, &written);
    world.progress(B);
    assert!(!world.is_done(A, reads) && !world.is_done(B, takes));
    let bell = tutti_shm::doorbell::prepare_sleep(world.0[B].job.endpoint(B));
    while !world.is_done(A, reads) {
        world.0[A].progress(None);
    }
    // A computes from now on. B could take all pieces alone, if it looked.
    let rung = world.0[B].job.endpoint(B).bell.load(Ordering::Relaxed) != bell;
    tutti_shm::doorbell::cancel_sleep(world.0[B].job.endpoint(B));
    world.progress(B);
    assert!(rung && world.is_done(B, takes) && taken == written && read == announced);
}

/// Behind the announcement of a sleep nothing is lost: what came before it, when nobody rang, is seen by the
/// last look, and only what has not been seen counts as news.
#[test]
fn end_and_begin_of_a_later_rank_are_news_until_they_are_seen() {
    let geometry = Geometry { world_ranks: 1, local_ranks: 1, room: 3, cores: 64, ..Geometry::default() };
    let World(mut engines, segment) = world_in(geometry);
    let engine = &mut engines[A];
    assert!(!engine.has_news_of_ranks());
    let bell = engine.job.endpoint(A).bell.load(Ordering::Relaxed);
    assert!(segment.add_ranks(1));
    segment.announce_end();
    assert_eq!(tutti_shm::doorbell::prepare_sleep(engine.job.endpoint(A)), bell, "nobody has slept");
    tutti_shm::doorbell::cancel_sleep(engine.job.endpoint(A));
    assert!(engine.has_news_of_ranks() && engine.meet_new_ranks());
    assert!(engine.has_news_of_ranks(), "one has ended");
    engine.seen_ended = engine.job.ended();
    assert!(!engine.has_news_of_ranks());
    assert!(segment.add_ranks(1));
    assert!(engine.has_news_of_ranks() && engine.meet_new_ranks() && !engine.has_news_of_ranks());
}

#[test]
fn small_synchronous_message_brings_its_data_to_a_posted_receive() {
    for bytes in [0, 1, 24, 25, 500, 2032, 2033, 2048, 2049, LOCAL_EAGER_BYTES_MAX + 1] {
        for is_posted in [true, false] {
            for room in [bytes, bytes / 2] {
                let mut world = world(2);
                let (data, mut place) = (pattern(bytes, 4), vec![0; room]);
                let early = is_posted.then(|| world.receive(B, A as i32, 3, &mut place));
                let sent = world.send_synchronously(A, B, 3, &data);
                world.settle();
                assert_eq!(world.is_done(A, sent), is_posted, "{bytes} bytes");
                let received = early.unwrap_or_else(|| world.receive(B, A as i32, 3, &mut place));
                world.settle();
                assert!(world.is_done(A, sent) && world.is_done(B, received), "{bytes} bytes");
                let outcome = world.0[B].requests.get(received).outcome();
                let error = if room < bytes { crate::abi::MPI_ERR_TRUNCATE } else { crate::abi::MPI_SUCCESS };
                assert_eq!((outcome.bytes, outcome.tag, outcome.error), (bytes, 3, error));
                assert_eq!(place, data[..room]);
                let copied = world.0[B].counters.copied_bytes;
                assert!(copied == 0 || !is_posted || bytes > 2032, "{copied} of {bytes} bytes copied");
            }
        }
    }
}

/// Starts a plain receive of a word from rank 0, as `MPI_Irecv` does.
fn start_plain(engine: &mut Engine, tag: i32, word: &mut u64) -> MPI_Request {
    let at = std::ptr::from_mut(word).cast();
    // SAFETY: the word outlives the receive.
    unsafe { engine.try_start_receive_small(A, CONTEXT, tag, at, SMALL) }.expect("no message waits")
}

/// Whether it is complete, as `MPI_Wait` asks first, and the tag that it then tells.
fn complete_soon(engine: &mut Engine, handle: &mut MPI_Request) -> Option<i32> {
    // SAFETY: a status of integers.
    let mut status: MPI_Status = unsafe { std::mem::zeroed() };
    // SAFETY: the status is ours.
    let is_complete = unsafe { engine.try_complete_soon(handle, &mut status) };
    assert_eq!(is_complete, *handle == MPI_REQUEST_NULL);
    is_complete.then_some(status.MPI_TAG)
}

#[test]
fn receives_completed_one_by_one_take_messages_in_order() {
    let mut world = world(2);
    let mut words = [0; 3];
    // More often than there are polls before a look at all peers, and lines of a ring.
    for turn in 0..500_u64 {
        let sent = [turn * 3, turn * 3 + 1, turn * 3 + 2];
        let [first, second, third] = &mut words;
        let engine = &mut world.0[B];
        let mut handles =
            [start_plain(engine, 1, first), start_plain(engine, 2, second), start_plain(engine, 2, third)];
        assert_eq!(complete_soon(engine, &mut handles[0]), None);
        for (tag, word) in [1, 2, 2].into_iter().zip(&sent) {
            world.send(A, B, tag, &word.to_ne_bytes());
        }
        // The oldest first, and the youngest: it takes its elders' messages to them.
        let engine = &mut world.0[B];
        let order = if turn % 2 == 0 { [0, 1, 2] } else { [2, 0, 1] };
        let tags = order.map(|which| complete_soon(engine, &mut handles[which]));
        assert_eq!(tags, order.map(|which| Some([1, 2, 2][which])));
        assert_eq!(words, sent);
        assert!(world.0[B].requests.is_empty());
    }
}

#[test]
fn receive_completed_soon_leaves_the_message_of_an_earlier_wildcard() {
    let mut world = world(2);
    let (mut earlier, mut word) = ([0; SMALL], 0);
    let any = world.receive(B, MPI_ANY_SOURCE, MPI_ANY_TAG, &mut earlier);
    let mut handle = start_plain(&mut world.0[B], 1, &mut word);
    world.send(A, B, 1, &7_u64.to_ne_bytes());
    assert_eq!(complete_soon(&mut world.0[B], &mut handle), None);
    assert!(world.0[B].requests.get(any).done);
    assert_eq!((u64::from_ne_bytes(earlier), word), (7, 0));
    world.send(A, B, 1, &8_u64.to_ne_bytes());
    assert_eq!(complete_soon(&mut world.0[B], &mut handle), Some(1));
    assert_eq!(word, 8);
}
