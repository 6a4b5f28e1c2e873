//! Parts and their limits, on the kernel's own cgroups where root may make some.

use std::process::{Child, Command};

use super::*;
use crate::cgroup::mount::own_directory;
use crate::cgroup::removal::Why;

const LIMITS: Limits = Limits { memory_bytes: Some(64 << 20), pids_max: 40, behind: false };

/// None, with a line, where none can be made.
pub(super) fn create(name: &str) -> Option<PartGroup> {
    create_of(name, None)
}

pub(super) fn create_of(name: &str, user: Option<UserLimit>) -> Option<PartGroup> {
    use tutti_testkit::{Need, skip};
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root's daemon makes cgroups for others");
        return None;
    }
    let made = PartGroup::create(&format!("{name}-{}", std::process::id()), user.as_ref(), LIMITS);
    made.map_err(|error| skip(Need::Cgroup, error)).ok()
}

pub(super) fn start_in(directory: &OwnedFd) -> Child {
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    write(directory, "cgroup.procs", &child.id().to_string()).unwrap();
    child
}

pub(super) fn is_there(place: &PartPlace) -> bool {
    PartGroup::reopen(place).is_some()
}

#[test]
fn part_group_is_killed_and_removed_with_all_that_is_in_it() {
    let Some(part) = create("unit-removed") else { return };
    let ranks = open(&part.job, INNER).unwrap();
    let mut children = [start_in(&part.starter), start_in(&ranks)];
    assert_eq!(part.job_group().unwrap().members(), [children[1].id()]);
    let again = PartGroup::reopen(part.place()).expect("a daemon that follows finds it");
    // A zombie that is not reaped stays in it: so does a starter's, until the daemon reaps it.
    let statuses = std::thread::scope(|scope| {
        let waits = scope.spawn(|| children.each_mut().map(|child| child.wait().unwrap()));
        again.remove_blocking().unwrap();
        waits.join().unwrap()
    });
    assert!(statuses.iter().all(|status| !status.success()));
    assert!(!is_there(part.place()));
}

/// A job within the job whose starter was killed, in both versions.
pub(super) fn nest(part: &PartGroup, path: &str) {
    let inner = format!("{}/{INNER}", name(&part.place.name));
    let groups = std::iter::once((&part.directory, inner.as_str()))
        .chain(part.version1.iter().map(|group| (group.directory(), ".")));
    for (directory, around) in groups {
        let mut made = PathBuf::from(around);
        for step in Path::new(path) {
            made.push(step);
            let result = mkdirat(directory, &made, rustix::fs::Mode::from_raw_mode(0o755));
            assert!(matches!(result, Ok(()) | Err(rustix::io::Errno::EXIST)), "{result:?}");
        }
    }
}

/// Deadline beyond the time limit of the test, which ends a wait for groups that hold no process.
fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

#[test]
fn part_group_is_removed_with_empty_groups_inside() {
    let Some(part) = create("unit-nested") else { return };
    nest(&part, "tutti-job-within/ranks/tutti-job-deeper/ranks");
    nest(&part, "another");
    let version1 = part.version1.len();
    assert_eq!(part.remove_until(in_an_hour(), &mut Removal::new()), Ok(()));
    assert!(!is_there(part.place()));
    assert_eq!((version1, part.place.version1().count()), (part.version1.len(), 0));
}

#[test]
fn part_group_is_removed_with_processes_in_groups_inside() {
    let Some(part) = create("unit-nested-busy") else { return };
    nest(&part, "tutti-job-within/ranks");
    nest(&part, "tutti-job-empty/ranks");
    let ranks = open(&part.job, INNER).unwrap();
    let mut child = start_in(&open(&ranks, "tutti-job-within/ranks").unwrap());
    let status = std::thread::scope(|scope| {
        let wait = scope.spawn(|| child.wait().unwrap());
        assert_eq!(part.remove_until(in_an_hour(), &mut Removal::new()), Ok(()));
        wait.join().unwrap()
    });
    assert!(!status.success() && !is_there(part.place()));
}

/// A user with delegated rights can have made any number.
#[test]
fn part_group_with_too_many_groups_inside_is_left_at_once() {
    let Some(part) = create("unit-nested-many") else { return };
    for number in 0..1500 {
        nest(&part, &format!("many/{number}"));
    }
    let left = part.remove_until(in_an_hour(), &mut Removal::new()).unwrap_err();
    let expected = "has more than 1024 cgroups inside, or more than 64 deep";
    assert_eq!(left.to_string(), format!("{} {expected}", part.place.directory_name()));
    let mut tries = 1;
    while let Err(left) = part.remove_until(in_an_hour(), &mut Removal::new()) {
        tries += 1;
        assert!(tries < 20 && left.why == Why::Nested, "each removes some: {left}");
    }
    assert!(!is_there(part.place()));
}

#[test]
fn part_group_limits_are_written_where_the_kernel_has_the_controller() {
    let Some(part) = create("unit-limits") else { return };
    let read = |file: io::Result<OwnedFd>| {
        let mut text = [0; 64];
        let read = rustix::io::read(file.ok()?, &mut text).ok()?;
        std::str::from_utf8(&text[..read]).ok()?.trim().parse::<u64>().ok()
    };
    let of = |file: &str| part.version1.iter().find_map(|group| read(group.open(file)));
    let pids = read(open_file(&part.directory, "pids.max", OFlags::RDONLY)).or_else(|| of("pids.max"));
    let memory = read(open_file(&part.job, "memory.max", OFlags::RDONLY));
    let memory = memory.or_else(|| of("memory.limit_in_bytes"));
    assert_eq!(part.enforced().pids, pids == Some(LIMITS.pids_max));
    assert_eq!(part.enforced().memory, memory == LIMITS.memory_bytes);
    assert!(part.memory_bytes().is_some() || !part.enforced().memory, "what is limited is counted");
    part.remove_blocking().unwrap();
    assert!(!is_there(part.place()));
}

/// Folders with what version 2 counts: events of the user, the part and the starter.
#[test]
fn part_group_names_the_limit_of_a_killed_starter() {
    let root = std::env::temp_dir().join(format!("tutti-part-killed-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let folder = |name: &str| -> (PathBuf, OwnedFd) {
        let path = root.join(name);
        std::fs::create_dir_all(&path).unwrap();
        let directory = std::fs::File::open(&path).unwrap().into();
        (path, directory)
    };
    let (of_user, parent) = folder("user");
    let ((of_part, directory), (of_starter, starter)) = (folder("user/part"), folder("user/part/starter"));
    let place = PartPlace {
        parent: PathBuf::new(),
        user: Some("user".into()),
        name: "part".into(),
        enforced: Enforced::default(),
    };
    let (around, job) = (folder("").1, folder("user/part/job").1);
    let part = PartGroup {
        place,
        around,
        parent,
        directory,
        starter,
        job,
        version1: Vec::new(),
        held: Ok(None),
        run_out: RunOut::default(),
    };
    assert_eq!(part.used_up_of_starter(), None, "nobody counts");
    let put = |path: &Path, oom: u32, oom_kill: u32| {
        std::fs::write(path.join(EVENTS), format!("low 0\noom {oom}\noom_kill {oom_kill}\n")).unwrap();
    };
    for (user, part_oom, killed, expected) in [
        (0, 0, 0, None),
        (2, 1, 0, None),
        (1, 0, 1, Some(UsedUp::User)),
        (1, 1, 1, Some(UsedUp::Job)),
        // The machine had no more.
        (0, 0, 1, None),
    ] {
        put(&of_user, user, killed);
        put(&of_part, part_oom, killed);
        put(&of_starter, 0, killed);
        assert_eq!(part.used_up_of_starter(), expected, "{user} {part_oom} {killed}");
    }
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn part_groups_of_a_user_are_in_one_that_goes_with_the_last() {
    let daemon = u64::from(std::process::id());
    let user = |bytes| Some(UserLimit::new(54_321, daemon, bytes));
    let (Some(one), Some(two)) =
        (create_of("unit-user-one", user(Some(64 << 20))), create_of("unit-user-two", user(None)))
    else {
        return;
    };
    let name = user(None).unwrap().directory_name();
    assert_eq!(one.place().user.as_deref(), Some(name.as_str()));
    assert_eq!(one.enforced().user_memory, one.memory_bytes().is_some(), "what is counted is limited");
    assert!(!two.enforced().user_memory, "there is no limit any more");
    let held = super::super::limit_users(daemon, |uid| (uid == 54_321).then_some(32 << 20));
    let expected = one.enforced().user_memory.then_some(32 << 20);
    let is_expected = |(uid, held): &(u32, io::Result<Option<u64>>)| {
        *uid == 54_321 && held.as_ref().ok().copied().flatten() == expected
    };
    assert!(!held.is_empty() && held.iter().all(is_expected), "{held:?}");
    assert!(super::super::limit_users(daemon + 1, |_| None).is_empty(), "another daemon's");
    assert!(PartGroup::reopen(two.place()).is_some());
    one.remove_blocking().unwrap();
    assert!(user::open_directory(&two.around, &name).is_ok(), "a part is in it");
    let memory = own_directory("memory");
    two.remove_blocking().unwrap();
    assert!(user::open_directory(&two.around, &name).is_err());
    assert!(memory.is_none_or(|memory| user::open_directory(&memory, &name).is_err()));
}
