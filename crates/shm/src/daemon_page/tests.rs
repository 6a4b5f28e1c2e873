use super::*;

const MS: u64 = 1_000_000;

fn adopt(page: &DaemonPage, now_ns: u64) -> Teller {
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    DaemonPage::adopt(page.descriptor(), user, now_ns).unwrap()
}

fn at(page: &Page, now_ns: u64) -> Time {
    page.clock(|| now_ns)
}

#[test]
fn daemon_page_library_time_stops_while_frozen() {
    let made = DaemonPage::create().unwrap();
    let rank = Page::read(made.reading_end().unwrap().as_fd()).unwrap();
    assert_eq!(rank.turns(), Turns::default());
    assert_eq!(at(&rank, 7 * MS), Time { ns: 7 * MS, thaw_count: 0 }, "nobody has told it of a turn");
    let mut daemon = adopt(&made, 10 * MS);
    daemon.begin(10 * MS);
    // Asked twice, thawed once.
    daemon.begin(12 * MS);
    daemon.publish_turns(5, 40 * MS);
    daemon.end(30 * MS);
    daemon.end(35 * MS);
    assert_eq!(at(&rank, 31 * MS), Time { ns: 11 * MS, thaw_count: 1 });
    let turns = Turns { thaw_count: 1, frozen_ns_total: 20 * MS, generation: 5, slice_end_ns: 40 * MS };
    assert_eq!(rank.turns(), turns);
}

#[test]
fn daemon_page_survives_a_daemon_restart() {
    let page = DaemonPage::create().unwrap();
    let mut first = adopt(&page, 0);
    first.begin(10);
    first.end(20);
    first.publish_turns(1, 1000);
    first.begin(30);
    // It dies; the starter thaws.
    page.settle(50);
    assert_eq!(
        (page.turns().frozen_ns_total, page.turns().thaw_count, page.turns().slice_end_ns),
        (30, 2, 0)
    );
    page.settle(60);
    assert_eq!(page.turns().frozen_ns_total, 30, "it runs: nothing is to be settled");
    let mut second = adopt(&page, 70);
    second.begin(100);
    second.end(105);
    assert_eq!((page.turns().frozen_ns_total, page.turns().thaw_count), (35, 3));
    second.begin(200);
    // No starter has settled it: whoever follows does.
    let mut third = adopt(&page, 220);
    assert_eq!((page.turns().frozen_ns_total, page.turns().thaw_count), (55, 4));
    third.begin(300);
    third.end(301);
    assert_eq!(page.turns().frozen_ns_total, 56);
}

#[test]
fn daemon_page_counts_overlapping_stops_once() {
    // Held from 100 to 200, frozen from .. to ..: stands still in all.
    for (from, to, all) in [(110, 150, 100), (50, 150, 150), (150, 250, 150), (50, 250, 200), (10, 20, 110)] {
        let page = DaemonPage::create().unwrap();
        let (mut daemon, mut hold) = (adopt(&page, 0), Hold::default());
        let mut events = [(from, 0), (to, 1), (100, 2), (200, 3)];
        events.sort_unstable();
        for (now_ns, event) in events {
            match event {
                0 => daemon.begin(now_ns),
                1 => daemon.end(now_ns),
                2 => hold.begin(&page, now_ns),
                _ => hold.end(&page, now_ns),
            }
        }
        assert_eq!(page.turns().frozen_ns_total, all, "frozen from {from} to {to}");
        assert_eq!(at(&page.page, 1000).ns, 1000 - all);
        assert_eq!(page.turns().thaw_count, 2);
    }
}

#[test]
fn daemon_page_is_read_only_for_ranks() {
    let made = DaemonPage::create().unwrap();
    let given = made.reading_end().unwrap();
    let rank = Page::read(given.as_fd()).unwrap();
    let (file, page) = (given.as_raw_fd(), rank.0.as_ptr());
    // SAFETY: system calls that must fail; had they not, they would write zeros over zeros.
    unsafe {
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mprotect(page.cast(), PAGE_BYTES, writable), -1);
        let mapped = libc::mmap(std::ptr::null_mut(), PAGE_BYTES, writable, libc::MAP_SHARED, file, 0);
        assert_eq!(mapped, libc::MAP_FAILED);
        assert_eq!(libc::pwrite(file, [0_u8; 8].as_ptr().cast(), 8, 0), -1);
        assert_eq!(libc::ftruncate(file, 0), -1);
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(libc::fallocate(file, hole, 0, PAGE_BYTES as libc::off_t), -1);
        // Nor can the starter, or who has its descriptor, make it shorter under the daemon's hands.
        assert_eq!(libc::ftruncate(made.descriptor.as_raw_fd(), 0), -1);
    }
}

#[test]
fn daemon_page_of_another_user_is_refused() {
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    let refusal = |file: OwnedFd, user| DaemonPage::adopt(file.as_fd(), user, 0).unwrap_err().to_string();
    let page = || DaemonPage::create().unwrap().descriptor().try_clone_to_owned().unwrap();
    assert!(refusal(page(), user + 1).contains("another user's"));
    let file = std::env::current_exe().and_then(std::fs::File::open).unwrap();
    assert!(refusal(file.into(), user).contains("may change its size"));
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(refusal(null.into(), user).contains("may change its size"));
    // SAFETY: a fresh descriptor; plain system calls on it.
    let long = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let long = OwnedFd::from_raw_fd(libc::memfd_create(c"long".as_ptr(), flags));
        assert_eq!(libc::ftruncate(long.as_raw_fd(), 2 * PAGE_BYTES as libc::off_t), 0);
        assert_eq!(
            libc::fcntl(long.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW),
            0
        );
        long
    };
    assert!(refusal(long, user).contains("another size"));
    // Open for reading only.
    let made = DaemonPage::create().unwrap();
    assert!(DaemonPage::adopt(made.reading_end().unwrap().as_fd(), user, 0).is_err());
}

#[test]
fn daemon_page_closed_file_locks_are_open_when_the_daemon_is_gone() {
    let made = DaemonPage::create().unwrap();
    let rank = Page::read(made.reading_end().unwrap().as_fd()).unwrap();
    let daemon = adopt(&made, 0);
    assert!(!rank.are_file_locks_closed());
    daemon.close_file_locks(true);
    assert!(rank.are_file_locks_closed());
    daemon.close_file_locks(false);
    assert!(!rank.are_file_locks_closed());
    daemon.close_file_locks(true);
    made.settle(10);
    assert!(!rank.are_file_locks_closed(), "by its starter");
    daemon.close_file_locks(true);
    let _next = adopt(&made, 20);
    assert!(!rank.are_file_locks_closed(), "by the next daemon");
}

#[test]
fn daemon_page_draft_comes_to_the_page_by_its_copier() {
    let page = DaemonPage::create().unwrap();
    let mut before = adopt(&page, 0);
    before.begin(10 * MS);
    before.end(15 * MS);
    let (mut draft, copier) = before.draft();
    draft.begin(20 * MS);
    draft.end(27 * MS);
    draft.publish_turns(9, 40 * MS);
    draft.close_file_locks(true);
    assert_eq!((page.turns().thaw_count, page.turns().generation), (1, 0), "it is in memory of its own");
    copier.copy();
    let told = Turns { thaw_count: 2, frozen_ns_total: 12 * MS, generation: 9, slice_end_ns: 40 * MS };
    assert_eq!(page.turns(), told);
    assert!(Page::read(page.reading_end().unwrap().as_fd()).unwrap().are_file_locks_closed());
    draft.begin(50 * MS);
    copier.copy();
    assert_eq!(Page::read(page.descriptor()).unwrap().frozen_ns(53 * MS), 15 * MS, "what lasts is there too");
}
