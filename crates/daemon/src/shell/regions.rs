//! Published regions and services of other nodes ([`tutti_shm::published::far`]): the socket on which
//! programs of users ask for them, and the way to the servers of this node's.
//!
//! | who | is known by |
//! |---|---|
//! | a program that asks | SO_PEERCRED, SO_PEERGROUPS of its connection |
//! | the server of a region, a service | its abstract name, and SO_PEERCRED: it is the owner's |
//! | this daemon, to that server | SO_PEERCRED |
//!
//! Each program and each server has a task of its own and a time in which it has to be done: none keeps
//! another from its turn, and none is waited for in the loop. What a server says is believed for its own
//! regions alone: the address is this node's, whatever it says, and the rest are secrets for its client.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tutti_shm::published::far::{Admission, GROUPS_MAX, Given, Pass, Question, Wanted};
use tutti_shm::published::{Answer, Ask, SERVICE, Status, wanted_socket_name};
use tutti_shm::users::{is_one_user, is_own_user};

use super::lending::Waiting;
use super::quota::{ConnectionPermit, ConnectionQuota};
use tutti_service::listing;

use crate::core::SERVICES_MAX;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{RegionClient, RegionPlace, User};

/// A question is whole after this time, or it is none; an answer is read within it.
const QUESTION_MAX: Duration = Duration::from_secs(5);
/// A server answers within this time.
const SERVER_MAX: Duration = Duration::from_secs(5);
/// Where a server has no room for a new connection it is tried again so often.
const AGAIN: Duration = Duration::from_millis(20);
/// Room for its answer: a short one.
const ANSWER_BYTES_MAX: usize = 128;

/// To be given the answer for a program.
pub(super) type Reply = oneshot::Sender<Vec<u8>>;

/// Event of regions for the loop.
#[derive(Debug)]
pub(super) enum RegionEvent {
    /// A program, of this user with these groups, wants a region.
    Wanted(ClientId, (u32, Vec<u32>), Wanted, Reply),
    /// A program of this user wants to know how other nodes reach it.
    Place(u32, Reply),
    /// A program of this user wants to know the services of the cluster.
    Services(ClientId, u32, Reply),
    /// A program waits for a service of this node.
    Lend(Box<Waiting>),
    /// Departure of the program.
    Gone(ClientId),
    /// A server has answered for a client of this node's, or the number of a status.
    Reached(NodeId, u64, Result<RegionPlace, i32>),
    /// Lists this node's services, for a question of a node's.
    Listed(NodeId, u64, Vec<(u32, String)>),
}

/// The listening socket.
#[derive(Debug)]
pub(super) struct RegionSocket {
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl RegionSocket {
    /// Opens it beside the daemon's own. Without it nobody here reaches regions of other nodes.
    pub(super) fn open(daemon: &Path) -> Self {
        let path = tutti_protocol::paths::regions(daemon);
        let listener = listen(&path);
        let listener = listener
            .inspect_err(|error| tracing::warn!("no regions of other nodes at {}: {error}", path.display()));
        RegionSocket { listener: listener.ok(), path }
    }

    /// Somebody who wants a region.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        match &self.listener {
            Some(listener) => listener.accept().await.map(|(stream, _)| stream),
            None => std::future::pending().await,
        }
    }
}

impl Drop for RegionSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the listening socket: whoever has opened the daemon's own socket owns this one too. Everybody may
/// ask.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// A program has connected.
pub(super) fn accept(
    stream: UnixStream,
    client: ClientId,
    user: User,
    quota: &ConnectionQuota,
    tell: impl Fn(RegionEvent) + Send + 'static,
) -> io::Result<()> {
    let mut groups = tutti_os::peer_groups(stream.as_fd());
    groups.truncate(GROUPS_MAX - 1);
    groups.push(user.gid);
    match quota.admit(user.account().uid) {
        Ok(permit) => drop(tokio::spawn(serve(client, (user.uid, groups), permit, stream, tell))),
        // What fits into an empty socket.
        Err(_) => drop(stream.try_write(&Given::Refused(Status::Memory).encode())),
    }
    Ok(())
}

/// A client of another node wants a region of this one, at this address.
pub(super) fn reach_for(
    from: NodeId,
    id: u64,
    client: RegionClient,
    at: IpAddr,
    tell: impl Fn(RegionEvent) + Send + 'static,
) {
    tokio::spawn(async move {
        let result = match timeout(SERVER_MAX, reach(at, &client)).await {
            Ok(result) => result,
            // A service that has no turn answers later: its client asks again.
            Err(_) if client.name.starts_with(SERVICE) => Err(Status::Busy),
            Err(_) => Err(Status::Node),
        };
        tell(RegionEvent::Reached(from, id, result.map_err(|status| status as i32)));
    });
}

/// Lists this node's services for a question of a node's. Where the kernel cannot list them now there is no
/// answer: the question comes again.
pub(super) fn list_services(from: NodeId, id: u64, tell: impl Fn(RegionEvent) + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        let Ok(here) = listing::here() else { return };
        let listed = listing::fair(here, SERVICES_MAX);
        let services = listed.into_iter().map(|one| (one.uid, one.name)).collect();
        tell(RegionEvent::Listed(from, id, services));
    });
}

/// One question, and its answer.
async fn serve(
    client: ClientId,
    who: (u32, Vec<u32>),
    mut permit: ConnectionPermit,
    mut stream: UnixStream,
    tell: impl Fn(RegionEvent),
) {
    permit.await_budget().await;
    let Ok(Some((question, descriptor))) = timeout(QUESTION_MAX, read(&stream)).await else { return };
    permit.is_known();
    if question == Question::Lend {
        if let (Some(service), Ok(stream)) = (descriptor, stream.into_std()) {
            tell(RegionEvent::Lend(Box::new(Waiting { stream, service, permit })));
        }
        return;
    }
    let (reply, answered) = oneshot::channel();
    tell(match question {
        Question::Region(wanted) => RegionEvent::Wanted(client, who, wanted, reply),
        Question::Place => RegionEvent::Place(who.0, reply),
        Question::Services => RegionEvent::Services(client, who.0, reply),
        Question::Lend => return,
    });
    let mut byte = [0];
    tokio::select! {
        given = answered => if let Ok(given) = given {
            // Who does not read it has gone.
            let _ = timeout(QUESTION_MAX, stream.write_all(&given)).await;
        },
        // Its end; nothing else is to come.
        _ = stream.read(&mut byte) => tell(RegionEvent::Gone(client)),
    }
}

/// A question, and a descriptor that came with it.
async fn read(stream: &UnixStream) -> Option<(Question, Option<OwnedFd>)> {
    let (mut bytes, mut length, mut descriptor) = ([0; Wanted::BYTES_MAX + 1], 0, None);
    loop {
        stream.readable().await.ok()?;
        match stream.try_io(Interest::READABLE, || receive(stream, &mut bytes[length..])) {
            Ok((read @ 1.., came)) => {
                length += read;
                descriptor = came.or(descriptor);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            _ => return None,
        }
        if let Some(question) = Question::take(&bytes[..length]).ok()? {
            return Some((question, descriptor));
        }
    }
}

/// Bytes that have come, and a descriptor with them.
fn receive(stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(stream, &mut [io::IoSliceMut::new(into)], &mut control, flags)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, descriptor))
}

/// Vouches for a client to a server of this node.
async fn reach(at: IpAddr, client: &RegionClient) -> Result<RegionPlace, Status> {
    let name = wanted_socket_name(client.owner, &client.name);
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|_| Status::Region)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(|_| Status::Memory)?;
    loop {
        match net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) => sleep(AGAIN).await,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Status::Region),
        }
    }
    let peer = sockopt::socket_peercred(&socket).map_err(|_| Status::Region)?;
    let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
    if uid != client.owner || !(is_one_user(uid) || is_own_user(uid, pid)) {
        return Err(Status::Right);
    }
    let admission = Admission { at, groups: client.groups.clone() }.encode();
    let ask = [&Ask::Admit(client.uid).encode(admission.len())[..], &admission].concat();
    net::send(&socket, &ask, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map_err(|_| Status::Region)?;
    #[allow(
        deprecated,
        reason = "it is unsound for what changes its descriptor: ours does not, and unsafe is not for this crate"
    )]
    let socket = AsyncFd::new(socket).map_err(|_| Status::Memory)?;
    let mut bytes = [0; ANSWER_BYTES_MAX];
    let length = loop {
        let mut ready = socket.readable().await.map_err(|_| Status::Memory)?;
        match net::recv(&socket, &mut bytes, RecvFlags::DONTWAIT) {
            // It has closed the connection at once: it has no room for more.
            Ok((0, _)) => return Err(Status::Memory),
            Ok((length, _)) => break length,
            Err(Errno::AGAIN | Errno::INTR) => ready.clear_ready(),
            Err(_) => return Err(Status::Region),
        }
    };
    place(at, &bytes[..length])
}

/// Decodes what a server has answered, which is its user's: it may say anything.
fn place(at: IpAddr, bytes: &[u8]) -> Result<RegionPlace, Status> {
    let Ok(Some((Answer { status, value }, pass))) = Answer::take(bytes) else { return Err(Status::Refused) };
    if status != Status::Ok {
        return Err(status);
    }
    match (u16::try_from(value), Pass::decode(pass)) {
        (Ok(port @ 1..), Some(pass)) => {
            Ok(RegionPlace { address: (at, port).into(), key: pass.key.0, proof: pass.proof.0 })
        }
        _ => Err(Status::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_shm::published::far::{Secret, sockets};

    #[test]
    fn region_socket_is_where_programs_look_for_it() {
        let sockets = sockets();
        let expected = tutti_protocol::paths::regions(&tutti_protocol::paths::socket());
        assert!(sockets.contains(&expected), "{expected:?} in {sockets:?}");
    }

    #[test]
    fn region_server_can_name_no_other_address_and_no_rubbish() {
        let at: IpAddr = "10.0.0.7".parse().unwrap();
        let pass = Pass { key: Secret([1, 2]), proof: Secret([3, 4]) };
        let answer = |status, value, behind: &[u8]| {
            let answer = Answer { status, value };
            [&answer.encode(behind.len())[..], behind].concat()
        };
        let given = place(at, &answer(Status::Ok, 4711, &pass.encode())).unwrap();
        assert_eq!((given.address, given.key), ("10.0.0.7:4711".parse().unwrap(), [1, 2]));
        for port in [0, 65_536, u64::MAX] {
            assert_eq!(place(at, &answer(Status::Ok, port, &pass.encode())), Err(Status::Refused));
        }
        assert_eq!(place(at, &answer(Status::Ok, 7, &[0; 31])), Err(Status::Refused));
        assert_eq!(place(at, &answer(Status::Right, 7, &pass.encode())), Err(Status::Right));
        let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
        for _ in 0..20_000 {
            let mut bytes = vec![0; random.below(ANSWER_BYTES_MAX as u64) as usize];
            random.fill(&mut bytes);
            assert!(place(at, &bytes).is_err());
        }
    }
}
