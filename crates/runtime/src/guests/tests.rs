//! Processes of two launches, in one process: what reaches whom, and what is refused.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use tutti_channel::Taken;
use tutti_rma::wire;
use tutti_shm::envelope::{EAGER, HEAD_BYTES, Head, STREAM};

use super::guest::{BULK, Guest, LEAVE, RECORD, begin_frame};
use super::*;
use crate::router::Outbox;

/// Records and bulk data that a process has received, and its bulk data to send.
#[derive(Debug, Default)]
struct Heard {
    records: Vec<(usize, Vec<u8>)>,
    bulk: Vec<u8>,
    sent: Vec<u64>,
    received: Vec<u64>,
}

// SAFETY: it lends no memory.
unsafe impl Client for Heard {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        self.records.push((from, record.to_vec()));
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        assert_eq!(offset as usize, self.bulk.len());
        self.bulk.extend_from_slice(bytes);
    }

    fn place(&mut self, _tag: u64, _offset: u64, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        into.iter_mut().enumerate().for_each(|(at, byte)| *byte = (offset as usize + at) as u8);
    }

    fn slice(&self, _tag: u64, _offset: u64, _bytes: usize) -> Option<&[u8]> {
        None
    }

    fn bulk_sent(&mut self, tag: u64) {
        self.sent.push(tag);
    }

    fn bulk_received(&mut self, tag: u64) {
        self.received.push(tag);
    }

    fn bulk_refused(&mut self, to: usize, tag: u64) {
        panic!("rank {to} refuses {tag:#x}");
    }

    fn advance(&mut self, _outbox: &mut Outbox<'_>) {}
}

const FIRST: usize = 10;

fn process(name: &str, ip: Option<&str>) -> Guests {
    process_of(name, ip, Secret([3, 4]))
}

fn process_of(name: &str, ip: Option<&str>, secret: Secret) -> Guests {
    // Jobs of other tests, and of other runs of this one, have other numbers.
    let hash = name
        .bytes()
        .fold(u64::from(std::process::id()), |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
    let endpoint = Box::leak(Box::default());
    let ip = ip.map(|ip| ip.parse().expect("an address"));
    let name = ProcessName { job: hash, rank: 3 };
    Guests::open(name, hash ^ 5, FIRST, (ip, secret), endpoint).expect("there are doors")
}

fn eager(data: &[u8]) -> Vec<u8> {
    let head = Head { kind: EAGER, length: data.len() as u64, ..Head::default() };
    [&head.encode()[..HEAD_BYTES], data].concat()
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} has not come true");
        std::thread::yield_now();
    }
}

#[test]
fn guests_get_records_and_bulk_messages_in_order() {
    // By TCP too: there is no local socket of such a name.
    for ip in [None, Some("127.0.0.1")] {
        let (mut one, mut other) = (process("order-one", ip), process("order-other", ip));
        let (mut heard, mut sender) = (Heard::default(), Heard::default());
        let mut address = other.own_address();
        if ip.is_some() {
            address.name.job += 1;
        }
        let to = one.introduce(address).expect("a guest");
        assert_eq!((to, one.introduce(address), one.end()), (FIRST, Some(FIRST), FIRST + 1));
        for number in 0..2000_u32 {
            until("room", || {
                one.poll(&mut sender);
                other.poll(&mut heard);
                one.try_send(to, &eager(&number.to_le_bytes()), &[]).is_ok()
            });
        }
        until("all records", || {
            one.poll(&mut sender);
            other.poll(&mut heard);
            heard.records.len() == 2000
        });
        let in_order = |(number, (from, record)): (usize, &(usize, Vec<u8>))| {
            *from == FIRST && record[HEAD_BYTES..] == (number as u32).to_le_bytes()
        };
        assert!(heard.records.iter().enumerate().all(in_order));
        assert_eq!(other.name(FIRST), one.own_address().name);
        let bytes = 3 << 20;
        let name = other.accept_bulk(FIRST, bytes, 7);
        one.send_bulk(to, name, bytes, 9);
        until("the bulk message", || {
            one.poll(&mut sender);
            other.poll(&mut heard);
            heard.received == [7]
        });
        assert_eq!((sender.sent, heard.bulk.len()), (vec![9], bytes));
        assert!(heard.bulk.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
}

#[test]
fn guests_that_leave_or_end_are_lost_with_all_said() {
    for leaves in [true, false] {
        let (mut one, mut other) = (process("end-one", None), process("end-other", None));
        let mut heard = Heard::default();
        let to = one.introduce(other.own_address()).expect("a guest");
        one.try_send(to, &eager(b"last"), &[]).expect("there is room");
        if leaves {
            one.leave();
        }
        drop(one);
        until("the end", || {
            other.poll(&mut heard);
            other.take_lost() == [FIRST]
        });
        assert_eq!((heard.records.len(), other.has_left(FIRST), other.is_lost(FIRST)), (1, leaves, true));
        assert_eq!(other.try_send(FIRST, &eager(b""), &[]), Err(SendError::Exited(FIRST as u32)));
        assert!(other.is_quiet());
    }
}

/// The number of a job is known to all, and so is that of a rank.
#[test]
fn guests_are_reached_although_somebody_has_taken_names_of_their_job() {
    let one = process("squatted-other", None);
    let ProcessName { job, rank } = one.own_address().name;
    let next = ProcessName { job, rank: rank + 1 };
    let taken = socket::listen_local(&format!("tutti-rank-{job:016x}-{}", next.rank)).expect("it is free");
    let address = Address { name: next, ..one.own_address() };
    assert_ne!(address.local_socket(), one.own_address().local_socket());
    assert!(socket::listen_local(&address.local_socket()).is_ok(), "the name is not the one that was taken");
    drop(taken);
}

#[test]
fn guests_with_another_key_or_another_stream_are_closed() {
    let (mut one, mut other) = (process("key-one", None), process("key-other", None));
    let mut heard = Heard::default();
    let address = Address { key: 1, ..other.own_address() };
    let to = one.introduce(address).expect("a guest");
    one.connect(to);
    until("the refusal", || {
        other.poll(&mut heard);
        one.poll(&mut Heard::default());
        one.is_lost(to)
    });
    assert_eq!(other.end(), FIRST, "nobody was let in");

    let key = other.own_address().key;
    let hello = |rank| {
        let name = ProcessName { job: 1, rank };
        Hello { key, from: Address { name, key: 2, inet: None } }.encode()
    };
    let frame = |kind: u8, content: &[u8]| {
        let mut frame = Vec::new();
        begin_frame(&mut frame, kind, content.len());
        [&frame, content].concat()
    };
    let long = Head { kind: EAGER, length: 9, ..Head::default() };
    let stream = Head { kind: STREAM, length: u64::MAX, ..Head::default() };
    let streams = [
        vec![0; 100],
        frame(RECORD, b"short"),
        frame(RECORD, &long.encode()[..HEAD_BYTES]),
        frame(RECORD, &stream.encode()[..HEAD_BYTES]),
        frame(RECORD, &Head { kind: 99, ..Head::default() }.encode()[..HEAD_BYTES]),
        frame(RECORD, &[wire::KINDS.start; 24]),
        frame(RECORD, &[wire::KINDS.end - 1; 200]),
        frame(BULK, b"12345678data"),
        frame(BULK, b"123"),
        frame(9, b""),
        vec![RECORD, 0, 0, 0, 255, 255, 255, 255],
        [frame(LEAVE, b""), frame(LEAVE, b"")].concat(),
    ];
    for (rank, bytes) in streams.iter().enumerate() {
        let hello = hello(rank as u32);
        let socket = socket::connect_local(&other.own_address().local_socket()).expect("a door");
        socket::send(&socket, &[&hello[..], bytes].concat()).expect("it is sent");
        let number = FIRST + rank;
        until("the loss", || {
            other.poll(&mut heard);
            other.take_lost() == [number]
        });
    }
    assert!(heard.records.is_empty());
}

/// A process that has the address of another user's process reaches it from no other node, and is not
/// believed when it listens there itself.
#[test]
fn guests_of_other_nodes_know_the_secret_of_their_user() {
    let ip = Some("127.0.0.1");
    for (number, secret) in [Secret([3, 5]), Secret([0, 0])].into_iter().enumerate() {
        let mut one = process_of(&format!("secret-one-{number}"), ip, secret);
        let mut other = process(&format!("secret-other-{number}"), ip);
        let (mut heard, mut sender) = (Heard::default(), Heard::default());
        let mut address = other.own_address();
        address.name.job += 1;
        let to = one.introduce(address).expect("a guest");
        one.try_send(to, &eager(b"data"), &[]).expect("there is room");
        until("the refusal", || {
            other.poll(&mut heard);
            one.poll(&mut sender);
            one.is_lost(to)
        });
        assert_eq!((other.end(), heard.records.len()), (FIRST, 0), "nobody was let in");
    }
    // One that answers without the secret gets no data.
    let impostor = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut one = process("secret-three", ip);
    let name = ProcessName { job: 1, rank: 0 };
    let address = Address { name, key: 1, inet: Some(impostor.local_addr().expect("its address")) };
    let to = one.introduce(address).expect("a guest");
    one.try_send(to, &eager(b"data"), &[]).expect("there is room");
    let (mut stream, _) = impostor.accept().expect("a connection");
    let mut greeting = [0; Hello::BYTES + seal::BYTES];
    std::io::Read::read_exact(&mut stream, &mut greeting).expect("a greeting");
    std::io::Write::write_all(&mut stream, &greeting[Hello::BYTES..]).expect("it is sent");
    until("the refusal", || {
        one.poll(&mut Heard::default());
        one.is_lost(to)
    });
    assert_eq!(std::io::Read::read(&mut stream, &mut [0; 8]).unwrap_or(0), 0, "nothing follows the greeting");
}

/// A socket that takes connections and whose queue is full: the kernel answers no more.
fn full_door() -> (OwnedFd, std::net::SocketAddr, Vec<std::net::TcpStream>) {
    use std::os::fd::AsRawFd;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().expect("its address");
    let wait = Duration::from_millis(200);
    let connect = || std::net::TcpStream::connect_timeout(&address, wait).ok();
    let waiting = std::iter::from_fn(connect).take(100).collect();
    (listener.into(), address, waiting)
}

/// A node that does not answer is not waited for: the kernel waits, and says so when it has given up.
#[test]
fn guest_of_a_node_that_does_not_answer_is_lost_without_a_wait() {
    let (_door, inet, waiting) = full_door();
    assert!(waiting.len() < 100, "the queue of a socket has no end");
    let mut one = process("silent-one", Some("127.0.0.1"));
    let name = ProcessName { job: 1, rank: 0 };
    let to = one.introduce(Address { name, key: 1, inet: Some(inet) }).expect("a guest");
    one.connect(to);
    one.poll(&mut Heard::default());
    assert!(!one.is_lost(to) && one.guest(to).has_out(), "it is being connected to");
    assert!(!one.is_quiet(), "the greeting has not been taken");
    until("the loss", || {
        one.poll(&mut Heard::default());
        one.is_lost(to)
    });
    assert!(one.is_quiet());
}

/// A process that leaves waits for no other one that computes.
#[test]
fn guest_of_another_node_that_leaves_at_once_is_known_to_have_left() {
    let ip = Some("127.0.0.1");
    let (mut one, mut other) = (process("leave-one", ip), process("leave-other", ip));
    let mut heard = Heard::default();
    let mut address = other.own_address();
    address.name.job += 1;
    let to = one.introduce(address).expect("a guest");
    one.connect(to);
    one.leave();
    assert!(one.is_quiet());
    drop(one);
    until("the end", || {
        other.poll(&mut heard);
        other.take_lost() == [FIRST]
    });
    assert!(other.has_left(FIRST));
}

#[test]
fn guests_that_are_forgotten_leave_their_numbers_to_others() {
    let (mut server, mut heard) = (process("many-server", None), Heard::default());
    for round in 0..100_u32 {
        let mut client = process(&format!("many-{round}"), None);
        let to = client.introduce(server.own_address()).expect("a guest");
        client.try_send(to, &eager(&round.to_le_bytes()), &[]).expect("there is room");
        let job = client.own_address().name.job;
        until("the record", || {
            server.poll(&mut heard);
            heard.records.len() as u32 == round + 1
        });
        assert_eq!((server.take_new(), server.end()), (vec![FIRST], FIRST + 1), "round {round}");
        assert!(server.knows_job(job) && server.name(FIRST).job == job);
        drop(client);
        until("the loss", || {
            server.poll(&mut heard);
            server.is_lost(FIRST)
        });
        assert!(!server.forget(FIRST), "that it is lost has not been told");
        assert_eq!(server.take_lost(), [FIRST]);
        assert!(server.forget(FIRST) && !server.knows_job(job));
    }
    let said: Vec<_> =
        heard.records.iter().map(|(from, record)| (*from, record[HEAD_BYTES..].to_vec())).collect();
    let sent: Vec<_> = (0..100_u32).map(|round| (FIRST, round.to_le_bytes().to_vec())).collect();
    assert_eq!(said, sent);
}

/// A guest with a connection to it, and that connection's other end.
fn connected_guest() -> (Guest, OwnedFd) {
    let (own, end) = std::os::unix::net::UnixStream::pair().expect("a pair");
    own.set_nonblocking(true).expect("a socket");
    let mut guest = Guest::new(Address { name: ProcessName { job: 1, rank: 0 }, key: 2, inet: None });
    let sent = guest.begin(own.into(), [0; Hello::BYTES], None);
    assert_eq!((sent, guest.has_out(), guest.wants_out()), (OutState::Open, true, false));
    (guest, end.into())
}

#[test]
fn guest_that_reads_nothing_gets_a_bounded_queue() {
    let (mut guest, _end) = connected_guest();
    let record = eager(&[7; 1000]);
    let mut taken = 0;
    let full = loop {
        match guest.push_record(FIRST, &record, &[]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 100_000, "{taken} records are queued");
        assert_eq!(guest.flush(), OutState::Open);
    };
    assert!(matches!(full, SendError::Full) && taken > 200 && !guest.is_quiet());
}

#[test]
fn guest_whose_end_is_closed_takes_nothing_more_until_it_is_lost_once() {
    let (mut guest, end) = connected_guest();
    drop(end);
    let (mut scratch, mut heard) = ([0; 64], Heard::default());
    assert_eq!(guest.push_out(&mut scratch, &mut heard), OutState::Closed);
    guest.close();
    assert!(!guest.has_out() && !guest.wants_out() && guest.is_quiet());
    assert!(matches!(guest.push_record(FIRST, &eager(&[1]), &[]), Err(SendError::Exited(10))));
    assert!(!guest.push_bulk(0, 8, 0) && !guest.is_lost());
    assert!(guest.lose() && !guest.lose() && guest.is_lost(), "it is lost once");
}

#[test]
fn guest_frames_are_taken_whole_and_none_behind_its_leave() {
    let (mut guest, _end) = connected_guest();
    let (own, mut end) = std::os::unix::net::UnixStream::pair().expect("a pair");
    own.set_nonblocking(true).expect("a socket");
    guest.let_in(own.into());
    let (mut scratch, mut heard) = (vec![0; 4096], Heard::default());
    let mut say = |bytes: &[u8], guest: &mut Guest, heard: &mut Heard| {
        std::io::Write::write_all(&mut end, bytes).expect("it is said");
        guest.take_in(FIRST, &mut scratch, heard)
    };
    let mut frame = Vec::new();
    begin_frame(&mut frame, RECORD, eager(&[5]).len());
    frame.extend_from_slice(&eager(&[5]));
    let (one, rest) = frame.split_at(11);
    assert_eq!((say(one, &mut guest, &mut heard), heard.records.len()), (InState::Empty, 0));
    assert_eq!((say(rest, &mut guest, &mut heard), heard.records.len()), (InState::Empty, 1));
    let mut leave = Vec::new();
    begin_frame(&mut leave, LEAVE, 0);
    assert_eq!((say(&leave, &mut guest, &mut heard), guest.has_left()), (InState::Empty, true));
    assert_eq!((say(&frame, &mut guest, &mut heard), heard.records.len()), (InState::Ended, 1));
}
