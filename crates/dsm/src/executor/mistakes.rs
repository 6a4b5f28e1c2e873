//! Mistakes that the protocol has found: a line with the places of the program, and the end of the job.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tutti_runtime::log;

use crate::core::check::Race;
use crate::core::violation::Violation;
use crate::{failure, sites};

/// Lines of a rank at most about stores of the same value.
const LINES_MAX: usize = 3;
/// Places of such stores that have a line.
static SAME: Mutex<BTreeSet<[u64; 2]>> = Mutex::new(BTreeSet::new());

/// Ends the job by what the program has done wrong, with the lines that it is about.
#[cold]
pub(super) fn take(violation: &Violation) {
    match violation {
        Violation::Race { race } if race.is_same => note_same(race),
        Violation::Race { race } => failure::end(format_args!("{race}: {}", lines_of(race))),
        Violation::Spin { site, .. } => failure::end(format_args!("{violation}: {}", sites::line_of(*site))),
        Violation::Private { site, .. } => {
            let line = sites::line_of(*site);
            failure::end(format_args!("{violation}; first store to the page since it synchronised: {line}"))
        }
        Violation::Unnoted { site, .. } => {
            failure::end(format_args!("{violation}; noted stores: {}", sites::line_of(*site)))
        }
        _ => failure::end(format_args!("{violation}")),
    }
}

fn lines_of(race: &Race) -> String {
    let [first, second] = [race.first, race.second].map(|stamp| sites::line_of(stamp.site));
    format!("{first}, {second}")
}

/// Names two places once: the program goes on.
fn note_same(race: &Race) {
    let mut sites = [race.first.site, race.second.site];
    sites.sort_unstable();
    let mut noted = SAME.lock().expect("nobody panics with it");
    if noted.len() < LINES_MAX && noted.insert(sites) {
        log::line(format_args!("{race}: {}", lines_of(race)));
    }
}
