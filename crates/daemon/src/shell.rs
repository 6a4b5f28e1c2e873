//! The daemon's hands: sockets, processes, the clock. One thread, one loop; every connection and every
//! starter has a task that turns bytes into events, and one that writes.
//!
//! Nothing here waits for anybody: what is to be written is queued, and the queues are bounded by what the
//! core gives out (room for output, one piece of stdin, orders).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::Pid;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::configuration::ConfigurationSource;
use crate::core::Core;
use crate::core::action::Action;
use crate::core::config::{Config, KnownNodes, Loaded};
use crate::core::event::{Event, WriterEvent};
use crate::core::job_event::JobEvent;
use crate::core::ledger::queue::Rules;
use crate::gang::fetcher::{Fetcher, Handover};
use crate::gang::wishes::Listeners;
use crate::gang::{self, GangSettings, Switcher};
use crate::ids::{ClientId, LinkId};
use crate::key::{Credential, KeySource};
use crate::message::{JobId, Message};
use clock::{now, now_ms, now_us};
pub use error::ShellError;
use error::failed;
use starters::Starter;
use tutti_protocol::job_numbers::{self, JobNumbers};
use tutti_protocol::paths;
use tutti_protocol::ports::Ports;
use tutti_protocol::settings::Setting;
use tutti_protocol::wire::{self, Kind, Reattach};
use tutti_shm::published::Status;
use tutti_shm::published::far::{Given, Place};

mod alarm;
mod board;
mod clients;
mod clock;
mod complaints;
mod configuration;
mod doors;
mod drains;
mod error;
mod events;
mod filing;
mod filling;
mod groups;
mod journals;
mod kept;
mod lending;
mod neighbours;
mod numbers;
mod orphans;
mod peer_users;
mod peers;
mod public;
mod quota;
mod receive;
mod records;
mod regions;
mod service;
mod starters;
mod state;
mod strangers;
mod tokens;
mod used;
mod uses;
mod writers;

/// Between two entries in the log of turns.
const TURNS_MS: u64 = 1000;

/// So long a controller waits for its port, and so often it looks.
const PORT_MAX: Duration = Duration::from_secs(10);
const PORT_AGAIN: Duration = Duration::from_millis(100);
/// A daemon that is replaced writes so long what waits to be written, and looks so often whether it is.
const LAST_WRITES_MAX: Duration = Duration::from_secs(1);
const LAST_WRITES_LOOK: Duration = Duration::from_millis(2);

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the controller hears; none: this is the controller.
    pub controller: Option<SocketAddr>,
    /// Where this daemon hears other daemons.
    pub listen: SocketAddr,
    /// Address on which its ranks are reached.
    pub data: IpAddr,
    /// Ports of its ranks' sockets between nodes; none: the kernel chooses.
    pub ports: Option<Ports>,
    /// Its name.
    pub name: String,
    /// Cores that ranks can hold.
    pub slots: u32,
    /// Memory for jobs.
    pub memory_bytes: u64,
    /// Processes and threads of a job here, at most.
    pub pids_max: u64,
    /// Text that all nodes of one machine share.
    pub machine: String,
    /// The local socket.
    pub socket: PathBuf,
    /// Files of the daemon.
    pub folders: Folders,
    /// The credential.
    pub key: KeySource,
    /// Children of a node in the control tree.
    pub arity: u32,
    /// After which times a node is lost and this daemon leaves.
    pub delays: Delays,
    /// How gangs are scheduled.
    pub gangs: GangSettings,
    /// How often the board is refreshed, in ms.
    pub board_refresh_ms: u64,
    /// The starter's program.
    pub starter: PathBuf,
    /// What the keeper sets.
    pub configuration: ConfigurationSource,
    /// The same as it was read at the start.
    pub loaded: Loaded,
    /// What holds for this node, for people.
    pub shown: Vec<Setting>,
}

/// Times of silence and of idleness, in ms.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// A node that is not heard of for so long is lost.
    pub lost_ms: u64,
    /// Starters wait so long for a daemon of their node that is away.
    pub keep_ms: u64,
    /// The daemon leaves after so long without clients and jobs; none: it stays.
    pub leave_ms: Option<u64>,
}

/// Where a daemon's files are.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Files of this boot.
    run: PathBuf,
    /// Files that outlive it.
    state: PathBuf,
    /// The log of events, on the controller.
    events: PathBuf,
    /// The log of the turns of gangs, on the controller.
    turns: PathBuf,
    /// Logs of other daemons of this machine, whose numbers of jobs are not given again.
    other_events: Vec<PathBuf>,
    /// The series of its user's numbers.
    numbers: Arc<JobNumbers>,
    /// Whether `mpiexec` has started it.
    is_on_demand: bool,
    /// The file that says where it hears others, for the daemon after this one.
    address: PathBuf,
    /// Records of starters, for the daemon after this one.
    parts: PathBuf,
    /// Kept output of jobs that were submitted here.
    output: PathBuf,
    /// The jobs that wait for nodes, on the controller, for the controller after this one.
    queue: PathBuf,
    /// Where the sections of the cluster are stored.
    cluster_file: PathBuf,
}

impl Folders {
    /// Of the daemon of this name.
    #[must_use]
    pub fn new(run: PathBuf, state: PathBuf, name: &str, is_on_demand: bool) -> Self {
        let file = name.replace('/', "_");
        Folders {
            events: state.join(paths::EVENTS),
            turns: state.join(paths::TURNS),
            other_events: paths::other_logs(&run, is_on_demand),
            numbers: JobNumbers::of(run.parent().filter(|_| is_on_demand).unwrap_or(&run)).into(),
            is_on_demand,
            address: run.join(paths::address(name)),
            parts: run.join(format!("{file}.parts")),
            output: state.join(format!("{file}.output")),
            queue: state.join(format!("{file}.queue")),
            cluster_file: state.join(format!("{file}.cluster.toml")),
            run,
            state,
        }
    }
}

/// Something for the loop.
enum ShellEvent {
    Core(Event),
    /// A user has sent something, which is served in turns.
    OfUser(u32, Box<service::Piece<ShellEvent>>),
    /// Frames of a user's program.
    Frames(ClientId, Vec<(Kind, u32, Vec<u8>)>),
    /// A peer's connection is made.
    Peer(LinkId, peers::Peer),
    /// A user's program has connected.
    Client {
        client: ClientId,
        writer: clients::Writer,
        debts: quota::Debts,
        process: Option<peer_users::PeerProcess>,
    },
    /// What starters of a job have for the switch thread.
    Pages(JobId, Handover),
    /// Of published regions.
    Region(regions::RegionEvent),
    /// Who else has jobs on this machine has been looked for: what is known now, and our windows.
    Neighbours(Box<neighbours::Census>, Option<tutti_sched::Window>),
    /// A starter has closed its wire, that with this number, or has said something that none says.
    StarterClosed(JobId, u64, Option<String>),
    /// The starter of this wire has been told to kill its part long ago.
    Overdue(JobId, u64),
    /// A job's writer with this number has said something.
    Writer(JobId, u64, WriterEvent),
    /// A starter of an earlier daemon has connected as if it were a user's program.
    Reattach {
        client: ClientId,
        uid: u32,
        pid: Option<Pid>,
        back: Reattach,
        listen: Arc<Notify>,
        /// It is not who it says it is: nothing is read from it.
        refused: Arc<AtomicBool>,
    },
}

type ShellEvents = mpsc::UnboundedSender<ShellEvent>;

/// A user's connection's way to the main loop.
type UserEvents = service::UserEvents<ShellEvent>;

impl From<(u32, service::Piece<ShellEvent>)> for ShellEvent {
    fn from((uid, piece): (u32, service::Piece<ShellEvent>)) -> ShellEvent {
        ShellEvent::OfUser(uid, Box::new(piece))
    }
}

struct Shell {
    settings: Settings,
    credential: Credential,
    shell_events: ShellEvents,
    core: Core,
    peers: HashMap<LinkId, peers::Peer>,
    clients: HashMap<ClientId, clients::Client>,
    /// Programs that want a region of another node.
    region_clients: HashMap<ClientId, regions::Reply>,
    quota: quota::ConnectionQuota,
    peer_users: peer_users::PeerUsers,
    doors: doors::Doors,
    /// What users have sent.
    pieces: service::Pieces<ShellEvent>,
    /// The user who is served now.
    speaker: Option<u32>,
    starters: HashMap<JobId, Starter>,
    writers: writers::Writers,
    journals: journals::Journals,
    /// Starters that are our children.
    wards: orphans::Wards,
    /// Programs whose connections have become wires of jobs that run already.
    enrolled: HashMap<ClientId, JobId>,
    /// When somebody last needed this daemon.
    needed_ms: u64,
    events: events::Log,
    turns: events::Log,
    turns_taken_ms: u64,
    /// A neighbour's lines of the board have come.
    has_board_lines: bool,
    switcher: Switcher,
    /// Finds what starters have for the switch thread.
    fetcher: Fetcher,
    /// Processes that lend their turns.
    lending: lending::Lending,
    /// Ranks of which the switch thread is told when that is found, or at this time.
    unsent: HashMap<JobId, (Box<gang::LocalRanks>, Instant)>,
    board: Option<board::Keeper>,
    meters: uses::Meters,
    fill_trials: filling::FillTrials,
    neighbours: neighbours::Neighbours,
    pending_peers: peers::PendingPeers,
    folder: records::Folder,
    manifest: records::Manifest,
    /// On the controller: jobs that wait.
    filing: Option<filing::Filing>,
    /// On the controller: what users have used.
    used: Option<used::UsedFile>,
    numbers: u64,
    /// It was said that no cgroups can be made for jobs.
    without_groups: bool,
    /// Why users' limits are not held here: the keeper was told.
    without_user_limits: BTreeSet<String>,
    /// The name of this machine, as [`Settings::machine`] says it.
    machine: Arc<str>,
    complaints: complaints::Complaints,
    leaving: bool,
    /// Why it leaves, if it cannot do its work.
    refused: Option<String>,
}

/// Runs a daemon to its end. `ready` is called when it can be asked.
///
/// # Errors
/// When it cannot begin to work.
pub fn run(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<(), ShellError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("start the runtime"))?;
    runtime.block_on(run_loop(settings, ready))
}

async fn run_loop(mut settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<(), ShellError> {
    let descriptors = doors::raise_descriptors();
    if rustix::process::geteuid().is_root() && settings.delays.leave_ms.is_none() {
        tutti_os::oom::protect_from_oom();
    }
    let credential = settings.key.read()?;
    state::adopt(&settings.folders.run, &settings.folders.state, &settings.name);
    let (local, _lock) = clients::bind(&settings.socket, settings.delays.leave_ms.is_some())?;
    let listener = listen(&settings).await?;
    settings.listen = listener.local_addr().map_err(failed("read its own address"))?;
    let _ = paths::link_state(&settings.socket, &settings.folders.state)
        .inspect_err(|error| tracing::warn!("cannot leave a link to the state beside the socket: {error}"));
    // A full disk costs the next one that starts with the same command line the address.
    let _ = std::fs::write(&settings.folders.address, settings.listen.to_string());
    // What starters leave behind when they die is ours to end.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failed("adopt orphans")(error.into()))?;
    let (shell_events, mut queue) = mpsc::unbounded_channel();
    let mut public = public::PublicList::new(settings.controller.is_none());
    let mut board_socket = board::BoardSocket::open(&settings.socket, settings.board_refresh_ms)
        .map_err(failed("make a timer for the board"))?;
    let region_socket = regions::RegionSocket::open(&settings.socket);
    let mut shell = Shell::open(settings, credential, shell_events, descriptors)?;
    if shell.settings.controller.is_none() {
        // Other nodes do so when they hear of it.
        shell.limit_users();
    }
    if rustix::process::geteuid().is_root() && starters::is_open_to_users(&shell.settings.starter) {
        let path = shell.settings.starter.display();
        tracing::warn!(
            "users can read {path}, and so trace the starters of their jobs before these close themselves: chmod 0711 {path}"
        );
    }
    shell.events.put(&JobEvent::controller_begun(now_ms()));
    ready(shell.settings.listen);
    let priority_class = shell.switcher.priority_class().name();
    tracing::info!("priority class of the switch thread: {priority_class}");
    let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(failed("catch signals"))?;
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
        .map_err(failed("catch signals"))?;
    let mut deaths = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())
        .map_err(failed("catch signals"))?;
    let mut reload = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
        .map_err(failed("catch signals"))?;
    let mut replaced = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1())
        .map_err(failed("catch signals"))?;
    // Orphans are looked for at this time: one of our children has died, or lived on at the last look.
    let mut orphans_at = None;
    let mut alarm = alarm::Alarm::new().map_err(failed("make a timer"))?;
    let outbox_bell =
        alarm::Bell::new(shell.switcher.outbox().bell()).map_err(failed("receive from the switch thread"))?;
    shell.act();
    while !shell.leaving {
        let are_open = shell.doors.are_open();
        tokio::select! {
            Some(shell_event) = queue.recv() => shell.handle(shell_event),
            () = outbox_bell.ring() => shell.forward_outbox(),
            accepted = listener.accept(), if are_open => shell.accept_peer(accepted),
            accepted = local.accept(), if are_open => shell.accept_client(accepted, &local),
            accepted = region_socket.accept(), if are_open => shell.accept_region_client(accepted),
            accepted = public.accept(), if are_open => match accepted {
                Ok(stream) => public.show(stream, |arguments| shell.core.public_rows(arguments)),
                Err(error) => shell.doors.handle_failure("that asks for the list of jobs", &error),
            },
            next = board_socket.next(are_open) => match next.transpose() {
                Ok(stream) => shell.serve_board(stream.as_ref()),
                Err(error) => shell.doors.handle_failure("that asks for the board", &error),
            },
            () = until(shell.doors.closed_until()) => {}
            () = until(service::serves_at(&shell.pieces)) => {}
            () = until(shell.unsent_until()) => shell.send_overdue(),
            () = alarm.ring(shell.wait()) => {
                shell.watch_front_ends();
                shell.core.handle(now(), Event::Tick);
                shell.take_turns();
                shell.try_fillers();
                shell.share_machine(now_ms());
                shell.leave_if_idle();
            }
            _ = deaths.recv() => {
                orphans_at.get_or_insert_with(|| Instant::now() + orphans::PAUSE);
            }
            () = until(orphans_at) => {
                orphans_at = shell.wards.end_orphans().then(|| Instant::now() + orphans::PAUSE);
            }
            _ = end.recv() => shell.leaving = true,
            _ = replaced.recv() => leave_to_next(&shell).await,
            _ = reload.recv() => shell.reload(None),
            _ = interrupt.recv() => shell.leaving = true,
        }
        while let Ok(shell_event) = queue.try_recv() {
            shell.handle(shell_event);
        }
        shell.act();
        shell.serve_users();
        if std::mem::take(&mut shell.has_board_lines) {
            board_socket.hasten();
        }
        shell.act();
    }
    let refused = shell.refused.take();
    shell.end().await;
    refused.map_or(Ok(()), |why| Err(ShellError::Refused(why)))
}

/// Returns at this time; never without one.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Ends this process alone: the next daemon takes its jobs over, as if this one had been killed.
///
/// One whose key is in no file has no next one. In an allocation `scancel --signal` means the ranks, which
/// have the signal too.
///
/// What waits to be written to front ends is written first, unless they do not read: the next daemon has none
/// of it.
async fn leave_to_next(shell: &Shell) {
    if matches!(shell.settings.key, KeySource::Text(_)) {
        return;
    }
    let deadline = Instant::now() + LAST_WRITES_MAX;
    while shell.quota.has_unread() && Instant::now() < deadline {
        tokio::time::sleep(LAST_WRITES_LOOK).await;
    }
    tracing::info!("replaced (SIGUSR1): jobs wait for the next daemon");
    // No destructor: what is open is taken over as it is.
    std::process::exit(0)
}

/// With port 0 a daemon hears where the one before it did: others look for it there. Where that is taken, a
/// node of another controller hears elsewhere, and tells the controller so. A controller waits for it, and
/// ends: at another address it would be the controller of a second cluster.
async fn listen(settings: &Settings) -> Result<TcpListener, ShellError> {
    let bind_at = async |address: SocketAddr| TcpListener::bind(address).await;
    let before: Option<SocketAddr> =
        std::fs::read_to_string(&settings.folders.address).ok().and_then(|text| text.trim().parse().ok());
    let asked = settings.listen;
    let before =
        before.filter(|before| before.ip() == asked.ip() && [0, before.port()].contains(&asked.port()));
    // One that was started on demand is a cluster of one node, whatever its address.
    let is_controller = settings.controller.is_none() && settings.delays.leave_ms.is_none();
    let Some(before) = before else {
        return bind_at(asked).await.map_err(failed(format!("listen on {asked}")));
    };
    let mut result = bind_at(before).await;
    if let Err(error) = &result {
        if !is_controller {
            return bind_at(asked).await.map_err(failed(format!("listen on {asked}")));
        }
        let limit_s = PORT_MAX.as_secs();
        tracing::warn!(
            "cannot listen on {before}, where the controller was: {error}; it is tried for {limit_s} s"
        );
    }
    let deadline = tokio::time::Instant::now() + PORT_MAX;
    while result.is_err() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(PORT_AGAIN).await;
        result = bind_at(before).await;
    }
    let file = settings.folders.address.display();
    result.map_err(failed(format!(
        "listen on {before}, where the controller of this cluster was (without {file} a new cluster begins)"
    )))
}

/// For the switch thread: at the address where other daemons dial this one.
fn switch_socket(settings: &Settings) -> Option<UdpSocket> {
    let bound =
        UdpSocket::bind(settings.listen).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound
        .inspect_err(|error| {
            let listen = settings.listen;
            tracing::warn!("no datagrams of switch threads at {listen} (UDP), switches are slower: {error}");
        })
        .ok()
}

/// One more than the last job of this machine that the logs have, and the series of its user.
fn first_job(settings: &Settings) -> u64 {
    let folders = &settings.folders;
    let others = folders.other_events.iter().filter(|path| **path != folders.events);
    let last = others.map(|path| job_numbers::last_job(path)).max().unwrap_or(0);
    // An on-demand daemon draws from the series itself, and a job that asks to take part may have begun it.
    let drawn = if folders.is_on_demand { 0 } else { folders.numbers.last() };
    job_numbers::next_job(&folders.events).max(last.max(drawn) + 1)
}

fn config(settings: &Settings) -> Result<Config, ShellError> {
    let incarnation = random_number().map_err(failed("draw random bytes"))?;
    let ability = tutti_os::cgroup::ability();
    Ok(Config {
        about: crate::members::About {
            name: settings.name.clone(),
            control: settings.listen,
            data: settings.data,
            slots: settings.slots,
            memory_bytes: settings.memory_bytes,
            limits_memory: ability.limits_memory,
            freezes: ability.freezes,
            incarnation,
            preferred: Default::default(),
            machine: settings.machine.clone(),
            release: tutti_protocol::version::RELEASE.into(),
        },
        controller: settings.controller,
        arity: settings.arity,
        lost_ms: settings.delays.lost_ms,
        keep_ms: settings.delays.keep_ms,
        owner: rustix::process::geteuid().as_raw(),
        first_job: first_job(settings),
        before: None,
        starters: Vec::new(),
        journals: Vec::new(),
        queued: Vec::new(),
        used: Default::default(),
        known_nodes: match settings.controller {
            None => KnownNodes {
                drains: drains::load(&drains::file(&settings.folders.queue)),
                numbers: numbers::load(&settings.folders.queue),
            },
            Some(_) => KnownNodes::default(),
        },
        policy: settings.gangs.policy,
        loaded: settings.loaded.clone(),
        settings: settings.shown.clone(),
        user_name: crate::accounts::name,
        group_name: crate::accounts::group_name,
    })
}

impl Shell {
    /// A daemon that has not begun yet, with what an earlier one has left.
    fn open(
        settings: Settings,
        credential: Credential,
        shell_events: ShellEvents,
        descriptors: u64,
    ) -> Result<Self, ShellError> {
        let owner = rustix::process::geteuid().as_raw();
        let quota = quota::ConnectionQuota::new(owner, descriptors);
        let folder = records::Folder::open(&settings.folders.parts)?;
        let mut config = config(&settings)?;
        let waiting = settings
            .controller
            .is_none()
            .then(|| records::Folder::open(&settings.folders.queue))
            .transpose()?;
        config.queued = waiting.as_ref().map_or_else(Vec::new, records::Folder::queued);
        let filed = shell_events.clone();
        let done = move |job, result| drop(filed.send(ShellEvent::Core(Event::Filed(job, result))));
        let filing = waiting.map(|folder| filing::Filing::start(folder, filing::sync, done)).transpose();
        let filing = filing.map_err(failed("start a thread for the jobs that wait"))?;
        let mut used = settings.controller.is_none().then(|| used::UsedFile::new(&settings.folders.queue));
        config.used = used.as_mut().map_or_else(Default::default, |file| file.load(now_ms()));
        let (manifest, before) = records::Manifest::take(&settings.folders.parts, config.about.incarnation);
        config.before = before;
        let mut starters = HashMap::new();
        for (job, mut file) in folder.sweep() {
            let record = file.record.take().expect("a file without is none");
            let _ = folder.put(job, &records::File { record: Some(record.clone()), ..file.clone() });
            starters.insert(job, Starter::away(file));
            config.starters.push((job, record));
        }
        let swept = tutti_os::cgroup::sweep_blocking();
        if swept.removed > 0 {
            tracing::info!("{} cgroups of jobs that were left are removed", swept.removed);
        }
        if let Some(first) = swept.left.first() {
            tracing::warn!("{} cgroups of jobs that were left stay, the first: {first}", swept.left.len());
        }
        let mut journals = journals::Journals::open(settings.folders.output.clone())?;
        config.journals = journals.load();
        let (board, job_lines) = board::Keeper::open(settings.slots, settings.board_refresh_ms)
            .map_or((None, None), |(keeper, jobs)| (Some(keeper), Some(jobs)));
        let switch_events = shell_events.clone();
        let socket = switch_socket(&settings);
        let switcher = Switcher::start(
            &settings.gangs,
            settings.controller.is_none(),
            socket,
            job_lines,
            move |event| {
                let _ = switch_events.send(ShellEvent::Core(Event::Gang(event)));
            },
        )
        .map_err(failed("start the switch thread"))?;
        config.about.preferred = switcher.priority_class();
        let found = shell_events.clone();
        let waker = switcher.waker().map_err(failed("wake the switch thread"))?;
        let listeners = Listeners::new(waker.try_clone().map_err(failed("wake the switch thread"))?);
        let fetcher = Fetcher::new(waker, move |job, pages| drop(found.send(ShellEvent::Pages(job, pages))));
        Ok(Shell {
            core: Core::new(config, now()),
            folder,
            manifest,
            filing,
            used,
            events: events::Log::open(&settings.folders.events, settings.controller.is_none())?,
            turns: events::Log::open(&settings.folders.turns, settings.controller.is_none())?,
            turns_taken_ms: 0,
            has_board_lines: false,
            credential,
            switcher,
            fetcher,
            lending: lending::Lending::new(listeners),
            unsent: HashMap::new(),
            board,
            meters: uses::Meters::open(),
            fill_trials: filling::FillTrials::default(),
            neighbours: neighbours::Neighbours::new(settings.delays.leave_ms.is_some()),
            pending_peers: peers::PendingPeers::new(),
            shell_events,
            peers: HashMap::new(),
            clients: HashMap::new(),
            region_clients: HashMap::new(),
            complaints: complaints::Complaints::new(quota.clone()),
            quota,
            doors: doors::Doors::new(owner),
            pieces: service::Pieces::new(Rules::of_daemon(owner)),
            speaker: None,
            peer_users: peer_users::PeerUsers::default(),
            starters,
            writers: HashMap::new(),
            journals,
            wards: orphans::Wards::new(),
            enrolled: HashMap::new(),
            needed_ms: now_ms(),
            // Connections of an earlier incarnation are known elsewhere by theirs.
            numbers: now_ms() << 20,
            machine: settings.machine.as_str().into(),
            without_groups: false,
            without_user_limits: BTreeSet::new(),
            leaving: false,
            refused: None,
            settings,
        })
    }

    /// Serves users in turns, for a while.
    fn serve_users(&mut self) {
        let began = Instant::now();
        while let Some((uid, piece)) = self.pieces.take(gang::now_ns()) {
            let before_ns = service::thread_ns();
            self.speaker = Some(uid);
            self.handle(piece.event);
            self.act();
            self.speaker = None;
            self.pieces.charge(gang::now_ns(), uid, service::thread_ns().saturating_sub(before_ns));
            if began.elapsed() >= service::TURN {
                break;
            }
        }
    }

    fn handle(&mut self, shell_event: ShellEvent) {
        let event = match shell_event {
            ShellEvent::Pages(job, pages) => return self.send_pages(job, pages),
            ShellEvent::OfUser(uid, piece) => return self.pieces.put(uid, *piece),
            ShellEvent::Frames(client, frames) => {
                for (kind, rank, payload) in frames {
                    self.handle(ShellEvent::Core(Event::Frame(client, kind, rank, payload)));
                }
                return;
            }
            ShellEvent::Core(Event::Gang(gang::SwitchEvent::UserLine(uid, text))) => {
                return self.complaints.inform(uid, &text);
            }
            ShellEvent::Peer(link, peer) => {
                let dialled = peer.far.dialled;
                #[cfg(feature = "next-wire")]
                let _ =
                    peer.writer.send(peers::encode(&crate::message::Message::Next(vec!["new".into(); 9])));
                self.peers.insert(link, peer);
                if dialled { Event::Dialled(link) } else { Event::Accepted(link) }
            }
            ShellEvent::Client { client, writer, debts, process } => {
                self.clients.insert(client, clients::Client { writer, debts, process, stopped: false });
                return;
            }
            ShellEvent::Core(event) if self.is_enrolled(&event) => match self.as_starter(event) {
                Some(event) => event,
                None => return,
            },
            ShellEvent::Core(event) => event,
            ShellEvent::Overdue(job, number) => {
                self.starters.get(&job).into_iter().for_each(|starter| starter.kill_overdue(number));
                return;
            }
            ShellEvent::Writer(job, number, event) => match self.handle_writer_event(job, number, event) {
                Some(event) => event,
                None => return,
            },
            ShellEvent::Region(event) => match self.take_region_event(event) {
                Some(event) => event,
                None => return,
            },
            ShellEvent::Neighbours(census, window) => return self.handle_neighbours(*census, window),
            ShellEvent::StarterClosed(job, number, wrong) => return self.bury(job, number, wrong),
            ShellEvent::Reattach { client, uid, pid, back, listen, refused } => {
                match self.welcome_back((client, uid, pid), &back, listen, &refused) {
                    Some(event) => event,
                    None => return,
                }
            }
        };
        match &event {
            Event::Dialled(link) | Event::Accepted(link) => tracing::debug!("link {} is up", link.0),
            Event::Message(link, message) => {
                tracing::trace!("link {} brings {}", link.0, message.name());
                self.has_board_lines |= matches!(message, Message::Board(_));
            }
            Event::LinkDown(link) => {
                tracing::debug!("link {} is down", link.0);
                self.forget_peer(*link);
            }
            Event::Gang(gang::SwitchEvent::Moved(job)) => return self.fill_trials.handle_moved(*job),
            Event::StarterGone(job, _) => tracing::debug!("the starter of job {job} is gone"),
            Event::ClientGone(client) => {
                drop(self.clients.remove(client));
                drop(self.region_clients.remove(client));
            }
            Event::Starter(job, _) if self.starters.get(job).is_some_and(Starter::is_abandoned) => return,
            _ => {}
        }
        self.core.handle(now(), event);
    }

    /// Does what the core wants.
    fn act(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Dial(address) => self.dial(address),
                Action::Send(link, message) => {
                    let peer = self.peers.get(&link).filter(|peer| peer.far.wire >= message.since());
                    if let Some(peer) = peer {
                        let _ = peer.writer.send(peers::encode(&message));
                    }
                }
                Action::Close(link) => self.forget_peer(link),
                Action::Answer(client, answer) => self.answer(client, &answer),
                Action::ToClient(client, frame) => self.send_to_client(client, frame),
                Action::Continue(client) => {
                    let process = self.clients.get(&client).and_then(|client| client.process);
                    process.iter().for_each(peer_users::PeerProcess::resume);
                }
                // The writer ends when all is written.
                Action::Release(client) => drop(self.clients.remove(&client)),
                Action::Start(job, launch, described) => {
                    tracing::debug!("the starter of job {job} is started");
                    let mut described = *described;
                    described.part.iter_mut().for_each(|part| part.ports = self.settings.ports);
                    self.start(job, &launch, described);
                }
                Action::Enrol(client, job) => self.enrol(client, job),
                Action::ToStarter(job, kind, number, payload) => {
                    if let Some(starter) = self.starters.get(&job) {
                        starter.put(kind, number, &payload);
                        if kind == Kind::Kill && number != wire::SPARE_FILTERS {
                            starter.kill_later(job, &self.shell_events);
                        }
                    }
                }
                Action::Listen(job) => {
                    if let Some(starter) = self.starters.get(&job) {
                        starter.listen();
                    }
                }
                Action::End(job) => {
                    self.folder.remove(job);
                    self.starters.get_mut(&job).into_iter().for_each(Starter::end);
                }
                Action::RecordStarter(job, record) => {
                    if let Some(starter) = self.starters.get(&job)
                        && self
                            .folder
                            .put(job, &records::File { record: Some(*record), ..starter.file.clone() })
                            .is_err()
                    {
                        self.manifest.renounce();
                    }
                }
                Action::RecordOutput(job, journal) => self.journals.put(job, &journal),
                Action::ForgetOutput(job) => self.journals.remove(job),
                Action::OpenFiles(job, user, groups, open) => self.open_files(job, user, &groups, *open),
                Action::WriteFiles(job, frames) => self.write_files(job, frames),
                // It ends when it has read all.
                Action::CloseFiles(job) => drop(self.writers.remove(&job)),
                Action::Queue(job, queued) => match (&self.filing, queued) {
                    (Some(filing), Some(queued)) => filing.put(job, queued),
                    (Some(filing), None) => filing.remove(job),
                    (None, _) => {}
                },
                Action::Gang(command) => {
                    if let gang::Command::PartEnded(job) = &command {
                        self.fill_trials.end(*job);
                        self.unsent.remove(job);
                        self.lending.end(*job);
                    }
                    self.switcher.send(command);
                }
                Action::RanksStarted(job, residents) => self.send_residents(job, residents),
                Action::OpenSwitchLink(link, node, is_parent) => self.open_switch_link(link, node, is_parent),
                Action::KeepDrains(nodes) => {
                    let events = self.shell_events.clone();
                    let done = move |kept| drop(events.send(ShellEvent::Core(Event::DrainsKept(kept))));
                    drains::keep(drains::file(&self.settings.folders.queue), nodes, done);
                }
                Action::KeepNumbers(nodes) => numbers::keep(&self.settings.folders.queue, &nodes),
                Action::KeepConfiguration(text) => self.keep_configuration(text),
                Action::LimitUsers => self.limit_users(),
                Action::Reload(requester) => self.reload(requester),
                Action::Log(event) => self.events.put(&event),
                Action::LogTurns(turns) => self.turns.put(&turns),
                Action::ShowNode(node, lines, age_ms) => {
                    self.board.iter_mut().for_each(|board| board.show(node, &lines, age_ms));
                }
                Action::GiveRegion(client, given) => {
                    // Who has gone wants no answer.
                    let reply = self.region_clients.remove(&client);
                    let _ = reply.map(|reply| reply.send(given.encode().to_vec()));
                }
                Action::GiveServices(client, text) => {
                    let reply = self.region_clients.remove(&client);
                    let _ = reply.map(|reply| reply.send(text.into_bytes()));
                }
                Action::ListServices(from, id) => regions::list_services(from, id, self.region_events()),
                Action::ReachRegion(from, id, client) => {
                    regions::reach_for(from, id, client, self.settings.data, self.region_events());
                }
                Action::Info(text) => match self.speaker {
                    Some(uid) => self.complaints.inform(uid, &text),
                    None => tracing::info!("{text}"),
                },
                Action::Warn(text) => match self.speaker {
                    Some(uid) => self.complaints.warn(uid, &text),
                    None => tracing::warn!("{text}"),
                },
                Action::Leave => self.leaving = true,
                Action::GiveUp(why) => (self.leaving, self.refused) = (true, Some(why)),
            }
        }
    }

    /// A program that wants a region of another node has connected.
    fn accept_region_client(&mut self, accepted: io::Result<tokio::net::UnixStream>) {
        let client = ClientId(self.number());
        let tell = self.region_events();
        let users = &mut self.peer_users;
        let admitted = accepted.and_then(|stream| {
            let (user, _) = users.identify(&stream)?;
            regions::accept(stream, client, user, &self.quota, tell)
        });
        if let Err(error) = admitted {
            self.doors.handle_failure("that asks for a region", &error);
        }
    }

    fn region_events(&self) -> impl Fn(regions::RegionEvent) + Send + use<> {
        let shell_events = self.shell_events.clone();
        move |event| drop(shell_events.send(ShellEvent::Region(event)))
    }

    /// What the core is to know of it.
    fn take_region_event(&mut self, event: regions::RegionEvent) -> Option<Event> {
        Some(match event {
            regions::RegionEvent::Wanted(client, (uid, groups), wanted, reply) => {
                self.region_clients.insert(client, reply);
                Event::Region(client, uid, groups, wanted)
            }
            regions::RegionEvent::Place(uid, reply) => {
                let given = match self.core.nodes_alive() {
                    0 | 1 => Given::Refused(Status::Node),
                    _ => {
                        let secret = self.credential.secret_of(uid);
                        Given::Place(Place { address: self.settings.data, secret })
                    }
                };
                // Who has gone wants no answer.
                let _ = reply.send(given.encode().to_vec());
                return None;
            }
            regions::RegionEvent::Lend(waiting) => {
                let wish = self.lending.hear(*waiting)?;
                self.switcher.send(gang::Command::Wish(wish));
                return None;
            }
            regions::RegionEvent::Services(client, uid, reply) => {
                self.region_clients.insert(client, reply);
                Event::Services(client, uid)
            }
            regions::RegionEvent::Listed(to, id, services) => Event::ServicesListed(to, id, services),
            regions::RegionEvent::Gone(client) => Event::ClientGone(client),
            regions::RegionEvent::Reached(from, id, result) => Event::RegionReached(from, id, result),
        })
    }

    /// Somebody wants the board; or it is time to refresh it.
    fn serve_board(&mut self, stream: Option<&tokio::net::UnixStream>) {
        let jobs = self.starters.len() as u64;
        let Some(board) = &mut self.board else { return };
        if let Some(stream) = stream {
            return board.hand_out(stream);
        }
        let own = board.measure(jobs);
        self.core.handle(now(), Event::Board(Box::new(own)));
        self.measure_uses();
        self.act();
        if let (Some(board), Some(me)) = (&mut self.board, self.core.node()) {
            board.publish(me);
        }
    }

    /// What jobs have of this node's memory and network goes to the controller, and to the board.
    fn measure_uses(&mut self) {
        let (now, starters) = (now(), &self.starters);
        let memory_bytes = |job| {
            let starter: &Starter = starters.get(&job)?;
            Some(starter.group.as_ref().and_then(|group| group.memory_bytes()))
        };
        let Some((found, congested_until_ns)) = self.meters.measure(now.boot_ms, memory_bytes) else {
            return;
        };
        self.board.iter_mut().for_each(|board| board.show_congestion(congested_until_ns));
        self.core.handle(now, Event::Use(Box::new(found)));
    }

    /// Until it is time for a tick.
    fn wait(&self) -> Duration {
        let most_ms = self.settings.delays.leave_ms.map_or(u64::MAX, |leave_ms| leave_ms / 2);
        Duration::from_millis(self.core.wait_ms(now_ms()).min(most_ms).min(self.fill_trials.wait_ms()))
    }

    /// What the switch thread says to its neighbours and does not go by datagram goes over the links.
    fn forward_outbox(&mut self) {
        while let Some((link, number, word)) = self.switcher.outbox().take() {
            self.core.handle(now(), Event::Gang(gang::SwitchEvent::Relay(link, number, word)));
        }
    }

    /// What the switch thread has done goes to the controller's log, once a second.
    fn take_turns(&mut self) {
        for (uid, line) in self.lending.poll_lines(now().boot_ms) {
            self.complaints.inform(uid, &line);
        }
        let (turns, now) = (self.switcher.turns(), now());
        if now.boot_ms < self.turns_taken_ms + TURNS_MS && !turns.is_half_full() {
            return;
        }
        // A clock that is set stops no counting.
        self.turns_taken_ms = now.boot_ms;
        if let Some(batch) = turns.take(now_us(), gang::now_ns()) {
            self.core.handle(now, Event::Turns(batch));
        }
        let served = self.switcher.served().read();
        self.used.iter_mut().for_each(|file| file.keep(now.wall_ms, &served.used));
        if !served.jobs.is_empty() || !served.users.is_empty() {
            self.core.handle(now, Event::Gang(gang::SwitchEvent::Served(served)));
        }
    }

    /// A daemon that was started on demand goes when nobody has needed it for long enough.
    fn leave_if_idle(&mut self) {
        let Some(leave_ms) = self.settings.delays.leave_ms else { return };
        let now_ms = now_ms();
        if !self.clients.is_empty() || !self.starters.is_empty() || !self.core.is_idle() {
            self.needed_ms = now_ms;
        }
        // A clock that was set back begins anew.
        self.needed_ms = self.needed_ms.min(now_ms);
        self.leaving |= now_ms - self.needed_ms >= leave_ms;
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The end: starters die with us, and their jobs with them.
    async fn end(&mut self) {
        let _ = std::fs::remove_file(&self.settings.socket);
        self.manifest.renounce();
        self.peers.clear();
        self.clients.clear();
        self.region_clients.clear();
        self.writers.clear();
        // All hear it before one is waited for.
        self.starters.values_mut().for_each(Starter::end);
        for (job, starter) in self.starters.drain() {
            starter.end_and_wait(self.wards.clone()).await;
            self.folder.remove(job);
        }
        for _ in 0..orphans::LAST_LOOKS {
            if !self.wards.end_orphans() {
                break;
            }
            tokio::time::sleep(orphans::PAUSE / 10).await;
        }
    }
}

/// One that nobody can know before: of the kernel's.
fn random_number() -> io::Result<u64> {
    let mut number = [0; 8];
    tutti_os::random::fill_random(&mut number)?;
    Ok(u64::from_ne_bytes(number))
}
