//! Machines of a lab: how one begins, stands still and ends.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tutti_os::stat::Stat;

use super::{CARRIER_MAX, Keeper, Life, Machine, Settings, UIDS, started};
use crate::lab::cable::Cable;
use crate::lab::clock::{self, Start};
use crate::lab::control::LinkState;
use crate::lab::enter::{DOOR, Door};
use crate::lab::error::LabError;
use crate::lab::init::{FromMachine, Spec, ToMachine};
use crate::lab::tree::{self, Tree};
use crate::lab::wire;

/// Between two looks whether a machine has ended.
const END_POLL: Duration = Duration::from_millis(1);
/// After this time it is looked whether its dead are not buried.
const BURIAL_MAX: Duration = Duration::from_millis(200);
/// A machine is there in this time.
const BOOT_MAX: Duration = Duration::from_secs(30);

impl Keeper {
    pub(super) fn folder(&self, machine: &Machine) -> PathBuf {
        self.mark.folder().join("machines").join(&machine.name)
    }

    /// Trees of the files here that a machine sees.
    pub(super) fn trees(&self, machine: &Machine) -> io::Result<Vec<Tree>> {
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
    pub(super) fn boot(&mut self, which: &[usize]) -> Result<(), LabError> {
        let booted = self.try_boot(which);
        if booted.is_err() {
            for index in which {
                self.switch_off(*index);
            }
        }
        booted
    }

    pub(super) fn try_boot(&mut self, which: &[usize]) -> Result<(), LabError> {
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
    pub(super) fn conceive(&self, machine: &Machine) -> io::Result<Life> {
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
    pub(super) fn expect(
        &self,
        index: usize,
        is_it: impl Fn(&FromMachine) -> bool,
    ) -> Result<FromMachine, LabError> {
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

    pub(super) fn map_users(&self, machine: &Machine) -> io::Result<()> {
        let process = PathBuf::from(format!("/proc/{}", machine.life().guard.id()));
        let map = format!("0 {} {}", machine.first_uid, if self.is_root { UIDS } else { 1 });
        if !self.is_root {
            fs::write(process.join("setgroups"), "deny")?;
        }
        fs::write(process.join("uid_map"), &map)?;
        fs::write(process.join("gid_map"), &map)
    }

    pub(super) fn join(&mut self, index: usize) -> io::Result<()> {
        let machine = &self.machines[index];
        let guard = machine.life().guard.id();
        self.cgroups.settle(&machine.name, machine.first_uid, guard)?;
        let namespace = fs::File::open(format!("/proc/{guard}/ns/net"))?;
        let (node, terms, link) = (machine.node, machine.terms, machine.link);
        let cable = Cable::lay(&mut self.bridge, node, namespace.into(), terms, link)?;
        self.machines[index].life_mut().cable = Some(cable);
        Ok(())
    }

    pub(super) fn hand_trees(&self, index: usize) -> io::Result<()> {
        let machine = &self.machines[index];
        let users = fs::File::open(format!("/proc/{}/ns/user", machine.life().guard.id()))?;
        let users = self.maps_owners.then(|| users.as_fd());
        let cloned = self.trees(machine)?.into_iter().map(|tree| tree.clone_for(users));
        let (places, trees): (Vec<_>, Vec<OwnedFd>) =
            cloned.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let trees: Vec<_> = trees.iter().map(OwnedFd::as_fd).collect();
        wire::send(&machine.life().socket, &ToMachine::Trees(places), &trees)
    }

    pub(super) fn write_door(&self, index: usize) -> io::Result<()> {
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
    pub(super) fn switch_off(&mut self, index: usize) {
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

    pub(super) fn pause(&mut self, index: usize, pause: bool) -> Result<(), String> {
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

    pub(super) fn switch_all_off(&mut self) {
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
