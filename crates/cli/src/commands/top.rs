//! `tutti top`: a program of its own, which takes the place of this one, since this one is also `mpiexec`.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use tutti_protocol::paths;

/// Starts the program with the words of this command line, which have been checked.
///
/// # Errors
/// When it cannot be started; a text for the user.
pub(super) fn run() -> Result<ExitCode, String> {
    let path = paths::top();
    let error = Command::new(&path).args(std::env::args_os().skip(2)).exec();
    Err(format!("cannot start {}: {error} (it belongs to the installation of tutti)", path.display()))
}
