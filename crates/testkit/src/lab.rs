//! The lab: machines of namespaces on this machine, which share nothing but a cable. What must hold between
//! nodes is shown here; virtual nodes and `--netns` share a kernel's memory, pids, /tmp and uids, and prove
//! less (docs/internals/lab.md).
//!
//! ```no_run
//! use tutti_testkit::lab::Lab;
//!
//! let lab = Lab::plan(3).start().expect("a lab");
//! lab.start_daemons(&[]).expect("a cluster");
//! let ran = lab.node(1).command("tutti").args(["run", "-N", "3", "hostname"]).output();
//! lab.node(2).kill();
//! lab.node(2).boot();
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`machine`] | a machine: commands in it, pause, kill, boot; its cable |
//! | [`cluster`] | Tutti's daemons on the machines |
//! | [`control`] | what the keeper is asked, and its answers |
//! | `keeper` | the process from which all machines come |
//! | `init`, `root`, `etc`, `tree`, `clock`, `cgroups` | namespaces, files, users, clocks, cgroups of a machine |
//! | `enter`, `terminal` | a command that enters a machine |
//! | `cable`, `carrier`, `lane`, [`terms`] | bridge and cables; loss, delay and the like |
//! | `error` | why something is not possible |
//! | [`mark`] | what is left of killed labs, and its removal |
//! | [`command`] | the command for people |
//! | `sys`, `wire` | system calls; messages with descriptors |

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

mod cable;
mod carrier;
mod cgroups;
mod clock;
pub mod cluster;
pub mod command;
pub mod control;
mod enter;
mod error;
mod etc;
mod init;
mod keeper;
mod lane;
pub mod machine;
pub mod mark;
mod root;
#[allow(unsafe_code)]
mod sys;
mod terminal;
pub mod terms;
mod tree;
mod wire;

pub use control::{LinkState, MachineState, Status};
pub use error::LabError;
pub use lane::Counts;
pub use machine::Machine;
pub use terms::Terms;

use keeper::{Begun, MACHINES_MAX, Settings};

/// Plan of a lab.
#[derive(Clone, Debug)]
pub struct Plan {
    settings: Settings,
}

impl Plan {
    /// Machines whose cables do this.
    #[must_use]
    pub fn cables(mut self, terms: Terms) -> Self {
        self.settings.terms = terms;
        self
    }

    /// Machines with homes and installations of their own.
    #[must_use]
    pub fn no_shared_files(mut self) -> Self {
        self.settings.shared_files = false;
        self
    }

    /// Another installation tree than `target/dist`.
    #[must_use]
    pub fn installation(mut self, folder: &Path) -> Self {
        self.settings.installation = folder.to_owned();
        self
    }

    /// Starts it; it ends with the value, or with this process.
    ///
    /// # Errors
    /// When a machine or the keeper does not start.
    pub fn start(&self) -> Result<Lab, LabError> {
        let mut keeper = None;
        let folder = self.launch(&mut keeper)?;
        Ok(Lab { folder, nodes: self.settings.nodes, keeper })
    }

    /// Starts it to stay when this process ends; gives its folder.
    fn start_to_stay(mut self) -> Result<Lab, LabError> {
        self.settings.stays = true;
        let folder = self.launch(&mut None)?;
        Ok(Lab { folder, nodes: self.settings.nodes, keeper: None })
    }

    fn launch(&self, keeper: &mut Option<Child>) -> Result<PathBuf, LabError> {
        if !(1..=MACHINES_MAX).contains(&self.settings.nodes) {
            return Err(LabError::Count { nodes: self.settings.nodes, most: MACHINES_MAX });
        }
        let failed =
            |error: std::io::Error| LabError::Start(format!("cannot start the lab's keeper: {error}"));
        let mut command = Command::new(program());
        // Not in the group of a test, which is killed as a whole: it cleans up.
        command.arg("keep").process_group(0);
        let stderr = if self.settings.stays { Stdio::null() } else { Stdio::inherit() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().map_err(failed)?;
        let mut line = serde_json::to_vec(&self.settings).map_err(std::io::Error::other).map_err(failed)?;
        line.push(b'\n');
        let stdin = child.stdin.as_mut().expect("piped");
        stdin.write_all(&line).map_err(failed)?;
        let mut answer = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut answer).map_err(failed)?;
        match serde_json::from_str(&answer) {
            Ok(Begun::Up { folder }) => {
                *keeper = Some(child);
                Ok(folder)
            }
            begun => {
                let _ = child.wait();
                Err(match begun {
                    Ok(Begun::NotAllowed(error)) => LabError::NotAllowed { error },
                    Ok(Begun::Failed(line)) => LabError::Start(line),
                    _ => LabError::Start("the lab's keeper has ended without a word".into()),
                })
            }
        }
    }
}

/// A lab. If this process has started it, it ends when this is dropped.
#[derive(Debug)]
pub struct Lab {
    folder: PathBuf,
    nodes: u32,
    keeper: Option<Child>,
}

impl Lab {
    /// Plan of a lab with so many machines, 0 and up, to be changed and started.
    #[must_use]
    pub fn plan(nodes: u32) -> Plan {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let source = source.canonicalize().unwrap_or(source);
        let installation =
            std::env::var_os("TUTTI_DIST").map_or_else(|| source.join("target/dist"), PathBuf::from);
        let terms = Terms::default();
        Plan { settings: Settings { nodes, shared_files: true, terms, stays: false, installation, source } }
    }

    /// Starts a lab of so many machines, for a test; none, and the test is counted as skipped, where this
    /// user may not make them.
    ///
    /// # Panics
    /// When it does not come up for another reason.
    #[track_caller]
    pub fn new(nodes: u32) -> Option<Self> {
        Self::of(&Self::plan(nodes))
    }

    /// The same by a plan.
    ///
    /// # Panics
    /// As [`Lab::new`].
    #[track_caller]
    pub fn of(plan: &Plan) -> Option<Self> {
        match plan.start() {
            Ok(lab) => Some(lab),
            Err(error @ (LabError::NotAllowed { .. } | LabError::Tun { .. })) => {
                crate::skip(crate::Need::Lab, error);
                None
            }
            Err(error) => panic!("no lab: {error}"),
        }
    }

    /// One that runs already, by its mark.
    ///
    /// # Errors
    /// When its keeper does not answer.
    pub fn find(folder: &Path) -> Result<Self, LabError> {
        let mut lab = Lab { folder: folder.to_owned(), nodes: 0, keeper: None };
        lab.nodes = lab.status()?.nodes.len() as u32;
        Ok(lab)
    }

    /// Number of its machines.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Folder of the lab, as it is seen outside.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that all machines have as /home, as it is seen outside; with shared files only.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// A machine.
    ///
    /// # Panics
    /// When there is none of this number.
    #[must_use]
    #[track_caller]
    pub fn node(&self, node: u32) -> Machine<'_> {
        assert!(node < self.nodes, "a lab of {} has no machine {node}", self.nodes);
        Machine::new(self, node)
    }

    /// How everything is.
    ///
    /// # Errors
    /// When its keeper does not answer.
    pub fn status(&self) -> Result<Status, LabError> {
        let status = control::ask(&self.folder, &control::Request::Status)?;
        status.ok_or_else(|| LabError::Refused("the keeper answers something else".into()))
    }

    /// The end of everything in it.
    ///
    /// # Errors
    /// When its keeper does not answer.
    pub fn down(&mut self) -> Result<(), LabError> {
        control::ask(&self.folder, &control::Request::Down)?;
        if let Some(mut keeper) = self.keeper.take() {
            let _ = keeper.wait();
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            // The end of its input is its end.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Where the command is: this program, or beside it where cargo puts it, or where `make lab` does.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let is_it = |path: &PathBuf| path.file_name() == Some("tutti-lab".as_ref()) && path.is_file();
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("tutti-lab"));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lab/tutti-lab");
    std::iter::once(own.clone()).chain(beside).find(is_it).unwrap_or(built)
}
