//! Settings that commands take from the configuration which a daemon would read: the host that they ask.

use std::os::unix::fs::FileTypeExt;

use tutti_protocol::config::parse::Accounts;
use tutti_protocol::config::{self, Origin};
use tutti_protocol::paths;

use crate::{at, users};

/// Variable of the processes of a job: its number.
const JOB: &str = "TUTTI_JOBID";

/// Users and groups of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Directory;

impl Accounts for Directory {
    fn has_user(&self, name: &str) -> bool {
        users::is_known("passwd", name)
    }

    fn has_group(&self, name: &str) -> bool {
        users::is_known("group", name)
    }
}

/// Host that `[client]` names, whose daemon commands ask. None where a variable names a daemon, and in a
/// job: it asks the daemon that it runs under.
///
/// # Errors
/// When the section stands in a file with mistakes; a text for the user.
pub fn host() -> Result<Option<String>, String> {
    let is_given = |name| std::env::var_os(name).is_some();
    if paths::is_named() || [paths::FOLDER_VARIABLE, at::VARIABLE, JOB].into_iter().any(is_given) {
        return Ok(None);
    }
    let origin = Origin::choose(None);
    // Most users have no such file, and a named pipe would be waited for.
    if std::fs::metadata(origin.path()).is_ok_and(|found| found.file_type().is_fifo()) {
        let parsed = config::load(&origin, &Directory);
        let mistake = parsed.mistakes.first().map(|mistake| mistake.at(&origin.path().to_string_lossy()));
        return mistake.map_or(Ok(None), Err);
    }
    let Ok(text) = std::fs::read_to_string(origin.path()) else { return Ok(None) };
    if !text.lines().any(|line| line.trim_start().starts_with("[client]")) {
        return Ok(None);
    }
    let parsed = config::load(&origin, &Directory);
    match parsed.mistakes.first() {
        Some(mistake) => Err(mistake.at(&origin.path().to_string_lossy())),
        None => Ok(parsed.config.client.text("at").map(str::to_owned)),
    }
}
