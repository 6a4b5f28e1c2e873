//! Loom's search, bounded and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `model` in every interleaving with at most `preemptions` of them, all if `None`, and prints how many
/// there were.
pub(crate) fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    eprintln!("{name}: {} interleavings, preemptions {preemptions:?}", count.load(Ordering::Relaxed));
}
