//! A daemon as the guest of a batch system: `mpiexec` has started it by a step of the allocation that it is
//! in. What a keeper would set, the batch system's environment says. Called by `tuttid` before anything else.
//!
//! Its ranks stay in the cgroup of the step (`tutti_os::slurm`), and its files go with it.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use tutti_os::slurm;
use tutti_protocol::daemon_options::Options;
use tutti_protocol::{daemon_lock, paths, variables};

use crate::key::KeySource;

/// Facts of the batch system about this node.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The cluster's key.
    pub key: KeySource,
    /// A line for the log.
    pub note: Option<String>,
    name: String,
    listen: SocketAddr,
    is_controller: bool,
    slots: u32,
    machine: Option<String>,
    folder: PathBuf,
}

impl Guest {
    /// Reads what Slurm says in a step.
    ///
    /// # Errors
    /// When this is none, or `mpiexec` has not said what it must; a line for the user.
    pub fn of_slurm(options: &Options) -> Result<Self, String> {
        let outside = "--engine slurm is for a step of a Slurm allocation: mpiexec starts this daemon there";
        let name = slurm::variable("SLURMD_NODENAME").ok_or(outside)?;
        let folder = paths::of_allocation_on(&name).ok_or(outside)?;
        let join =
            options.join.as_deref().ok_or("--engine needs the node of the controller: --join NODE:PORT")?;
        let text = std::env::var(variables::KEY);
        let text = text.map_err(|_| format!("--engine needs the cluster's key in {}", variables::KEY))?;
        let (controller, port) =
            join.rsplit_once(':').ok_or_else(|| format!("--join {join} is not of the form NODE:PORT"))?;
        let port: u16 = port.parse().map_err(|_| format!("--join {join}: the port is no number"))?;
        let is_controller = controller == name;
        let address = address(&name, (!is_controller).then_some(join))?;
        let there = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let allocated = slurm::variable("SLURM_JOB_CPUS_PER_NODE")
            .zip(slurm::variable("SLURM_NODEID"))
            .and_then(|(counts, node)| count_of(&counts, node.parse().ok()?));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_host = short(&host).eq_ignore_ascii_case(short(&name));
        Ok(Guest {
            key: KeySource::Text(text.into_bytes()),
            note: allocated.filter(|wanted| *wanted > there).map(|wanted| {
                format!("Slurm has given this job {wanted} processors here, and its step has {there} of them")
            }),
            listen: SocketAddr::new(address, if is_controller { port } else { 0 }),
            is_controller,
            slots: allocated.map_or(there, |wanted| wanted.min(there)).max(1),
            // Several slurmd share this machine, and each has cores of its own.
            machine: (!is_host).then(|| format!("{host}/{name}")),
            folder,
            name,
        })
    }

    /// Sets the options that are not given.
    pub fn settle(&self, options: &mut Options) {
        options.name.get_or_insert_with(|| self.name.clone());
        options.listen = self.listen;
        options.slots.get_or_insert(self.slots);
        options.machine = options.machine.take().or_else(|| self.machine.clone());
        options.places.dir.get_or_insert_with(|| self.folder.clone());
        options.places.state.get_or_insert_with(|| self.folder.clone());
        if self.is_controller {
            options.join = None;
        }
        // Those of allocations that were killed.
        paths::left_allocations(&self.folder).iter().for_each(|left| drop(std::fs::remove_dir_all(left)));
    }

    /// Removes the files of a daemon that has ended, unless they are those of another one.
    pub fn remove_files(&self) {
        remove_unlocked(&self.folder);
    }
}

/// Removes a folder of daemons. One that lives has one of the locks there, whatever its socket is called; one
/// that begins meanwhile waits for a lock, and finds that its file has gone.
fn remove_unlocked(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let locks = entries.filter(|path| path.extension().is_some_and(|ending| ending == "lock"));
    let taken = locks.map(|path| {
        let lock = File::options().append(true).open(path).ok()?;
        daemon_lock::try_take(&lock).is_ok_and(|is_taken| is_taken).then_some(lock)
    });
    // They are held until all is gone.
    let Some(locks) = taken.collect::<Option<Vec<File>>>() else { return };
    if !locks.is_empty() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Address of this node for others: that of its name, else that from which it reaches the controller, or the
/// host where `srun` runs.
fn address(name: &str, controller: Option<&str>) -> Result<IpAddr, String> {
    let is_own = |ip: &IpAddr| !ip.is_loopback() && UdpSocket::bind((*ip, 0)).is_ok();
    let of_name = (name, 0).to_socket_addrs().into_iter().flatten().map(|found| found.ip()).find(is_own);
    let launcher = slurm::variable("SLURM_LAUNCH_NODE_IPADDR").map(|ip| (ip, 9));
    let targets = controller.into_iter().flat_map(|text| text.to_socket_addrs().into_iter().flatten());
    let targets =
        targets.chain(launcher.into_iter().flat_map(|text| text.to_socket_addrs().into_iter().flatten()));
    let source = |target: SocketAddr| {
        let any: IpAddr = if target.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(target).ok()?;
        socket.local_addr().ok().map(|own| own.ip())
    };
    of_name
        .or_else(|| targets.filter_map(source).next())
        .ok_or_else(|| format!("the node {name} has no address by which others reach it"))
}

/// `2(x3),1`: the number at this place.
fn count_of(text: &str, place: usize) -> Option<u32> {
    let mut before = 0;
    for word in text.split(',') {
        let (count, times) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (word, 1),
        };
        before += times;
        if place < before {
            return count.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    use super::*;

    /// File of which the second process of the next test takes the lock.
    const LOCKED: &str = "LOCKED_BY_TEST";

    #[test]
    fn folder_of_an_allocation_stays_while_any_daemon_has_a_lock_there() {
        if let Some(path) = std::env::var_os(LOCKED) {
            let lock = File::options().create(true).append(true).open(path).expect("a file");
            assert!(daemon_lock::try_take(&lock).expect("locks"));
            println!("locked");
            std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
            return;
        }
        let scratch = tutti_testkit::Scratch::new("allocation");
        let folder = scratch.path().join("slurm-7.a");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("tuttid.sock.lock"), "").expect("a file");
        let name = "engine::tests::folder_of_an_allocation_stays_while_any_daemon_has_a_lock_there";
        let mut other = Command::new(std::env::current_exe().expect("this test"));
        other.args([name, "--exact", "--nocapture"]).env(LOCKED, folder.join("a.state.lock"));
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is started");
        let mut lines = BufReader::new(other.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "locked"));
        remove_unlocked(&folder);
        assert!(folder.join("a.state.lock").exists(), "a daemon with another socket is there");
        drop(other.stdin.take());
        other.wait().expect("our child");
        remove_unlocked(&folder);
        assert!(!folder.exists());
    }

    #[test]
    fn processors_of_a_node_are_read_from_slurms_list() {
        let of = |text: &str| (0..5).map(|place| count_of(text, place)).collect::<Vec<_>>();
        assert_eq!(of("2(x3),1"), [Some(2), Some(2), Some(2), Some(1), None]);
        assert_eq!(of("4"), [Some(4), None, None, None, None]);
        assert_eq!(of("many"), [None; 5]);
    }
}
