//! Rows of programs with shared memory.

use super::Goal::{Beat, Reach, Shown};
use super::Limit;
use super::Source::{Line, Ratio};
use super::list::Add;

/// Programs with shared memory: on one node beside threads, on two beside the same algorithm with messages,
/// which is also what the peers run.
pub(super) fn shared_memory(add: &mut Add<'_>) {
    const TIME: &str = "median_ns";
    let programs = [
        ("lu", "LU n=2048, blocks of 16", "shared_lu", "shared_lu_threads", 1.05),
        ("radix", "radix sort of 2^22 keys", "shared_radix", "shared_radix_threads", 1.10),
        ("sor", "SOR 2048 x 2048, 50 rounds", "shared_sor", "shared_sor_threads", 1.10),
    ];
    for (name, text, shared, threads, goal) in programs {
        let text = format!("shared memory: {text}, 2 ranks on a node / 2 threads");
        let source = Ratio(shared, threads, TIME);
        add(&format!("shared/{name}-threads"), &text, "times", source, Limit::Unknown, Reach(goal));
    }
    let text = "shared memory: a lock from rank to rank of a node / one of a futex";
    let source = Line("handover", "", "times");
    add("shared/handover", text, "times", source, Limit::Unknown, Reach(2.0));
    // Beside the best peer at most 1.1 times as long; radix sort and SOR have no such goal.
    let programs = [
        ("lu", "LU n=2048", "net_shared_lu", "net_shared_lu_messages", 1.25, Beat(1.0 / 1.1)),
        ("radix", "radix sort of 2^22 keys", "net_shared_radix", "net_shared_radix_messages", 2.0, Shown),
        ("sor", "SOR 2048 x 2048", "net_shared_sor", "net_shared_sor_messages", 1.2, Shown),
    ];
    for (name, text, shared, messages, goal, beside) in programs {
        let own = format!("shared memory: {text}, two nodes / our messages");
        let source = Ratio(shared, messages, TIME);
        add(&format!("shared/net-{name}-messages"), &own, "times", source, Limit::Unknown, Reach(goal));
        let text = format!("shared memory: {text}, two nodes; peers: messages");
        add(&format!("shared/net-{name}"), &text, "ms", Line(shared, "", TIME), Limit::Unknown, beside);
    }
}
