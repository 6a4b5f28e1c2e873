//! Loom: every interleaving of one sender and one receiver on a ring of four lines.

use super::*;

#[test]
fn no_interleaving_loses_repeats_or_tears_a_message() {
    loom::model(|| {
        let lines = (0..4).map(|_| Line { words: Default::default() }).collect::<Vec<_>>();
        let memory = Box::leak(Box::new((lines, Consumed { lines: AtomicU64::new(0) })));
        let first = NonNull::new(memory.0.as_mut_ptr()).unwrap();
        let consumed = NonNull::from(&memory.1);
        // SAFETY: the memory is leaked; each end is made once.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(first, 4, consumed), Consumer::new(first, 4, consumed)) };
        let sender = loom::thread::spawn(move || {
            let mut sent = 0_u64;
            while sent < 4 {
                let envelope = Envelope { kind: 2, flags: 0, context: sent as u32, tag: 0, length: 8 };
                if producer.try_push(&envelope, &(sent + 100).to_ne_bytes()) {
                    sent += 1;
                } else {
                    loom::thread::yield_now();
                }
            }
        });
        let mut received = 0_u64;
        while received < 4 {
            if let Some(message) = consumer.peek() {
                assert_eq!(u64::from(message.envelope.context), received);
                let mut data = [0; 8];
                message.read_inline(&mut data);
                assert_eq!(u64::from_ne_bytes(data), received + 100);
                message.consume();
                consumer.publish();
                received += 1;
            } else {
                loom::thread::yield_now();
            }
        }
        sender.join().unwrap();
    });
}
