use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use tutti_testkit::{Random, Scratch, seed};

use super::wire::{ROOT, operation};
use super::*;
use crate::frames::PATH_MAX;
use crate::server::{Folder, Server};

/// A mounted folder whose kernel is this test.
struct Kernel {
    mounted: Arc<Mounted>,
    connection: Connection,
    answers: OwnedFd,
    folder: Scratch,
}

impl Kernel {
    fn new(name: &str) -> Self {
        let folder = Scratch::new(name);
        std::fs::write(folder.path().join("data"), "0123456789").expect("a file");
        let export = Folder { path: folder.path().to_path_buf(), is_read_only: false };
        let server = Server::new([1; 16], [2; 16], &[export]).expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || Arc::new(server).run(&listener));
        let directory = folder.path().to_path_buf();
        let origin = Origin { client_key: [1; 16], server_proof: [2; 16], address, directory };
        let connection = Connection::open(&origin, 0).expect("a connection");
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
        let (device, answers) = pair.expect("a pair of sockets");
        let session = connection.welcome().session;
        let export = connection.welcome().exports[0].clone();
        let mounted = Mounted::new(origin, session, (0, &export), device, Box::new(|_| {}));
        Kernel { mounted: Arc::new(mounted), connection, answers, folder }
    }

    /// Sends a request as it is.
    fn send(&mut self, request: &[u8]) {
        self.mounted.answer(&mut self.connection, request);
    }

    /// Takes all answers that are there: number of the request and error of each, and its fields.
    fn take(&self) -> Vec<(u64, i32, Vec<u8>)> {
        let mut taken = Vec::new();
        let mut bytes = vec![0; 2 << 20];
        while let Ok((_, length)) = rustix::net::recv(&self.answers, &mut bytes[..], RecvFlags::DONTWAIT) {
            assert_eq!(length, u32::from_ne_bytes(bytes[..4].try_into().expect("four")) as usize);
            let errno = -i32::from_ne_bytes(bytes[4..8].try_into().expect("four"));
            let unique = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight"));
            taken.push((unique, errno, bytes[16..length].to_vec()));
        }
        taken
    }

    /// A request with fields, and its one answer.
    #[track_caller]
    fn ask(&mut self, operation: u32, node: u64, fields: &[u8]) -> Result<Vec<u8>, i32> {
        self.take();
        self.send(&request(operation, node, fields));
        let mut answers = self.take();
        assert_eq!(answers.len(), 1, "operation {operation}: {answers:?}");
        let (_, errno, fields) = answers.remove(0);
        if errno == 0 { Ok(fields) } else { Err(errno) }
    }
}

fn request(operation: u32, node: u64, fields: &[u8]) -> Vec<u8> {
    let length = (wire::HEAD_BYTES + fields.len()) as u32;
    let mut out = [&length.to_ne_bytes()[..], &operation.to_ne_bytes(), &7_u64.to_ne_bytes()].concat();
    out.extend([&node.to_ne_bytes()[..], &[0; 16], fields].concat());
    out
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The kernel bounds names, not the depth of folders: what is too deep is refused, and the connection stays.
#[test]
fn fuse_refuses_paths_beyond_the_bound_and_goes_on() {
    let mut kernel = Kernel::new("fuse-deep");
    let name = [&[b'n'; 250][..], &[0]].concat();
    let mut node = ROOT;
    let mut depth = 0;
    let errno = loop {
        match kernel.ask(operation::MKDIR, node, &[&words(&[0o755, 0])[..], &name].concat()) {
            Ok(entry) => node = u64::from_ne_bytes(entry[..8].try_into().expect("eight")),
            Err(errno) => break errno,
        }
        depth += 1;
    };
    assert_eq!((errno, depth), (libc::ENAMETOOLONG, PATH_MAX / 251));
    assert_eq!(kernel.ask(operation::LOOKUP, node, &name), Err(libc::ENAMETOOLONG));
    assert!(kernel.ask(operation::GETATTR, ROOT, &[0; 16]).is_ok());
    assert!(kernel.ask(operation::GETATTR, node, &[0; 16]).is_ok());
}

/// A process that closes one of its descriptors gives back locks of ranges, and keeps that of the whole file.
#[test]
fn fuse_keeps_the_lock_of_a_whole_file_until_the_open_file_ends() {
    let mut kernel = Kernel::new("fuse-flock");
    let node = kernel.ask(operation::LOOKUP, ROOT, b"data\0").expect("a file");
    let node = u64::from_ne_bytes(node[..8].try_into().expect("eight"));
    let open = |kernel: &mut Kernel| {
        let opened = kernel.ask(operation::OPEN, node, &words(&[libc::O_RDWR as u32, 0])).expect("it opens");
        u64::from_ne_bytes(opened[..8].try_into().expect("eight"))
    };
    let lock = |kernel: &mut Kernel, handle: u64, kind: i32, flags: u32| {
        let range = [0, i64::MAX.cast_unsigned()].map(u64::to_ne_bytes).concat();
        let fields = [&handle.to_ne_bytes()[..], &9_u64.to_ne_bytes(), &range].concat();
        kernel.ask(operation::SETLK, node, &[fields, words(&[kind as u32, 4, flags, 0])].concat()).map(drop)
    };
    let (one, two) = (open(&mut kernel), open(&mut kernel));
    assert_eq!(lock(&mut kernel, one, libc::F_WRLCK, 1), Ok(()));
    assert_eq!(lock(&mut kernel, one, libc::F_WRLCK, 0), Ok(()));
    let flush = [&one.to_ne_bytes()[..], &[0; 16]].concat();
    kernel.ask(operation::FLUSH, node, &flush).expect("a descriptor is closed");
    assert_eq!(lock(&mut kernel, two, libc::F_WRLCK, 0), Ok(()), "the range");
    assert_eq!(lock(&mut kernel, two, libc::F_RDLCK, 1), Err(libc::EAGAIN), "the file");
    kernel.ask(operation::RELEASE, node, &flush).expect("the open file ends");
    assert_eq!(lock(&mut kernel, two, libc::F_RDLCK, 1), Ok(()));
}

#[test]
fn fuse_ends_a_wait_for_a_lock_that_is_interrupted() {
    let mut kernel = Kernel::new("fuse-interrupted");
    let node = kernel.ask(operation::LOOKUP, ROOT, b"data\0").expect("a file");
    let node = u64::from_ne_bytes(node[..8].try_into().expect("eight"));
    let mut open = || {
        let opened = kernel.ask(operation::OPEN, node, &words(&[libc::O_RDWR as u32, 0])).expect("it opens");
        opened[..8].to_vec()
    };
    let (one, two) = (open(), open());
    let lock = |handle: &[u8]| [handle, &words(&[9, 0, 0, 0, 5, 0, libc::F_WRLCK as u32, 4, 1, 0])].concat();
    kernel.ask(operation::SETLK, node, &lock(&one)).expect("a lock");
    for number in 100..200 {
        kernel.send(&request(operation::INTERRUPT, 0, &words(&[number, 0])));
    }
    // All requests of this kernel have the number 7.
    kernel.send(&request(operation::SETLKW, node, &lock(&two)));
    kernel.send(&request(operation::INTERRUPT, 0, &words(&[7, 0])));
    let mut answers = Vec::new();
    tutti_testkit::await_that("the wait ends", || {
        answers.extend(kernel.take());
        !answers.is_empty()
    });
    assert_eq!((answers[0].0, answers[0].1), (7, libc::EINTR));
}

/// Requests that no kernel sends, or that a later one may: each is answered or not, and the folder is there
/// behind all of them.
#[test]
fn fuse_requests_that_are_nearly_right_are_answered_or_refused() {
    let mut kernel = Kernel::new("fuse-nearly");
    let samples = samples();
    let mut random = Random::new(seed());
    // Each is two calls of the server: fewer than of those that are only read.
    for _ in 0..tutti_testkit::nearly::count() / 5 {
        let mut bytes = tutti_testkit::nearly::frame(&mut random, &samples);
        if random.chance(80) && bytes.len() >= wire::HEAD_BYTES {
            // Mostly with the right length, so that the fields are read.
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
        }
        if !is_bounded(&bytes) {
            continue;
        }
        kernel.send(&bytes);
        kernel.take();
        let found = kernel.ask(operation::GETATTR, ROOT, &[0; 16]);
        assert!(found.is_ok(), "the root: {found:?} behind {}", bytes.escape_ascii());
    }
    assert!(!kernel.mounted.is_gone.load(Ordering::Relaxed));
    assert!(kernel.folder.path().is_dir());
}

/// Whether a request takes no room of the disk and no thread that waits.
fn is_bounded(request: &[u8]) -> bool {
    let Ok((head, fields)) = wire::Fields::of(request) else { return true };
    match head.operation {
        operation::FALLOCATE | operation::SETLKW => false,
        // A size, or a place to write to, far behind the end is a file with a hole.
        operation::READ => fields.0.get(16..20).is_none_or(|bytes| bytes[3] == 0),
        _ => true,
    }
}

/// A request of each operation.
fn samples() -> Vec<Vec<u8>> {
    use operation::*;
    let name = |head: &[u32], names: &[u8]| [&words(head)[..], names].concat();
    let handle = |more: &[u32]| words(&[&[1, 0][..], more].concat());
    [
        (INIT, words(&[7, 31, 4096, u32::MAX])),
        (LOOKUP, name(&[], b"data\0")),
        (FORGET, words(&[1, 0])),
        (BATCH_FORGET, words(&[1, 0, 2, 0, 1, 0])),
        (INTERRUPT, words(&[5, 0])),
        (GETATTR, words(&[0; 4])),
        (SETATTR, words(&[1 << 3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0o644, 0, 0, 0])),
        (READLINK, Vec::new()),
        (SYMLINK, name(&[], b"link\0data\0")),
        (MKNOD, name(&[libc::S_IFREG | 0o644, 0, 0, 0], b"new\0")),
        (MKDIR, name(&[0o755, 0], b"folder\0")),
        (UNLINK, name(&[], b"new\0")),
        (RMDIR, name(&[], b"folder\0")),
        (RENAME, name(&[1, 0], b"data\0other\0")),
        (RENAME2, name(&[1, 0, 0, 0], b"other\0data\0")),
        (LINK, name(&[2, 0], b"second\0")),
        (OPEN, words(&[libc::O_RDWR as u32, 0])),
        (OPENDIR, words(&[0, 0])),
        (CREATE, name(&[libc::O_RDWR as u32, 0o644, 0, 0], b"made\0")),
        (READ, handle(&[0, 0, 100, 0, 0, 0, 0, 0])),
        (READDIR, handle(&[0, 0, 4096, 0, 0, 0, 0, 0])),
        (WRITE, [handle(&[3, 0, 4, 0, 0, 0, 0, 0]), b"\0\0abcd".to_vec()].concat()),
        (FSYNC, handle(&[0, 0])),
        (FLUSH, handle(&[0, 0, 0, 0])),
        (RELEASE, handle(&[0, 0, 0, 0])),
        (RELEASEDIR, handle(&[0, 0, 0, 0])),
        (GETLK, handle(&[9, 0, 0, 0, 5, 0, libc::F_WRLCK as u32, 4, 0, 0])),
        (SETLK, handle(&[9, 0, 0, 0, u32::MAX, u32::MAX >> 1, libc::F_RDLCK as u32, 4, 1, 0])),
        (SETLK, handle(&[9, 0, 0, 0, 5, 0, libc::F_WRLCK as u32, 4, 0, 0])),
        (STATFS, Vec::new()),
        (ACCESS, words(&[4, 0])),
        (DESTROY, Vec::new()),
        (99, words(&[1, 2])),
    ]
    .into_iter()
    .flat_map(|(operation, fields)| [request(operation, ROOT, &fields), request(operation, 2, &fields)])
    .collect()
}
