use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tutti_protocol::wire::{Binding, Input, Job};
use tutti_sched::Demand;

use super::*;
use crate::members::NodeId;
use crate::message::{Launch, Terms, User};

const LIMIT: Duration = Duration::from_secs(10);

fn queued(detached: bool) -> Box<Queued> {
    let job = Job {
        id: 1,
        front_end: 0,
        programs: Vec::new(),
        input: Input::None,
        input_inherited: false,
        terminal: None,
        pty: false,
        binding: Binding::None,
        cores_per_rank: None,
        no_oversubscribe: false,
        label: false,
        part: None,
        debug: false,
        daemon: None,
        memory: None,
        universe: None,
        shared_slots: None,
        idle_ms: None,
        adopted: None,
        number: None,
    };
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
    Box::new(Queued { launch, demand: Demand::any(1, 1), suspended: false, over: Vec::new(), on_hold: None })
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

impl Slow {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tutti-filing-{name}-{}", std::process::id()));
        let folder = Folder::open(&path).unwrap();
        let (begins, begun) = channel();
        let (let_go, goes) = channel();
        let (tell, done) = channel();
        let sync = move |_: &File| {
            let _ = begins.send(());
            goes.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        };
        let filing = Filing::start(folder, sync, move |job, filed| drop(tell.send((job, filed)))).unwrap();
        Slow { path, filing, begun, let_go, done }
    }

    fn await_begun(&self) {
        self.begun.recv_timeout(LIMIT).expect("something is brought to the disk");
    }

    fn await_done(&self) -> (JobId, Result<(), String>) {
        self.done.recv_timeout(LIMIT).expect("a file is written, or not")
    }

    fn records(&self) -> Vec<JobId> {
        let mut records: Vec<JobId> =
            Folder::open(&self.path).unwrap().queued().into_iter().map(|(job, _)| job).collect();
        records.sort();
        records
    }

    fn names(&self) -> usize {
        std::fs::read_dir(&self.path).unwrap().count()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn queue_file_is_written_before_the_answer_without_blocking() {
    let slow = Slow::new("slow");
    slow.filing.put(JobId(1), queued(true));
    slow.filing.put(JobId(2), queued(false));
    slow.await_begun();
    assert_eq!((slow.records(), slow.done.try_recv().is_err()), (vec![], true), "the file is not there yet");
    slow.let_go.send(Ok(())).unwrap();
    slow.await_begun();
    assert_eq!((slow.records(), slow.done.try_recv().is_err()), (vec![JobId(1)], true), "its name is not");
    slow.let_go.send(Ok(())).unwrap();
    assert_eq!([slow.await_done(), slow.await_done()], [(JobId(1), Ok(())), (JobId(2), Ok(()))]);
    // Who waits for his job does so without its file.
    assert_eq!((slow.records(), slow.begun.try_recv().is_err()), (vec![JobId(1), JobId(2)], true));
}

#[test]
fn queue_file_removed_while_written_never_appears() {
    let slow = Slow::new("removed");
    (1..4).for_each(|job| slow.filing.put(JobId(job), queued(true)));
    slow.await_begun();
    slow.filing.remove(JobId(1));
    slow.filing.remove(JobId(2));
    slow.let_go.send(Ok(())).unwrap();
    assert_eq!([slow.await_done(), slow.await_done()], [(JobId(1), Ok(())), (JobId(2), Ok(()))]);
    slow.await_begun();
    assert_eq!((slow.records(), slow.names()), (vec![], 1), "the third is on its way");
    slow.let_go.send(Ok(())).unwrap();
    slow.await_begun();
    // It has its name, which is not on the disk.
    slow.filing.remove(JobId(3));
    assert_eq!(slow.names(), 0);
    slow.let_go.send(Ok(())).unwrap();
    assert_eq!(slow.await_done(), (JobId(3), Ok(())));
    assert_eq!(slow.names(), 0);
}

#[test]
fn queue_file_write_error_is_one_line() {
    let slow = Slow::new("full");
    slow.filing.put(JobId(1), queued(true));
    slow.let_go.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
    let (job, filed) = slow.await_done();
    let text = format!("cannot write {}: no storage space", slow.path.join("1.json").display());
    assert_eq!((job, filed, slow.names()), (JobId(1), Err(text), 0));
}
