//! The runs: which program, with how many ranks, on how many cores. One case gives the lines for several
//! rows.

use std::time::Duration;

use crate::mpis::Kind;

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The program prints its lines.
    Once,
    /// Two jobs of it at the same time; each line gets `job=0` or `job=1`.
    TwoJobs,
    /// Measured from outside, as a whole, several times.
    FromOutside,
}

/// Where the ranks of a case are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// All on this machine.
    One,
    /// Half of them in each of two network namespaces.
    Two,
    /// The same, and the network loses this share of all datagrams; ours only.
    Lossy(&'static str),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case; rows refer to it.
    pub id: &'static str,
    /// How it is run.
    pub way: Way,
    /// The program in bench/c.
    pub program: &'static str,
    /// Arguments of the program, apart from the time budget and the work.
    pub args: &'static str,
    /// How many ranks.
    pub ranks: usize,
    /// How many cores the job may use.
    pub cores: usize,
    /// Time per figure in a full run; a quick run takes a part of it. 0: the program takes no budget.
    pub budget_ms: u32,
    /// Compute per step in microseconds, given to the program as a number of loops.
    pub work_us: Option<f64>,
    /// Left out of a quick run.
    pub long: bool,
    /// Where the ranks are.
    pub nodes: Nodes,
    /// Form of the program.
    pub form: Form,
}

/// How a program is written, and so compiled and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Of bench/c, by each MPI's mpicc.
    C,
    /// The same in C++ with tutti.hpp; ours only.
    Cxx,
    /// Of bench/c with OpenSHMEM, by oshcc; ours only.
    Shmem,
    /// Of bench/c with shared memory, by tutticc; ours only.
    Parmacs,
    /// Of examples/shared: ours with shared memory, by tutticc; other MPIs run its form with messages.
    Shared,
    /// The form with messages; ours only.
    Messages,
    /// Processes of the shared form as threads, without any MPI.
    Threads,
}

/// Values that most cases have in common.
pub const PLAIN: Case = Case {
    id: "",
    way: Way::Once,
    program: "",
    args: "",
    ranks: 2,
    cores: 2,
    budget_ms: 100,
    work_us: None,
    long: false,
    nodes: Nodes::One,
    form: Form::C,
};

impl Case {
    /// Whether an MPI can run it: between nodes MPICH over TCP, and ours; on a bad network ours alone.
    pub fn is_for(&self, kind: Kind) -> bool {
        match (self.nodes, kind) {
            (_, Kind::Tutti) => true,
            _ if !matches!(self.form, Form::C | Form::Shared) => false,
            (Nodes::One, _) => true,
            (Nodes::Two, Kind::Mpich) => self.ranks == 2,
            _ => false,
        }
    }

    /// The limit on one run: generous, as a slow peer must get its figure and only a hung one is cut off.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(if self.ranks > self.cores { 40 } else { 30 })
    }

    /// The program's arguments.
    pub fn arguments(&self, quick: bool, ns_per_loop: f64) -> Vec<String> {
        let mut args: Vec<String> = self.args.split_whitespace().map(str::to_owned).collect();
        if self.budget_ms > 0 {
            let budget_ms = if quick { self.budget_ms / 3 } else { self.budget_ms };
            args.extend(["--budget-ms".into(), budget_ms.max(1).to_string()]);
        }
        if let Some(work_us) = self.work_us {
            args.extend(["--loops".into(), ((work_us * 1e3 / ns_per_loop) as u64).max(1).to_string()]);
        }
        args
    }
}

/// Compute per step as in the notes: the argument 10 of their `bar` is 4.88 us, 100 is 49 us.
pub const SHORT_STEP_US: f64 = 4.88;
/// See [`SHORT_STEP_US`].
pub const LONG_STEP_US: f64 = 49.0;

/// All of them, in the order in which they run.
pub fn all() -> Vec<Case> {
    let rtt = Case { program: "rtt", ..PLAIN };
    let rate = Case { program: "rate", budget_ms: 150, ..PLAIN };
    let steps = Case { program: "steps", work_us: Some(SHORT_STEP_US), budget_ms: 300, ..PLAIN };
    let cross = Case { program: "cross", args: "--sizes 65536,1048576,16777216", budget_ms: 120, ..PLAIN };
    vec![
        Case { id: "rtt", ..rtt.clone() },
        Case { id: "rtt_any", args: "--any-source --sizes 4,1024", ..rtt.clone() },
        Case {
            id: "rtt_cold",
            args: "--rotate --sizes 65536,1048576,4194304",
            budget_ms: 150,
            ..rtt.clone()
        },
        Case { id: "rtt_16_asleep", args: "--idle sleep --sizes 4", ranks: 16, ..rtt.clone() },
        Case { id: "rtt_16_recv", args: "--idle recv --sizes 4", ranks: 16, long: true, ..rtt.clone() },
        Case { id: "rtt_1core", args: "--sizes 4,65536,1048576", cores: 1, ..rtt },
        Case { id: "rate_64", args: "--window 64", ..rate.clone() },
        Case { id: "rate_1024", args: "--window 1024", ..rate.clone() },
        Case { id: "rate_late", args: "--window 64 --unexpected", ..rate.clone() },
        Case { id: "rate_4pairs", args: "--window 64", ranks: 8, long: true, ..rate },
        Case { id: "pack", program: "types", args: "--pack", budget_ms: 40, ..PLAIN },
        Case { id: "types", program: "types", args: "--rtt", ..PLAIN },
        Case { id: "windows", program: "windows", budget_ms: 40, ..PLAIN },
        Case { id: "files", program: "files", budget_ms: 40, ..PLAIN },
        Case { id: "coll", program: "coll", args: "--sizes 1024,65536,1048576", budget_ms: 60, ..PLAIN },
        Case { id: "coll_8", program: "coll", budget_ms: 60, ranks: 8, long: true, ..PLAIN },
        Case { id: "steps_8", ranks: 8, ..steps.clone() },
        Case { id: "steps_16", ranks: 16, long: true, ..steps.clone() },
        Case { id: "job", args: "--steps 10000", budget_ms: 0, work_us: Some(LONG_STEP_US), ..steps.clone() },
        Case {
            id: "two_jobs",
            way: Way::TwoJobs,
            args: "--steps 10000",
            budget_ms: 0,
            work_us: Some(LONG_STEP_US),
            long: true,
            ..steps
        },
        Case { id: "cross", ..cross.clone() },
        Case { id: "cross_1core", cores: 1, ..cross.clone() },
        Case { id: "cross_8", ranks: 8, long: true, ..cross },
        Case { id: "launch", way: Way::FromOutside, program: "initfini", budget_ms: 0, ..PLAIN },
        Case { id: "spawn", program: "spawn", ranks: 1, budget_ms: 0, ..PLAIN },
        Case { id: "instructions", program: "instructions", budget_ms: 0, ..PLAIN },
        Case { id: "shmem_calls", program: "shmem_calls", budget_ms: 0, form: Form::Shmem, ..PLAIN },
        Case { id: "calls", program: "calls", form: Form::Cxx, ..PLAIN },
        Case { id: "handover", program: "handover", budget_ms: 300, form: Form::Parmacs, ..PLAIN },
    ]
    .into_iter()
    .chain(many_pending())
    .chain(between_nodes())
    .chain(shared_memory())
    .collect()
}

/// Many pending operations. A library that looks all of them through at each is cut off by the limit, so the
/// most stand alone.
fn many_pending() -> impl Iterator<Item = Case> {
    let cases = [
        ("many_rendezvous", "net_many_rendezvous", "--cases rendezvous --counts 100,1000,10000"),
        ("many_issend", "net_many_issend", "--cases issend --counts 100,1000,10000"),
        ("many_issend_most", "net_many_issend_most", "--cases issend --counts 100000"),
        ("many_backwards", "net_many_backwards", "--cases backwards --counts 100,1000,10000"),
        ("many_partitions", "net_many_partitions", "--cases partitions --counts 100,1000,10000"),
        ("many_pready", "net_many_pready", "--cases pready --counts 100,1000,10000"),
        ("many_partitions_most", "net_many_partitions_most", "--cases partitions --counts 100000"),
    ];
    let many = Case { program: "many", budget_ms: 60, long: true, ..PLAIN };
    cases.into_iter().flat_map(move |(inside, between, args)| {
        let inside = Case { id: inside, args, ..many.clone() };
        [inside.clone(), Case { id: between, nodes: Nodes::Two, ..inside }]
    })
}

/// Cases of jobs on two nodes.
fn between_nodes() -> [Case; 10] {
    let net = Case { nodes: Nodes::Two, program: "rtt", ..PLAIN };
    let stream =
        Case { program: "stream", args: "--sizes 4096,65536,1048576", budget_ms: 300, ..net.clone() };
    let lossy = |id, loss| Case { id, args: "--sizes 1048576", nodes: Nodes::Lossy(loss), ..stream.clone() };
    [
        Case { id: "net_rtt", args: "--sizes 4,1024,4096,16384,65536,1048576", ..net.clone() },
        Case { id: "net_inside", args: "--idle sleep --sizes 4", ranks: 4, ..net.clone() },
        Case { id: "net_windows", program: "windows", ..net.clone() },
        Case {
            id: "net_windows_computing",
            program: "windows",
            args: "--computing",
            budget_ms: 400,
            ..net.clone()
        },
        Case {
            id: "net_coll",
            program: "coll",
            args: "--sizes 1024,65536,1048576",
            budget_ms: 60,
            ..net.clone()
        },
        Case { id: "net_rate", program: "rate", args: "--window 64", budget_ms: 150, ..net },
        Case { id: "net_stream", ..stream.clone() },
        lossy("net_loss_0", "loss=0%"),
        lossy("net_loss_01", "loss=0.1%"),
        lossy("net_loss_1", "loss=1%"),
    ]
}

/// Programs of examples/shared: beside threads on one node, beside messages on two. Names of the same cases
/// follow from each other: `shared_lu`, `shared_lu_threads`; `net_shared_lu`, `net_shared_lu_messages`.
fn shared_memory() -> impl Iterator<Item = Case> {
    let shared = Case { budget_ms: 0, long: true, form: Form::Shared, ..PLAIN };
    let programs = [
        (
            ["shared_lu", "shared_lu_threads"],
            ["net_shared_lu", "net_shared_lu_messages"],
            "lu",
            "-n2048 -b16",
        ),
        (
            ["shared_radix", "shared_radix_threads"],
            ["net_shared_radix", "net_shared_radix_messages"],
            "radix",
            "-n4194304 -r1024",
        ),
        (
            ["shared_sor", "shared_sor_threads"],
            ["net_shared_sor", "net_shared_sor_messages"],
            "sor",
            "2048 50",
        ),
    ];
    programs.into_iter().flat_map(move |(inside, between, program, args)| {
        let on = |id, form, nodes| Case { id, form, nodes, program, args, ..shared.clone() };
        [
            on(inside[0], Form::Shared, Nodes::One),
            on(inside[1], Form::Threads, Nodes::One),
            on(between[0], Form::Shared, Nodes::Two),
            on(between[1], Form::Messages, Nodes::Two),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_unique_names() {
        let mut names: Vec<_> = all().iter().map(|case| case.id).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn cases_scale_their_work() {
        let case = all().into_iter().find(|case| case.id == "steps_8").unwrap();
        assert_eq!(case.arguments(true, 1.22), ["--budget-ms", "100", "--loops", "4000"]);
    }
}
