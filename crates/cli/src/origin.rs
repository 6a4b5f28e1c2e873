//! `--files`: the server of a job's files, a process of the user beside the front end, and what the job is
//! told of it ([`tutti_files`]).
//!
//! ```text
//! front end --fork, exec (--serve-files)--> server    one line of JSON: key, folders, address
//!           <------------- one line: its port, or why not
//!           ------------- the job's number -------->  it goes on without the front end, until that job is
//! over           closes the pair of sockets ------------>  it ends, unless it has a job's number
//! ```

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tutti_files::origin::Origin;
use tutti_files::server::{Folder, Server};
use tutti_os::random::fill_random;
use tutti_protocol::variables;
use tutti_protocol::wire::{Job, Text};

use crate::cluster::{self, JobId};

/// The word by which the program becomes a server.
pub const WORD: &str = "--serve-files";
/// The daemon may be away for so long before a server of a job without a front end gives up.
const DAEMON_AWAY_MAX: Duration = Duration::from_secs(600);
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The server of a job's files; it ends when this is dropped, unless it has a job to follow.
#[derive(Debug)]
pub struct OriginServer {
    control: UnixStream,
}

/// Orders for a server.
#[derive(Serialize, Deserialize)]
struct Task {
    client_key: [u8; 16],
    server_proof: [u8; 16],
    address: IpAddr,
    served: Vec<(Text, bool)>,
}

impl OriginServer {
    /// Starts the server of these folders, if there are any, and tells the job of it.
    ///
    /// # Errors
    /// When a folder cannot be served; a text for the user.
    pub fn start(wanted: &[OsString], job: &mut Job) -> Result<Option<Self>, String> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let directory = std::env::current_dir()
            .map_err(|error| format!("--files: cannot name the working directory: {error}"))?;
        let mut folders = Vec::new();
        for word in wanted {
            let folder = folder_of(word, &directory)?;
            folders.push((Text::from(folder.path.into_os_string()), folder.is_read_only));
        }
        let (mut key, mut proof) = ([0; 16], [0; 16]);
        fill_random(&mut key)
            .and_then(|()| fill_random(&mut proof))
            .map_err(|error| format!("cannot draw random bytes: {error}"))?;
        let place = tutti_shm::published::far::ask_place();
        let address = place.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |place| place.address);
        let (control, port) =
            spawn(&Task { client_key: key, server_proof: proof, address, served: folders })?;
        let origin = Origin {
            client_key: key,
            server_proof: proof,
            address: SocketAddr::new(address, port),
            directory,
        };
        let value = Text::from(OsString::from_vec(origin.text()));
        for program in &mut job.programs {
            program.variables.push((variables::ORIGIN.into(), value.clone()));
        }
        Ok(Some(OriginServer { control }))
    }

    /// The job goes on without this front end: its files are served until it is over.
    pub fn follow(&self, job: JobId) {
        let _ = (&self.control).write_all(format!("{}\n", job.0).as_bytes());
    }
}

/// Reads a value of `--files`: `FOLDER`, `FOLDER:ro`; empty: the working directory.
fn folder_of(word: &OsString, directory: &Path) -> Result<Folder, String> {
    let bytes = word.as_bytes();
    let (bytes, is_read_only) = match bytes.strip_suffix(b":ro") {
        Some(before) => (before, true),
        None => (bytes, false),
    };
    let named = directory.join(std::ffi::OsStr::from_bytes(bytes));
    let path = named.canonicalize().map_err(|error| format!("--files={}: {error}", named.display()))?;
    match (path.is_dir(), path == Path::new("/")) {
        (true, false) => Ok(Folder { path, is_read_only }),
        (true, true) => {
            Err("--files=/: the root folder is not served; name the folders that the job needs".into())
        }
        (false, _) => Err(format!("--files={}: it is no folder", path.display())),
    }
}

fn spawn(task: &Task) -> Result<(UnixStream, u16), String> {
    let failed = |error: std::io::Error| format!("cannot start the server of --files: {error}");
    let (control, end) = UnixStream::pair().map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    Command::new(program)
        .arg0("mpiexec")
        .arg(WORD)
        .stdin(Stdio::from(OwnedFd::from(end)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let line = serde_json::to_string(task).map_err(|error| error.to_string())?;
    (&control).write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(&control).read_line(&mut answer).map_err(failed)?;
    match answer.trim_end().parse() {
        Ok(port) => Ok((control, port)),
        Err(_) if answer.is_empty() => Err("the server of --files has died".into()),
        Err(_) => Err(format!("--files: {}", answer.trim_end())),
    }
}

/// The server's life.
pub fn run() -> ExitCode {
    let Ok(control) = tutti_os::take_stdin() else { return ExitCode::FAILURE };
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    let control = UnixStream::from(control);
    let mut lines = BufReader::new(&control).lines();
    let Some(Ok(line)) = lines.next() else { return ExitCode::FAILURE };
    match serve(&line) {
        Ok(port) => drop((&control).write_all(format!("{port}\n").as_bytes())),
        Err(text) => {
            let _ = (&control).write_all(format!("{}\n", text.replace('\n', " ")).as_bytes());
            return ExitCode::FAILURE;
        }
    }
    // Up to its end, which comes with that of the front end.
    let job = lines.map_while(Result::ok).filter_map(|line| line.parse().ok()).last();
    if let Some(job) = job {
        follow(JobId(job));
    }
    ExitCode::SUCCESS
}

fn serve(line: &str) -> Result<u16, String> {
    let task: Task = serde_json::from_str(line).map_err(|error| error.to_string())?;
    rustix::process::umask(rustix::fs::Mode::empty());
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    let folders: Vec<Folder> = task
        .served
        .iter()
        .map(|(path, is_read_only)| Folder {
            path: PathBuf::from(OsString::from(path)),
            is_read_only: *is_read_only,
        })
        .collect();
    let server = Arc::new(Server::new(task.client_key, task.server_proof, &folders)?);
    let cannot = |error: std::io::Error| format!("cannot listen at {}: {error}", task.address);
    let listener = TcpListener::bind((task.address, 0)).map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    std::thread::spawn(move || server.run(&listener));
    Ok(port)
}

/// Until the job is over, or no daemon has answered for long.
fn follow(job: JobId) {
    let mut heard = Instant::now();
    while heard.elapsed() < DAEMON_AWAY_MAX {
        match cluster::request_with(&cluster::Request::Job(job), &mut |_| {}) {
            Ok((cluster::Answer::Jobs(rows), _))
                if rows.iter().all(|row| row.state == cluster::JobState::Over) =>
            {
                return;
            }
            Ok(_) => heard = Instant::now(),
            Err(_) => {}
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

impl Drop for OriginServer {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(self.control.as_fd(), rustix::net::Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_folders_are_named_as_the_user_does() {
        let here = std::env::temp_dir().canonicalize().expect("a folder");
        let own = folder_of(&OsString::new(), &here).expect("the working directory");
        assert_eq!((own.path, own.is_read_only), (here.clone(), false));
        let fixed = folder_of(&OsString::from("/usr/lib:ro"), &here).expect("a folder");
        assert!(fixed.is_read_only);
        for wrong in ["/", "no-such-folder", "/etc/passwd"] {
            assert!(folder_of(&OsString::from(wrong), &here).is_err(), "{wrong}");
        }
    }
}
