//! What this process says of its waits while all its threads sleep (`tutti_shm::report::Sleep`): for a snapshot, and for whoever looks for
//! deadlocks from outside.
//!
//! It is said behind the last look before a sleep and taken back after it, so a wait that is over sooner costs nothing. The service
//! thread takes it back before it looks at the network, since it may take what the sleeper waits for.

use crate::abi::MPI_THREAD_MULTIPLE;
use crate::process::{Guard, Process};
use crate::request::{Request, RequestKind};
use tutti_shm::report::{Asleep, Sleep, Wait, What};
use tutti_shm::sync::Ordering;

/// Requests that are looked at; of a process with more it is said that there are more.
const REQUESTS_MAX: usize = 256;

impl Process {
    fn own_sleep(&self) -> &Sleep {
        &self.engine.job.report(self.engine.job.rank()).sleep
    }

    /// All threads of the process that are in the library sleep, or are about to, and have looked at everything.
    pub fn say_asleep(&self) {
        let sleep = self.own_sleep();
        let requests = &self.engine.requests;
        let is_pending = |(_, request): &(u32, &Request)| {
            !request.done && matches!(request.kind, RequestKind::Send | RequestKind::Receive)
        };
        let waits = requests.iter().take(REQUESTS_MAX).filter(is_pending).map(|(index, request)| {
            let (moved, bytes) = self.engine.moved_bytes(index);
            Wait {
                what: if request.kind == RequestKind::Send { What::Send } else { What::Receive },
                matched: self.engine.is_matched(index),
                peer: request.peer,
                tag: request.tag,
                context: request.context,
                bytes,
                moved,
            }
        });
        let asleep = Asleep {
            call: String::new(),
            waits: Vec::new(),
            more: requests.len() > REQUESTS_MAX,
            threads: self.waits.waiting(),
            multiple: self.thread_level >= MPI_THREAD_MULTIPLE,
            unasked: self.engine.unasked(),
        };
        // Where any thread may call, the last call need not be the one that waits.
        let call = if asleep.multiple { c"" } else { self.call };
        sleep.write_call(call.to_bytes());
        sleep.write(self.awaited.into_iter().chain(waits), &asleep);
        let endpoint = self.engine.job.endpoint(self.engine.job.rank());
        sleep.settled.store(endpoint.sleeping.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Somebody looks: whether it was said that all sleep.
    pub fn take_back_asleep(&self) -> bool {
        let settled = &self.own_sleep().settled;
        let said = settled.load(Ordering::Relaxed) != 0;
        if said {
            settled.store(0, Ordering::Release);
        }
        said
    }
}

impl Guard {
    /// Waits for a message that no receive has been posted for.
    pub fn await_message(&mut self, context: u32, source: i32, tag: i32) {
        let hint = usize::try_from(source).ok();
        if self.engine.probe(context, source, tag).is_some() {
            return;
        }
        let before = self.awaited.replace(Wait {
            what: What::Probe,
            matched: false,
            peer: source,
            tag,
            context,
            bytes: 0,
            moved: 0,
        });
        self.wait(hint, |process| process.engine.probe(context, source, tag));
        self.awaited = before;
    }

    /// Waits for a flag in shared memory that a member of a collective operation, by its rank in the world, sets.
    #[cold]
    pub fn watch_member(&mut self, context: u32, peer: u32, ready: impl Fn() -> bool) {
        if ready() {
            return;
        }
        let peer = peer as i32;
        let wait = Wait { what: What::Member, matched: false, peer, tag: -1, context, bytes: 0, moved: 0 };
        let before = self.awaited.replace(wait);
        self.watch(ready);
        self.awaited = before;
    }
}
