//! The environment variables of Tutti, so that one that is misspelt gets a line.

/// Beginning of all their names.
const PREFIX: &str = "TUTTI_";
/// Beginning of the names of those for tests.
const OF_TESTS: &str = "TUTTI_TEST_";

/// Slots that a script may use of its job: `NODE:RANKS`, with commas between nodes. `mpiexec` takes it for a
/// hint that it is to start a step; of which job the daemons find out.
pub const ALLOCATION: &str = "TUTTI_ALLOCATION";

/// Where the files of the origin are served, and the working directory (`tutti_files::origin`).
pub const ORIGIN: &str = "TUTTI_ORIGIN";

/// The job that stands for the array, in each of its tasks.
pub const ARRAY_ID: &str = "TUTTI_ARRAY_ID";
/// Number of the task.
pub const ARRAY_TASK: &str = "TUTTI_ARRAY_TASK";
/// Number of tasks, and the lowest and highest number of one.
pub const ARRAY_COUNT: &str = "TUTTI_ARRAY_COUNT";
/// See [`ARRAY_COUNT`].
pub const ARRAY_MIN: &str = "TUTTI_ARRAY_MIN";
/// See [`ARRAY_COUNT`].
pub const ARRAY_MAX: &str = "TUTTI_ARRAY_MAX";

/// Number of jobs whose place a requeued job takes, and the first of them.
pub const RESTARTS: &str = "TUTTI_RESTARTS";
/// See [`RESTARTS`].
pub const FIRST_JOB: &str = "TUTTI_FIRST_JOB";

pub use tutti_os::slurm::STAND_IN as SLURM;

/// Value [`NO_ENGINE`]: `mpiexec` starts no daemons in an allocation.
pub const ENGINE: &str = "TUTTI_ENGINE";
/// See [`ENGINE`].
pub const NO_ENGINE: &str = "none";
/// The cluster's key, for the daemons of an allocation: its text.
pub const KEY: &str = "TUTTI_KEY";

/// All that anything here reads or sets (docs/user/environment.md).
pub const VARIABLES: &[&str] = &[
    "TUTTI_ABI_ONLY",
    ALLOCATION,
    "TUTTI_APPNUM",
    ARRAY_COUNT,
    ARRAY_ID,
    ARRAY_MAX,
    ARRAY_MIN,
    ARRAY_TASK,
    "TUTTI_AT",
    "TUTTI_BOARD",
    "TUTTI_CALLS",
    "TUTTI_CC",
    "TUTTI_CHECK",
    "TUTTI_CONFIG",
    "TUTTI_CXX",
    "TUTTI_DAEMON",
    "TUTTI_DEBUG",
    "TUTTI_DIR",
    "TUTTI_DIST",
    "TUTTI_DSE_KERNEL",
    "TUTTI_DSM_BACKEND",
    "TUTTI_DSM_CHECK",
    "TUTTI_DSM_COMBINE",
    "TUTTI_DSM_COPIES",
    "TUTTI_DSM_HANDOVER",
    "TUTTI_DSM_MIGRATE",
    "TUTTI_DSM_REPORT",
    "TUTTI_DSM_SIZE",
    "TUTTI_DSM_UPDATE",
    "TUTTI_ENDINGS",
    ENGINE,
    "TUTTI_FAULTS",
    "TUTTI_FAULT_TIMES",
    "TUTTI_FC",
    FIRST_JOB,
    "TUTTI_FOREIGN_MPICC",
    "TUTTI_FOREIGN_OMPICC",
    "TUTTI_FORGE",
    "TUTTI_FORGE_RECORDS",
    "TUTTI_HEALTHY_SECONDS",
    "TUTTI_HOSTILE_FRAMES",
    "TUTTI_HOSTILE_SECONDS",
    "TUTTI_INITIAL_ERRHANDLER",
    "TUTTI_JOB",
    "TUTTI_JOBID",
    "TUTTI_JOB_GID",
    "TUTTI_JOB_NODES",
    "TUTTI_JOB_UID",
    "TUTTI_JOB_USER",
    KEY,
    "TUTTI_LAB_DIR",
    "TUTTI_LIBPMIX",
    "TUTTI_LINE_SILENCE",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_SIZE",
    "TUTTI_LOG",
    "TUTTI_MOVES",
    "TUTTI_MPIEXEC",
    "TUTTI_NODE",
    ORIGIN,
    "TUTTI_PHASES",
    "TUTTI_POLITE",
    "TUTTI_PORTS",
    "TUTTI_RANK",
    "TUTTI_REQUIRE",
    RESTARTS,
    "TUTTI_RSH",
    "TUTTI_SCRIPT",
    "TUTTI_SHOW_ARGUMENTS",
    "TUTTI_SIM_SECONDS",
    "TUTTI_SIM_SEED",
    "TUTTI_SIM_SEEDS",
    "TUTTI_SIM_TIMES",
    "TUTTI_SINGLETON",
    "TUTTI_SIZE",
    "TUTTI_SKIPPED",
    SLURM,
    "TUTTI_SLURM_SCRIPT",
    "TUTTI_SPAWNED",
    "TUTTI_STARTER",
    "TUTTI_STATE",
    "TUTTI_STATS",
    "TUTTI_STEP",
    "TUTTI_SWITCH_CALLS",
    "TUTTI_TEXTS",
    "TUTTI_TICKET",
    "TUTTI_TRANSPORT",
    "TUTTI_TURNS",
    "TUTTI_UNIVERSE",
    "TUTTI_VIRTUAL_NODE",
    "TUTTI_WRITE_PROTOCOL",
];

/// Says what is wrong with a variable of a launch; none: it is known, or not ours.
#[must_use]
pub fn complaint(name: &str, value: &str) -> Option<String> {
    if !name.starts_with(PREFIX) || name.starts_with(OF_TESTS) {
        return None;
    }
    match (name, value) {
        ("TUTTI_WRITE_PROTOCOL", value) if !["", "on", "off"].contains(&value) => {
            Some(format!("{name}={value}: expected on or off"))
        }
        ("TUTTI_UNIVERSE", _) => {
            Some(format!("{name} is for programs without a launcher and has no effect here: --universe N"))
        }
        _ if VARIABLES.contains(&name) => None,
        _ => {
            let near = nearest(name).map_or_else(String::new, |near| format!("; did you mean {near}?"));
            Some(format!("{name} is no variable of Tutti and has no effect{near}"))
        }
    }
}

#[cfg(feature = "cluster")]
fn nearest(name: &str) -> Option<&'static str> {
    crate::config::schema::nearest(name, VARIABLES.iter().copied())
}

#[cfg(not(feature = "cluster"))]
fn nearest(_: &str) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_that_is_misspelt_or_has_no_effect_gets_a_line() {
        assert_eq!(complaint("TUTTI_CHECK", "1"), None);
        assert_eq!(complaint("PATH", "1"), None);
        assert_eq!(complaint("TUTTI_TEST_MARK", "1"), None);
        let text = complaint("TUTTI_CHECKS", "1").expect("unknown");
        // The words that are near are found where the configuration is read too.
        let near = if cfg!(feature = "cluster") { "; did you mean TUTTI_CHECK?" } else { "" };
        assert_eq!(text, format!("TUTTI_CHECKS is no variable of Tutti and has no effect{near}"));
        assert!(complaint("TUTTI_UNIVERSE", "9999").is_some_and(|text| text.ends_with("--universe N")));
        assert!(complaint("TUTTI_WRITE_PROTOCOL", "none").is_some());
        assert_eq!(complaint("TUTTI_WRITE_PROTOCOL", "off"), None);
    }

    /// The page for users has them all.
    #[test]
    fn variables_are_those_of_the_page_for_users() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/user/environment.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let words = page.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'));
        let found = words.filter(|word| word.starts_with(PREFIX) && word.len() > PREFIX.len());
        for word in found.filter(|word| !word.starts_with(OF_TESTS)) {
            assert!(VARIABLES.contains(&word), "{word} is not in the table");
        }
        for name in VARIABLES {
            let is_of_build = ["TUTTI_ABI_ONLY", "TUTTI_TEXTS"].contains(name);
            assert!(is_of_build || page.contains(&format!("`{name}`")), "{name} is not on the page");
        }
    }
}
