//! Files that the keeper lets this daemon run, and what they are told: which may be run, and the environment
//! of a script.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tutti_protocol::wire::Job;

use crate::message::{JobId, Launch};

/// Search path of a script: no folder of a user's.
pub(super) const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The scripts of a node, and the time that each of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSettings {
    /// Before the first rank of a job.
    pub prolog: Option<PathBuf>,
    /// After the last one.
    pub epilog: Option<PathBuf>,
    /// A script that is not over after so long has failed.
    pub most: Duration,
}

impl ScriptSettings {
    /// Refuses scripts that others may change.
    ///
    /// # Errors
    /// A line that names the file and what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let named = [("prolog", &self.prolog), ("epilog", &self.epilog)];
        named.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?))).try_for_each(
            |(what, path)| checked(path).map(drop).map_err(|why| format!("{what} {}: {why}", path.display())),
        )
    }
}

/// Refuses a command for mail that others may change.
///
/// # Errors
/// A line that names the file and what is wrong with it.
pub fn check_mail(command: Option<&Path>) -> Result<(), String> {
    command.map_or(Ok(()), |path| {
        checked(path).map(drop).map_err(|why| format!("mail {}: {why}", path.display()))
    })
}

/// The file that a path leads to, without links on its way: that one is run, since links may be changed
/// meanwhile. Nobody but root and the daemon's own user may be able to change it.
///
/// # Errors
/// Why it is not to be run by this daemon.
pub(super) fn checked(path: &Path) -> Result<PathBuf, String> {
    let whole = std::fs::canonicalize(path).map_err(|error| error.to_string())?;
    let found = std::fs::metadata(&whole).map_err(|error| error.to_string())?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err("it is no file that can be executed".into());
    }
    let me = rustix::process::geteuid().as_raw();
    for above in whole.ancestors() {
        let found = std::fs::metadata(above).map_err(|error| error.to_string())?;
        let above = above.display();
        if ![0, me].contains(&found.uid()) {
            return Err(format!("user {} owns {above}, and could change it", found.uid()));
        }
        // In a folder with the sticky bit others cannot replace what is not theirs.
        let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        if found.mode() & 0o022 != 0 && !is_sticky {
            return Err(format!("others may write to {above}: chmod go-w {above}"));
        }
    }
    Ok(whole)
}

/// Knowledge that a script is given of the part of a job for which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Around {
    /// The job, or the one whose step it is.
    pub(super) job: u64,
    /// Number of the step.
    pub(super) step: Option<u64>,
    /// User of the job.
    pub(super) uid: u32,
    /// Group of that user.
    pub(super) gid: u32,
    /// Nodes with ranks of it.
    pub(super) nodes: Vec<String>,
    /// Account that has the user's jobs; earlier releases did not write it.
    #[serde(default)]
    pub(super) account: Option<u32>,
}

impl Around {
    pub(super) fn new(job: JobId, launch: &Launch, described: &Job, node: &str) -> Self {
        let owner = launch.steps.owner;
        Around {
            job: owner.unwrap_or(job).0,
            step: owner.map(|_| job.0),
            uid: launch.user.uid,
            gid: launch.user.gid,
            nodes: described.part.as_ref().map_or_else(|| vec![node.to_owned()], |part| part.names.clone()),
            account: Some(launch.user.account().uid),
        }
    }

    /// Account that has the user's jobs: the user itself, where nothing says more. Nobody's would have the
    /// epilogs of all users wait for each other.
    pub(super) fn account(&self) -> u32 {
        self.account.unwrap_or(self.uid)
    }

    /// Environment of the script `what` on a node.
    pub(super) fn environment(&self, what: &str, node: &str) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("PATH", SEARCHED.to_owned()),
            ("TUTTI_SCRIPT", what.to_owned()),
            ("TUTTI_JOBID", self.job.to_string()),
            ("TUTTI_JOB_UID", self.uid.to_string()),
            ("TUTTI_JOB_GID", self.gid.to_string()),
            ("TUTTI_JOB_USER", crate::accounts::name(self.uid).unwrap_or_else(|| self.uid.to_string())),
            ("TUTTI_JOB_NODES", self.nodes.join(",")),
            ("TUTTI_NODE", node.to_owned()),
        ];
        environment.extend(self.step.map(|step| ("TUTTI_STEP", step.to_string())));
        environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_of_a_record_without_one_is_its_users() {
        let older = r#"{"job":7,"step":null,"uid":1001,"gid":100,"nodes":["node0"]}"#;
        let around: Around = serde_json::from_str(older).unwrap();
        assert_eq!((around.account, around.account()), (None, 1001));
        let newer = Around { account: Some(5), ..around };
        let again: Around = serde_json::from_str(&serde_json::to_string(&newer).unwrap()).unwrap();
        assert_eq!(again.account(), 5, "a uid of a range is its owner's");
        // As releases before this one wrote it.
        let number: Around = serde_json::from_str(&older.replace('}', r#","account":9}"#)).unwrap();
        assert_eq!(number.account(), 9);
    }
}
