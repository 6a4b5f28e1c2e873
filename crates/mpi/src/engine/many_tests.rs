//! Cost of n pending operations: n times one, whatever they wait for. Counted is how many operations the
//! engines look at (`steps`), no time.

use super::message::Mode;
use super::protocol_tests::{World, world};
use super::*;
use tutti_datatype::Buffer;

const CONTEXT: u32 = 5;
const LARGE: usize = 20_000;
const SMALL: usize = 8;
const A: usize = 0;
const B: usize = 1;

/// Both ranks' operations of a case.
struct Many {
    world: World,
    data: Vec<u8>,
    receives: Vec<u32>,
    sends: Vec<u32>,
}

impl Many {
    fn new(bytes: usize) -> Self {
        Many { world: world(2), data: vec![7; bytes], receives: Vec::new(), sends: Vec::new() }
    }

    fn buffer(&self) -> Buffer {
        Buffer::contiguous(self.data.as_ptr().cast_mut(), self.data.len())
    }

    fn send(&mut self, tag: i32, mode: Mode) {
        let message = Message { to: B as u32, context: CONTEXT, tag, buffer: self.buffer(), mode };
        if let Started::Pending(index) = self.world.0[A].send(message) {
            self.sends.push(index);
        }
    }

    fn receive(&mut self, source: i32, tag: i32) {
        let request = Request::new(RequestKind::Receive, self.buffer(), CONTEXT, source, tag);
        let index = self.world.0[B].receive(request);
        self.receives.push(index);
    }

    fn is_over(&self) -> bool {
        let done = |rank: usize, indices: &[u32]| {
            indices.iter().rev().all(|&index| self.world.0[rank].requests.get(index).done)
        };
        done(A, &self.sends) && done(B, &self.receives)
    }

    /// Both ranks make progress until all is done; each wait looks at its last request first, as far as this
    /// test goes.
    fn finish(&mut self) {
        for _ in 0..1_000_000 {
            for engine in &mut self.world.0 {
                engine.progress(None);
            }
            if self.is_over() {
                return;
            }
        }
        panic!("{} sends and {} receives are not done", self.sends.len(), self.receives.len());
    }

    /// Makes progress until what was sent has arrived, as far as it does without a receive.
    fn finish_arrival(&mut self) {
        while self.world.0.iter_mut().any(|engine| engine.progress(None)) {}
    }
}

/// A case takes so many steps per operation whether there are 500 or 4,000.
#[track_caller]
fn assert_linear(case: impl Fn(i32)) {
    let [few, many] = [500, 4000].map(|n| steps::of(|| case(n)));
    assert!(many <= 16 * few, "500 operations take {few} steps, 4000 take {many}");
    assert!(few <= 500 * 200, "500 operations take {few} steps");
}

#[test]
fn rendezvous_sends_to_posted_receives_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(LARGE);
        (0..n).for_each(|_| many.receive(A as i32, 3));
        (0..n).for_each(|_| many.send(3, Mode::Standard));
        many.finish();
    });
}

#[test]
fn rendezvous_sends_by_both_ranks_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(LARGE);
        // Both ranks wait in the library, so that both copy, or the bulk ring is used.
        for engine in &many.world.0 {
            engine.job.endpoint(engine.me).waiting.store(1, Ordering::Relaxed);
        }
        (0..n).for_each(|_| many.send(3, Mode::Standard));
        (0..n).for_each(|_| many.receive(A as i32, 3));
        many.finish();
    });
}

#[test]
fn rendezvous_sends_through_the_bulk_ring_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(LARGE);
        many.world.0[B].peers[A].single_copy_works = false;
        (0..n).for_each(|_| many.send(3, Mode::Standard));
        (0..n).for_each(|_| many.receive(A as i32, 3));
        many.finish();
    });
}

#[test]
fn synchronous_sends_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        (0..n).for_each(|_| many.receive(A as i32, 3));
        (0..n).for_each(|_| many.send(3, Mode::Synchronous));
        many.finish();
    });
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        (0..n).for_each(|_| many.send(3, Mode::Synchronous));
        many.finish_arrival();
        (0..n).for_each(|_| many.receive(A as i32, 3));
        many.finish();
    });
}

#[test]
fn questions_about_pending_operations_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(LARGE);
        many.world.0[B].write_protocol = false;
        (0..n).for_each(|_| many.receive(A as i32, 4));
        (0..n).for_each(|_| many.send(3, Mode::Standard));
        many.finish_arrival();
        for (rank, indices) in [(A, &many.sends), (B, &many.receives)] {
            let engine = &many.world.0[rank];
            for &index in indices {
                assert!(!engine.is_matched(index));
                assert_eq!(engine.moved_bytes(index), (0, LARGE as u64));
            }
        }
    });
}

#[test]
fn receives_posted_against_the_order_of_arrival_cost_the_same_each_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        (0..n).rev().for_each(|tag| many.receive(A as i32, tag));
        (0..n).for_each(|tag| many.send(tag, Mode::Standard));
        many.finish();
    });
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        (0..n).rev().for_each(|tag| many.receive(if tag % 2 == 0 { MPI_ANY_SOURCE } else { A as i32 }, tag));
        (0..n).for_each(|tag| many.send(tag, Mode::Standard));
        many.finish();
    });
}

#[test]
fn unexpected_messages_taken_against_the_order_of_arrival_cost_the_same_each_however_many_are_pending() {
    for source in [A as i32, MPI_ANY_SOURCE] {
        assert_linear(|n| {
            let mut many = Many::new(SMALL);
            (0..n).for_each(|tag| many.send(tag, Mode::Standard));
            many.finish_arrival();
            for tag in (0..n).rev() {
                let found = many.world.0[B].probe(CONTEXT, source, tag).map(|found| found.tag);
                assert_eq!(found, Some(tag), "probe behind many");
                many.receive(source, tag);
            }
            many.finish();
        });
    }
}

#[test]
fn receives_and_sends_are_cancelled_at_the_same_cost_however_many_are_pending() {
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        (0..n).for_each(|tag| many.receive(A as i32, tag));
        for index in std::mem::take(&mut many.receives).into_iter().rev() {
            many.world.0[B].cancel(index);
            assert!(many.world.0[B].requests.get(index).cancelled);
        }
    });
    assert_linear(|n| {
        let mut many = Many::new(SMALL);
        // Some are known to the receiver, the others wait for room in the ring.
        (0..n).for_each(|tag| many.send(tag, Mode::Synchronous));
        many.world.0[B].progress(None);
        for &index in many.sends.iter().rev() {
            many.world.0[A].cancel(index);
        }
        many.finish();
        assert!(many.sends.iter().all(|&index| many.world.0[A].requests.get(index).cancelled));
    });
}
