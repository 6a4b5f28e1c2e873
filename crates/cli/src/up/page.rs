//! The page of a cluster that `tutti up` starts, where the configuration wants one. A cluster without it is a
//! cluster, too: what is wrong with the page is one line.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tutti_os::stderr::print_line;
use tutti_protocol::config::Config;
use tutti_protocol::{paths, sight};

use super::{POLL, TIMEOUT};

/// Log of the program, in the folder.
const LOG: &str = "sight.log";

/// Starts it; gives its address when it is there.
pub(super) fn start(config: &Config, file: Option<&Path>, folder: &Path) -> Option<SocketAddr> {
    let listen = config.sight.text("listen")?;
    match try_start(listen, file, folder) {
        Ok(address) => Some(address),
        Err(text) => {
            print_line(format_args!("tutti up: the cluster is there, the page is not: {text}"));
            None
        }
    }
}

fn try_start(listen: &str, file: Option<&Path>, folder: &Path) -> Result<SocketAddr, String> {
    let place = sight::folder(&paths::state_of(folder));
    let log_file = folder.join(LOG);
    let log = paths::open_log(&log_file, true)
        .map_err(|error| format!("cannot write {}: {error}", log_file.display()))?;
    sight::forget_address(&place);
    let mut command = Command::new(paths::sight());
    command
        .args(["--until-down", "--listen", listen])
        .env(paths::SOCKET_VARIABLE, folder.join(paths::SOCKET))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .current_dir("/");
    if let Some(file) = file {
        command.arg("--config").arg(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
    }
    let started = command.spawn();
    let mut child = started.map_err(|error| format!("cannot start {}: {error}", paths::sight().display()))?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(address) = sight::address(&place) {
            return Ok(address);
        }
        if let Ok(Some(status)) = child.try_wait() {
            let text = std::fs::read_to_string(&log_file).unwrap_or_default();
            let line = text.lines().last().unwrap_or_default().trim_start_matches("tutti-sight: ").to_owned();
            return Err(if line.is_empty() { format!("it has ended ({status})") } else { line });
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it does not begin: see {}", log_file.display()));
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until the page has ended with the daemons.
pub(super) fn await_end(folder: &Path) -> Result<(), String> {
    let place = sight::folder(&paths::state_of(folder));
    let deadline = Instant::now() + TIMEOUT;
    while let Some(address) = sight::address(&place) {
        // The service manager has one that stays.
        if !folder.join(LOG).exists() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!("the daemons have ended, the page at {address} has not"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
