//! The daemon's hands: sockets, processes, the clock. One thread, one loop; every connection and every
//! starter has a task that turns bytes into events, and one that writes.
//!
//! Nothing here waits for anybody: what is to be written is queued, and the queues are bounded by what the
//! core gives out (room for output, one piece of stdin, orders).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tutti_protocol::paths;
use tutti_protocol::wire::{Kind, Reattach};

use crate::core::Core;
use crate::core::event::{Event, WriterEvent};
use crate::core::job_event::JobEvent;
use crate::gang::fetcher::{Fetcher, Handover};
use crate::gang::{self, Switcher};
use crate::ids::{ClientId, LinkId};
use crate::key::Credential;
use crate::message::{JobId, Message};
use clock::{now, now_ms, now_us};
pub use error::ShellError;
use error::failed;
pub use script_files::{ScriptSettings, check_mail};
pub use settings::{Configured, Delays, Folders, NetworkSettings, NodeSettings, Settings};
use starters::Starter;

mod actions;
mod address;
mod alarm;
mod announced;
mod board;
mod clients;
mod clock;
mod complaints;
mod configuration;
mod doors;
mod drains;
mod epilogs;
mod error;
mod events;
mod filing;
mod filling;
mod first;
mod groups;
mod journals;
mod kept;
mod leaving;
mod lending;
mod letters;
mod mails;
mod neighbours;
mod numbers;
mod opening;
mod orphans;
mod peer_users;
mod peers;
mod public;
mod quota;
mod receive;
mod records;
mod region_clients;
mod regions;
mod reservations;
mod script_files;
mod script_runs;
mod scripts;
mod service;
mod settings;
mod starters;
mod state;
#[cfg(test)]
mod state_files;
mod strangers;
mod tokens;
mod used;
mod uses;
mod writers;

/// Between two entries in the log of turns.
const TURNS_MS: u64 = 1000;

/// Event for the loop.
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
    /// Pages that starters of a job have for the switch thread.
    Pages(JobId, Handover),
    /// Of published regions.
    Region(regions::RegionEvent),
    /// Result of a search for others who have jobs on this machine: what is known now, and our windows.
    Neighbours(Box<neighbours::Census>, Option<tutti_sched::Window>),
    /// A starter has closed its wire, that with this number, or has said something that none says.
    StarterClosed(JobId, u64, Option<String>),
    /// The starter of this wire has been ordered to kill its part long ago.
    Overdue(JobId, u64),
    /// The prolog of a part, that with this number, is over.
    Prepared(JobId, u64, Result<(), String>),
    /// The starter of a part is dead, and its status is taken.
    Buried(Box<epilogs::Buried>),
    /// An epilog for this account is over, and how it has failed.
    EpilogOver(u32, Option<String>),
    /// A mail of this user is sent, or why not.
    MailSent(u32, Option<String>),
    /// A job's writer with this number has said something.
    Writer(JobId, u64, WriterEvent),
    /// A starter of an earlier daemon has connected as if it were a user's program.
    Reattach {
        client: ClientId,
        uid: u32,
        pid: Option<Pid>,
        back: Reattach,
        listen: Arc<Notify>,
        /// Whether it is not who it says it is: nothing is read from it then.
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
    /// Pieces that users have sent.
    pieces: service::Pieces<ShellEvent>,
    /// The user who is served now.
    speaker: Option<u32>,
    starters: HashMap<JobId, Starter>,
    /// Parts whose starters have not begun.
    preparing: script_runs::Preparations,
    epilogs: epilogs::Epilogs,
    /// Parts whose epilogs have not begun.
    owed: epilogs::Owed,
    mails: letters::Mails,
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
    /// Ranks of which the switch thread is notified when that is found, or at this time.
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
    /// Whether it was said that no cgroups can be made for jobs.
    without_groups: bool,
    /// Why users' limits are not held here: the keeper was told.
    without_user_limits: BTreeSet<String>,
    /// The name of this machine, as [`NodeSettings::machine`] says it.
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
    let _state_locks = clients::lock_all(&settings)?;
    settings.folders.adopt(&settings.node.name);
    let (local, _lock) = clients::bind(&settings.folders.socket, settings.delays.leave_ms.is_some())?;
    let listener = address::listen(&settings).await?;
    settings.network.listen = listener.local_addr().map_err(failed("read its own address"))?;
    settings.folders.link_state();
    // For `tutti up`, and for the next one that starts with the same command line.
    let _ = paths::write_address(&settings.folders.address, settings.network.listen).inspect_err(|error| {
        tracing::warn!("cannot write {}: {error}", settings.folders.address.display());
    });
    // What starters leave behind when they die is ours to end.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failed("adopt orphans")(error.into()))?;
    let (shell_events, mut queue) = mpsc::unbounded_channel();
    let mut public = public::PublicList::new(settings.is_controller());
    let mut board_socket =
        board::BoardSocket::open(&settings.folders.socket, settings.delays.board_refresh_ms)
            .map_err(failed("make a timer for the board"))?;
    let region_socket = regions::RegionSocket::open(&settings.folders.socket);
    let mut shell = Shell::open(settings, credential, shell_events, descriptors)?;
    if shell.settings.is_controller() {
        // Other nodes do so when they hear of it.
        shell.limit_users();
    }
    if rustix::process::geteuid().is_root() && starters::is_open_to_users(&shell.settings.node.starter) {
        let path = shell.settings.node.starter.display();
        tracing::warn!(
            "users can read {path}, and so trace the starters of their jobs before these close themselves: chmod 0711 {path}"
        );
    }
    shell.events.put(&JobEvent::controller_begun(now_ms()));
    ready(shell.settings.network.listen);
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
    shell.take_over_owed();
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
            // Sockets and tasks are looked at before.
            () = tokio::task::yield_now(), if shell.preparing.has_due() => {}
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
            _ = replaced.recv() => shell.leave_to_next().await,
            _ = reload.recv() => shell.reload(None),
            _ = interrupt.recv() => shell.leaving = true,
        }
        while let Ok(shell_event) = queue.try_recv() {
            shell.handle(shell_event);
        }
        shell.act();
        shell.serve_users();
        shell.act();
        shell.start_due();
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

impl Shell {
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
            ShellEvent::Core(Event::Gang(gang::SwitchEvent::Context(job, step, generation, within_ns))) => {
                let numbers = [generation, within_ns].map(u64::to_le_bytes).concat();
                return self.put_to_starter(job, Kind::Context, step as u32, &numbers);
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
            ShellEvent::MailSent(uid, failure) => return self.handle_mail_sent(uid, failure.as_deref()),
            ShellEvent::Buried(buried) => match self.handle_buried(*buried) {
                Some(event) => event,
                None => return,
            },
            ShellEvent::EpilogOver(account, failure) => match self.handle_epilog_over(account, failure) {
                Some(event) => event,
                None => return,
            },
            ShellEvent::Prepared(job, number, result) => match self.handle_prepared(job, number, result) {
                Some(event) => event,
                None => return,
            },
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
            Event::Starter(job, frames) => self.pass_context_done(*job, frames),
            _ => {}
        }
        self.core.handle(now(), event);
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

    /// Measures what jobs have of this node's memory and network, for the controller and the board.
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

    /// Forwards over the links what the switch thread says to its neighbours and does not go by datagram.
    fn forward_outbox(&mut self) {
        while let Some((link, number, word)) = self.switcher.outbox().take() {
            self.core.handle(now(), Event::Gang(gang::SwitchEvent::Relay(link, number, word)));
        }
    }

    /// Takes what the switch thread has done to the controller's log, once a second.
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

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

/// Number that nobody can know before, from the kernel.
fn random_number() -> io::Result<u64> {
    let mut number = [0; 8];
    tutti_os::random::fill_random(&mut number)?;
    Ok(u64::from_ne_bytes(number))
}
