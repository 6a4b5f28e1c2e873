//! The far end of a line: a process that has the daemon's connection, over as many lines as it takes. Each
//! line comes in by its socket, which is its stdin. Where none comes for long, a job goes on without it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tutti_client::at::{self, Opening, Start};
use tutti_protocol::wire::{self, Kind};
use tutti_shm::users::is_own_user;

use super::end::{End, Pause};
use super::{Hello, MARK, Welcome};
use crate::cluster::{self, Request};
use crate::front;

/// Waits for a line: for the first, and for one more.
const FIRST_MAX: Duration = Duration::from_secs(20);
const NEXT_MAX: Duration = Duration::from_secs(600);
/// The daemon has this time to let a job go on without us.
const DETACH_MAX: Duration = Duration::from_secs(10);
/// The last words for the daemon are taken within this time.
const LAST_MAX: Duration = Duration::from_secs(2);
/// Time for the first words of a line that comes in.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// Runs the session to its end.
pub fn run(name: &str, socket: &Path) -> ExitCode {
    let _ = rustix::process::setsid();
    for signal in [Signal::HUP, Signal::PIPE, Signal::INT] {
        tutti_os::ignore_signal(signal.as_raw());
    }
    let door = rustix::stdio::stdin().try_clone_to_owned().map(UnixListener::from);
    let status = door.ok().and_then(|door| serve(name, &door));
    let _ = std::fs::remove_file(socket);
    status.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// None: there was nothing to be served.
fn serve(name: &str, door: &UnixListener) -> Option<()> {
    // A session that nobody enters ends.
    let mut end = None;
    let mut wire: Option<UnixStream> = None;
    let mut until = Instant::now() + FIRST_MAX;
    door.set_nonblocking(true).ok()?;
    loop {
        let Some(open) = &mut end else {
            let (line, hello) = await_first(door, until)?;
            match open_daemon(&hello.opening) {
                Ok(stream) => {
                    end = Some(End::of_daemon(stream).ok()?);
                    wire = welcome(line, name, 0);
                }
                Err(text) => {
                    say(line, &Welcome::Refused(text));
                    return None;
                }
            }
            until = Instant::now() + NEXT_MAX;
            continue;
        };
        let deadline = wire.is_none().then_some(until);
        match open.pump(wire.as_ref(), Some(door), deadline) {
            Pause::Over => return Some(()),
            // Whoever has finished does not come back: what it has said is carried out.
            Pause::Cut if open.line.is_ended() => {
                open.pump(None, None, Some(Instant::now() + LAST_MAX));
                return Some(());
            }
            Pause::Cut => {
                wire = None;
                until = Instant::now() + NEXT_MAX;
            }
            Pause::Knock => {
                if let Some((line, hello)) = enter(door)
                    && open.line.handle_line(hello.received).is_ok()
                {
                    wire = welcome(line, name, open.line.received());
                    until = Instant::now() + NEXT_MAX;
                }
            }
            Pause::Late => return detach(open),
        }
    }
}

/// The job goes on; `tutti attach` finds it.
fn detach(end: &mut End) -> Option<()> {
    let mut frame = Vec::new();
    wire::put(&mut frame, Kind::Detach, 0, &[]);
    end.inject(&frame);
    end.pump(None, None, Some(Instant::now() + DETACH_MAX));
    Some(())
}

fn await_first(door: &UnixListener, until: Instant) -> Option<(UnixStream, Hello)> {
    while Instant::now() < until {
        if let Some(found) = enter(door) {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// A line that has come, with its first words.
fn enter(door: &UnixListener) -> Option<(UnixStream, Hello)> {
    let (mut stream, _) = door.accept().ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    if !is_own_user(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get()) {
        return None;
    }
    stream.set_read_timeout(Some(HELLO_MAX)).ok()?;
    let words = at::read_line(&mut stream).ok()?;
    Some((stream, serde_json::from_slice(&words).ok()?))
}

fn welcome(line: UnixStream, name: &str, received: u64) -> Option<UnixStream> {
    say(line, &Welcome::Open { session: name.to_owned(), received })
}

fn say(mut line: UnixStream, welcome: &Welcome) -> Option<UnixStream> {
    let json = serde_json::to_string(welcome).expect("it is serialisable");
    line.write_all(format!("{MARK}{json}\n").as_bytes()).ok()?;
    line.set_nonblocking(true).ok()?;
    Some(line)
}

/// A connection to the daemon, over which the opening's request has gone.
fn open_daemon(opening: &Opening) -> Result<UnixStream, String> {
    let request = match opening {
        Opening::Frames => None,
        Opening::Start(start) => Some(request(start)?),
    };
    let mut stream = cluster::stream()?;
    if let Some(request) = request {
        let mut bytes = Vec::new();
        wire::put_json(&mut bytes, Kind::Request, &request);
        stream.write_all(&bytes).map_err(|error| format!("cannot ask the daemon: {error}"))?;
    }
    Ok(stream)
}

/// The job of a command line that was typed elsewhere.
fn request(start: &Start) -> Result<Request, String> {
    let directory = OsString::from(&start.directory);
    let home = || std::env::var_os("HOME").unwrap_or_else(|| "/".into());
    if std::env::set_current_dir(&directory).is_err() {
        let _ = std::env::set_current_dir(home());
    }
    front::start_daemon_if_missing()?;
    let arguments: Vec<OsString> = start.arguments.iter().map(OsString::from).collect();
    let place = front::Place { terminal: start.terminal, types: start.types };
    front::request_of(&arguments, start.launcher, &start.hosts, place)
}
