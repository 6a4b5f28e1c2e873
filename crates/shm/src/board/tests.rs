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
