//! The schedules that were left with the process: each waits for one request, and goes on when that is done.
//!
//! The request says so itself ([`Requests::advance_when_done`]), so that progress looks at no schedule that
//! cannot go on: n of them cost n times one, however many are pending.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::schedule::Schedule;
use crate::engine::numbered::Spread;
use crate::engine::steps;
use crate::request::Requests;

/// By the number of a request.
type ByRequest<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// All that wait.
#[derive(Debug, Default)]
pub struct Schedules {
    /// By the request that is done when the schedule is.
    waiting: ByRequest<Box<Schedule>>,
    /// By the request for which a schedule waits: the request that is done when the schedule is.
    awaited: ByRequest<u32>,
}

impl Schedules {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Leaves a schedule until a request is done, which it is not yet.
    pub fn put(&mut self, schedule: Box<Schedule>, awaited: u32, requests: &mut Requests) {
        requests.advance_when_done(awaited);
        self.awaited.insert(awaited, schedule.request());
        self.waiting.insert(schedule.request(), schedule);
    }

    /// Takes the one that waits for this request, which is done.
    pub fn take_ready(&mut self, done: u32) -> Option<Box<Schedule>> {
        let request = self.awaited.remove(&done)?;
        steps::count(1);
        Some(self.waiting.remove(&request).expect("a schedule that waits is here"))
    }

    /// The one that finishes a request.
    pub fn of(&self, request: u32) -> Option<&Schedule> {
        self.waiting.get(&request).map(|schedule| &**schedule)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, request: u32) -> Option<&mut Schedule> {
        self.waiting.get_mut(&request).map(|schedule| &mut **schedule)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Schedule> {
        self.waiting.values().map(|schedule| &**schedule)
    }
}

#[cfg(test)]
mod tests {
    use tutti_datatype::Buffer;

    use super::*;
    use crate::abi::{MPI_ANY_SOURCE, MPI_ANY_TAG};
    use crate::request::{Request, RequestKind};

    fn pending(requests: &mut Requests, kind: RequestKind) -> u32 {
        requests.insert(Request::new(kind, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG))
    }

    #[test]
    fn schedules_are_found_by_what_they_wait_for_however_many_are_pending() {
        let (mut schedules, mut requests) = (Schedules::default(), Requests::default());
        let awaited: Vec<(u32, u32)> = (0..4000)
            .map(|_| {
                let [receive, whole] =
                    [RequestKind::Receive, RequestKind::Collective].map(|kind| pending(&mut requests, kind));
                let schedule = Box::new(Schedule::new(0, 0).with_request(whole));
                schedules.put(schedule, receive, &mut requests);
                (receive, whole)
            })
            .collect();
        assert!(!requests.has_awaited());
        let looked_at = steps::of(|| {
            for &(receive, whole) in awaited.iter().rev() {
                requests.finish(receive);
                assert!(requests.has_awaited());
                let done = requests.take_awaited().expect("a schedule waits for it");
                let schedule = schedules.take_ready(done).expect("what it waits for is done");
                assert_eq!(schedule.request(), whole);
                assert!(schedules.take_ready(done).is_none() && !requests.has_awaited());
            }
        });
        assert_eq!(looked_at, 4000);
        assert!(schedules.is_empty());
    }
}
