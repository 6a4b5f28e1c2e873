use super::*;
use rustix::net::{SendFlags, connect, recv, send, socket};

/// World rank of the first ticket.
const FIRST: u32 = 40;

fn numbers(first_rank: u32) -> Numbers {
    Numbers::new([first_rank, 1, 3], 50, 0, 1)
}

fn reply(file: &std::fs::File) -> AttachReply<'_> {
    AttachReply { segment: file.as_fd(), page: file.as_fd(), network: None }
}

fn dial(tickets: &Tickets) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new_abstract_name(tickets.name.as_bytes()).unwrap()).unwrap();
    socket
}

fn send_bytes(socket: &OwnedFd, bytes: &[u8]) {
    assert_eq!(send(socket, bytes, SendFlags::NOSIGNAL).unwrap(), bytes.len());
}

fn recv_welcome(socket: &OwnedFd) -> Option<Welcome> {
    let mut bytes = [0; 64];
    let (length, _) = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
    Welcome::decode(&bytes[..length])
}

fn attach(tickets: &Tickets, rank: u32) -> [u8; Attach::BYTES] {
    let ticket: Ticket = tickets.ticket(rank).parse().unwrap();
    Attach { rank: ticket.rank, secret: ticket.secret, face: Face::Mpich }.encode()
}

#[test]
fn ticket_of_a_rank_that_runs_is_redeemed_once() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut tickets =
        Tickets::create(&format!("test-0x1111_0010-{}", std::process::id()), numbers(FIRST), 2).unwrap();
    // Both stay open: a rank whose connection is closed has ended.
    let sockets = [dial(&tickets), dial(&tickets)];
    for (socket, expected) in sockets.iter().zip([Welcome::Granted, Welcome::AlreadyRedeemed]) {
        send_bytes(socket, &attach(&tickets, 1));
        tickets.handle_listener(0);
        let event = tickets.handle_pending(0, &reply(&null), |_, _| ());
        assert_eq!(event.is_some(), expected == Welcome::Granted);
        assert_eq!(recv_welcome(socket), Some(expected));
    }
}

#[test]
fn ticket_is_redeemed_once() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut tickets =
        Tickets::create(&format!("test-0x1111_0000-{}", std::process::id()), numbers(FIRST), 2).unwrap();
    // The second comes when the rank has called MPI_Finalize.
    for (expected, attached) in [(Welcome::Granted, true), (Welcome::Ended, false)] {
        let socket = dial(&tickets);
        send_bytes(&socket, &attach(&tickets, 1));
        tickets.handle_listener(0);
        let event = tickets.handle_pending(0, &reply(&null), |_, _| ());
        let own = Event::Attached { rank: 1, pid: rustix::process::getpid(), face: Face::Mpich };
        assert_eq!(format!("{event:?}"), format!("{:?}", attached.then_some(own)));
        assert_eq!(recv_welcome(&socket), Some(expected));
        if attached {
            send_bytes(&socket, &Notice::Finalized.encode());
            send_bytes(&socket, b"rubbish");
            send_bytes(&socket, &Notice::Abort(3).encode());
            let notices = [Notice::Finalized, Notice::Abort(3)];
            let expected = notices.map(|notice| Event::Notice { rank: 1, notice });
            assert_eq!(format!("{:?}", tickets.handle_rank(1)), format!("{expected:?}"));
        }
    }
    assert!(tickets.handle_rank(0).is_empty());
    assert!(tickets.handle_rank(1).is_empty());
    assert_eq!(tickets.connections().count(), 0, "the closed connection is not polled again");
}

#[test]
fn ticket_server_refuses_other_text() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut tickets =
        Tickets::create(&format!("test-0x2222_0000-{}", std::process::id()), numbers(FIRST), 2).unwrap();
    let wrong_secret = Attach { rank: FIRST, secret: [0; 16], face: Face::Own }.encode();
    let wrong_rank = Attach { rank: FIRST + 2, secret: [0; 16], face: Face::Own }.encode();
    let cases: [(&[u8], Welcome); 4] = [
        (&wrong_secret, Welcome::Refused),
        (&wrong_rank, Welcome::Refused),
        (b"GET / HTTP/1.0\r\n\r\n", Welcome::OtherProtocol),
        (&[7; 5000], Welcome::OtherProtocol),
    ];
    for (bytes, expected) in cases {
        let socket = dial(&tickets);
        send_bytes(&socket, bytes);
        tickets.handle_listener(0);
        assert!(tickets.handle_pending(0, &reply(&null), |_, _| ()).is_none());
        assert_eq!(recv_welcome(&socket), Some(expected));
        assert_eq!(tickets.pending().count(), 0);
    }
}

#[test]
fn ticket_server_silent_connections_are_bounded() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut tickets =
        Tickets::create(&format!("test-0x3333_0000-{}", std::process::id()), numbers(FIRST), 1).unwrap();
    let silent: Vec<OwnedFd> = (0..3 * PENDING_MAX).map(|_| dial(&tickets)).collect();
    (0..3).for_each(|_| tickets.handle_listener(0));
    assert_eq!(tickets.pending().count(), PENDING_MAX + 1);
    let socket = dial(&tickets);
    send_bytes(&socket, &attach(&tickets, 0));
    tickets.handle_listener(0);
    let events: Vec<_> = (0..=PENDING_MAX)
        .rev()
        .filter_map(|index| tickets.handle_pending(index, &reply(&null), |_, _| ()))
        .collect();
    assert_eq!(events.len(), 1);
    assert_eq!(recv_welcome(&socket), Some(Welcome::Granted));
    drop(silent);
    for index in (0..tickets.pending().count()).rev() {
        tickets.handle_pending(index, &reply(&null), |_, _| ());
    }
    assert_eq!(tickets.pending().count(), 0);
}

#[test]
fn tickets_of_more_ranks_are_redeemed_until_they_are_revoked() {
    let mut tickets = Tickets::create("test-more-tickets", numbers(0), 1).unwrap();
    tickets.add(2).unwrap();
    let ticket: Ticket = tickets.ticket(1).parse().unwrap();
    assert_eq!(ticket.rank, 1);
    tickets.revoke(2);
    assert!(matches!(tickets.places[1], Place::Free));
    assert!(matches!(tickets.places[2], Place::Taken(None)));
    assert!(tickets.handle_rank(2).is_empty());
    // Nobody reads it.
    tickets.send(1, b"answer");
    tickets.send(7, b"answer");
}

#[test]
fn notices_keep_the_descriptors_that_came_with_them() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut tickets =
        Tickets::create(&format!("test-0x4444_0000-{}", std::process::id()), numbers(FIRST), 1).unwrap();
    let socket = dial(&tickets);
    send_bytes(&socket, &attach(&tickets, 0));
    tickets.handle_listener(0);
    assert!(tickets.handle_pending(0, &reply(&null), |_, _| ()).is_some());
    let (reader, writer) = std::io::pipe().unwrap();
    let give = |notice: Notice, descriptors: &[BorrowedFd<'_>]| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let bytes = notice.encode();
        net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    };
    // All in one turn; one without a descriptor takes that of no other.
    give(Notice::StandIn, &[]);
    give(Notice::StandIn, &[reader.as_fd()]);
    give(Notice::Regions, &[writer.as_fd()]);
    let is_same = |given: &OwnedFd, own: BorrowedFd<'_>| {
        let mode = |descriptor: BorrowedFd<'_>| rustix::fs::fcntl_getfl(descriptor).unwrap();
        mode(given.as_fd()) == mode(own)
    };
    let events = tickets.handle_rank(0);
    let [Event::StandIn { rank: 0, socket }, Event::Regions { rank: 0, connection }] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(is_same(socket, reader.as_fd()) && is_same(connection, writer.as_fd()), "{events:?}");
}
