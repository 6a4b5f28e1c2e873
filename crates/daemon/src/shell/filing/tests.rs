use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tutti_protocol::wire::Job;
use tutti_sched::Demand;

use super::*;
use crate::members::NodeId;
use crate::message::{Launch, Terms, User};

const LIMIT: Duration = Duration::from_secs(10);

fn queued(detached: bool) -> Box<Queued> {
    let job = Job { id: 1, ..Job::of_programs(Vec::new()) };
    let launch = Launch {
        batch: Default::default(),
        job,
        user: User::new(1, 1),
        groups: Vec::new(),
        session: None,
        environment: Default::default(),
        directory: "/".into(),
        umask: 0,
        terms: Terms::default(),
        output: None,
        origin: NodeId::CONTROLLER,
        nodes: Vec::new(),
        first_ranks: Vec::new(),
        key: 0,
        detached,
        submitted_ms: 0,
        request_id: 0,
        incarnations: Vec::new(),
        enrolled: false,
        steps: Default::default(),
        gpu_sets: Vec::new(),
        asked_for: String::new(),
    };
    Box::new(Queued {
        launch,
        demand: Demand::any(1, 1),
        suspended: false,
        over: Vec::new(),
        on_hold: None,
        environment_at: None,
    })
}

/// Files of waiting jobs: of a single one, and of several of which two have one environment.
pub(in crate::shell) fn samples() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let alone = serde_json::to_string(&queued(true)).unwrap();
    let mut shared = queued(false);
    shared.environment_at = Some(0);
    let shared = serde_json::to_string(&shared).unwrap();
    let group = format!("=[[\"HOME\",\"/h\"]]\n[13,{shared}]\n#14,{alone}]\n[15,{shared}]\n[16,{alone}]\n");
    (vec![alone.into_bytes()], vec![group.into_bytes()])
}

/// A folder on a disk that has nothing for good before it is let.
struct Slow {
    path: PathBuf,
    filing: Filing,
    /// Word that something is being brought to the disk.
    begun: Receiver<()>,
    let_go: Sender<io::Result<()>>,
    done: Receiver<(JobId, Result<(), String>)>,
}

fn folder_of(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tutti-filing-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

impl Slow {
    fn new(name: &str) -> Self {
        Slow::open(folder_of(name)).0
    }

    fn open(path: PathBuf) -> (Self, Vec<(JobId, Queued)>) {
        let (folder, queued) = Folder::open(&path).unwrap();
        let (begins, begun) = channel();
        let (let_go, goes) = channel();
        let (tell, done) = channel();
        let sync = move |_: &File| {
            let _ = begins.send(());
            goes.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        };
        let filing = Filing::start(folder, sync, move |job, filed| drop(tell.send((job, filed)))).unwrap();
        (Slow { path, filing, begun, let_go, done }, queued)
    }

    fn await_begun(&self) {
        self.begun.recv_timeout(LIMIT).expect("something is brought to the disk");
    }

    /// Lets the disk have what it was given, and `more` times what comes next.
    fn go(&self, more: usize) {
        (0..=more).for_each(|_| self.let_go.send(Ok(())).unwrap());
        (0..more).for_each(|_| self.await_begun());
    }

    fn await_done(&self) -> (JobId, Result<(), String>) {
        self.done.recv_timeout(LIMIT).expect("a record is written, or not")
    }

    /// Puts a record that is on the disk when it returns: by this number of syncs, two for the first one of a
    /// file.
    fn put_blocking(&self, job: u64, queued: Box<Queued>, syncs: usize) {
        self.filing.put(JobId(job), queued);
        self.await_begun();
        self.go(syncs - 1);
        assert_eq!(self.await_done(), (JobId(job), Ok(())));
    }

    /// Waits until the folder is empty: a file that takes more records stays for a while.
    fn await_empty(&self) {
        let deadline = std::time::Instant::now() + LIMIT;
        while !self.names().is_empty() {
            assert!(std::time::Instant::now() < deadline, "{:?} is left", self.names());
            std::thread::yield_now();
        }
    }

    fn is_idle(&self) -> bool {
        self.begun.try_recv().is_err() && self.done.try_recv().is_err()
    }

    /// Jobs with records in force.
    fn records(&self) -> Vec<u64> {
        let mut records = Vec::new();
        for path in std::fs::read_dir(&self.path).unwrap().flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|ending| ending == "jobs") {
                let text = std::fs::read_to_string(path).unwrap();
                let in_force = text.lines().filter(|line| line.starts_with('['));
                records.extend(in_force.map(|line| serde_json::from_str::<(u64, Queued)>(line).unwrap().0));
            }
        }
        records.sort_unstable();
        records
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.path).unwrap().flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn queue_file_is_on_the_disk_before_the_answer_without_blocking() {
    let slow = Slow::new("slow");
    slow.filing.put(JobId(1), queued(true));
    slow.await_begun();
    slow.filing.put(JobId(2), queued(false));
    assert_eq!((slow.records(), slow.done.try_recv().is_err()), (vec![1], true), "the file is not there yet");
    slow.let_go.send(Ok(())).unwrap();
    slow.await_begun();
    assert_eq!((slow.records(), slow.done.try_recv().is_err()), (vec![1], true), "its name is not");
    slow.let_go.send(Ok(())).unwrap();
    assert_eq!([slow.await_done(), slow.await_done()], [(JobId(1), Ok(())), (JobId(2), Ok(()))]);
    // Who waits for his job does so without its file.
    assert_eq!((slow.records(), slow.begun.try_recv().is_err()), (vec![1, 2], true));
}

#[test]
fn queue_records_that_wait_together_cost_one_sync() {
    let slow = Slow::new("together");
    slow.put_blocking(1, queued(true), 2);
    slow.filing.put(JobId(2), queued(true));
    slow.await_begun();
    (3..=600).for_each(|job| slow.filing.put(JobId(job), queued(true)));
    slow.go(0);
    assert_eq!(slow.await_done(), (JobId(2), Ok(())));
    slow.await_begun();
    assert!(slow.is_idle() && slow.records().len() == 600, "nobody is told before");
    slow.go(0);
    (3..=600).for_each(|job| assert_eq!(slow.await_done(), (JobId(job), Ok(()))));
    assert!(slow.is_idle());
    assert_eq!(slow.names(), ["1.jobs"]);
    // The next controller has them all.
    let (_, read) = Folder::open(&slow.path).unwrap();
    assert_eq!(read.iter().map(|(job, _)| job.0).collect::<Vec<_>>(), (1..=600).collect::<Vec<_>>());
    // What is removed of a file is brought to the disk, and the file goes with its last job.
    (1..600).for_each(|job| slow.filing.remove(JobId(job)));
    slow.await_begun();
    assert_eq!(slow.records(), [600]);
    let (_, read) = Folder::open(&slow.path).unwrap();
    assert_eq!(read, [(JobId(600), *queued(true))]);
    slow.filing.remove(JobId(600));
    assert!(slow.records().is_empty());
    (0..600).for_each(|_| slow.let_go.send(Ok(())).unwrap());
    slow.await_empty();
}

#[test]
fn queue_group_has_a_bound_of_bytes() {
    let slow = Slow::new("bound");
    let long = || {
        let mut queued = queued(true);
        queued.launch.asked_for = "x".repeat(600_000);
        queued
    };
    slow.put_blocking(1, long(), 2);
    slow.filing.put(JobId(2), queued(true));
    slow.await_begun();
    (3..6).for_each(|job| slow.filing.put(JobId(job), long()));
    slow.go(0);
    slow.await_begun();
    assert_eq!((slow.records(), slow.names().len()), (vec![1, 2, 3], 1));
    slow.go(0);
    slow.await_begun();
    assert_eq!((slow.records(), slow.names().len()), (vec![1, 2, 3, 4, 5], 2));
    slow.go(1);
    (2..6).for_each(|job| assert_eq!(slow.await_done(), (JobId(job), Ok(()))));
    assert!(slow.is_idle());
}

/// The tasks of an array have one environment, of whatever length: their file has it once.
#[test]
fn queue_records_of_one_environment_have_it_once() {
    let with = |value: &str| {
        let mut queued = queued(true);
        queued.launch.environment = [("LONG".into(), value.into())].into_iter().collect();
        queued
    };
    let (long, other) = ("x".repeat(100_000), "y".repeat(50_000));
    let folder = folder_of("environments");
    let (mut groups, _) = Groups::open(&folder).unwrap();
    for jobs in [1..40, 40..80] {
        let mut writing = groups.begin().unwrap();
        for job in jobs.clone() {
            writing.put(JobId(job), &with(if job == 50 { &other } else { &long })).unwrap();
        }
        let written = writing.finish().unwrap();
        groups.enforce(&written, &jobs.map(JobId).collect(), true).unwrap();
        groups.keep(&written, true);
    }
    let bytes: u64 =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!((150_000..300_000).contains(&bytes), "{bytes}");
    let (_, read) = Groups::open(&folder).unwrap();
    let value = |queued: &Queued| {
        let (_, value) = queued.launch.environment.iter().next().expect("its environment");
        value.to_str().map(str::to_owned)
    };
    assert_eq!(read.len(), 79);
    for (job, queued) in read {
        let expected = if job == JobId(50) { &other } else { &long };
        assert!(value(&queued).as_ref() == Some(expected) && queued.environment_at.is_none(), "{job}");
    }
}

#[test]
fn queue_file_removed_while_written_is_not_in_force() {
    let slow = Slow::new("removed");
    slow.filing.put(JobId(1), queued(true));
    slow.await_begun();
    (2..5).for_each(|job| slow.filing.put(JobId(job), queued(true)));
    slow.filing.remove(JobId(1));
    slow.filing.remove(JobId(2));
    assert_eq!((slow.records(), slow.names()), (vec![], vec!["1.jobs".to_owned()]));
    slow.go(1);
    assert_eq!(slow.await_done(), (JobId(1), Ok(())));
    slow.await_begun();
    assert_eq!(slow.records(), [3, 4], "these are on their way to the disk");
    slow.filing.remove(JobId(3));
    assert_eq!(slow.records(), [4]);
    slow.filing.remove(JobId(4));
    assert!(slow.records().is_empty());
    slow.go(0);
    (2..5).for_each(|job| assert_eq!(slow.await_done(), (JobId(job), Ok(()))));
    slow.await_empty();
    assert!(slow.is_idle());
}

#[test]
fn queue_file_removed_and_put_again_while_written_is_the_later_one() {
    let slow = Slow::new("again");
    slow.filing.put(JobId(1), queued(true));
    slow.await_begun();
    slow.filing.remove(JobId(1));
    let later = Box::new(Queued { suspended: true, ..*queued(true) });
    slow.filing.put(JobId(1), later.clone());
    slow.go(1);
    slow.await_begun();
    slow.go(0);
    assert_eq!([slow.await_done(), slow.await_done()], [(JobId(1), Ok(())), (JobId(1), Ok(()))]);
    assert_eq!(Folder::open(&slow.path).unwrap().1, [(JobId(1), *later)]);
}

#[test]
fn queue_file_write_error_is_one_line() {
    let slow = Slow::new("full");
    slow.filing.put(JobId(1), queued(true));
    slow.let_go.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
    let (job, filed) = slow.await_done();
    let text = format!("cannot write {}: no storage space", slow.path.join("1.jobs").display());
    assert_eq!((job, filed, slow.names().len()), (JobId(1), Err(text), 0));
}

#[test]
fn queue_record_too_long_for_the_disk_costs_no_other_job() {
    let slow = Slow::new("too-long");
    slow.filing.put(JobId(1), queued(true));
    slow.await_begun();
    (2..5).for_each(|job| slow.filing.put(JobId(job), queued(true)));
    slow.go(1);
    slow.await_begun();
    // Together, then the first alone.
    (0..2).for_each(|_| slow.let_go.send(Err(io::ErrorKind::StorageFull.into())).unwrap());
    slow.await_begun();
    slow.await_begun();
    slow.filing.remove(JobId(3));
    slow.go(1);
    slow.await_begun();
    slow.go(0);
    let ends: Vec<(u64, bool)> =
        (0..4).map(|_| slow.await_done()).map(|(job, filed)| (job.0, filed.is_ok())).collect();
    assert_eq!(ends, [(1, true), (2, false), (3, true), (4, true)]);
    assert_eq!(slow.records(), [1, 4]);
}

#[test]
fn queue_folder_not_brought_to_the_disk_is_no_answer() {
    let slow = Slow::new("folder");
    slow.filing.put(JobId(1), queued(true));
    slow.await_begun();
    slow.let_go.send(Ok(())).unwrap();
    slow.await_begun();
    slow.let_go.send(Err(io::ErrorKind::Other.into())).unwrap();
    let (job, filed) = slow.await_done();
    assert_eq!((job, filed.is_err(), slow.names().len()), (JobId(1), true, 0));
    // The name of the next file is no more on the disk than that one's.
    slow.put_blocking(2, queued(true), 2);
    assert_eq!(slow.names(), ["2.jobs"]);
}

/// An earlier record of a job loses its force when the later one is on the disk, and not before.
#[test]
fn queue_folder_has_a_record_of_a_job_at_any_time() {
    let slow = Slow::new("later");
    slow.put_blocking(1, queued(true), 2);
    let later = Box::new(Queued { suspended: true, ..*queued(true) });
    slow.filing.put(JobId(1), later.clone());
    slow.await_begun();
    assert_eq!(slow.records(), [1, 1]);
    let path = folder_of("later-copy");
    std::fs::create_dir(&path).unwrap();
    let both = std::fs::read(slow.path.join("1.jobs")).unwrap();
    // Stopped in the middle of a further record.
    std::fs::write(path.join("1.jobs"), [&both[..], b"#3,{"].concat()).unwrap();
    std::fs::write(path.join("new"), "[3,{").unwrap();
    let (_folder, read) = Folder::open(&path).unwrap();
    assert_eq!((read, Folder::open(&path).unwrap().1.len()), (vec![(JobId(1), *later.clone())], 1));
    assert!(!path.join("new").exists());
    std::fs::remove_dir_all(&path).unwrap();
    slow.go(0);
    assert_eq!(slow.await_done(), (JobId(1), Ok(())));
    assert_eq!((slow.records(), slow.names()), (vec![1], vec!["1.jobs".to_owned()]));
    assert_eq!(Folder::open(&slow.path).unwrap().1, [(JobId(1), *later)]);
}

/// The disk has any part of what was being written when a machine was stopped: the records before it count.
#[test]
fn queue_group_that_is_cut_has_its_whole_records() {
    let slow = Slow::new("cut");
    (1..4).for_each(|job| slow.put_blocking(job, queued(true), if job == 1 { 2 } else { 1 }));
    let whole = std::fs::read(slow.path.join("1.jobs")).unwrap();
    let path = folder_of("cut-copy");
    for length in (0..whole.len()).step_by(7).chain([whole.len() - 1, whole.len()]) {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("1.jobs"), &whole[..length]).unwrap();
        let (_, read) = Folder::open(&path).unwrap();
        let expected = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(read.len(), expected, "of {length} bytes");
        assert_eq!(path.join("1.jobs").exists(), expected > 0, "of {length} bytes");
    }
    let _ = std::fs::remove_dir_all(&path);
}

/// Records of a job since it was removed last.
#[derive(Debug, Default)]
struct Put {
    /// Number of the first of them.
    first: u64,
    numbers: BTreeSet<u64>,
    answered: Option<u64>,
}

/// A daemon that is killed at any moment leaves what it has answered, or what was put behind that, and
/// nothing that it has removed: whatever the disk takes and when, and however often a job is put.
#[test]
fn queue_folder_at_any_moment_has_what_was_answered_and_nothing_removed() {
    let seed = tutti_testkit::seed();
    let mut random = tutti_testkit::Random::new(seed);
    for round in 0..25 {
        // The thread of the last one may be in the midst of something.
        let slow = Slow::new(&format!("any-{round}"));
        let (mut puts, mut asked) = (BTreeMap::<u64, Put>::new(), VecDeque::new());
        for number in 1..=80 {
            let what = format!("TUTTI_TEST_SEED={seed}, round {round}, step {number}");
            let job = 1 + random.below(6);
            match random.below(10) {
                0..=4 => {
                    let mut queued = queued(random.chance(800));
                    queued.launch.submitted_ms = number;
                    puts.entry(job).or_default().numbers.insert(number);
                    asked.push_back((job, number));
                    slow.filing.put(JobId(job), queued);
                }
                5 | 6 => {
                    slow.filing.remove(JobId(job));
                    puts.insert(job, Put { first: number, ..Put::default() });
                }
                _ if random.chance(150) => slow.let_go.send(Err(io::ErrorKind::StorageFull.into())).unwrap(),
                _ => slow.let_go.send(Ok(())).unwrap(),
            }
            let copy = folder_of("any-copy");
            std::fs::create_dir(&copy).unwrap();
            // As of before the files are read: what is answered meanwhile may be in those that were.
            let answers: Vec<_> = slow.done.try_iter().collect();
            // In the order in which they are written: an earlier record ends when a later one is there.
            let mut names = slow.names();
            names.sort_by_key(|name| (name.len(), name.clone()));
            for name in names {
                // It may be removed just now.
                let _ = std::fs::copy(slow.path.join(&name), copy.join(&name));
            }
            for (job, filed) in answers {
                let (of, number) = asked.pop_front().expect("it was put");
                assert_eq!(JobId(of), job, "{what}");
                let put = puts.entry(of).or_default();
                if filed.is_ok() && number > put.first {
                    put.answered = Some(number);
                }
            }
            let found: BTreeMap<JobId, Queued> = Folder::open(&copy).unwrap().1.into_iter().collect();
            for (job, put) in &puts {
                let found = found.get(&JobId(*job)).map(|queued| queued.launch.submitted_ms);
                assert!(found >= put.answered, "{what}: job {job} has {found:?} of {put:?}");
                assert!(found.is_none_or(|found| put.numbers.contains(&found)), "{what}: {found:?}, {put:?}");
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
}

#[test]
fn queue_folder_of_an_earlier_release_is_read() {
    let path = folder_of("earlier");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("7.json"), serde_json::to_vec(&queued(true)).unwrap()).unwrap();
    std::fs::write(path.join("8.json"), serde_json::to_vec(&queued(true)).unwrap()).unwrap();
    std::fs::write(path.join("9.json"), "{\"of\":\"another version\"}").unwrap();
    std::fs::write(path.join("4.jobs"), "#1,{}]\n[2,{\"of\":\"another version\"}]\n").unwrap();
    std::fs::write(path.join("3.jobs"), "#1,{}]\n#2,{}]\n").unwrap();
    let (slow, read) = Slow::open(path);
    assert_eq!(read.iter().map(|(job, _)| job.0).collect::<Vec<_>>(), [7, 8]);
    let later = Box::new(Queued { suspended: true, ..*queued(true) });
    slow.put_blocking(7, later, 2);
    slow.filing.remove(JobId(8));
    // What is not understood stays for who looks.
    assert_eq!(slow.names(), ["4.jobs", "5.jobs", "9.json"]);
}

/// A small job that waits for long does not keep what others have left in its file.
#[test]
fn queue_file_of_which_little_is_in_force_is_written_anew() {
    let folder = folder_of("sparse");
    let done = std::sync::mpsc::channel();
    let (opened, _) = Folder::open(&folder).unwrap();
    let filing = Filing::start(opened, sync, move |job, result| drop(done.0.send((job, result)))).unwrap();
    let put = |job, bytes: usize| {
        let mut queued = queued(true);
        queued.launch.environment =
            [("LONG".into(), "x".repeat(bytes).as_str().into())].into_iter().collect();
        filing.put(JobId(job), queued);
        assert_eq!(done.1.recv().unwrap(), (JobId(job), Ok(())));
    };
    // Each small one shares its file with a long one, which goes.
    for job in (1..9).step_by(2) {
        put(job, 10);
        put(job + 1, 2 << 20);
        filing.remove(JobId(job + 1));
    }
    let bytes = || {
        let files = std::fs::read_dir(&folder).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |found| found.len())).sum::<u64>()
    };
    // The last one takes more records, and is as it is.
    tutti_testkit::await_that("what is left of the files is small", || bytes() < 3 << 20);
    filing.remove(JobId(1));
    drop(filing);
    let (_, read) = Folder::open(&folder).unwrap();
    assert_eq!(read.iter().map(|(job, _)| job.0).collect::<Vec<_>>(), [3, 5, 7]);
    assert!(read.iter().all(|(_, queued)| queued.launch.environment.bytes() > 10), "with their environments");
}
