//! Tutti's daemons on the machines of a lab, as an administrator sets them up: one of root's on each, a key
//! that all have in /etc/tutti, logs in /var/log.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::{Duration, Instant};

use super::Lab;
use super::error::LabError;

/// Where daemons listen for each other.
const PORT: u16 = 7411;
/// The key.
const KEY: &str = "/etc/tutti/cluster.key";
/// Options of all daemons, one a line: a lab with this file has daemons.
const OPTIONS: &str = "daemons";
/// All daemons have found each other in this time.
const TOGETHER_MAX: Duration = Duration::from_secs(30);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

impl Lab {
    /// Starts a daemon on every machine, and waits until they are a cluster. `options` are those of all
    /// daemons.
    ///
    /// # Errors
    /// When a daemon does not start, or they are no cluster in time.
    pub fn start_daemons(&self, options: &[&str]) -> Result<(), LabError> {
        let failed = |error: io::Error| LabError::Cluster(format!("cannot set the daemons up: {error}"));
        fs::write(self.folder.join(OPTIONS), options.join("\n")).map_err(failed)?;
        self.node(0).run(&["tutti", "keygen", KEY]);
        let key = self.node(0).file(KEY);
        for node in 1..self.nodes() {
            let copy = self.node(node).file(KEY);
            let place = || -> io::Result<()> {
                let owner = fs::metadata(copy.parent().expect("a folder"))?.uid();
                fs::copy(&key, &copy)?;
                fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
                chown(&copy, Some(owner), Some(owner))
            };
            place().map_err(failed)?;
        }
        for node in 0..self.nodes() {
            start(self, node, options)?;
            // So the controller numbers them as the lab does.
            self.await_daemons(node + 1)?;
        }
        Ok(())
    }

    /// Waits until the cluster of machine 0 has so many nodes.
    ///
    /// # Errors
    /// When it has fewer in time: a line, with the end of a log.
    pub fn await_daemons(&self, nodes: u32) -> Result<(), LabError> {
        let until = Instant::now() + TOGETHER_MAX;
        loop {
            let listed = self.node(0).sh("tutti nodes --json");
            let there = serde_json::from_slice::<serde_json::Value>(&listed.stdout);
            let there =
                there.ok().as_ref().and_then(serde_json::Value::as_array).map_or(0, |rows| {
                    rows.iter().filter(|row| row["alive"].as_bool().unwrap_or(true)).count()
                });
            if there == nodes as usize {
                return Ok(());
            }
            if Instant::now() > until {
                let line = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
                return Err(LabError::Cluster(format!("the cluster has {there} of {nodes} nodes: {line}")));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Log of the daemon of a machine.
    #[must_use]
    pub fn log(&self, node: u32) -> String {
        fs::read_to_string(self.node(node).file("/var/log/tuttid.log")).unwrap_or_default()
    }
}

/// Starts the daemon of a machine, if the lab has daemons.
pub(super) fn start_again(lab: &Lab, node: u32) -> Result<(), LabError> {
    match fs::read_to_string(lab.folder.join(OPTIONS)) {
        Ok(options) => start(lab, node, &options.lines().collect::<Vec<_>>()),
        Err(_) => Ok(()),
    }
}

/// A machine has its part of the memory of this one.
fn memory_kib(nodes: u32) -> u64 {
    (tutti_os::memory::for_jobs() / u64::from(nodes)) >> 10
}

fn start(lab: &Lab, node: u32, options: &[&str]) -> Result<(), LabError> {
    let machine = lab.node(node);
    let listen = format!("{}:{PORT}", machine.address());
    let join = format!("{}:{PORT}", lab.node(0).address());
    let memory = format!("{}K", memory_kib(lab.nodes()));
    let line = "exec tuttid \"$@\" </dev/null >>/var/log/tuttid.log 2>&1";
    let mut words = vec!["sh", "-c", line, "tuttid", "--listen", &listen, "--key", KEY];
    if node > 0 {
        words.extend(["--join", &join]);
    }
    if !options.contains(&"--memory") {
        words.extend(["--memory", &memory]);
    }
    words.extend(options);
    machine.spawn(&words);
    Ok(())
}
