//! The measured figures of a machine.
//!
//! | name | what |
//! |---|---|
//! | `line_siblings_ns`, `line_cache_ns`, `line_far_ns` | a line that another core has written: of the same core's other thread, of one that shares the last cache, of one that shares none |
//! | `line_memory_ns` | a line that no cache has |
//! | `copy_8k_gbs`, `copy_256k_gbs` | copies by the processor, within the nearest caches and beyond them |
//! | `kernel_call_ns`, `kernel_copy_gbs` | `process_vm_readv` of 8 B; of 64 KiB |
//! | `yield_ns` | `sched_yield` where nobody waits for the core |
//! | `wakeup_ns` | the median from the wake-up of a thread that sleeps on another core until it runs |

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::thread::sched_setaffinity;

use super::{Figure, Nearness};
use crate::cpu_list::mask_of;
use crate::sys::timing;

/// Time that a figure is measured for, at most, where its cores are free.
const LOOP: Duration = Duration::from_micros(800);
/// Time in which two threads are to run at once for a moment, where the cores are not free.
const PATIENCE: Duration = Duration::from_millis(50);
/// Reason of a figure that is missing and may be there next time.
pub(super) const BUSY: &str = "the cores were busy";

/// Measures all of them; the cores of this thread are as before afterwards.
pub(super) fn measure(cores: &[usize], pairs: &[(Nearness, [usize; 2])]) -> BTreeMap<String, Figure> {
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, figure: Figure| figures.insert(name.to_owned(), figure);
    let first = cores.first().copied().unwrap_or(0);
    for (name, nearness) in [
        ("line_siblings_ns", Nearness::Siblings),
        ("line_cache_ns", Nearness::Cache),
        ("line_far_ns", Nearness::Far),
    ] {
        let pair = pairs.iter().find(|(of, _)| *of == nearness).map(|(_, pair)| *pair);
        put(name, between(pair, line_ns));
    }
    // Sleepers of another core, the nearest that is not the same.
    let other = pairs.iter().filter(|(of, _)| *of != Nearness::Siblings).map(|(_, pair)| *pair).next();
    put("wakeup_ns", between(other, wakeup_ns));
    put(
        "line_memory_ns",
        alone(first, || timing::memory_line_ns(LOOP).ok_or("no instruction for it is known")),
    );
    for (name, bytes) in [("copy_8k_gbs", 8 << 10), ("copy_256k_gbs", 256 << 10)] {
        put(name, alone(first, || Ok(copy_gbs(bytes))));
    }
    let call =
        |bytes| move || timing::kernel_copy_ns(bytes, LOOP).ok_or("the kernel refuses process_vm_readv");
    put("kernel_call_ns", alone(first, call(8)));
    put("kernel_copy_gbs", alone(first, move || call(64 << 10)().map(|ns| f64::from(64 << 10) / ns)));
    put("yield_ns", alone(first, || Ok(quickest(Instant::now(), || many(100, std::thread::yield_now)))));
    figures
}

/// The quickest of the batches that fit in [`LOOP`] since `begun`, one at least; `batch` gives the ns of one.
fn quickest(begun: Instant, mut batch: impl FnMut() -> f64) -> f64 {
    let mut best = batch();
    while begun.elapsed() < LOOP {
        best = best.min(batch());
    }
    best
}

/// Nanoseconds of each of so many turns.
fn many(turns: u32, mut turn: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..turns).for_each(|_| turn());
    begin.elapsed().as_nanos() as f64 / f64::from(turns)
}

/// The rate of copies of so many bytes.
fn copy_gbs(bytes: usize) -> f64 {
    let begun = Instant::now();
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let ns = quickest(begun, || {
        many((64_usize << 10).div_ceil(bytes) as u32, || {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        })
    });
    bytes as f64 / ns
}

/// A figure of one core, measured by a thread of its own, which is bound to it.
fn alone(core: usize, measure: impl FnOnce() -> Result<f64, &'static str> + Send) -> Figure {
    let bound = || {
        let _ = sched_setaffinity(None, &mask_of(&[core]));
        let begin = Instant::now();
        (measure(), begin.elapsed().as_micros() as u64)
    };
    let (found, took_us) = std::thread::scope(|scope| scope.spawn(bound).join())
        .unwrap_or((Err("the measuring thread has ended"), 0));
    Figure { value: found.ok(), took_us, between: Vec::new(), why: found.err().map(str::to_owned) }
}

/// A figure of two cores.
fn between(pair: Option<[usize; 2]>, measure: fn([usize; 2]) -> Option<(f64, Duration)>) -> Figure {
    let Some(pair) = pair else {
        let why = Some("no two cores of this process stand so".to_owned());
        return Figure { value: None, took_us: 0, between: Vec::new(), why };
    };
    let found = measure(pair);
    let (value, took) = found.unzip();
    let why = found.is_none().then(|| BUSY.to_owned());
    Figure { value, took_us: took.unwrap_or_default().as_micros() as u64, between: pair.to_vec(), why }
}

/// The second of two threads ends when it finds this.
const END: u64 = u64::MAX;
/// Turns of a batch.
const TURNS: u64 = 50;
/// Batches that took longer for each line, or wake-up, were measured while a thread had no core.
const LINE_NS_MAX: f64 = 2_000.0;
const WAKEUP_NS_MAX: u64 = 300_000;
/// A thread that has said so long ago that it sleeps does.
const ASLEEP_NS: u64 = 20_000;

/// Two threads pass a word to and fro; gives half of a round trip, and how long it was measured.
fn line_ns(cores: [usize; 2]) -> Option<(f64, Duration)> {
    // Each in lines of its own: prefetchers take two at a time.
    #[repr(align(256))]
    struct Word(AtomicU64);
    let word = Word(AtomicU64::new(0));
    let answer = || {
        let _ = sched_setaffinity(None, &mask_of(&[cores[1]]));
        loop {
            match word.0.load(Ordering::Acquire) {
                END => break,
                odd if odd % 2 == 1 => {
                    // The first may have given up meanwhile.
                    let _ = word.0.compare_exchange(odd, odd + 1, Ordering::AcqRel, Ordering::Relaxed);
                }
                _ => std::hint::spin_loop(),
            }
        }
    };
    let ask = || {
        let _ = sched_setaffinity(None, &mask_of(&[cores[0]]));
        let begun = Instant::now();
        let (mut at, mut first, mut best) = (0, None, None::<f64>);
        while first.map_or(begun.elapsed() < PATIENCE, |first: Instant| first.elapsed() < LOOP) {
            let begin = Instant::now();
            for _ in 0..TURNS {
                word.0.store(at + 1, Ordering::Release);
                at += 2;
                let mut looks = 0_u32;
                while word.0.load(Ordering::Acquire) != at {
                    looks += 1;
                    if looks.is_multiple_of(1024) && begun.elapsed() > PATIENCE {
                        word.0.store(END, Ordering::Release);
                        return best.map(|best| (best, begun.elapsed()));
                    }
                }
            }
            let ns = begin.elapsed().as_nanos() as f64 / (2 * TURNS) as f64;
            if ns < LINE_NS_MAX {
                best = Some(best.map_or(ns, |best| best.min(ns)));
                first.get_or_insert(begin);
            }
        }
        word.0.store(END, Ordering::Release);
        best.zip(first).map(|(best, first)| (best, first.elapsed()))
    };
    std::thread::scope(|scope| {
        scope.spawn(answer);
        scope.spawn(ask).join().ok().flatten()
    })
}

/// Wakes a thread that sleeps by another; gives the median until that runs, and how long it was measured.
fn wakeup_ns(cores: [usize; 2]) -> Option<(f64, Duration)> {
    let begun = Instant::now();
    let ns = || begun.elapsed().as_nanos() as u64;
    // Writer of the first: who wakes. Of the others: who sleeps. They are the number of a sleep that begins,
    // that of one that has ended, and when it did.
    let [turn, begins, ended, ended_ns] = [const { AtomicU64::new(0) }; 4];
    let sleep = || {
        let _ = sched_setaffinity(None, &mask_of(&[cores[1]]));
        let mut seen = 0;
        while seen != END {
            begins.store(seen + 1, Ordering::Release);
            while turn.load(Ordering::Acquire) == seen {
                std::thread::park();
            }
            ended_ns.store(ns(), Ordering::Relaxed);
            seen = turn.load(Ordering::Acquire);
            ended.store(seen, Ordering::Release);
        }
    };
    let wake = |sleeper: Thread| {
        let _ = sched_setaffinity(None, &mask_of(&[cores[0]]));
        let mut samples = Vec::new();
        let is_over =
            |samples: &[u64]| ns() > if samples.is_empty() { PATIENCE } else { LOOP }.as_nanos() as u64;
        for number in 1.. {
            while begins.load(Ordering::Acquire) != number && !is_over(&samples) {
                std::thread::yield_now();
            }
            let asleep_ns = ns() + ASLEEP_NS;
            while ns() < asleep_ns {
                std::hint::spin_loop();
            }
            if is_over(&samples) {
                break;
            }
            let woken_ns = ns();
            turn.store(number, Ordering::Release);
            sleeper.unpark();
            while ended.load(Ordering::Acquire) != number && begun.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            let took_ns = ended_ns.load(Ordering::Relaxed).saturating_sub(woken_ns);
            if ended.load(Ordering::Acquire) == number && took_ns < WAKEUP_NS_MAX {
                samples.push(took_ns);
            }
        }
        turn.store(END, Ordering::Release);
        sleeper.unpark();
        samples.sort_unstable();
        samples.get(samples.len() / 2).map(|ns| (*ns as f64, begun.elapsed()))
    };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(sleep).thread().clone();
        scope.spawn(|| wake(sleeper)).join().ok().flatten()
    })
}
