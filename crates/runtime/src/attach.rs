//! From the environment to a place in a job: redeem the ticket, or become a singleton.
//!
//! | environment | what happens |
//! |---|---|
//! | `TUTTI_TICKET` valid, not yet redeemed | rank of that job |
//! | `TUTTI_TICKET` redeemed by another process | singleton, one line |
//! | no ticket, but another launcher's variables say more than one rank | refused, one line; `TUTTI_SINGLETON=1`: singleton |
//! | nothing, but a starter is above the process | singleton, one line (`lost_ticket.rs`); `TUTTI_SINGLETON=1`: none |
//! | nothing | singleton |

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tutti_shm::daemon_page::Page;
use tutti_shm::layout::{Geometry, LOCAL_RANKS_MAX, SPARE_RANKS};
use tutti_shm::local_socket;
use tutti_shm::peers::{BadPeers, Peers};
use tutti_shm::segment::{Segment, SegmentError};
use tutti_shm::spawn::{ANSWER_BYTES_MAX, Answer, REQUEST_BYTES_MAX, Request, SPAWNED_VARIABLE, Spawned};
use tutti_shm::ticket::{
    Attach, BadTicket, Connection, Face, Notice, SIZE_VARIABLE, TICKET_VARIABLE, Ticket, Welcome,
};
use tutti_transport::udp::NoWay;

use crate::lost_ticket;
use crate::stdio;

/// A process's place in its job.
#[derive(Debug)]
pub struct Place {
    /// The job's segment on this node.
    pub segment: Segment,
    /// Page on which the node's daemon tells of the job's turns; none in a singleton, which has no turns.
    pub page: Option<Page>,
    /// Rank among the local ranks.
    pub local_rank: u32,
    /// How the ranks of other nodes are reached; none in a job that has one node.
    pub network: Option<Network>,
    /// Connection to the starter; none in a singleton.
    pub starter: Option<Starter>,
    /// Line for the user, if something is odd.
    pub remark: Option<String>,
    /// Starters of this process, if not mpiexec.
    pub spawned: Option<Spawned>,
}

/// How the ranks of other nodes are reached.
#[derive(Debug)]
pub struct Network {
    /// Which rank is on which node, and the addresses of all.
    pub peers: Peers,
    /// The UDP socket of this rank, made by the starter and close-on-exec. The starter holds it open until
    /// the job ends.
    pub socket: OwnedFd,
}

/// Why a process that has a ticket cannot take its place.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The variable holds something else.
    #[error(transparent)]
    Ticket(#[from] BadTicket),
    /// The starter cannot be reached or does not answer.
    #[error(
        "cannot {action} the job's starter: {source}; is this process in the network namespace that it was started in?"
    )]
    Starter {
        /// Action that failed.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The starter says no.
    #[error("the job's starter refused this process's ticket for rank {rank}: {reason}")]
    Refused {
        /// Rank on the ticket.
        rank: u32,
        /// The starter's reason.
        reason: &'static str,
    },
    /// The starter is another user's.
    #[error(
        "this process runs as uid {own}, its job's starter as uid {starter}: sudo, su, setpriv or a setuid program has changed the \
         user (or another user has its name); start mpiexec itself as the user that the program needs (sudo -u USER mpiexec ...)"
    )]
    OtherUser {
        /// Effective user of this process.
        own: u32,
        /// User of the starter, as this process sees it.
        starter: u32,
    },
    /// Another MPI's launcher has started us as one of several.
    #[error(
        "started by {launcher} ({size_variable}={ranks}) but linked with Tutti, so {ranks} worlds of size 1 would run; type `mpiexec -n {ranks} PROGRAM` in its place (Tutti's, also inside a Slurm allocation), or set TUTTI_SINGLETON=1 if that is what you want"
    )]
    ForeignLauncher {
        /// Which launcher.
        launcher: &'static str,
        /// The variable that tells.
        size_variable: &'static str,
        /// Ranks by that variable.
        ranks: u32,
        /// Whether this is the first of them: it says the line.
        first: bool,
    },
    /// A rank is one program.
    #[error(
        "an earlier program of rank {rank} has started MPI and ended; the other ranks would not meet this one: a rank runs one MPI \
         program, so give each an mpiexec of its own"
    )]
    Ended {
        /// Rank of the earlier program.
        rank: u32,
    },
    /// The way to other nodes cannot be opened.
    #[error("the way to the job's other nodes cannot be opened: {0}{hint}", hint = hint(.0))]
    Network(io::Error),
    /// The daemon page is unusable.
    #[error("the page of the job's turns cannot be read: {0}")]
    Page(io::Error),
    /// The segment is unusable.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The table of peers is unusable.
    #[error(transparent)]
    Peers(#[from] BadPeers),
}

/// Advice for the user when the kernel has no way to the addresses of the other nodes.
fn hint(error: &io::Error) -> &'static str {
    let no_way = || error.get_ref()?.downcast_ref::<NoWay>()?.error.raw_os_error();
    match error.raw_os_error().or_else(no_way) {
        Some(libc::ENETUNREACH | libc::ENETDOWN | libc::EADDRNOTAVAIL) => {
            "; is the interface with this node's address up (of virtual nodes the loopback: ip link set lo up)?"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "; a firewall of this node, or a route of the kind `prohibit`, forbids UDP to them (nft list ruleset, ip route)"
        }
        Some(libc::EHOSTUNREACH | libc::EINVAL) => {
            "; this node has no route to them, or one that leads nowhere (ip route get ADDRESS)"
        }
        _ => "",
    }
}

impl AttachError {
    /// Whether this process should tell the user: of several that fail alike for one reason only the first.
    pub fn should_report(&self) -> bool {
        !matches!(self, AttachError::ForeignLauncher { first: false, .. })
    }
}

/// The ticket is redeemed through MPICH's interface.
static IS_MPICH: AtomicBool = AtomicBool::new(false);

/// Notes the interface through which this process begins with MPI, before it does.
pub fn note_face(face: Face) {
    IS_MPICH.store(face == Face::Mpich, Ordering::Relaxed);
}

/// Takes this process's place. Called once, from Init.
///
/// # Errors
/// When there is a ticket but the place cannot be had.
pub fn attach() -> Result<Place, AttachError> {
    stdio::occupy_closed();
    let Ok(text) = std::env::var(TICKET_VARIABLE) else {
        if std::env::var_os(SINGLETON_VARIABLE).is_some() {
            return singleton(None);
        }
        refuse_foreign_launcher()?;
        return singleton(lost_ticket::line());
    };
    let ticket: Ticket = text.parse()?;
    let (starter, welcome, gifts) = Starter::connect(&ticket)?;
    let refused = |reason| Err(AttachError::Refused { rank: ticket.rank, reason });
    match welcome {
        Some(Welcome::Granted) => take(&ticket, starter, gifts),
        Some(Welcome::Ended) if std::env::var(SIZE_VARIABLE).is_ok_and(|size| size != "1") => {
            Err(AttachError::Ended { rank: ticket.rank })
        }
        Some(Welcome::AlreadyRedeemed | Welcome::Ended) => singleton(Some(format!(
            "another process has already started MPI as rank {}; this one (pid {}) runs alone as a world of size 1",
            ticket.rank,
            std::process::id()
        ))),
        Some(Welcome::Refused) => {
            starter.check_user(|_| false)?;
            refused("wrong secret or another user")
        }
        Some(Welcome::OtherProtocol) => {
            refused("mpiexec and libtutti are of different versions; use those of one installation")
        }
        None => refused("its answer was not understood"),
    }
}

/// Takes the place that the starter grants.
fn take(ticket: &Ticket, starter: Starter, gifts: Vec<OwnedFd>) -> Result<Place, AttachError> {
    let refused = |reason| Err(AttachError::Refused { rank: ticket.rank, reason });
    let mut gifts = gifts.into_iter();
    let (Some(segment), Some(page)) = (gifts.next(), gifts.next()) else {
        return refused("it sent no segment");
    };
    let segment = Segment::open(segment)?;
    let page = Page::read(page.as_fd()).map_err(AttachError::Page)?;
    let geometry = *segment.geometry();
    let local_rank = segment.layout().numbers().index_of(ticket.rank as usize);
    if local_rank >= geometry.room() as usize {
        return refused("it names a rank that the job does not have");
    }
    let local_rank = local_rank as u32;
    let network = match (gifts.next(), gifts.next()) {
        (Some(table), Some(socket)) => Some(Network { peers: read_peers(table)?, socket }),
        _ => None,
    };
    // One node needs no network; what spans several has a table that agrees with the segment.
    let agrees = network.as_ref().map_or(geometry.is_whole(), |Network { peers, .. }| {
        let local = geometry.first_rank as usize..(geometry.first_rank + geometry.local_ranks) as usize;
        peers.addresses().len() == geometry.world_room() as usize
            && peers.nodes() == (geometry.nodes as usize).max(1)
            && (geometry.node as usize) < peers.nodes()
            && peers.ranks_of(geometry.node as usize) == local
    });
    if !agrees {
        return refused("its table of peers does not fit the segment");
    }
    let spawned = if local_rank < geometry.local_ranks {
        None
    } else {
        let place = std::env::var(SPAWNED_VARIABLE).ok().and_then(|text| text.parse::<Spawned>().ok());
        let is_possible = |place: &Spawned| {
            let later = geometry.world_ranks..geometry.world_room();
            place.ranks.contains(&ticket.rank) && place.ranks.iter().all(|rank| later.contains(rank))
        };
        let Some(place) = place.filter(is_possible) else {
            return refused("it names a rank that the job does not have");
        };
        Some(place)
    };
    stdio::write_by_lines();
    let starter = Some(starter);
    Ok(Place { segment, page: Some(page), local_rank, network, starter, remark: None, spawned })
}

fn read_peers(table: OwnedFd) -> Result<Peers, AttachError> {
    let read = || {
        let file = File::from(table);
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        // Not by the file's position: the ranks of a node share it.
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes =
        read().map_err(|source| AttachError::Starter { action: "read the table of peers of", source })?;
    Ok(Peers::decode(&bytes)?)
}

fn singleton(remark: Option<String>) -> Result<Place, AttachError> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    // It may ask for more ranks later ([`crate::adoption`]): room for them costs address space alone.
    let (universe, room) = room_of_singleton(cores);
    let geometry = Geometry {
        world_ranks: 1,
        local_ranks: 1,
        cores,
        job: random_number().unwrap_or_else(|_| u64::from(std::process::id())),
        universe,
        room,
        world_room: room,
        ..Geometry::default()
    };
    let segment = Segment::create(geometry)?;
    Ok(Place { segment, page: None, local_rank: 0, network: None, starter: None, remark, spawned: None })
}

/// A number that nobody guesses.
///
/// # Errors
/// When the kernel gives none.
pub fn random_number() -> io::Result<u64> {
    let mut word = 0_u64;
    // SAFETY: the word is valid for its bytes. So few come at once, or not at all.
    let got = unsafe { libc::getrandom((&raw mut word).cast(), size_of_val(&word), 0) };
    if got == size_of_val(&word) as isize { Ok(word) } else { Err(io::Error::last_os_error()) }
}

/// MPI_UNIVERSE_SIZE of a process that was started without mpiexec, and how many ranks there is room for.
fn room_of_singleton(cores: u32) -> (u32, u32) {
    let wanted = std::env::var(UNIVERSE_VARIABLE).ok().and_then(|ranks| ranks.parse::<u32>().ok());
    match wanted {
        Some(ranks) => (ranks.clamp(1, LOCAL_RANKS_MAX), ranks.clamp(1, LOCAL_RANKS_MAX)),
        None => (cores, (cores + SPARE_RANKS).clamp(1, LOCAL_RANKS_MAX)),
    }
}

/// Environment variable with the number of ranks that a program expects which was started without mpiexec.
const UNIVERSE_VARIABLE: &str = "TUTTI_UNIVERSE";

/// A starter takes its ranks in within this time, however many there are on however busy a machine.
const CONNECT_MAX: Duration = Duration::from_secs(300);

/// Environment variable that lets a process run as a singleton below a launcher.
const SINGLETON_VARIABLE: &str = "TUTTI_SINGLETON";

/// Refuses to be one of several worlds of size 1 that another MPI's launcher has started. The first of
/// its processes says why.
fn refuse_foreign_launcher() -> Result<(), AttachError> {
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u32>().ok();
    let launchers = [
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpiexec"),
        ("PMI_SIZE", "PMI_RANK", "another MPI's mpiexec"),
        ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
    ];
    for (size_variable, rank_variable, launcher) in launchers {
        if let Some(ranks) = number(size_variable).filter(|&ranks| ranks > 1) {
            let first = number(rank_variable).unwrap_or(0) == 0;
            return Err(AttachError::ForeignLauncher { launcher, size_variable, ranks, first });
        }
    }
    Ok(())
}

/// Answer of the starter, and the descriptors that came along.
type Received = (Option<Welcome>, Vec<OwnedFd>);

/// The connection to the starter.
#[derive(Debug)]
pub struct Starter {
    socket: OwnedFd,
    /// Answers that nobody has taken.
    answers: Mutex<Vec<Answer>>,
}

impl Starter {
    /// Over a connection that a starter has taken over without a ticket.
    ///
    /// # Errors
    /// When the other end is closed, or says something else.
    pub(crate) fn over(socket: OwnedFd) -> io::Result<Self> {
        let starter = Starter { socket, answers: Mutex::default() };
        match starter.receive_welcome()? {
            (Some(Welcome::Granted), _) => Ok(starter),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn connect(ticket: &Ticket) -> Result<(Self, Option<Welcome>, Vec<OwnedFd>), AttachError> {
        let failed = |action| move |source| AttachError::Starter { action, source };
        let socket = local_socket::connect(&ticket.socket, CONNECT_MAX).map_err(failed("reach"))?;
        let starter = Starter { socket, answers: Mutex::default() };
        // Anybody may take the name of a starter that is gone; root's starter judges by itself.
        starter.check_user(|uid| uid == 0)?;
        // A starter that refuses a stranger may have closed the connection before it is read.
        let cause = |action| {
            let starter = &starter;
            move |source| starter.check_user(|_| false).err().unwrap_or_else(|| failed(action)(source))
        };
        let face = if IS_MPICH.load(Ordering::Relaxed) { Face::Mpich } else { Face::Own };
        starter
            .send(&Attach { rank: ticket.rank, secret: ticket.secret, face }.encode())
            .map_err(cause("write to"))?;
        let (welcome, gifts) = starter.receive_welcome().map_err(cause("hear from"))?;
        Ok((starter, welcome, gifts))
    }

    /// Looks that the starter is of the user of this process, or of one that is trusted.
    fn check_user(&self, is_trusted: impl Fn(u32) -> bool) -> Result<(), AttachError> {
        let failed = |source| AttachError::Starter { action: "reach", source };
        let peer = local_socket::peer(self.socket.as_fd()).map_err(failed)?;
        // SAFETY: a plain system call.
        let own = unsafe { libc::geteuid() };
        if peer.uid == own || is_trusted(peer.uid) {
            return Ok(());
        }
        Err(AttachError::OtherUser { own, starter: peer.uid })
    }

    /// Pid of the starter in the namespace of this process; none where it is not seen from here.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.peer().and_then(|peer| u32::try_from(peer.pid).ok()).filter(|pid| *pid != 0)
    }

    /// The process at the other end, by the kernel's word.
    fn peer(&self) -> Option<libc::ucred> {
        local_socket::peer(self.socket.as_fd()).ok()
    }

    /// The connection itself.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Tells the starter something. A starter that is gone is about to end this process anyway.
    pub fn tell(&self, notice: Notice) {
        let _ = self.send(&notice.encode());
    }

    /// Tells the starter of another launch.
    pub fn tell_connection(&self, connection: Connection) {
        let _ = self.send(&connection.encode());
    }

    /// Gives the starter a connection for the server of regions ([`tutti_shm::published`]).
    ///
    /// # Errors
    /// When the starter is gone.
    pub fn give_connection(&self, connection: BorrowedFd<'_>) -> io::Result<()> {
        self.give(Notice::Regions, connection)
    }

    /// Gives it a socket on which it may stand in for this rank ([`tutti_shm::stand_in`]).
    ///
    /// # Errors
    /// When the starter is gone.
    pub fn give_socket(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.give(Notice::StandIn, socket)
    }

    /// Sends a notice with the descriptor that belongs to it.
    fn give(&self, notice: Notice, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        local_socket::send_with(self.socket.as_fd(), &notice.encode(), descriptor).map(drop)
    }

    /// Asks for more ranks. The answer comes by [`Starter::poll_answer`].
    ///
    /// # Errors
    /// When it is too long, or the starter is gone.
    pub fn ask(&self, request: &Request) -> io::Result<()> {
        let bytes = request.encode().ok_or_else(|| {
            io::Error::other(format!("the request has more than {REQUEST_BYTES_MAX} bytes"))
        })?;
        self.send(&bytes)
    }

    /// The answer to a request, when it is there.
    ///
    /// # Errors
    /// When the starter is gone.
    pub fn poll_answer(&self, number: u32) -> io::Result<Option<Answer>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0_u8; ANSWER_BYTES_MAX];
        loop {
            if let Some(at) = answers.iter().position(|answer| answer.number == number) {
                return Ok(Some(answers.swap_remove(at)));
            }
            match local_socket::receive_now(self.socket.as_fd(), &mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => answers.extend(Answer::decode(&bytes[..length])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        local_socket::send(self.socket.as_fd(), bytes).map(drop)
    }

    fn receive_welcome(&self) -> io::Result<Received> {
        let mut bytes = [0_u8; Welcome::BYTES + 1];
        let mut gifts = Vec::new();
        match local_socket::receive(self.socket.as_fd(), &mut bytes, &mut gifts)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            received => Ok((Welcome::decode(&bytes[..received]), gifts)),
        }
    }
}
