use super::*;

fn opened(memory: &mut [u64]) -> Opened {
    let bytes = size_of_val(memory);
    // SAFETY: the memory outlives the value in each test, and only it is used meanwhile.
    unsafe { Opened::new(NonNull::from(memory).cast(), bytes) }
}

#[test]
fn opened_copies_are_right_at_any_alignment_and_length() {
    let source: Vec<u8> = (0..600_u32).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    for bytes in (0..100).chain([127, 128, 300]) {
        for skip in 0..17 {
            for begin in 0..9 {
                let mut memory = [0_u64; 64];
                let opened = opened(&mut memory);
                let mut back = vec![0; bytes];
                // SAFETY: the source and the target are long enough.
                unsafe {
                    assert!(opened.store(skip, source[begin..].as_ptr(), bytes));
                    assert!(opened.load(skip, back.as_mut_ptr(), bytes));
                }
                assert_eq!(back, source[begin..begin + bytes], "{bytes} bytes at {skip} from {begin}");
                let around: u64 =
                    memory.iter().map(|word| word.to_ne_bytes().map(u64::from).iter().sum::<u64>()).sum();
                assert_eq!(
                    around,
                    back.iter().map(|&byte| u64::from(byte)).sum::<u64>(),
                    "nothing beside it is written"
                );
            }
        }
    }
}

#[test]
fn opened_range_outside_is_refused() {
    let mut memory = [0_u64; 4];
    let opened = opened(&mut memory);
    for (offset, bytes) in [(33, 0), (32, 1), (25, 8), (usize::MAX, 2), (0, 33), (8, usize::MAX)] {
        assert!(opened.address(offset, bytes).is_none(), "{bytes} bytes at {offset}");
    }
    assert!(opened.address(32, 0).is_some() && opened.address(24, 8).is_some());
    let byte = 7;
    // SAFETY: one byte of ours.
    assert!(!unsafe { opened.store(32, &byte, 1) });
}

#[test]
fn opened_atomics_are_aligned_and_inside() {
    let mut memory = [0_u64; 2];
    let opened = opened(&mut memory);
    opened.atomic_u64(8).expect("aligned").store(1, Ordering::Relaxed);
    assert_eq!(opened.atomic_u8(8).map(|byte| byte.load(Ordering::Relaxed)), Some(1));
    assert!(
        opened.atomic_u64(4).is_none() && opened.atomic_u32(2).is_none() && opened.atomic_u16(1).is_none()
    );
    assert!(opened.atomic_u64(16).is_none() && opened.atomic_u32(14).is_none());
}

/// A mate never sees half of an aligned word, whatever is copied around it.
#[test]
fn opened_words_are_stored_whole() {
    let mut memory = [0_u64; 8];
    let opened = opened(&mut memory);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for round in 0..200_000_u64 {
                let value = [if round % 2 == 0 { 0 } else { u64::MAX }; 7];
                // SAFETY: 56 bytes of ours.
                assert!(unsafe { opened.store(8, value.as_ptr().cast(), 56) });
            }
        });
        while !writer.is_finished() {
            let seen = opened.atomic_u64(24).expect("aligned").load(Ordering::Relaxed);
            assert!(seen == 0 || seen == u64::MAX, "{seen:#x}");
        }
    });
}
