//! The socket on which ranks redeem their tickets, and their connections afterwards. The protocol is
//! [`tutti_shm::ticket`]'s.
//!
//! Connections are bounded. Another user's process is closed before anything is read from it. At most
//! [`PENDING_MAX`] connections more than there are ranks may wait without having redeemed a ticket, and
//! nothing here ever blocks. When there are too many, the process that has most of them loses its oldest: a
//! rank that was interrupted between connecting and sending has one, so no crowd of strangers can push it
//! out.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::Pid;
use tutti_os::random::fill_random;
use tutti_shm::local_socket;
use tutti_shm::numbers::Numbers;
use tutti_shm::spawn::{REQUEST_BYTES_MAX, Request};
use tutti_shm::ticket::{Attach, Connection, Face, GIFTS_MAX, Notice, Ticket, Welcome};
use tutti_shm::users::is_own_user;

/// Connections that have not redeemed a ticket, at most, beside one for each rank.
pub const PENDING_MAX: usize = 128;

/// Where the kernel gives no descriptor for a new connection, it waits so long.
const PAUSE_NS: u64 = 20_000_000;

/// Messages taken from one connection before others get their turn.
const MESSAGES_PER_TURN: usize = 16;

/// Reply that comes with a granted ticket.
#[derive(Clone, Copy, Debug)]
pub struct AttachReply<'a> {
    /// The segment.
    pub segment: BorrowedFd<'a>,
    /// The daemon page, open for reading only.
    pub page: BorrowedFd<'a>,
    /// In a job on several nodes the table of peers, and the sockets of the ranks of this one.
    pub network: Option<(BorrowedFd<'a>, &'a [OwnedFd])>,
}

/// Event that a connection brought. Ranks are counted on this node.
#[derive(Debug)]
pub enum Event {
    /// A process has become the rank.
    Attached {
        /// World rank.
        rank: u32,
        /// The process: the rank's own, or one below a wrapper.
        pid: Pid,
        /// Interface through which it has begun with MPI.
        face: Face,
    },
    /// A notice of the rank.
    Notice {
        /// World rank.
        rank: u32,
        /// The notice.
        notice: Notice,
    },
    /// A rank wants to publish regions for other jobs ([`Notice::Regions`]).
    Regions {
        /// World rank.
        rank: u32,
        /// Connection to the server of regions.
        connection: OwnedFd,
    },
    /// A rank hands over what is to be answered for it ([`Notice::StandIn`]).
    StandIn {
        /// World rank.
        rank: u32,
        /// Socket of the rank.
        socket: OwnedFd,
    },
    /// A rank says whether it is connected to another launch.
    Connection {
        /// World rank.
        rank: u32,
        /// Connection of which it tells.
        connection: Connection,
    },
    /// A rank wants more ranks.
    Spawn {
        /// World rank.
        rank: u32,
        /// Request of the rank.
        request: Request,
    },
}

/// The socket and all connections to it.
#[derive(Debug)]
pub struct Tickets {
    name: String,
    /// World ranks of the node.
    numbers: Numbers,
    listener: OwnedFd,
    /// The kernel has given no descriptor for a new connection, which stays there: looked at again then.
    paused_until_ns: Option<u64>,
    secrets: Vec<[u8; 16]>,
    pending: Vec<Pending>,
    places: Vec<Place>,
    /// Where messages of ranks are read to; made at the first one.
    read: Vec<u8>,
}

/// A connection that has not redeemed a ticket.
#[derive(Debug)]
struct Pending {
    connection: OwnedFd,
    /// The process that made it.
    pid: Pid,
}

/// State of a rank's ticket.
#[derive(Debug)]
enum Place {
    /// Not redeemed yet.
    Free,
    /// Redeemed; the connection, as long as it is open.
    Taken(Option<OwnedFd>),
}

impl Tickets {
    /// Opens the socket and draws one secret for each rank of this node that the job begins with; `numbers`
    /// are all that there is room for, `name` is [`tutti_protocol::wire::Job::name`].
    ///
    /// # Errors
    /// When the kernel gives no socket or no random bytes.
    pub fn create(name: &str, numbers: Numbers, ranks: usize) -> io::Result<Self> {
        let mut random = vec![0_u8; 16 * ranks];
        fill_random(&mut random)?;
        let secrets = random.chunks_exact(16).map(|bytes| bytes.try_into().expect("16 bytes")).collect();
        let name = format!("tutti-{name}");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        local_socket::let_descriptors_pass(listener.as_fd(), false);
        net::listen(&listener, 4096)?;
        let places = (0..ranks).map(|_| Place::Free).collect();
        Ok(Tickets {
            name,
            numbers,
            listener,
            paused_until_ns: None,
            secrets,
            pending: Vec::new(),
            places,
            read: Vec::new(),
        })
    }

    /// Adds tickets for more ranks of this node.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn add(&mut self, ranks: usize) -> io::Result<()> {
        let mut random = vec![0_u8; 16 * ranks];
        fill_random(&mut random)?;
        self.secrets
            .extend(random.chunks_exact(16).map(|bytes| <[u8; 16]>::try_from(bytes).expect("16 bytes")));
        self.places.extend((0..ranks).map(|_| Place::Free));
        Ok(())
    }

    /// A rank that was there before the job takes its place over a connection of its own.
    pub fn adopt(&mut self, index: u32, connection: OwnedFd) {
        let is_told = answer(&connection, Welcome::Granted, &[]);
        self.places[index as usize] = Place::Taken(Some(connection).filter(|_| is_told));
    }

    /// A ticket for another process of a rank whose first one has ended.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn renew(&mut self, index: u32) -> io::Result<()> {
        fill_random(&mut self.secrets[index as usize])?;
        self.places[index as usize] = Place::Free;
        Ok(())
    }

    /// A ticket that is not to be redeemed any more.
    pub fn revoke(&mut self, index: u32) {
        self.places[index as usize] = Place::Taken(None);
    }

    /// Sends something to a rank that has redeemed its ticket; one that does not read loses it.
    pub fn send(&self, index: u32, bytes: &[u8]) {
        if let Some(Place::Taken(Some(connection))) = self.places.get(index as usize) {
            let _ = net::send(connection, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// The text for the environment of a rank, counted on this node.
    pub fn ticket(&self, index: u32) -> String {
        let secret = self.secrets[index as usize];
        Ticket { socket: self.name.clone(), rank: self.numbers.rank_at(index as usize) as u32, secret }
            .to_string()
    }

    /// To be polled for readability, then given to [`Self::handle_listener`].
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.paused_until_ns.is_none().then(|| self.listener.as_fd())
    }

    /// When the listener is to be polled again; to be given to [`Self::handle_time`].
    pub fn due_ns(&self) -> Option<u64> {
        self.paused_until_ns
    }

    /// Polls the listener again when its pause is over.
    pub fn handle_time(&mut self, now_ns: u64) {
        self.paused_until_ns = self.paused_until_ns.filter(|until_ns| now_ns < *until_ns);
    }

    /// To be polled, then given to [`Self::handle_pending`] by index, highest first.
    pub fn pending(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pending.iter().map(|pending| pending.connection.as_fd())
    }

    /// To be polled, then given to [`Self::handle_rank`].
    pub fn connections(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.places.iter().enumerate().filter_map(|(rank, place)| match place {
            Place::Taken(Some(connection)) => Some((rank as u32, connection.as_fd())),
            _ => None,
        })
    }

    /// Takes new connections.
    pub fn handle_listener(&mut self, now_ns: u64) {
        for _ in 0..PENDING_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let connection = match net::accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                Err(_) => {
                    self.paused_until_ns = Some(now_ns + PAUSE_NS);
                    return;
                }
            };
            let own = net::sockopt::socket_peercred(&connection).ok();
            let is_own = |peer: &net::UCred| is_own_user(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
            let own = own.filter(is_own);
            let Some(peer) = own else {
                answer(&connection, Welcome::Refused, &[]);
                continue;
            };
            if self.pending.len() == PENDING_MAX + self.places.len() {
                self.make_room();
            }
            self.pending.push(Pending { connection, pid: peer.pid });
        }
    }

    /// Closes the oldest pending connection of the process that has most of them.
    fn make_room(&mut self) {
        let mut counts: HashMap<Pid, usize> = HashMap::new();
        for pending in &self.pending {
            *counts.entry(pending.pid).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self.pending.iter().position(|pending| counts.get(&pending.pid).copied() == most);
        self.pending.remove(oldest.expect("the list is full"));
    }

    /// Reads from a connection that has not redeemed a ticket. It leaves the list unless nothing has come
    /// yet. `name` is given the number by which the kernel knows a new rank here.
    pub fn handle_pending(
        &mut self,
        index: usize,
        reply: &AttachReply<'_>,
        name: impl FnOnce(u32, Pid),
    ) -> Option<Event> {
        let mut bytes = [0_u8; Attach::BYTES + 1];
        let read = net::recv(&self.pending[index].connection, &mut bytes[..], RecvFlags::DONTWAIT);
        let message = match read {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(_) | Ok((0, _)) => {
                self.pending.remove(index);
                return None;
            }
            Ok((length, _)) => Attach::decode(&bytes[..length]),
        };
        let Pending { connection, pid } = self.pending.remove(index);
        let Some(attach) = message else {
            answer(&connection, Welcome::OtherProtocol, &[]);
            return None;
        };
        let rank = self.numbers.index_of(attach.rank as usize);
        if self.secrets.get(rank) != Some(&attach.secret) {
            answer(&connection, Welcome::Refused, &[]);
            return None;
        }
        if let Place::Taken(taken) = &self.places[rank] {
            let is_over = taken.as_ref().is_none_or(is_closed);
            answer(&connection, if is_over { Welcome::Ended } else { Welcome::AlreadyRedeemed }, &[]);
            return None;
        }
        let given = match &reply.network {
            None => vec![reply.segment, reply.page],
            Some((table, sockets)) => vec![reply.segment, reply.page, *table, sockets[rank].as_fd()],
        };
        // Before it is there for its mates.
        name(rank as u32, pid);
        local_socket::let_descriptors_pass(connection.as_fd(), true);
        if !answer(&connection, Welcome::Granted, &given) {
            return None;
        }
        self.places[rank] = Place::Taken(Some(connection));
        Some(Event::Attached { rank: rank as u32, pid, face: attach.face })
    }

    /// Reads notices of a rank; called when its connection is readable and before its death is judged.
    pub fn handle_rank(&mut self, rank: u32) -> Vec<Event> {
        let mut events = Vec::new();
        let Place::Taken(place) = &mut self.places[rank as usize] else { return events };
        self.read.resize(REQUEST_BYTES_MAX + 1, 0);
        for _ in 0..MESSAGES_PER_TURN {
            let Some(connection) = place.as_ref() else { break };
            match receive(connection, &mut self.read) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) | Ok((0, _)) => *place = None,
                Ok((length, given)) => {
                    let bytes = &self.read[..length];
                    if let Some(notice) = Notice::decode(bytes) {
                        events.extend(event_of(rank, notice, given));
                    } else if let Some(connection) = Connection::decode(bytes) {
                        events.push(Event::Connection { rank, connection });
                    } else if let Some(request) = Request::decode(bytes) {
                        events.push(Event::Spawn { rank, request });
                    }
                }
            }
        }
        events
    }
}

/// Event of a notice with the descriptor that came with it; a notice that lacks its descriptor is none.
fn event_of(rank: u32, notice: Notice, given: Option<OwnedFd>) -> Option<Event> {
    match notice {
        Notice::Regions => given.map(|connection| Event::Regions { rank, connection }),
        Notice::StandIn => given.map(|socket| Event::StandIn { rank, socket }),
        notice => Some(Event::Notice { rank, notice }),
    }
}

/// The other side has ended, whatever it has said before.
fn is_closed(connection: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(connection, PollFlags::empty())];
    tutti_os::look(&mut polled).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Receives a message, and the descriptor that may come with it.
fn receive(connection: &OwnedFd, into: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(connection, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    let given = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, given))
}

/// Sends an answer without waiting; `false` when the other side is gone or does not read.
fn answer(connection: &OwnedFd, welcome: Welcome, reply: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GIFTS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !reply.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(reply)), "space for {GIFTS_MAX} descriptors");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    net::sendmsg(connection, &[IoSlice::new(&welcome.encode())], &mut control, flags).is_ok()
}

#[cfg(test)]
mod tests;
