use std::io::Write;
use std::os::unix::net::UnixStream as Stream;

use rustix::process::{PidfdFlags, pidfd_open};

use super::*;
use crate::shell::orphans::Wards;

const LIMIT: Duration = Duration::from_secs(30);

/// Lets this be said on a wire; returns how much of it was heard, and what was wrong.
fn heard(event: Vec<u8>) -> (usize, Option<String>) {
    let (own, mut end) = Stream::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    // It may be closed before all is said.
    let speaker = std::thread::spawn(move || drop(end.write_all(&event)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let (reader, _writer) = UnixStream::from_std(own).unwrap().into_split();
        let (shell_events, mut shell_event) = mpsc::unbounded_channel();
        let listen = Arc::new(Notify::new());
        let events = UserEvents { uid: 5, shell_events };
        let hearing = read_frames(JobId(1), 7, reader, Decoder::default(), Arc::clone(&listen), events);
        tokio::spawn(hearing);
        let mut frames = 0;
        loop {
            let next = tokio::time::timeout(LIMIT, shell_event.recv()).await.expect("the end of the wire");
            let Some(ShellEvent::OfUser(5, piece)) = next else { panic!("it is charged to its user") };
            match piece.event {
                ShellEvent::Core(Event::Starter(_, more)) => {
                    frames += more.len();
                    listen.notify_one();
                }
                ShellEvent::StarterClosed(JobId(1), 7, wrong) => return (frames, wrong),
                _ => panic!("nothing else happens"),
            }
        }
    });
    speaker.join().unwrap();
    found
}

fn frame(kind: u32, bytes: u32) -> Vec<u8> {
    [kind, 0, bytes].map(u32::to_ne_bytes).concat()
}

#[test]
fn starter_protocol_error_closes_its_wire() {
    let mut well = Vec::new();
    wire::put(&mut well, Kind::Report, 0, b"\"Left\"");
    assert_eq!(heard(well.clone()), (1, None));
    let bad = [well.clone(), frame(999, 5), vec![0; 1 << 20]].concat();
    let text = "a frame of kind 999 with 5 bytes is not one of this version";
    assert_eq!(heard(bad), (1, Some(text.into())));
    let bytes = STATE_BYTES_MAX as u32;
    let longest = [frame(Kind::Fence as u32, bytes), vec![0; STATE_BYTES_MAX]].concat();
    assert_eq!(heard(longest), (1, None));
    let longer =
        [well, frame(Kind::Fence as u32, bytes + (1 << 20)), vec![0; STATE_BYTES_MAX + (1 << 19)]].concat();
    assert_eq!(heard(longer), (1, Some("a frame of more than 56 MiB".into())));
}

#[test]
fn starter_that_closed_its_wire_is_killed() {
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id();
    let pidfd = pidfd_open(Pid::from_child(&sleeper), PidfdFlags::empty()).unwrap();
    let (failed, _) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let child = Process::new(pid, pidfd, failed, String::new(), 0);
    let file = File::of_none(pid, started(pid).unwrap());
    let wire = Wire::new(1, mpsc::unbounded_channel().0, Arc::new(Notify::new()));
    let mut starter = Starter::begun(child, wire, None, file, None);
    let wards = Wards::new();
    wards.add(pid);
    let death = starter.reap_blocking(Duration::from_millis(20), &wards);
    assert_eq!((death.text.as_str(), death.is_killed), ("signal: 9 (SIGKILL)", false), "we have killed it");
    assert_eq!(started(pid), None);
    assert!(sleeper.wait().is_err(), "it was waited for");
}
