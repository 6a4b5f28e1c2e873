use super::area::Area;
use super::lines::{Lines, Seen};
use super::*;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

const ALL: [Ask; 14] = [
    Ask::Open(READ | WRITE),
    Ask::Read(8, 16),
    Ask::Write(24),
    Ask::Add(8, u64::MAX),
    Ask::Swap(8, 5),
    Ask::CompareSwap(8, 5, 6),
    Ask::Put,
    Ask::Wait(16, 4, -9),
    Ask::Changed(3),
    Ask::Publish(4096, READ, Audience::Group(7)),
    Ask::Ready(3),
    Ask::Withdraw(3),
    Ask::Admit(7),
    Ask::Enter(far::Secret([1, u64::MAX])),
];

#[test]
fn published_frames_round_trip_and_are_taken_only_when_whole() {
    for ask in ALL {
        let bytes = [&ask.encode(5)[..], b"hello", b"next"].concat();
        assert_eq!(Ask::take(&bytes), Ok(Some((ask, &b"hello"[..], 37))));
        for end in 0..37 {
            assert_eq!(Ask::take(&bytes[..end]), Ok(None), "{end} bytes");
        }
    }
    let answer = Answer { status: Status::Full, value: 9 };
    let bytes = [&answer.encode(2)[..], b"ab"].concat();
    assert_eq!(Answer::take(&bytes), Ok(Some((answer, &b"ab"[..]))));
    assert_eq!(Answer::take(&bytes[..17]), Ok(None));
    let opened = Opened { line: 3, is_mapped: true, generation: 7, bytes: 4096 };
    assert_eq!(Opened::decode(&opened.encode()), Some(opened));
    assert_eq!(Opened::decode(&Opened { line: 256, ..opened }.encode()), None);
}

#[test]
fn published_frames_that_are_nearly_right_are_read_or_refused() {
    use far::{Admission, Given, Question, Wanted};
    let wanted = Wanted { owner: 7, name: "region".into(), node: "node1".into() };
    let admission = Admission { at: [10, 0, 0, 7].into(), groups: vec![1, 2, 3] };
    let pass = far::Pass { key: far::Secret([1, 2]), proof: far::Secret([3, 4]) };
    let there = Given::There { address: ([127, 0, 0, 1], 9).into(), pass, node: "node1".into() };
    let mut samples: Vec<Vec<u8>> = ALL.map(|ask| [&ask.encode(9)[..], b"some data"].concat()).to_vec();
    samples.extend([Question::Place, Question::Services, Question::Region(wanted)].map(|one| one.encode()));
    samples.extend([admission.encode(), there.encode().to_vec(), Given::Here.encode().to_vec()]);
    samples.push([&Answer { status: Status::Full, value: 9 }.encode(2)[..], b"ab"].concat());
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        if let Ok(Some((ask, data, length))) = Ask::take(bytes) {
            assert!(length <= bytes.len() && data.len() <= DATA_BYTES_MAX);
            assert_eq!(ask.encode(data.len())[..8], bytes[..8]);
        }
        if let Ok(Some(question)) = Question::take(bytes) {
            assert_eq!(Question::take(&question.encode()), Ok(Some(question)));
        }
        if let Some(admission) = Admission::decode(bytes) {
            assert_eq!(Admission::decode(&admission.encode()), Some(admission));
        }
        let given = bytes.first_chunk().and_then(Given::decode);
        given.into_iter().for_each(|given| assert_eq!(Given::decode(&given.encode()), Some(given)));
        let _ = (Answer::take(bytes), Opened::decode(bytes), far::Pass::decode(bytes));
    });
}

#[test]
fn published_frames_of_any_other_bytes_are_refused() {
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    for _ in 0..20_000 {
        let mut bytes = ALL[random.below(ALL.len() as u64) as usize].encode(64).to_vec();
        bytes.resize(96, 7);
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        if let Ok(Some((ask, data, length))) = Ask::take(&bytes) {
            assert!(length <= bytes.len() && data.len() <= DATA_BYTES_MAX);
            // What was understood is what is sent.
            assert_eq!(ask.encode(data.len())[..8], bytes[..8]);
        }
        let _ = Answer::take(&bytes);
        let _ = Opened::decode(&bytes[..Opened::BYTES]);
    }
    let mut long = Ask::Put.encode(DATA_BYTES_MAX + 1);
    assert_eq!(Ask::take(&long), Err(NoFrame));
    long[..4].copy_from_slice(&31_u32.to_le_bytes());
    assert_eq!(Ask::take(&long), Err(NoFrame));
}

#[test]
fn published_names_are_plain() {
    for name in ["a", "a.b-c_9", &"x".repeat(NAME_BYTES_MAX)] {
        assert!(is_name(name.as_bytes()), "{name}");
    }
    for name in ["", "a/b", "a b", "a\0b", "\u{e4}", &"x".repeat(NAME_BYTES_MAX + 1)] {
        assert!(!is_name(name.as_bytes()), "{name}");
    }
}

#[test]
fn published_memory_cannot_be_written_by_readers_once_it_is_sealed() {
    let area = Area::create(10_000).unwrap();
    let writer = area.mapped().write(9_992, &7_u64.to_le_bytes());
    assert!(writer && !area.mapped().write(9_993, &[0; 8]));
    let reader = area::Mapped::map(area.reading_end().unwrap().as_fd(), 10_000, false).unwrap();
    let mut found = [0; 8];
    assert!(reader.read(9_992, &mut found) && u64::from_le_bytes(found) == 7);
    assert!(!reader.read(9_999, &mut found));
    // Before the seal another process of the same user could open it again for writing.
    assert!(area::Mapped::map(area.descriptor(), 10_000, true).is_ok());
    area.seal().unwrap();
    assert!(area::Mapped::map(area.descriptor(), 10_000, true).is_err());
    // Those who had mapped it go on.
    assert!(area.mapped().write(9_992, &8_u64.to_le_bytes()));
    assert!(reader.read(9_992, &mut found) && u64::from_le_bytes(found) == 8);
}

#[test]
fn published_memory_that_may_shrink_is_refused() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(area::Mapped::map(file.as_fd(), 16, false).is_err());
    let area = Area::create(100).unwrap();
    assert!(area::Mapped::map(area.descriptor(), 8192, false).is_err());
}

/// Memory of large pages keeps its size too, but its pages may not be there when they are used.
#[test]
fn published_memory_of_large_pages_is_refused() {
    // SAFETY: the name is a C string; plain system calls.
    let large = unsafe { libc::memfd_create(c"large".as_ptr(), libc::MFD_HUGETLB | libc::MFD_ALLOW_SEALING) };
    if large < 0 {
        return tutti_testkit::skip_part(tutti_testkit::Need::Memory, "the kernel has no large pages");
    }
    // SAFETY: the descriptor is fresh and ours; plain system calls.
    let large = unsafe {
        assert_eq!(libc::ftruncate(large, 1 << 30), 0);
        assert_eq!(libc::fcntl(large, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0);
        OwnedFd::from_raw_fd(large)
    };
    assert!(area::Mapped::map(large.as_fd(), 4096, false).is_err());
}

#[test]
fn published_lines_say_what_has_become_of_a_region() {
    let lines = Lines::create().unwrap();
    let seen = Seen::map(lines.descriptor()).unwrap();
    assert_eq!(seen.status(3, 9), Status::Region);
    lines.open(3, 9);
    assert_eq!((seen.status(3, 9), seen.status(3, 8)), (Status::Ok, Status::Region));
    assert!(!seen.is_awaited(3));
    lines.add_waiter(3);
    assert!(seen.is_awaited(3));
    lines.remove_waiter(3);
    assert!(!seen.is_awaited(3));
    lines.end(3, Status::Region);
    assert_eq!(seen.status(3, 9), Status::Region);
    lines.open(4, 10);
    lines.end_all();
    assert_eq!((seen.status(4, 10), seen.status(3, 9)), (Status::Gone, Status::Region));
    assert!(area::Mapped::map(lines.descriptor(), 4096, true).is_err());
}

#[test]
fn published_words_for_other_nodes_round_trip_and_are_taken_only_when_whole() {
    let wanted = far::Wanted { owner: 7, name: "counters".into(), node: "node1".into() };
    let bytes = wanted.encode();
    assert_eq!(far::Wanted::take(&bytes), Ok(Some(wanted)));
    for end in 0..bytes.len() {
        assert_eq!(far::Wanted::take(&bytes[..end]), Ok(None), "{end} bytes");
    }
    assert_eq!(far::Wanted::take(&[&bytes[..], b"x"].concat()), Err(NoFrame));
    let pass = far::Pass { key: far::Secret([1, 2]), proof: far::Secret([3, u64::MAX]) };
    for address in ["10.1.2.3:4", "[fd00::1]:65535"] {
        let given = far::Given::There { address: address.parse().unwrap(), pass, node: "n".repeat(255) };
        assert_eq!(far::Given::decode(&given.encode()), Some(given));
    }
    let bytes = far::Question::Place.encode();
    assert_eq!(far::Question::take(&bytes), Ok(Some(far::Question::Place)));
    for end in 0..bytes.len() {
        assert_eq!(far::Question::take(&bytes[..end]), Ok(None), "{end} bytes");
    }
    for address in ["10.0.0.7", "fd00::7"] {
        let place = far::Place { address: address.parse().unwrap(), secret: far::Secret([5, u64::MAX]) };
        let given = far::Given::Place(place);
        assert_eq!(far::Given::decode(&given.encode()), Some(given));
    }
    for given in [far::Given::Here, far::Given::Refused(Status::Node), far::Given::Refused(Status::Daemon)] {
        assert_eq!(far::Given::decode(&given.encode()), Some(given));
    }
    for at in ["10.1.2.3", "::1"] {
        let admission = far::Admission { at: at.parse().unwrap(), groups: vec![0, 7, u32::MAX] };
        assert_eq!(far::Admission::decode(&admission.encode()), Some(admission));
    }
    let many = far::Admission { at: "::1".parse().unwrap(), groups: vec![5; far::GROUPS_MAX + 1] };
    assert!(many.encode().len() <= DATA_BYTES_MAX);
    assert_eq!(far::Admission::decode(&[0; 18]), None);
    assert!(!format!("{pass:?}").contains(['1', '3']), "a secret is in no log");
}

#[test]
fn published_words_for_other_nodes_of_any_other_bytes_are_refused() {
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    let wanted = far::Wanted { owner: 7, name: "counters".into(), node: "node1".into() };
    for _ in 0..20_000 {
        let mut bytes = wanted.encode();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        if let Ok(Some(wanted)) = far::Wanted::take(&bytes) {
            assert!(wanted.is_right() && wanted.encode() == bytes);
        }
        let mut given = [0; far::Given::BYTES];
        random.fill(&mut given);
        if random.chance(500) {
            given[..5].copy_from_slice(&[0, 0, 0, 0, random.below(4) as u8]);
        }
        let _ = far::Given::decode(&given);
        let _ = far::Admission::decode(&given[..random.below(56) as usize]);
    }
}
