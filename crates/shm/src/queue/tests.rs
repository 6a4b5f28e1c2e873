use super::*;

#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; LINE_BYTES]);

struct Area(Vec<Line>);

impl Area {
    fn new(lines: usize) -> Self {
        Area(vec![Line([0; LINE_BYTES]); 3 + lines])
    }

    fn queue(&mut self) -> Queue {
        let base = NonNull::from(&mut self.0[0]).cast();
        // SAFETY: the lines outlive the queue in every test.
        Queue::create(unsafe { Opened::new(base, self.0.len() * LINE_BYTES) }).unwrap()
    }
}

fn send(queue: &Queue, from: u32, data: &[u8]) -> bool {
    let Some(reservation) = queue.reserve(from, data.len()) else { return false };
    // SAFETY: a slice.
    unsafe { queue.fill(reservation, 0, data.as_ptr(), data.len()) };
    queue.commit(reservation);
    true
}

fn take(queue: &Queue) -> Option<(u32, Vec<u8>)> {
    let message = queue.peek()?;
    let mut data = vec![0; message.bytes];
    // SAFETY: so many bytes; this thread is the receiver.
    unsafe { queue.take(message, data.as_mut_ptr()) };
    Some((message.from, data))
}

// Paper: M2, C10
#[test]
fn queue_gives_messages_of_all_lengths_back_over_many_laps() {
    let mut area = Area::new(9);
    let queue = area.queue();
    for length in (0..queue.message_bytes_max()).chain([queue.message_bytes_max()]) {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        assert!(send(&queue, 3, &data));
        assert_eq!(take(&queue), Some((3, data)));
        assert_eq!(take(&queue), None);
    }
    assert!(!send(&queue, 0, &vec![0; queue.message_bytes_max() + 1]));
}

#[test]
fn queue_that_is_full_takes_nothing_and_loses_nothing() {
    let mut area = Area::new(4);
    let queue = area.queue();
    for i in 0..4 {
        assert!(send(&queue, i, &[i as u8; 48]));
    }
    assert!(!send(&queue, 9, &[]));
    assert_eq!(take(&queue).unwrap().0, 0);
    assert!(!send(&queue, 9, &[0; 49]), "two lines are not free");
    assert!(send(&queue, 9, &[]));
    let from: Vec<_> = std::iter::from_fn(|| take(&queue)).map(|(from, _)| from).collect();
    assert_eq!(from, [1, 2, 3, 9]);
}

/// Data that look like a mark are none: each line has a place for it.
#[test]
fn queue_takes_no_data_for_a_mark() {
    let mut area = Area::new(8);
    let queue = area.queue();
    for at in 0..50_u64 {
        let forged: Vec<u8> = (0..30).flat_map(|i| (at + i).to_le_bytes()).collect();
        assert!(send(&queue, 1, &forged));
        assert_eq!(take(&queue).unwrap().1, forged);
        assert_eq!(queue.peek(), None);
    }
}

/// A sender between reservation and mark holds up those behind it.
#[test]
fn queue_shows_nothing_behind_what_is_not_whole() {
    let mut area = Area::new(8);
    let queue = area.queue();
    let first = queue.reserve(1, 4).unwrap();
    assert!(send(&queue, 2, b"behind"));
    assert_eq!(queue.peek(), None);
    // SAFETY: four bytes.
    unsafe { queue.fill(first, 0, b"befo".as_ptr(), 4) };
    queue.commit(first);
    assert_eq!(take(&queue), Some((1, b"befo".to_vec())));
    assert_eq!(take(&queue), Some((2, b"behind".to_vec())));
}

#[test]
fn queue_passes_over_messages_that_were_withdrawn() {
    let mut area = Area::new(8);
    let queue = area.queue();
    for _ in 0..5 {
        let withdrawn = [queue.reserve(1, 100).unwrap(), queue.reserve(1, 4).unwrap()];
        assert!(send(&queue, 2, b"behind"));
        assert_eq!(take(&queue), None);
        withdrawn.into_iter().for_each(|reservation| queue.withdraw(reservation));
        assert_eq!(take(&queue), Some((2, b"behind".to_vec())));
        assert_eq!(take(&queue), None);
    }
}

#[test]
fn queue_drops_a_message_of_an_impossible_length() {
    let mut area = Area::new(4);
    let queue = area.queue();
    let reservation = queue.reserve(1, 8).unwrap();
    queue.word(queue.line(reservation.at) + 8).store(u64::from(u32::MAX), Relaxed);
    queue.commit(reservation);
    assert_eq!(queue.peek(), None);
    assert!(send(&queue, 2, b"right"));
    assert_eq!(take(&queue), Some((2, b"right".to_vec())));
}

#[test]
fn queue_keeps_the_order_of_each_of_many_senders() {
    const MESSAGES: u32 = 3000;
    let mut area = Area::new(16);
    let queue = area.queue();
    std::thread::scope(|scope| {
        for from in 0..3 {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let data = number.to_le_bytes().repeat(1 + number as usize % 40);
                    while !send(&queue, from, &data) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0_u32; 3];
        while next.iter().any(|next| *next < MESSAGES) {
            let Some((from, data)) = take(&queue) else {
                std::thread::yield_now();
                continue;
            };
            let number = next[from as usize];
            assert_eq!(data, number.to_le_bytes().repeat(1 + number as usize % 40));
            next[from as usize] += 1;
        }
    });
}

#[test]
fn queue_sleep_ends_with_each_message() {
    const MESSAGES: u32 = 3000;
    struct Shared(Queue);
    // SAFETY: the words are atomics, and one thread takes.
    unsafe impl Sync for Shared {}
    let mut area = Area::new(3);
    let shared = Shared(area.queue());
    let queue = &shared;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let queue = &queue.0;
            for number in 0..MESSAGES {
                while !send(queue, number, &[]) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..MESSAGES {
            while !queue.0.has_message() {
                // A lost wake-up would end the test by its time limit.
                queue.0.sleep(Duration::from_secs(3600), || false);
            }
            assert_eq!(take(&queue.0), Some((number, vec![])));
        }
    });
}
