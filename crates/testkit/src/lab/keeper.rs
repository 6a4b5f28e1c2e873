//! The keeper of a lab: one process, in the network namespace of the bridge, from which all machines come.
//! With it ends everything. It reads the plan from its standard input, prints how that went, and then does
//! what comes over its socket ([`super::control`]), one thing at a time.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};
use tutti_os::stat::Stat;

use super::cable::{Bridge, Cable, address_of};
use super::cgroups::Cgroups;
use super::clock::{self, Start};
use super::control::{Answer, LinkState, MachineState, NodeStatus, Request, SOCKET, Status};
use super::enter::{DOOR, Door};
use super::error::LabError;
use super::init::{FromMachine, Spec, ToMachine};
use super::mark::{self, Mark};
use super::terms::Terms;
use super::tree::{self, Tree};
use super::{etc, sys, wire};

/// Machines of a lab, at most.
pub(super) const MACHINES_MAX: u32 = 64;
/// Memory of a machine that runs a daemon and a few ranks, about.
const MACHINE_BYTES: u64 = 48 << 20;
/// A machine is there in this time.
const BOOT_MAX: Duration = Duration::from_secs(30);
/// All cables carry in this time.
const CARRIER_MAX: Duration = Duration::from_secs(5);
/// A client has sent its line in this time.
const LINE_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether a machine has ended.
const END_POLL: Duration = Duration::from_millis(1);
/// After this time it is looked whether its dead are not buried.
const BURIAL_MAX: Duration = Duration::from_millis(200);
/// Uids of a machine, and where those of all labs begin: the range that containers use.
const UIDS: u32 = 1 << 16;
const FIRST_UID: u32 = 0x4000_0000;
/// Places for labs in it.
const LABS: u32 = 190;

/// Settings of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) nodes: u32,
    pub(super) shared_files: bool,
    pub(super) terms: Terms,
    /// Ends only when it is told to; else at the end of its standard input too.
    pub(super) stays: bool,
    /// The installation tree.
    pub(super) installation: PathBuf,
    /// The source tree, with the programs of tests.
    pub(super) source: PathBuf,
}

/// How it went.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Begun {
    Up { folder: PathBuf },
    NotAllowed(String),
    Failed(String),
}

/// The program.
pub(super) fn run() -> io::Result<()> {
    let mut line = String::new();
    // Not buffered: what follows is only its end.
    BufReader::with_capacity(1 << 16, io::stdin()).read_line(&mut line)?;
    let settings: Settings = serde_json::from_str(&line).map_err(io::Error::other)?;
    let stays = settings.stays;
    let say = |begun: &Begun| -> io::Result<()> {
        let mut line = serde_json::to_vec(begun).map_err(io::Error::other)?;
        line.push(b'\n');
        rustix::io::write(rustix::stdio::stdout(), &line)?;
        // The reader waits for the end, and a lab that stays holds nothing of its command's.
        let null = fs::File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&null)?;
        Ok(())
    };
    match Keeper::begin(settings) {
        Ok(mut keeper) => {
            say(&Begun::Up { folder: keeper.mark.folder() })?;
            let ended = keeper.serve(stays);
            keeper.end();
            // The last request is answered when all of it is done.
            ended.and_then(|last| last.map_or(Ok(()), |stream| reply(stream, &Ok(None))))
        }
        Err(LabError::NotAllowed { error }) => say(&Begun::NotAllowed(error)),
        Err(error) => say(&Begun::Failed(error.to_string())),
    }
}

/// A machine, there or not.
#[derive(Debug)]
struct Machine {
    node: u32,
    name: String,
    first_uid: u32,
    life: Option<Life>,
    /// As asked for.
    terms: Terms,
    link: LinkState,
    has_been_up: bool,
}

/// Parts of a machine while it is there.
#[derive(Debug)]
struct Life {
    guard: Child,
    socket: OwnedFd,
    first: Option<Pid>,
    cable: Option<Cable>,
    is_paused: bool,
}

/// Where a lab is made.
#[derive(Debug)]
struct Site {
    cgroups: Cgroups,
    listener: UnixListener,
    signals: OwnedFd,
    bridge: Bridge,
    maps_owners: bool,
}

#[derive(Debug)]
struct Keeper {
    settings: Settings,
    mark: Mark,
    bridge: Bridge,
    cgroups: Cgroups,
    machines: Vec<Machine>,
    listener: UnixListener,
    signals: OwnedFd,
    /// Root has ranges of uids to give, anybody else has only himself.
    is_root: bool,
    /// The filesystem of the lab's folder lets owners be mapped.
    maps_owners: bool,
}

fn started<T>(what: &str, result: io::Result<T>) -> Result<T, LabError> {
    result.map_err(|error| LabError::Start(format!("cannot {what}: {error}")))
}

impl Keeper {
    fn begin(settings: Settings) -> Result<Self, LabError> {
        if !settings.terms.is_plain() {
            Bridge::open_tun()?;
        }
        check_memory(settings.nodes)?;
        let base = started("use the folder of labs", mark::base())?;
        started("look for what killed labs have left", mark::sweep(&base))?;
        let is_root = rustix::process::geteuid().is_root() && started("read its uids", has_ranges())?;
        // The hierarchies are those outside.
        let mark = started("make the lab's mark", Mark::draw(&base))?;
        let site = match Self::prepare(&mark, is_root) {
            Ok(site) => site,
            Err(error) => {
                mark.remove();
                return Err(error);
            }
        };
        Self::begin_at(settings, mark, is_root, site)
    }

    /// Namespaces, folder, cgroups, sockets: what may be refused.
    fn prepare(mark: &Mark, is_root: bool) -> Result<Site, LabError> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let spaces = if is_root {
            UnshareFlags::NEWNET
        } else {
            UnshareFlags::NEWNET | UnshareFlags::NEWUSER | UnshareFlags::NEWNS
        };
        let not_allowed = |error: io::Error| LabError::NotAllowed { error: error.to_string() };
        sys::unshare(spaces).map_err(not_allowed)?;
        if !is_root {
            fs::write("/proc/self/setgroups", "deny").map_err(not_allowed)?;
            fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw())).map_err(not_allowed)?;
            fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw())).map_err(not_allowed)?;
        }
        let folder = mark.folder();
        started("make the lab's folder", fs::create_dir(&folder))?;
        let cgroups = started("make cgroups", Cgroups::create(mark.name(), |path| mark.note(path)))?;
        let listener = started("make a socket", UnixListener::bind(folder.join(SOCKET)))?;
        sys::block_signals(true);
        let signals = started("wait for signals", sys::signal_descriptor())?;
        let bridge = started("make a bridge", Bridge::create())?;
        let maps_owners = is_root && probe_owners(&folder).map_err(not_allowed)?;
        Ok(Site { cgroups, listener, signals, bridge, maps_owners })
    }

    fn begin_at(settings: Settings, mark: Mark, is_root: bool, site: Site) -> Result<Self, LabError> {
        let Site { cgroups, listener, signals, bridge, maps_owners } = site;
        let place = mark.number() % LABS;
        let machines = (0..settings.nodes).map(|node| {
            // Where files cannot look as if they were a machine's, all machines have the same owners.
            let place = place * MACHINES_MAX + if maps_owners { node } else { 0 };
            Machine {
                node,
                name: etc::host_name(node),
                first_uid: if is_root { FIRST_UID + place * UIDS } else { 0 },
                life: None,
                terms: settings.terms.seed(settings.terms.seed + u64::from(node)),
                link: LinkState::Up,
                has_been_up: false,
            }
        });
        let machines = machines.collect();
        let mut keeper =
            Keeper { settings, mark, bridge, cgroups, machines, listener, signals, is_root, maps_owners };
        let all: Vec<usize> = (0..keeper.machines.len()).collect();
        let up = keeper.furnish().and_then(|()| keeper.boot(&all));
        if let Err(error) = up {
            keeper.end();
            return Err(error);
        }
        Ok(keeper)
    }

    /// Makes the files of all machines.
    fn furnish(&self) -> Result<(), LabError> {
        let folder = self.mark.folder();
        let owner = |machine: &Machine, uid: u32| if self.is_root { machine.first_uid + uid } else { 0 };
        let homes = |home: &Path, owner: &dyn Fn(u32) -> u32| -> io::Result<()> {
            folder_of(home, owner(0), 0o755)?;
            for user in etc::USERS.iter().filter(|user| user.uid != 0 && self.is_root) {
                folder_of(&home.join(user.name), owner(user.uid), 0o755)?;
            }
            Ok(())
        };
        if self.settings.shared_files {
            let plain = |uid| owner(&self.machines[0], uid);
            let mapped = |uid| uid;
            let owner: &dyn Fn(u32) -> u32 = if self.maps_owners { &mapped } else { &plain };
            started("make home folders", homes(&folder.join("home"), owner))?;
        }
        for machine in &self.machines {
            let made = || -> io::Result<()> {
                let (own, root) = (self.folder(machine), owner(machine, 0));
                fs::create_dir_all(&own)?;
                for (name, mode) in [("etc", 0o755), ("root", 0o700), ("var", 0o755)] {
                    folder_of(&own.join(name), root, mode)?;
                }
                for (name, mode) in [("tmp", 0o1777), ("log", 0o755), ("lib", 0o755), ("cache", 0o755)] {
                    folder_of(&own.join("var").join(name), root, mode)?;
                }
                symlink("/run", own.join("var/run"))?;
                etc::write(&own.join("etc"), machine.node, self.settings.nodes, root)?;
                if !self.settings.shared_files {
                    homes(&own.join("home"), &|uid| owner(machine, uid))?;
                    copy(&self.settings.installation, &own.join("installation"))?;
                }
                Ok(())
            };
            started(&format!("make the files of {}", machine.name), made())?;
        }
        Ok(())
    }

    fn folder(&self, machine: &Machine) -> PathBuf {
        self.mark.folder().join("machines").join(&machine.name)
    }

    /// Trees of the files here that a machine sees.
    fn trees(&self, machine: &Machine) -> io::Result<Vec<Tree>> {
        let own = self.folder(machine);
        let writable = |source: PathBuf, target: &str, mapped| Tree {
            source,
            target: target.into(),
            read_only: false,
            mapped,
            whole: !self.is_root,
        };
        let mut trees: Vec<Tree> = ["etc", "var", "root"]
            .iter()
            .map(|name| writable(own.join(name), &format!("/{name}"), false))
            .collect();
        let mounts = tree::mount_points()?;
        let mut add = |tree: Tree| {
            if !tree.source.exists() {
                return;
            }
            if self.is_root {
                trees.extend(tree.with_inner(&mounts));
            } else {
                trees.push(Tree { whole: true, ..tree });
            }
        };
        for folder in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
            if !Path::new(folder).is_symlink() {
                add(Tree::same(folder));
            }
        }
        for path in ["/usr", "/opt"] {
            add(Tree::same(path));
        }
        for name in ["null", "zero", "full", "random", "urandom", "tty", "fuse"] {
            add(Tree { read_only: false, ..Tree::same(Path::new("/dev").join(name)) });
        }
        add(Tree { target: "/.host/etc".into(), ..Tree::same("/etc") });
        let Settings { source, installation, shared_files, .. } = &self.settings;
        if *shared_files {
            add(Tree { mapped: true, ..Tree::same(source) });
            if !installation.starts_with(source) {
                add(Tree { mapped: true, ..Tree::same(installation) });
            }
            add(writable(self.mark.folder().join("home"), "/home", true));
        } else {
            add(Tree { target: installation.clone(), ..Tree::same(own.join("installation")) });
            add(writable(own.join("home"), "/home", false));
        }
        Ok(trees)
    }

    /// Starts machines, all of them at once.
    fn boot(&mut self, which: &[usize]) -> Result<(), LabError> {
        let booted = self.try_boot(which);
        if booted.is_err() {
            for index in which {
                self.switch_off(*index);
            }
        }
        booted
    }

    fn try_boot(&mut self, which: &[usize]) -> Result<(), LabError> {
        for index in which {
            let machine = &self.machines[*index];
            let life = started(&format!("start {}", machine.name), self.conceive(machine))?;
            self.machines[*index].life = Some(life);
        }
        for index in which {
            self.expect(*index, |message| matches!(message, FromMachine::Users))?;
            let machine = &self.machines[*index];
            started("map its users", self.map_users(machine))?;
            started("start it", wire::send(&machine.life().socket, &ToMachine::Mapped, &[]))?;
        }
        for index in which {
            self.expect(*index, |message| matches!(message, FromMachine::Spaces))?;
            let name = self.machines[*index].name.clone();
            started(&format!("join {name} with the others"), self.join(*index))?;
            started(&format!("show {name} its files"), self.hand_trees(*index))?;
        }
        for index in which {
            let mut first = None;
            let mut is_ready = false;
            while first.is_none() || !is_ready {
                match self.expect(*index, |_| true)? {
                    FromMachine::First(pid) => first = Pid::from_raw(pid),
                    FromMachine::Ready => is_ready = true,
                    other => return Err(LabError::Start(format!("a message out of order: {other:?}"))),
                }
            }
            let machine = &mut self.machines[*index];
            machine.life_mut().first = first;
            machine.has_been_up = true;
            started("write its door", self.write_door(*index))?;
        }
        let until = Instant::now() + CARRIER_MAX;
        for index in which {
            let machine = &self.machines[*index];
            let Some(cable) = machine.life().cable.as_ref().filter(|_| machine.link == LinkState::Up) else {
                continue;
            };
            while !started("look at its cable", cable.is_running(&self.bridge))? && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Starts the process that is to make a machine's namespaces.
    fn conceive(&self, machine: &Machine) -> io::Result<Life> {
        let (ours, theirs) = wire::pair()?;
        rustix::net::sockopt::set_socket_timeout(&ours, rustix::net::sockopt::Timeout::Recv, Some(BOOT_MAX))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tutti-lab").args(["machine", self.mark.name(), &machine.name]);
        let guard = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?;
        let life = Life { guard, socket: ours, first: None, cable: None, is_paused: false };
        self.cgroups.admit(&machine.name, machine.first_uid, life.guard.id())?;
        let links = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].iter().filter_map(|name| {
            let path = Path::new("/").join(name);
            fs::read_link(&path).ok().map(|leads_to| (path, leads_to))
        });
        let spec = Spec {
            name: machine.name.clone(),
            keeper: rustix::process::getpid().as_raw_nonzero().get(),
            has_users: self.is_root,
            clock: if machine.has_been_up { Start::Boot } else { clock::first(machine.node) },
            hierarchies: self.cgroups.hierarchies(),
            links: links.collect(),
        };
        wire::send(&life.socket, &ToMachine::Begin(spec), &[])?;
        Ok(life)
    }

    /// The next message of a machine.
    fn expect(&self, index: usize, is_it: impl Fn(&FromMachine) -> bool) -> Result<FromMachine, LabError> {
        let machine = &self.machines[index];
        match wire::receive(&machine.life().socket) {
            Ok((FromMachine::Failed(line), _)) => {
                Err(LabError::Start(format!("{} does not start: {line}", machine.name)))
            }
            Ok((message, _)) if is_it(&message) => Ok(message),
            Ok((message, _)) => Err(LabError::Start(format!("a message out of order: {message:?}"))),
            Err(error) => Err(LabError::Start(format!("{} does not start: {error}", machine.name))),
        }
    }

    fn map_users(&self, machine: &Machine) -> io::Result<()> {
        let process = PathBuf::from(format!("/proc/{}", machine.life().guard.id()));
        let map = format!("0 {} {}", machine.first_uid, if self.is_root { UIDS } else { 1 });
        if !self.is_root {
            fs::write(process.join("setgroups"), "deny")?;
        }
        fs::write(process.join("uid_map"), &map)?;
        fs::write(process.join("gid_map"), &map)
    }

    fn join(&mut self, index: usize) -> io::Result<()> {
        let machine = &self.machines[index];
        let guard = machine.life().guard.id();
        self.cgroups.settle(&machine.name, machine.first_uid, guard)?;
        let namespace = fs::File::open(format!("/proc/{guard}/ns/net"))?;
        let (node, terms, link) = (machine.node, machine.terms, machine.link);
        let cable = Cable::lay(&mut self.bridge, node, namespace.into(), terms, link)?;
        self.machines[index].life_mut().cable = Some(cable);
        Ok(())
    }

    fn hand_trees(&self, index: usize) -> io::Result<()> {
        let machine = &self.machines[index];
        let users = fs::File::open(format!("/proc/{}/ns/user", machine.life().guard.id()))?;
        let users = self.maps_owners.then(|| users.as_fd());
        let cloned = self.trees(machine)?.into_iter().map(|tree| tree.clone_for(users));
        let (places, trees): (Vec<_>, Vec<OwnedFd>) =
            cloned.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let trees: Vec<_> = trees.iter().map(OwnedFd::as_fd).collect();
        wire::send(&machine.life().socket, &ToMachine::Trees(places), &trees)
    }

    fn write_door(&self, index: usize) -> io::Result<()> {
        let machine = &self.machines[index];
        let door = Door {
            pid: machine.life().first.map_or(0, |pid| pid.as_raw_nonzero().get()),
            has_users: self.is_root,
            entrances: self.cgroups.entrances(&machine.name),
            programs: self.settings.installation.join("bin"),
        };
        let text = serde_json::to_vec(&door).map_err(io::Error::other)?;
        // Whoever reads it finds a whole one.
        let path = self.folder(machine).join(DOOR);
        fs::write(path.with_extension("new"), text)?;
        fs::rename(path.with_extension("new"), path)
    }

    /// Takes the power of a machine away: nothing leaves it any more, then it is dead.
    fn switch_off(&mut self, index: usize) {
        let _ = fs::remove_file(self.folder(&self.machines[index]).join(DOOR));
        let machine = &mut self.machines[index];
        let Some(mut life) = machine.life.take() else { return };
        if let Some(cable) = &mut life.cable {
            // Sockets that the kernel closes would say good-bye.
            let _ = cable.set_state(&self.bridge, LinkState::Silent);
        }
        match life.first {
            // The guard waits for its end.
            Some(first) => drop(kill_process(first, Signal::KILL)),
            None => drop(life.guard.kill()),
        }
        await_end(&mut life);
        if let Some(cable) = &mut life.cable {
            let _ = cable.remove(&self.bridge);
        }
        self.cgroups.dismiss(&machine.name);
    }

    /// Does what is asked for, until the end is asked for or comes.
    fn serve(&mut self, stays: bool) -> io::Result<Option<UnixStream>> {
        loop {
            let stdin = io::stdin();
            let mut waits =
                vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            let lives: Vec<usize> =
                (0..self.machines.len()).filter(|index| self.machines[*index].life.is_some()).collect();
            for index in &lives {
                waits.push(PollFd::new(&self.machines[*index].life().socket, PollFlags::IN));
            }
            if !stays {
                waits.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            }
            match poll(&mut waits, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
            if !stays && is_ready.last() == Some(&true) {
                return Ok(None);
            }
            for (_, index) in is_ready[2..].iter().zip(&lives).filter(|(is_ready, _)| **is_ready) {
                // Nothing comes from a machine that is up but its end.
                self.switch_off(*index);
            }
            while let Some(signal) = sys::take_signal(self.signals.as_fd()) {
                if matches!(signal, libc::SIGTERM | libc::SIGINT) {
                    return Ok(None);
                }
            }
            if is_ready[0] {
                let (stream, _) = self.listener.accept()?;
                // A client that says nothing or hears nothing is its own affair.
                match receive(&stream) {
                    Ok(Request::Down) => return Ok(Some(stream)),
                    Ok(request) => drop(reply(stream, &self.handle(request))),
                    Err(_) => {}
                }
            }
        }
    }

    fn handle(&mut self, request: Request) -> Answer {
        let index_of = |node: u32| -> Result<usize, String> {
            let nodes = self.settings.nodes;
            (node < nodes)
                .then_some(node as usize)
                .ok_or_else(|| format!("there is no machine {node}: this lab has 0 to {}", nodes - 1))
        };
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        match request {
            Request::Status => return Ok(Some(self.status())),
            Request::Down => {}
            Request::Link { node, state } => {
                let machine = &mut self.machines[index_of(node)?];
                machine.link = state;
                if let Some(cable) = machine.life.as_mut().and_then(|life| life.cable.as_mut()) {
                    cable
                        .set_state(&self.bridge, state)
                        .map_err(|error| failed("change the cable", error))?;
                }
            }
            Request::Cable { node, terms } => {
                let machine = &mut self.machines[index_of(node)?];
                if let Some(cable) = machine.life.as_mut().and_then(|life| life.cable.as_mut()) {
                    cable
                        .set_terms(&mut self.bridge, terms)
                        .map_err(|error| failed("change the cable", error))?;
                }
                machine.terms = terms;
            }
            Request::Pause { node, pause } => {
                let index = index_of(node)?;
                self.pause(index, pause)?;
            }
            Request::Kill { node } => {
                let index = index_of(node)?;
                if self.machines[index].life.is_none() {
                    return Err(format!("machine {node} is off already"));
                }
                self.switch_off(index);
            }
            Request::Boot { node } => {
                let index = index_of(node)?;
                if self.machines[index].life.is_some() {
                    return Err(format!("machine {node} is on already: kill it first"));
                }
                self.boot(&[index]).map_err(|error| error.to_string())?;
            }
        }
        Ok(None)
    }

    fn pause(&mut self, index: usize, pause: bool) -> Result<(), String> {
        let machine = &mut self.machines[index];
        let name = machine.name.clone();
        let Some(life) = &mut machine.life else { return Err(format!("{name} is off")) };
        let done = if self.cgroups.can_freeze() {
            self.cgroups.freeze(&name, pause)
        } else {
            stop_by_signals(life.first, pause)
        };
        life.is_paused = pause;
        done.map_err(|error| format!("cannot pause {name}: {error}"))
    }

    fn status(&self) -> Status {
        let node = |machine: &Machine| NodeStatus {
            node: machine.node,
            name: machine.name.clone(),
            address: address_of(machine.node),
            state: match &machine.life {
                None => MachineState::Off,
                Some(life) if life.is_paused => MachineState::Paused,
                Some(_) => MachineState::Running,
            },
            pid: machine
                .life
                .as_ref()
                .and_then(|life| life.first)
                .map(|pid| pid.as_raw_nonzero().get() as u32),
            first_uid: machine.first_uid,
            link: machine.link,
            cable: machine.terms,
            frames: machine
                .life
                .as_ref()
                .and_then(|life| life.cable.as_ref())
                .and_then(|cable| cable.counts(&self.bridge)),
        };
        Status {
            mark: self.mark.name().to_owned(),
            keeper: std::process::id(),
            shared_files: self.settings.shared_files,
            own_uids: self.maps_owners,
            nodes: self.machines.iter().map(node).collect(),
        }
    }

    fn switch_all_off(&mut self) {
        for machine in &self.machines {
            // All at once; their ends are awaited one by one.
            if let Some(life) = &machine.life {
                if let Some(cable) = &life.cable {
                    let _ = cable.silence(&self.bridge);
                }
                let _ = life.first.map(|first| kill_process(first, Signal::KILL));
            }
        }
        for index in 0..self.machines.len() {
            self.switch_off(index);
        }
    }

    /// Leaves nothing behind.
    fn end(mut self) {
        self.switch_all_off();
        self.cgroups.remove();
        self.mark.remove();
    }
}

impl Machine {
    fn life(&self) -> &Life {
        self.life.as_ref().expect("it was started")
    }

    fn life_mut(&mut self) -> &mut Life {
        self.life.as_mut().expect("it was started")
    }
}

/// Waits until all that was in a machine is dead. Its guard waits until they are buried too: a process that
/// was begun from outside, by a command that was killed, is left to whoever takes orphans there, and may stay
/// for ever. Such a machine has ended all the same.
fn await_end(life: &mut Life) {
    let began = Instant::now();
    while let Ok(None) = life.guard.try_wait() {
        std::thread::sleep(END_POLL);
        if began.elapsed() > BURIAL_MAX && life.first.is_some_and(only_dead_are_left) {
            let _ = life.guard.kill();
            let _ = life.guard.wait();
            return;
        }
    }
}

/// Whether a pid namespace has processes beside its first, and all of them are dead.
fn only_dead_are_left(first: Pid) -> bool {
    let space = |pid: Pid| fs::read_link(format!("/proc/{}/ns/pid", pid.as_raw_nonzero())).ok();
    let Some(own) = space(first) else { return false };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let others = pids.filter(|pid| *pid != first && space(*pid).as_ref() == Some(&own));
    let mut states = others.filter_map(Stat::of).map(|stat| stat.is_dead()).peekable();
    states.peek().is_some() && states.all(|is_dead| is_dead)
}

fn receive(stream: &UnixStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(LINE_MAX))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn reply(mut stream: UnixStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(LINE_MAX))?;
    let mut line = serde_json::to_vec(answer).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// A machine cannot be had for nothing: this one must have memory for all.
fn check_memory(nodes: u32) -> Result<(), LabError> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let needed_bytes = u64::from(nodes) * MACHINE_BYTES;
    match available.map(|kib| kib << 10) {
        Some(bytes) if bytes < needed_bytes => {
            Err(LabError::Memory { nodes, needed_mib: needed_bytes >> 20, free_mib: bytes >> 20 })
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &Path, owner: u32, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    chown(path, Some(owner), Some(owner))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg("--recursive").arg("--no-dereference").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cp of {} fails", from.display()))) }
}

/// Whether this user namespace has uids to give to machines: root of a container may be one user only.
fn has_ranges() -> io::Result<bool> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    Ok(map.lines().any(|line| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (words.next().unwrap_or(0), words.next(), words.next().unwrap_or(0));
        let last = u64::from(FIRST_UID + LABS * MACHINES_MAX * UIDS);
        first <= u64::from(FIRST_UID) && last <= first + count
    }))
}

/// Whether owners of files in a folder can be mapped. A process that does nothing else lends its namespace.
fn probe_owners(folder: &Path) -> io::Result<bool> {
    let (ours, theirs) = wire::pair()?;
    let Some(child) = sys::fork()? else {
        drop(ours);
        let made = sys::unshare(UnshareFlags::NEWUSER);
        let _ = wire::send(&theirs, &made.map_err(|error| error.to_string()), &[]);
        let _ = wire::receive::<()>(&theirs);
        std::process::exit(0);
    };
    drop(theirs);
    let made: Result<(), String> = wire::receive(&ours)?.0;
    let process = PathBuf::from(format!("/proc/{}", child.as_raw_nonzero()));
    let probed = made.map_err(io::Error::other).and_then(|()| {
        fs::write(process.join("uid_map"), format!("0 {FIRST_UID} 1"))?;
        fs::write(process.join("gid_map"), format!("0 {FIRST_UID} 1"))?;
        let users = fs::File::open(process.join("ns/user"))?;
        Ok(tree::can_be_mapped(folder, users.as_fd()))
    });
    drop(ours);
    rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
    probed
}

/// Stops or continues all processes in the pid namespace of a machine's first process.
fn stop_by_signals(first: Option<Pid>, stop: bool) -> io::Result<()> {
    let first = first.ok_or(io::ErrorKind::NotFound)?;
    let space = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let theirs = space(first.as_raw_nonzero().get());
    let signal = if stop { Signal::STOP } else { Signal::CONT };
    let mut known = Vec::new();
    // One that was just made is found the next time; none is made when all are stopped.
    loop {
        let entries = fs::read_dir("/proc")?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut pids: Vec<i32> = pids.filter(|pid| space(*pid) == theirs).collect();
        pids.sort_unstable();
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
        if pids == known {
            return Ok(());
        }
        known = pids;
    }
}
