use tutti_testkit::Random;

use super::*;
use proptest::prelude::*;

const FRAGMENT_BYTES: usize = 1384;

fn incoming(bytes: u64) -> Incoming {
    let mut place = Incoming::free(0);
    place.begin(0, 1, bytes, FRAGMENT_BYTES);
    place
}

proptest! {
    /// A message over a network that loses, repeats and reorders fragments and acknowledgements as it likes.
    #[test]
    fn bulk_message_arrives_whole_and_is_known_complete(
        bytes in 1u64..4_000_000,
        loss in 0u32..60,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let mut chance = move |percent: u32| random.chance(10 * u64::from(percent));
        let (mut out, mut place) = (Outgoing::idle(), incoming(bytes));
        out.begin(BulkId { slot: 0, turn: 0 }, 1, bytes, FRAGMENT_BYTES);
        let (mut order, mut under_way, mut stored) = (0, Vec::new(), 0);
        let mut steps = 0;
        while !out.is_complete() {
            steps += 1;
            prop_assert!(steps < 1_000_000, "no end at {} of {}", out.base, out.fragments);
            let new = out.sendable_new().filter(|_| chance(50));
            if let Some(fragment) = new.or_else(|| out.sendable()) {
                out.note_sent(fragment, order);
                under_way.push((fragment, order));
                order += 1;
            }
            prop_assert!(out.next <= out.base + SPAN);
            if out.sendable().is_some() && !chance(10) {
                continue;
            }
            for (fragment, order) in std::mem::take(&mut under_way) {
                let offset = u64::from(fragment) * FRAGMENT_BYTES as u64;
                let length = (bytes - offset).min(FRAGMENT_BYTES as u64) as usize;
                for _ in 0..1 + u32::from(chance(5)) {
                    if chance(loss) {
                        continue;
                    }
                    place.note_order(Seq(order));
                    match place.check(offset, length, FRAGMENT_BYTES) {
                        Ok(fragment) => {
                            place.note_stored(fragment);
                            stored += length as u64;
                        }
                        Err(wrong) => prop_assert_eq!(wrong, NotStored::Duplicate),
                    }
                }
            }
            // Sometimes a probe: all that was sent before it and is not here is lost.
            if chance(30) {
                order += REORDER;
                place.note_order(Seq(order));
                order += 1;
            }
            if !chance(loss) {
                let (words, used) = place.bitmap();
                let wire: Vec<u8> = words[..used].iter().flat_map(|word| word.to_le_bytes()).collect();
                let before = out.flying_count;
                let acked = out.handle_ack(place.base, &wire, place.echo());
                prop_assert_eq!(out.flying_count, before - acked.arrived - acked.lost);
                for fragment in (out.base..out.next).filter(|fragment| out.flying.get(*fragment)) {
                    let behind = place.echo().wrapping_sub(out.orders[(fragment % RING) as usize]).cast_signed();
                    prop_assert!(behind < REORDER.cast_signed(), "fragment {} is lost unnoticed", fragment);
                }
            }
        }
        prop_assert!(place.is_complete());
        prop_assert_eq!((stored, out.flying_count), (bytes, 0));
    }
}

#[test]
fn bulk_stores_only_whole_fragments_of_its_message() {
    let place = incoming(3000);
    let check = |offset, length| place.check(offset, length, FRAGMENT_BYTES);
    assert_eq!(check(0, 1384), Ok(0));
    assert_eq!(check(2768, 232), Ok(2));
    for (offset, length) in [(0, 1383), (1, 1384), (2768, 231), (4152, 1), (u64::MAX, 1), (1384 * 2000, 1384)]
    {
        assert_eq!(check(offset, length), Err(NotStored::Wrong), "{length} bytes at {offset}");
    }
    // Further ahead than a sender that keeps to the protocol can be.
    let place = incoming(1 << 40);
    assert_eq!(place.check(1384 * 1024, 1384, FRAGMENT_BYTES), Err(NotStored::Wrong));
}
