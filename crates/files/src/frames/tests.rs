use super::*;

fn place(path: &str) -> Place {
    Place { export: 3, path: path.as_bytes().to_vec() }
}

fn samples() -> Vec<Request> {
    let lock = Lock { kind: libc::F_WRLCK, begin: 5, bytes: 7 };
    let change = Change { size: Some(9), modified: Some((-1, 5)), ..Change::default() };
    vec![
        Request::Hello { key: [9; 16], session: 3 },
        Request::Stat { target: Target::Place(place("a/b")), follow: true },
        Request::Open { place: place(""), flags: 2, mode: 0o644, follow: false },
        Request::Read { handle: 1, offset: 2, bytes: 3 },
        Request::Write { handle: 1, offset: 2, data: b"abc".to_vec() },
        Request::Set { target: Target::Handle(4), change },
        Request::Sync { handle: 8 },
        Request::Close { handle: 8 },
        Request::SetLock { handle: 8, lock },
        Request::GetLock { handle: 8, lock },
        Request::Allocate { handle: 1, mode: 0, offset: 3, bytes: 9 },
        Request::List { handle: 1, index: 7 },
        Request::ReadLink { place: place("l") },
        Request::Symlink { place: place("l"), to: b"../x".to_vec() },
        Request::MakeDirectory { place: place("d"), mode: 0o700 },
        Request::Remove { place: place("d"), is_directory: true },
        Request::Rename { from: place("a"), to: place("b"), flags: 1 },
        Request::Link { from: place("a"), to: place("b") },
        Request::Room { place: place("") },
        Request::Access { place: place("x"), mask: 4 },
        Request::LockFile { handle: 8, kind: libc::F_RDLCK },
    ]
}

#[test]
fn frames_of_all_requests_are_read_as_they_were_written() {
    for request in samples() {
        let bytes = request.encode();
        assert_eq!(bytes.len() - 4, u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize);
        assert_eq!(Request::decode(&bytes[4..]), Ok(request));
    }
}

#[test]
fn frames_with_absolute_paths_zero_bytes_or_a_tail_are_refused() {
    let wrong = [
        Request::ReadLink { place: place("/etc/passwd") }.encode(),
        Request::ReadLink { place: place("a\0b") }.encode(),
        [Request::Sync { handle: 1 }.encode(), vec![0]].concat(),
        Request::Write { handle: 1, offset: 0, data: vec![0; DATA_MAX + 1] }.encode(),
    ];
    for bytes in wrong {
        assert_eq!(Request::decode(&bytes[4..]), Err(NoFrame));
    }
}

/// A request passes the check of its sender if, and only if, the server reads it.
#[test]
fn frames_that_their_sender_lets_pass_are_those_that_the_server_reads() {
    let texts = ["", "a/b", "/a", "a\0b", &"x".repeat(PATH_MAX), &"x".repeat(PATH_MAX + 1)];
    let locks = [(libc::F_RDLCK, 0, 0), (libc::F_WRLCK, -1, 5), (libc::F_UNLCK, 5, -1), (77, 0, 0)];
    let data = [0, 1, DATA_MAX, DATA_MAX + 1];
    let mut all = samples();
    for text in texts {
        let at = || place(text);
        all.extend([
            Request::Stat { target: Target::Place(at()), follow: false },
            Request::Set { target: Target::Place(at()), change: Change::default() },
            Request::Open { place: at(), flags: 0, mode: 0, follow: true },
            Request::ReadLink { place: at() },
            Request::Symlink { place: at(), to: b"x".to_vec() },
            Request::Symlink { place: place("l"), to: text.into() },
            Request::MakeDirectory { place: at(), mode: 0 },
            Request::Remove { place: at(), is_directory: false },
            Request::Rename { from: at(), to: place("b"), flags: 0 },
            Request::Rename { from: place("a"), to: at(), flags: 0 },
            Request::Link { from: at(), to: place("b") },
            Request::Link { from: place("a"), to: at() },
            Request::Room { place: at() },
            Request::Access { place: at(), mask: 0 },
        ]);
    }
    for (kind, begin, bytes) in locks {
        let lock = Lock { kind, begin, bytes };
        all.extend([Request::SetLock { handle: 1, lock }, Request::GetLock { handle: 1, lock }]);
        all.push(Request::LockFile { handle: 1, kind });
    }
    all.extend(data.map(|bytes| Request::Write { handle: 1, offset: 0, data: vec![0; bytes] }));
    for request in all {
        let is_read = Request::decode(&request.encode()[4..]).is_ok();
        assert_eq!(request.check().is_ok(), is_read, "{request:?}");
    }
}

/// Any bytes give a request or none; what is one is written as it was read.
#[test]
fn frames_that_are_nearly_right_are_read_or_refused() {
    let mut bytes: Vec<Vec<u8>> = samples().iter().map(|request| request.encode()[4..].to_vec()).collect();
    let export = Export { path: b"/data".to_vec(), is_read_only: true, identity: (1, 2) };
    let welcome = Welcome { proof: [1; 16], session: 2, boot: b"boot".to_vec(), exports: vec![export; 2] };
    let entries = [("a", 4), ("bc", 8)];
    let entries = entries.map(|(name, kind)| Entry { ino: 5, kind, name: name.into() });
    // Answers begin with an error number.
    let answers = [welcome.encode(), Entry::encode_list(&entries), Room::default().encode()];
    bytes.extend(answers.map(|answer| answer[8..].to_vec()));
    tutti_testkit::nearly::read_frames(&bytes, |bytes| {
        if let Ok(request) = Request::decode(bytes) {
            assert_eq!(request.encode()[4..], bytes[..]);
        }
        if let Ok(welcome) = Welcome::decode(Reader::new(bytes)) {
            assert_eq!(welcome.encode()[8..], bytes[..]);
        }
        if let Ok(entries) = Entry::decode_list(Reader::new(bytes)) {
            assert!(entries.iter().all(|entry| !entry.name.contains(&b'/')));
        }
        let _ = (Room::decode(Reader::new(bytes)), Reader::new(bytes).attributes());
    });
}
