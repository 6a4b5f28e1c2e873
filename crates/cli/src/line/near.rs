//! `tutti line TARGET`: the near end of a line, started by a command with its stream as stdin
//! (`tutti_client::at`). It makes the line anew when it is cut, and ends with the command.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, recv};
use rustix::process::Signal;
use tutti_client::at::{self, Opened, Opening};
use tutti_os::stderr::print_line;

use super::end::{End, Pause, SILENT_MAX};
use super::{Hello, MARK, VERSION, Welcome};
use crate::rsh::{Target, cannot_start};

/// A line that cannot be made anew for so long is given up: the session at the other end has gone by then.
const GIVE_UP: Duration = Duration::from_secs(600);
/// Between two tries, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Variable with the silence, in seconds, after which a line is made anew.
const SILENCE: &str = "TUTTI_LINE_SILENCE";
const SILENCE_MAX: u64 = 3600;
/// The other end closes a line that is over within this time.
const LAST_MAX: Duration = Duration::from_secs(2);
/// Bytes that a host's shell prints before the mark, at most.
const NOISE_MAX: usize = 64 << 10;

/// The line's program, and our end of it.
struct Wire {
    child: Child,
    stream: UnixStream,
}

impl Wire {
    /// The end of a line over which all has gone: what is on its way arrives.
    fn finish(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_read_timeout(Some(LAST_MAX));
        let mut rest = [0; 4096];
        while self.stream.read(&mut rest).is_ok_and(|read| read > 0) {}
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has the line until it is over.
pub fn run(target: &str) -> ExitCode {
    // What is typed for the command is not for us, nor for ssh.
    for signal in [Signal::INT, Signal::QUIT, Signal::TSTP, Signal::HUP, Signal::PIPE, Signal::TTOU] {
        tutti_os::ignore_signal(signal.as_raw());
    }
    let Ok(local) = rustix::stdio::stdin().try_clone_to_owned() else { return ExitCode::FAILURE };
    let mut local = UnixStream::from(local);
    let begun = begin(target, &mut local);
    let answer = begun.as_ref().map_or_else(|text| Opened::Refused(text.clone()), |_| Opened::Open);
    let mut words = serde_json::to_vec(&answer).expect("answers are serialisable");
    words.push(b'\n');
    if local.write_all(&words).is_err() {
        return ExitCode::FAILURE;
    }
    let Ok(begun) = begun else { return ExitCode::FAILURE };
    match keep(begun, local) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            print_line(format_args!("tutti: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Words about the job that was started over a line that is given up.
const GOES_ON: &str = "; a job goes on, `tutti attach` finds it";

/// A line that has begun.
struct Begun {
    target: Target,
    wire: Wire,
    session: String,
    received: u64,
    /// Silence after which the line is made anew.
    silent_max: Duration,
    /// Words at its end, where it is given up.
    last: &'static str,
}

fn begin(target: &str, local: &mut UnixStream) -> Result<Begun, String> {
    let (target, silent_max) = (Target::parse(target)?, silence(std::env::var_os(SILENCE))?);
    let gone = |_| "the command has gone".to_owned();
    let opening = at::read_line(local).map_err(gone)?;
    let opening: Opening = serde_json::from_slice(&opening).map_err(|error| error.to_string())?;
    let last = if matches!(opening, Opening::Start(_)) { GOES_ON } else { "" };
    let hello = Hello { version: VERSION, session: None, received: 0, opening };
    let (wire, welcome) = connect(&target, &hello, None, Some(local))?;
    match welcome {
        Welcome::Open { session, received } => {
            Ok(Begun { target, wire, session, received, silent_max, last })
        }
        Welcome::Refused(text) => Err(text),
    }
}

/// The value of [`SILENCE`].
fn silence(value: Option<OsString>) -> Result<Duration, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(SILENT_MAX) };
    let seconds = value.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (1..=SILENCE_MAX).contains(seconds));
    let wrong = || format!("{SILENCE} is {value:?}, expected seconds from 1 to {SILENCE_MAX}");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn keep(begun: Begun, local: UnixStream) -> Result<(), String> {
    let Begun { target, wire, session, received, silent_max, last } = begun;
    // For the first words of a new line, where nobody types a password.
    let welcome_max = silent_max + silent_max / 3;
    let lost = |error: &dyn std::fmt::Display| format!("the line to {}: {error}", target.host);
    let mut end = End::new(local, silent_max).map_err(|error| lost(&error))?;
    end.line.handle_line(received).map_err(|error| lost(&error))?;
    let mut wire = Some(wire);
    while let Some(mut now) = wire.take() {
        now.stream.set_nonblocking(true).map_err(|error| lost(&error))?;
        match end.pump(Some(&now.stream), None, None) {
            Pause::Cut => drop(now),
            _ => {
                now.finish();
                return Ok(());
            }
        }
        let cut = Instant::now();
        let (mut between, mut left) = (AGAIN.0, None);
        print_line(format_args!("tutti: the line to {} is cut; it is made anew", target.host));
        while wire.is_none() {
            if end.line.is_ended() && cut.elapsed() > AGAIN.1 {
                return Ok(());
            }
            // The command has gone: from then on its last words are tried for a while.
            if end.is_left() && left.get_or_insert_with(Instant::now).elapsed() >= silent_max {
                let seconds = silent_max.as_secs();
                let text = format!("no way for {seconds} s after its command had gone{last}");
                return Err(lost(&text));
            }
            if cut.elapsed() >= GIVE_UP {
                let seconds = GIVE_UP.as_secs();
                return Err(lost(&format!("no way for {seconds} s{last}")));
            }
            std::thread::sleep(between);
            between = (between * 2).min(AGAIN.1);
            let (session, received) = (Some(session.clone()), end.line.received());
            let hello = Hello { version: VERSION, session, received, opening: Opening::Frames };
            match connect(&target, &hello, Some(welcome_max), None) {
                Ok((new, Welcome::Open { received, .. })) => {
                    end.line.handle_line(received).map_err(|error| lost(&error))?;
                    wire = Some(new);
                }
                Ok((_, Welcome::Refused(text))) => return Err(lost(&text)),
                Err(_) => {}
            }
        }
        print_line(format_args!("tutti: the line to {} is there again", target.host));
    }
    Ok(())
}

/// Makes a line and says the first words; `opener` is the command that may go meanwhile.
fn connect(
    target: &Target,
    hello: &Hello,
    patience: Option<Duration>,
    opener: Option<&UnixStream>,
) -> Result<(Wire, Welcome), String> {
    let socket = |error| format!("cannot make a socket for the line: {error}");
    let (mut stream, theirs) = UnixStream::pair().map_err(socket)?;
    let input = theirs.try_clone().map_err(socket)?;
    let mut command = target.command(&["relay"], patience.is_some());
    command.stdin(Stdio::from(OwnedFd::from(input))).stdout(Stdio::from(OwnedFd::from(theirs)));
    if patience.is_some() {
        // It says again what it said when the line was cut.
        command.stderr(Stdio::null());
    }
    let child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    // The ends of ssh are not ours.
    drop(command);
    let mut words = serde_json::to_vec(hello).expect("first words are serialisable");
    words.push(b'\n');
    let written = stream.write_all(&words);
    let mut wire = Wire { child, stream };
    let welcome = written.ok().and_then(|()| await_welcome(&wire.stream, patience, opener));
    match welcome {
        Some(welcome) => Ok((wire, welcome)),
        None => {
            let host = target.host.clone();
            let status = wire.child.try_wait().ok().flatten();
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            Err(format!(
                "no `tutti relay` answers on {host}{status}: is tutti installed there, and on its PATH?"
            ))
        }
    }
}

/// Reads the relay's answer, and no byte behind it; none: it does not come, or the command that has opened
/// the line has gone meanwhile.
fn await_welcome(
    stream: &UnixStream,
    patience: Option<Duration>,
    command: Option<&UnixStream>,
) -> Option<Welcome> {
    let (mut noise, mut line, mut piece) = (0, Vec::new(), [0; 4096]);
    while noise < NOISE_MAX + at::OPENING_BYTES_MAX {
        await_bytes(stream, patience, command)?;
        let (there, _) =
            retry_on_intr(|| recv(stream, &mut piece[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)).ok()?;
        let end = piece[..there].iter().position(|byte| *byte == b'\n').map_or(there, |end| end + 1);
        let (read, _) = retry_on_intr(|| recv(stream, &mut piece[..end], RecvFlags::DONTWAIT)).ok()?;
        if read == 0 {
            return None;
        }
        noise += read;
        line.extend_from_slice(&piece[..read]);
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            continue;
        }
        // A prompt without its end may stand in front.
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some((_, json)) = text.split_once(MARK) {
            return serde_json::from_str(json).ok();
        }
        line.clear();
    }
    None
}

/// Waits until the line has bytes, or its end; none: the time is up, or the command has gone. Then nobody
/// waits for what ssh may ask at the terminal.
fn await_bytes(stream: &UnixStream, patience: Option<Duration>, command: Option<&UnixStream>) -> Option<()> {
    let timeout = patience.map(|patience| Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: patience.subsec_nanos().into(),
    });
    let mut polled = vec![PollFd::new(stream, PollFlags::IN)];
    // It says nothing before the answer, so its end alone is looked for.
    polled.extend(command.map(|command| PollFd::new(command, PollFlags::empty())));
    let ready = retry_on_intr(|| poll(&mut polled, timeout.as_ref())).ok()?;
    let has_gone = polled.get(1).is_some_and(|command| !command.revents().is_empty());
    (ready > 0 && !has_gone).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_a_line_is_seconds_or_refused_in_a_line() {
        let of = |text: &str| silence(Some(text.into()));
        assert_eq!((silence(None), of("")), (Ok(SILENT_MAX), Ok(SILENT_MAX)));
        assert_eq!((of("1"), of("3600")), (Ok(Duration::from_secs(1)), Ok(Duration::from_secs(3600))));
        for wrong in ["0", "3601", "-1", "1.5", "15s", "99999999999999999999"] {
            let text = format!("TUTTI_LINE_SILENCE is {wrong:?}, expected seconds from 1 to 3600");
            assert_eq!(of(wrong), Err(text));
        }
    }
}
