use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::client::{CallError, Connection};
use crate::frames::{Change, Lock, Place, Target};
use crate::origin::Origin;
use tutti_testkit::Scratch;

struct Served {
    folder: Scratch,
    origin: Origin,
}

fn serve(name: &str) -> Served {
    let folder = Scratch::new(name);
    let inside = folder.path().join("inside");
    fs::create_dir_all(inside.join("deep")).expect("a folder");
    fs::create_dir(folder.path().join("fixed")).expect("a folder");
    fs::write(folder.path().join("secret"), "not for them").expect("a file");
    fs::write(inside.join("data"), "0123456789").expect("a file");
    fs::write(folder.path().join("fixed/table"), "table").expect("a file");
    for (to, link) in
        [("../secret", "out"), ("/etc/passwd", "away"), ("data", "near"), ("deep/../data", "far")]
    {
        std::os::unix::fs::symlink(to, inside.join(link)).expect("a link");
    }
    let (key, proof) = ([1; 16], [2; 16]);
    let export = |path: &str, is_read_only| Folder { path: folder.path().join(path), is_read_only };
    let server =
        Server::new(key, proof, &[export("inside", false), export("fixed", true)]).expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || Arc::new(server).run(&listener));
    let origin = Origin { client_key: key, server_proof: proof, address, directory: inside };
    Served { folder, origin }
}

fn at(path: &str) -> Place {
    Place { export: 0, path: path.into() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, CallError>) -> i32 {
    match result {
        Err(CallError::Refused(errno)) => errno,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn server_reads_writes_and_lists_what_is_below_its_folder() {
    let served = serve("origin-files");
    let mut client = Connection::open(&served.origin, 0).expect("a connection");
    let (handle, attributes) = client.open_file(at("near"), libc::O_RDWR as u32, 0, true).expect("it opens");
    assert_eq!(attributes.size, 10);
    assert_eq!(client.read(handle, 7, 100).expect("it reads").1, b"789");
    assert_eq!(client.write(handle, 10, b"abc").expect("it writes"), 3);
    let path = served.folder.path().join("inside");
    assert_eq!(fs::read(path.join("data")).expect("a file"), b"0123456789abc");
    let change = Change { size: Some(2), ..Change::default() };
    client.call(&Request::Set { target: Target::Handle(handle), change }).expect("it is cut");
    assert_eq!(client.stat(Target::Place(at("data")), false).expect("it is there").size, 2);
    client.call(&Request::MakeDirectory { place: at("deep/new"), mode: 0o755 }).expect("a folder");
    client.call(&Request::Rename { from: at("data"), to: at("deep/new/d"), flags: 0 }).expect("renamed");
    assert!(path.join("deep/new/d").exists());
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY) as u32;
    let (folder, _) = client.open_file(at("deep"), flags, 0, true).expect("a folder");
    let names: Vec<_> = client.list(folder, 0).expect("a list").into_iter().map(|entry| entry.name).collect();
    assert!(names.contains(&b"new".to_vec()) && names.len() == 3, "{names:?}");
    assert_eq!(
        refusal(client.call(&Request::Remove { place: at("deep/new"), is_directory: true })),
        libc::ENOTEMPTY
    );
    client.call(&Request::Remove { place: at("deep/new/d"), is_directory: false }).expect("removed");
    client.call(&Request::Close { handle }).expect("closed");
    assert_eq!(refusal(client.read(handle, 0, 1)), libc::EBADF);
}

/// Connections without a key take no place from those who have it, however many they are.
#[test]
fn server_takes_clients_in_beside_as_many_visitors_as_it_keeps() {
    let served = serve("origin-visitors");
    let visit = || TcpStream::connect(served.origin.address).expect("a connection");
    let visitors: Vec<_> = (0..2 * VISITORS_MAX).map(|_| visit()).collect();
    let mut client = Connection::open(&served.origin, 0).expect("a connection");
    assert_eq!(client.stat(Target::Place(at("data")), false).expect("it is there").size, 10);
    // The oldest have lost their places.
    assert_eq!(read_frame(&visitors[0], HELLO_MAX).expect("an end"), None);
}

/// The time for the key is one for all of its bytes.
#[test]
fn server_closes_a_connection_whose_key_comes_byte_by_byte() {
    let served = serve("origin-drops");
    let mut slow = TcpStream::connect(served.origin.address).expect("a connection");
    let hello = Request::Hello { key: served.origin.client_key, session: 0 }.encode();
    let pause = 2 * KEY_MAX / hello.len() as u32;
    for byte in hello {
        if slow.write_all(&[byte]).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    let answered = read_frame(&slow, FRAME_MAX);
    assert!(!matches!(answered, Ok(Some(_))), "{answered:?}");
}

#[test]
fn server_refuses_what_leads_out_of_its_folder() {
    let served = serve("origin-out");
    let mut client = Connection::open(&served.origin, 0).expect("a connection");
    for path in ["out", "away", "../secret", "deep/../../secret"] {
        assert_eq!(refusal(client.open_file(at(path), 0, 0, true)), libc::EXDEV, "{path}");
        assert_eq!(refusal(client.stat(Target::Place(at(path)), true)), libc::EXDEV, "{path}");
    }
    assert_eq!(refusal(client.read_link(at("out"))), libc::EXDEV);
    assert_eq!(refusal(client.read_link(at("away"))), libc::EXDEV);
    assert_eq!(client.read_link(at("far")).expect("it stays inside"), b"deep/../data");
    let (from, to) = (at("data"), at("../stolen"));
    assert_eq!(refusal(client.call(&Request::Rename { from, to, flags: 0 })), libc::EXDEV);
    let fixed = |path: &str| Place { export: 1, path: path.into() };
    assert!(client.open_file(fixed("table"), 0, 0, true).is_ok());
    assert_eq!(refusal(client.open_file(fixed("table"), libc::O_WRONLY as u32, 0, true)), libc::EROFS);
    let remove = Request::Remove { place: fixed("table"), is_directory: false };
    assert_eq!(refusal(client.call(&remove)), libc::EROFS);
    assert_eq!(refusal(client.open_file(Place { export: 7, path: vec![] }, 0, 0, true)), libc::ENOENT);
    assert_eq!(client.place(Path::new("/"), b"/etc/passwd"), None);
}

#[test]
fn server_lets_nobody_in_without_the_key_and_ends_who_sends_no_frames() {
    let served = serve("origin-key");
    let stranger = Origin { client_key: [9; 16], ..served.origin.clone() };
    assert!(Connection::open(&stranger, 0).is_err());
    let other = Origin { server_proof: [9; 16], ..served.origin.clone() };
    assert!(Connection::open(&other, 0).is_err());
    let mut stream = TcpStream::connect(served.origin.address).expect("a connection");
    stream.write_all(&[255; 4096]).expect("it is sent");
    let mut rest = Vec::new();
    // An end or a reset: either way it is over.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(Connection::open(&served.origin, 0).is_ok());
}

#[test]
fn server_frees_files_and_locks_with_the_last_connection_of_a_session() {
    let served = serve("origin-locks");
    let lock = Lock { kind: libc::F_WRLCK, begin: 0, bytes: 5 };
    let open =
        |client: &mut Connection| client.open_file(at("data"), libc::O_RDWR as u32, 0, true).expect("open").0;
    let mut one = Connection::open(&served.origin, 0).expect("a connection");
    let file = open(&mut one);
    one.set_lock(file, lock).expect("a lock");
    let second = Connection::open(&served.origin, one.welcome().session).expect("a second connection");
    let mut other = Connection::open(&served.origin, 0).expect("another");
    let theirs = open(&mut other);
    assert_eq!(refusal(other.set_lock(theirs, lock)), libc::EAGAIN);
    assert_eq!(other.get_lock(theirs, lock).expect("an answer").kind, libc::F_WRLCK);
    drop(one);
    assert_eq!(refusal(other.set_lock(theirs, lock)), libc::EAGAIN);
    drop(second);
    tutti_testkit::await_that("the lock is free", || other.set_lock(theirs, lock).is_ok());
}

/// A lock of a whole file is of the open file: it meets those of others, on the origin too, not locks of
/// ranges.
#[test]
fn server_locks_whole_files_as_flock_does() {
    let served = serve("origin-flock");
    let open =
        |client: &mut Connection| client.open_file(at("data"), libc::O_RDWR as u32, 0, true).expect("open").0;
    let mut client = Connection::open(&served.origin, 0).expect("a connection");
    let (one, two) = (open(&mut client), open(&mut client));
    client.lock_file(one, libc::F_RDLCK).expect("a shared lock");
    client.lock_file(two, libc::F_RDLCK).expect("another");
    assert_eq!(refusal(client.lock_file(two, libc::F_WRLCK)), libc::EAGAIN);
    client.lock_file(one, libc::F_UNLCK).expect("it is free");
    client.lock_file(two, libc::F_WRLCK).expect("an exclusive lock");
    client.set_lock(one, Lock { kind: libc::F_WRLCK, begin: 0, bytes: 0 }).expect("a lock of a range");
    let here = fs::File::open(served.folder.path().join("inside/data")).expect("a file");
    let lock = || rustix::fs::flock(&here, rustix::fs::FlockOperation::NonBlockingLockShared);
    assert_eq!(lock(), Err(rustix::io::Errno::AGAIN));
    client.call(&Request::Close { handle: two }).expect("it is closed");
    assert_eq!(lock(), Ok(()));
}

/// Requests of one who has the key, as a rank may be hostile: they reach what is below the folders, and no
/// other file; frames that are none end their connection alone.
#[test]
fn server_survives_requests_that_are_nearly_right_and_changes_nothing_outside() {
    let served = serve("origin-nearly");
    let (folder, inside) = (served.folder.path(), served.folder.path().join("inside"));
    let up = |path: &str| Place { export: 0, path: path.into() };
    let lock = Lock { kind: libc::F_WRLCK, begin: 0, bytes: 5 };
    let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;
    let change = Change { size: Some(3), mode: Some(0o777), ..Change::default() };
    let requests = [
        Request::Open { place: up("../secret"), flags, mode: 0o644, follow: true },
        Request::Open { place: up("data"), flags, mode: 0o644, follow: true },
        Request::Set { target: Target::Place(up("out")), change },
        Request::Write { handle: 1, offset: 1, data: b"abc".to_vec() },
        Request::Read { handle: 1, offset: 1, bytes: 9 },
        Request::SetLock { handle: 1, lock },
        Request::LockFile { handle: 1, kind: libc::F_WRLCK },
        Request::Allocate { handle: 1, mode: 0, offset: 0, bytes: 100 },
        Request::Symlink { place: up("new"), to: b"../secret".to_vec() },
        Request::Rename { from: up("data"), to: up("../secret"), flags: 0 },
        Request::Link { from: up("../secret"), to: up("mine") },
        Request::Remove { place: up("out"), is_directory: false },
        Request::MakeDirectory { place: up("../more"), mode: 0o755 },
        Request::List { handle: 1, index: 0 },
    ];
    let samples: Vec<Vec<u8>> = requests.iter().map(Request::encode).collect();
    let hello = Request::Hello { key: served.origin.client_key, session: 0 }.encode();
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    // Each is a few system calls: fewer than of those that are only read.
    for _ in 0..tutti_testkit::nearly::count() / 50 {
        let mut stream = TcpStream::connect(served.origin.address).expect("a connection");
        let frames: Vec<u8> = (0..8).flat_map(|_| nearly(&mut random, &samples)).collect();
        let _ = stream.write_all(&[&hello[..], &frames].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(fs::read_to_string(folder.join("secret")).expect("a file"), "not for them");
    assert_eq!(fs::read_to_string(folder.join("fixed/table")).expect("a file"), "table");
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|one| one.expect("one").file_name()).collect();
    names.sort();
    assert_eq!(names, ["fixed", "inside", "secret"]);
    fs::write(inside.join("after"), "here").expect("a file");
    let mut client = Connection::open(&served.origin, 0).expect("the server lives");
    let (handle, _) = client.open_file(at("after"), 0, 0, true).expect("it opens");
    assert_eq!(client.read(handle, 0, 100).expect("it reads").1, b"here");
}

/// A frame with its length, or rarely another one, in which bytes of the path or kind are changed.
fn nearly(random: &mut tutti_testkit::Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = samples[random.below(samples.len() as u64) as usize].clone();
    let at = 4 + random.below(bytes.len() as u64 - 4) as usize;
    match random.below(4) {
        0 => bytes[4] = random.below(24) as u8,
        1 if bytes[at].is_ascii_graphic() => bytes[at] = *b"./l".get(random.below(3) as usize).expect("one"),
        2 if at + 2 < bytes.len() && bytes[at..at + 3].iter().all(u8::is_ascii_graphic) => {
            bytes[at..at + 3].copy_from_slice(b"../");
        }
        _ => {}
    }
    let other = tutti_testkit::nearly::frame(random, samples);
    // An allocation as large as the disk would be one.
    let takes_room = matches!(other.get(4..).map(Request::decode), Some(Ok(Request::Allocate { .. })));
    if random.chance(30) && !takes_room { other } else { bytes }
}
