use super::*;

fn board() -> (NodeLines, JobLines, Reader, OwnedFd) {
    let board = Board::create(OF_DAEMON, 250).unwrap();
    let end = board.reading_end().unwrap();
    let reader = Reader::map(end.as_fd()).unwrap();
    let (nodes, jobs) = board.split();
    (nodes, jobs, reader, end)
}

#[test]
fn board_lines_are_read_as_they_were_written() {
    let (mut nodes, mut jobs, reader, _end) = board();
    let node = Node { updated_ns: 5, state: NODE_UP, cores: 2, jobs: 9, ..Node::default() };
    nodes.write(3, &node);
    nodes.write(NODES_MAX, &node);
    nodes.publish(3, 4, 77);
    nodes.publish_congestion(1000);
    assert!(reader.is_congested(999) && !reader.is_congested(1000), "until then");
    let header = Header {
        kind: OF_DAEMON,
        own_node: 3,
        nodes: 4,
        refresh_ms: 250,
        written_ns: 77,
        congested_until_ns: 1000,
    };
    assert_eq!(reader.header(), header);
    assert_eq!(reader.node(3), Some(node));
    assert_eq!(reader.node(0), Some(Node::default()));
    assert_eq!(reader.node(NODES_MAX), None);
    let mut line = jobs.begin(0, 2, 10).unwrap();
    let second = jobs.begin(7, 1, 11).unwrap();
    line.freeze(20);
    line.freeze(25);
    line.thaw(50);
    line.publish_turn(3, 90, 51);
    let found = reader.job(0).unwrap();
    assert_eq!((found.state, found.since_ns, found.frozen_ns_total), (JOB_RUNNING, 50, 30));
    assert_eq!((found.thaw_count, found.generation, found.slice_end_ns), (1, 3, 90));
    drop(line);
    assert_eq!(reader.job(0), None);
    assert_eq!(reader.job(7).unwrap().ranks, 1);
    drop(second);
    let lines: Vec<_> = (0..JOBS_MAX as u64).map(|job| jobs.begin(job, 1, 1)).collect();
    assert!(lines.iter().all(Option::is_some), "lines come back");
    assert!(jobs.begin(1000, 1, 1).is_none(), "the board is full");
}

#[test]
fn board_torn_line_is_noticed() {
    let (mut nodes, _jobs, reader, _end) = board();
    nodes.write(0, &Node { updated_ns: 1, ..Node::default() });
    // As if the writer had been stopped inside the next change.
    nodes.memory.word(NODES_AT).store(2, Ordering::Relaxed);
    nodes.memory.word(NODES_AT + 8).store(99, Ordering::Relaxed);
    assert_eq!(reader.node(0), None);
}

#[test]
fn board_reader_never_sees_half_of_a_change() {
    let (mut nodes, _jobs, reader, _end) = board();
    let writer = std::thread::spawn(move || {
        for round in 1..=200_000 {
            nodes.write(0, &Node::of_words([round; WORDS]));
        }
    });
    let mut whole = 0;
    while !writer.is_finished() {
        if let Some(node) = reader.node(0) {
            assert_eq!(node.words(), [node.updated_ns; WORDS]);
            whole += 1;
        }
    }
    writer.join().unwrap();
    assert!(whole > 0);
    assert_eq!(reader.node(0), Some(Node::of_words([200_000; WORDS])));
}

// Paper: C15
#[test]
fn board_cannot_be_written_by_who_gets_it() {
    let (_nodes, _jobs, _reader, end) = board();
    let fd = end.as_raw_fd();
    // SAFETY: plain system calls on a descriptor and memory of this test.
    unsafe {
        assert_eq!(libc::write(fd, [1_u8].as_ptr().cast(), 1), -1);
        assert_eq!(libc::ftruncate(fd, 0), -1);
        let write = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mmap(std::ptr::null_mut(), 4096, write, libc::MAP_SHARED, fd, 0), libc::MAP_FAILED);
        // Its owner can open it anew, and cannot write it either.
        let path = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).unwrap();
        let again = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        assert!(again >= 0);
        assert_eq!(libc::write(again, [1_u8].as_ptr().cast(), 1), -1);
        assert_eq!(
            libc::mmap(std::ptr::null_mut(), 4096, write, libc::MAP_SHARED, again, 0),
            libc::MAP_FAILED
        );
        libc::close(again);
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat);
        assert_eq!(stat.st_mode & 0o777, 0o600);
    }
}

#[test]
fn board_is_refused_when_it_is_none() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Reader::map(file.as_fd()).is_err());
}

#[test]
fn board_is_found_although_signals_come_meanwhile() {
    extern "C" fn nothing(_: libc::c_int) {}
    let place = std::env::temp_dir().join(format!("tutti-board-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&place).unwrap();
    let (_nodes, _jobs, _reader, end) = board();
    // SAFETY: zero is a value of the C structure; the handler does nothing.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let place = &place;
        let reader = scope.spawn(move || {
            // SAFETY: a plain call.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            Reader::connect(place)
        });
        let (stream, _) = listener.accept().unwrap();
        let thread = told.recv().unwrap();
        for _ in 0..50 {
            // SAFETY: the thread lives until it has got its answer.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            std::thread::sleep(Duration::from_millis(1));
        }
        hand_out(&stream, &end);
        let found = reader.join().unwrap();
        assert_eq!(found.map(|reader| reader.header().kind).unwrap(), OF_DAEMON);
    });
    std::fs::remove_file(&place).unwrap();
}

/// A daemon that is stopped: its socket has no room for one reader more.
#[test]
fn board_of_a_starter_is_found_beside_a_daemon_without_room() {
    let folder = tutti_testkit::Scratch::new("board-full");
    let (daemon, starter) = (folder.path().join("daemon"), folder.path().join("starter"));
    let listener = std::os::unix::net::UnixListener::bind(&daemon).unwrap();
    // SAFETY: a plain call.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
    let limit = Duration::from_millis(20);
    let waiting: Vec<UnixStream> =
        std::iter::from_fn(|| local_socket::connect_to(&daemon, limit).ok()).collect();
    assert!(!waiting.is_empty());
    let (_nodes, _jobs, _reader, end) = board();
    let link = format!("/proc/self/fd/{}", end.as_raw_fd());
    std::os::unix::fs::symlink(link, &starter).unwrap();
    let value = format!("{}:{}", daemon.display(), starter.display());
    let found = Reader::find(value.as_ref());
    assert_eq!(found.map(|reader| reader.header().kind).unwrap(), OF_DAEMON);
    assert_eq!(Reader::connect(&daemon).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// As a daemon does.
fn hand_out(stream: &UnixStream, board: &OwnedFd) {
    let mut magic = MAGIC.to_le_bytes();
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: magic.as_mut_ptr().cast(), iov_len: magic.len() };
    // SAFETY: zero is a value of the C structure, which then names memory that lives during the call; a
    // first header with one descriptor fits the control bytes.
    unsafe {
        let mut message = std::mem::zeroed::<libc::msghdr>();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as _);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(board.as_raw_fd());
        assert_eq!(libc::sendmsg(stream.as_raw_fd(), &raw const message, 0), 8);
    }
}
