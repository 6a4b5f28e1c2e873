use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use super::*;

/// A bus that answers the calls as the test wants; returns what it received.
fn bus(name: &str, answers: Vec<Vec<u8>>) -> (PathBuf, JoinHandle<Vec<Vec<u8>>>) {
    let path = std::env::temp_dir().join(format!("tutti-bus-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        let mut recv_line = |stream: &mut UnixStream| {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            received.push(line);
        };
        recv_line(&mut stream);
        stream.write_all(b"OK 1234deadbeef\r\n").unwrap();
        recv_line(&mut stream);
        for answer in answers {
            let mut head = [0; 16];
            stream.read_exact(&mut head).unwrap();
            let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
            let mut rest = vec![0; word(12).next_multiple_of(8) + word(4)];
            stream.read_exact(&mut rest).unwrap();
            received.push([head.to_vec(), rest].concat());
            stream.write_all(&answer).unwrap();
        }
        // Until the other side has gone.
        let _ = stream.read(&mut [0]);
        received
    });
    (path, thread)
}

/// A message of the bus that answers this call, with the name that we have on it.
fn answer(kind: u8, serial: u32) -> Vec<u8> {
    let fields = [&b"\x06\x01s\0\x04\0\0\0:1.9\0\0\0\0"[..], b"\x05\x01u\0", &serial.to_le_bytes()].concat();
    let mut message = vec![b'l', kind, 1, 1];
    for word in [9, 77, fields.len() as u32] {
        message.extend(word.to_le_bytes());
    }
    message.extend(fields);
    pad(&mut message, 8);
    message.extend(b"\x04\0\0\0:1.9\0");
    message
}

fn make(path: &Path, limit: Duration) -> io::Result<()> {
    let result = make_real_time(path, 4711, limit);
    std::fs::remove_file(path).unwrap();
    result
}

#[test]
fn rtkit_request_has_the_documented_form() {
    let signal = answer(4, 2);
    let (path, thread) = bus(
        "grants",
        vec![
            [signal.clone(), answer(RETURN, 1)].concat(),
            [signal, answer(RETURN, 1), answer(RETURN, 2)].concat(),
        ],
    );
    make(&path, Duration::from_secs(60)).unwrap();
    let received = thread.join().unwrap();
    let user: String =
        rustix::process::geteuid().as_raw().to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(received[0], format!("\0AUTH EXTERNAL {user}\r\n").as_bytes());
    assert_eq!(received[1], b"BEGIN\r\n");
    let hello = b"l\x01\0\x01\0\0\0\0\x01\0\0\0\x6d\0\0\0\
        \x01\x01o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0\
        \x02\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0\
        \x03\x01s\0\x05\0\0\0Hello\0\0\0\
        \x06\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0";
    assert_eq!(received[2], hello, "as the specification of D-Bus says");
    let make = &received[3];
    assert_eq!(make[4..12], *b"\x0c\0\0\0\x02\0\0\0", "twelve bytes, the second call");
    assert!(make.windows(18).any(|part| part == b"MakeThreadRealtime"));
    assert!(make.windows(4).any(|part| part == b"\x02tu\0"));
    assert_eq!(make[make.len() - 12..], *b"\x67\x12\0\0\0\0\0\0\x0a\0\0\0", "thread 4711, priority 10");
    assert_eq!(make.len() % 8, 4, "the arguments begin at a multiple of eight");
    let limit = getrlimit(Resource::Rttime);
    assert_eq!((limit.current, limit.maximum), (Some(RTTIME_US), Some(RTTIME_US)));
}

#[test]
fn rtkit_refusal_or_silence_gives_nothing() {
    let (path, thread) = bus("refuses", vec![answer(RETURN, 1), answer(ERROR, 2)]);
    assert_eq!(make(&path, Duration::from_secs(60)).unwrap_err().kind(), ErrorKind::PermissionDenied);
    thread.join().unwrap();
    let (path, thread) = bus("silent", vec![answer(RETURN, 1), Vec::new()]);
    let error = make(&path, Duration::from_millis(50)).unwrap_err();
    assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()), "{error}");
    thread.join().unwrap();
    for (number, words) in
        [b"HTTP/1.1 400 Bad Request\r\n".to_vec(), vec![b'l'; 16], vec![0xff; 64]].into_iter().enumerate()
    {
        let (path, thread) = bus(&format!("odd-{number}"), vec![words]);
        assert_eq!(make(&path, Duration::from_secs(60)).unwrap_err().kind(), ErrorKind::InvalidData);
        thread.join().unwrap();
    }
    assert!(make_real_time(Path::new("/nonexistent/bus"), 1, LIMIT).is_err());
}

#[test]
fn rtkit_survives_any_reply() {
    assert_eq!(reply_serial(&[]), Some(0));
    let whole = [&b"\x08\x01g\0\x02tu\0\x05\x01u\0"[..], &7_u32.to_le_bytes()].concat();
    assert_eq!(reply_serial(&whole), Some(7));
    for end in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut cut = whole[..end].to_vec();
            let _ = reply_serial(&cut);
            cut.push(byte);
            let _ = reply_serial(&cut);
        }
    }
    assert_eq!(reply_serial(b"\x01\x01s\0\xff\xff\xff\xff"), Some(0), "behind the end there is nothing");
}
