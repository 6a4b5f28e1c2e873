//! The keeper of a lab: one process, in the network namespace of the bridge, from which all machines come.
//! With it ends everything. It reads the plan from its standard input, prints how that went, and then does
//! what comes over its socket ([`super::control`]), one thing at a time.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use super::cable::{Bridge, Cable};
use super::cgroups::Cgroups;
use super::control::{LinkState, SOCKET};
use super::error::LabError;
use super::mark::{self, Mark};
use super::terms::Terms;
use super::{etc, sys};

mod boot;
mod service;
mod site;

use service::reply;
use site::{check_memory, copy, folder_of, has_ranges, probe_owners};

/// Machines of a lab, at most.
pub(super) const MACHINES_MAX: u32 = 64;

/// All cables carry in this time.
const CARRIER_MAX: Duration = Duration::from_secs(5);

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
