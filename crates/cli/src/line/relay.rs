//! `tutti relay`: what `ssh` starts on the other host. It finds the session of the line, or starts one, and
//! copies bytes. Who it is, the kernel tells the daemon.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use tutti_client::at;
use tutti_os::random::fill_random;
use tutti_protocol::paths;
use tutti_shm::local_socket::connect_to;
use tutti_shm::users::is_own_user;

use super::{Hello, MARK, VERSION, Welcome, session};

/// A session that takes nobody in for so long is stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// Copies between stdin, stdout and the session.
pub fn run(session: Option<&str>) -> ExitCode {
    if let Some(name) = session {
        return session::run(name, &socket(name));
    }
    let output = rustix::stdio::stdout().try_clone_to_owned().map(File::from);
    let input = rustix::stdio::stdin().try_clone_to_owned().map(File::from);
    let (Ok(mut input), Ok(mut output)) = (input, output) else { return ExitCode::FAILURE };
    let mut stream = match enter(&mut input) {
        Ok(stream) => stream,
        Err(text) => {
            let welcome = serde_json::to_string(&Welcome::Refused(text)).expect("it is serialisable");
            let _ = output.write_all(format!("{MARK}{welcome}\n").as_bytes());
            return ExitCode::FAILURE;
        }
    };
    let Ok(mut up) = stream.try_clone() else { return ExitCode::FAILURE };
    std::thread::spawn(move || {
        copy(&mut input, &mut up);
        let _ = up.shutdown(std::net::Shutdown::Both);
    });
    copy(&mut stream, &mut output);
    ExitCode::SUCCESS
}

/// Each piece at once.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut bytes = [0; 64 << 10];
    while let Ok(read) = from.read(&mut bytes) {
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// The stream to the session, to which its first words have gone.
fn enter(input: &mut File) -> Result<UnixStream, String> {
    let words = at::read_line(input).map_err(|error| format!("the line has ended: {error}"))?;
    let hello: Hello = serde_json::from_slice(&words)
        .map_err(|_| "tutti is of another version at the other end of the line".to_owned())?;
    if hello.version != VERSION {
        return Err("tutti is of another version at the other end of the line".into());
    }
    let name = match hello.session {
        Some(name) if name.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        Some(_) => return Err("the session has no such name".into()),
        None => begin()?,
    };
    let gone = "its session has ended: the host has begun anew, or the line was cut for too long";
    let mut stream = connect_to(&socket(&name), PATIENCE).map_err(|_| gone.to_owned())?;
    // The folder may be another one than that of the session.
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|_| gone.to_owned())?;
    if !is_own_user(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get()) {
        return Err(gone.to_owned());
    }
    let sent = stream.write_all(&words).and_then(|()| stream.write_all(b"\n"));
    sent.map_err(|_| gone.to_owned())?;
    Ok(stream)
}

fn socket(name: &str) -> PathBuf {
    paths::folder().join(format!("relay-{name}.line"))
}

/// Starts a session: a process that stays when the line is cut.
fn begin() -> Result<String, String> {
    let mut number = [0; 8];
    fill_random(&mut number).map_err(|error| format!("cannot draw random bytes: {error}"))?;
    let name = format!("{:016x}", u64::from_ne_bytes(number));
    let (folder, path) = (paths::folder(), socket(&name));
    let failed = |error| format!("cannot use the folder {}: {error}", folder.display());
    paths::make(&folder, rustix::process::geteuid().is_root()).map_err(failed)?;
    let door = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let program = paths::tutti();
    Command::new(&program)
        .args(["relay", "--session", &name])
        .stdin(Stdio::from(OwnedFd::from(door)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    Ok(name)
}
