//! Program, arguments and environment of ranks, as C strings, so that nothing is allocated between fork and
//! exec.

use std::ffi::{CString, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use tutti_shm::spawn::SPAWNED_VARIABLE;

use tutti_shm::numbers::node_of_later;

use crate::spawning::SpawnedRank;
use tutti_shm::ticket::{
    APPLICATION_VARIABLE, INITIAL_HANDLER_VARIABLE, SIZE_VARIABLE, TICKET_VARIABLE, VIRTUAL_NODE_VARIABLE,
};

use tutti_protocol::linker_variables;
use tutti_protocol::ports::VARIABLE as PORTS_VARIABLE;
use tutti_protocol::wire::{Inherits, Job, Program};

/// Variables that a program gets when it inherits only some: without them hardly anything starts.
const ALWAYS_INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_RUNTIME_DIR",
];

/// Files of libpmix for programs of Open MPI, with colons between them: a job with a program that has it gets
/// the server of PMIx. Ranks do not see it: a launcher inside of one decides for itself.
pub const LIBRARY_VARIABLE: &str = "TUTTI_LIBPMIX";

/// Variables of PMIx of a launcher above us begin with these; others are parameters of the user.
const PMIX_PREFIXES: [&str; 11] = [
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_SERVER_",
    "PMIX_GDS_MODULE",
    "PMIX_SECURITY_MODE",
    "PMIX_PTL_MODULE",
    "PMIX_BFROP_BUFFER_TYPE",
    "PMIX_DSTORE_",
    "PMIX_HOSTNAME",
    "PMIX_VERSION",
    "PMIX_SYSTEM_TMPDIR",
];

/// Whether a launcher by PMIx tells its ranks something in this variable.
pub fn is_of_pmix(name: &[u8]) -> bool {
    PMIX_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// Variables of a launcher above us that would make another library believe it is that launcher's child.
const NEVER_INHERITED: [&str; 8] = [
    "PMI_PORT",
    "PMI_ID",
    "HYDI_CONTROL_FD",
    // Of a job around this one.
    INITIAL_HANDLER_VARIABLE,
    VIRTUAL_NODE_VARIABLE,
    SPAWNED_VARIABLE,
    tutti_shm::board::VARIABLE,
    tutti_shm::phases::VARIABLE,
];

/// How often a waiting thread of gcc's OpenMP looks before it sleeps, as a variable and as we set it.
const SPIN_COUNT: &str = "GOMP_SPINCOUNT=";
const SPINS: u32 = 10_000;

/// A text of the program has a zero byte, which no C string can hold.
#[derive(Debug, thiserror::Error)]
#[error("the program's {what} has a zero byte in it")]
pub struct ZeroByte {
    /// Which text.
    pub what: &'static str,
}

/// Values that all ranks of a program have in common, as C strings.
pub struct Prepared {
    /// For messages.
    pub name: String,
    /// The file to execute.
    pub file: CString,
    /// Arguments of the program; the first is its name.
    pub arguments: Vec<CString>,
    /// `NAME=value`.
    pub environment: Vec<CString>,
    /// The value of [`LIBRARY_VARIABLE`], which is not among them.
    pub libpmix: Option<OsString>,
    /// Working directory, if not ours.
    pub directory: Option<CString>,
}

impl Prepared {
    /// Of a program.
    ///
    /// # Errors
    /// When a text has a zero byte in it.
    pub fn new(program: &Program) -> Result<Self, ZeroByte> {
        let text = |bytes: &[u8], what| CString::new(bytes).map_err(|_| ZeroByte { what });
        let arguments = program.arguments.iter().map(|argument| text(argument.as_bytes(), "argument list"));
        let set: Vec<(OsString, OsString)> =
            program.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut environment = Vec::new();
        let given =
            set.iter().rev().find(|(name, _)| name == LIBRARY_VARIABLE).map(|(_, value)| value.clone());
        let libpmix = given.or_else(|| std::env::var_os(LIBRARY_VARIABLE)).filter(|list| !list.is_empty());
        for (name, value) in std::env::vars_os().map(|(name, value)| (linker_variables::restore(name), value))
        {
            let wanted = match &program.inherits {
                Inherits::All => true,
                Inherits::Only(names) => {
                    ALWAYS_INHERITED.iter().any(|always| name == *always)
                        || names.iter().any(|listed| listed.as_bytes() == name.as_bytes())
                }
            };
            let replaced = NEVER_INHERITED.iter().any(|never| name == *never)
                || is_of_pmix(name.as_bytes())
                || name == LIBRARY_VARIABLE
                || OWN_VARIABLES.iter().any(|own| name == *own)
                || name == NUMBER_VARIABLE
                || set.iter().any(|(other, _)| *other == name);
            if wanted && !replaced {
                environment.push(variable(&name, &value)?);
            }
        }
        for (index, (name, value)) in set.iter().enumerate() {
            // The last one given wins.
            if name != LIBRARY_VARIABLE && set[index + 1..].iter().all(|(later, _)| later != name) {
                environment.push(variable(name, value)?);
            }
        }
        Ok(Prepared {
            name: String::from_utf8_lossy(program.file.as_bytes()).into_owned(),
            file: text(program.file.as_bytes(), "name")?,
            arguments: arguments.collect::<Result<_, _>>()?,
            environment,
            libpmix,
            directory: program
                .directory
                .as_ref()
                .map(|directory| text(directory.as_bytes(), "directory"))
                .transpose()?,
        })
    }

    /// Threads of gcc's OpenMP that wait spin for some 0.1 ms, not for as long as their run time likes: in a
    /// job that shares parallel slots they would keep those that it has given back. Not, if the user has said
    /// how they wait.
    pub fn limit_spinning(&mut self) {
        let is_said = |text: &CString| {
            [SPIN_COUNT, "OMP_WAIT_POLICY="].iter().any(|name| text.as_bytes().starts_with(name.as_bytes()))
        };
        if !self.environment.iter().any(is_said) {
            self.environment.extend(CString::new(format!("{SPIN_COUNT}{SPINS}")));
        }
    }
}

/// Whether the ranks' counters are wanted, and as JSON: `TUTTI_STATS`, as ranks of the job's first program
/// that has it see it.
pub fn wants_counters(job: &Job) -> Option<bool> {
    const NAME: &str = "TUTTI_STATS=";
    let texts = job.programs.iter().filter_map(|program| Prepared::new(program).ok());
    let mut values = texts.filter_map(|prepared| {
        let text = prepared
            .environment
            .iter()
            .rev()
            .find_map(|text| text.to_bytes().strip_prefix(NAME.as_bytes()))?;
        Some(text.to_owned())
    });
    match values.next()?.as_slice() {
        b"1" | b"on" | b"yes" | b"table" => Some(false),
        b"json" => Some(true),
        _ => None,
    }
}

fn variable(name: &OsString, value: &OsString) -> Result<CString, ZeroByte> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    CString::new(bytes).map_err(|_| ZeroByte { what: "environment" })
}

/// The job's number, as `tutti ps` shows it.
const NUMBER_VARIABLE: &str = "TUTTI_JOBID";

/// Variables that every rank gets a value of its own for.
const OWN_VARIABLES: [&str; 17] = [
    TICKET_VARIABLE,
    APPLICATION_VARIABLE,
    "TUTTI_JOB",
    "TUTTI_RANK",
    SIZE_VARIABLE,
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_FD",
    "PMI_SPAWNED",
    "PMI_RANK",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
];

/// The values of [`OWN_VARIABLES`] for a rank, counted on this node, and of [`VIRTUAL_NODE_VARIABLE`] where
/// nodes share a machine. The names after ours are those that wrappers, PyTorch and scripts for GPU pinning
/// read before MPI_Init, and those by which a program of MPICH finds [`crate::pmi`].
///
/// Ranks that other ranks have asked for are counted in their own world, and those of a node among them; they
/// have PMI if they were asked for over it.
pub fn variables(
    job: &Job,
    index: u32,
    ticket: &str,
    pmi: Option<RawFd>,
    spawned: Option<SpawnedRank<'_>>,
) -> Vec<CString> {
    let local = job.local_ranks();
    let value = |name: &str| {
        let is_local = name.contains("LOCAL");
        match name {
            TICKET_VARIABLE => ticket.to_owned(),
            APPLICATION_VARIABLE => match spawned {
                Some(spawned) => spawned.program.to_string(),
                None => job.program_of(local.start + u64::from(index)).to_string(),
            },
            "TUTTI_JOB" => format!("{:016x}", job.id),
            "PMI_FD" => pmi.map_or_else(String::new, |pmi| pmi.to_string()),
            "PMI_SPAWNED" => u8::from(spawned.is_some()).to_string(),
            name if name.ends_with("SIZE") || name.ends_with("NRANKS") => match spawned {
                Some(spawned) if is_local => on_node(job, &spawned).1.to_string(),
                Some(spawned) => spawned.all.ranks.len().to_string(),
                None => if is_local { local.end - local.start } else { job.ranks() }.to_string(),
            },
            _ => match spawned {
                Some(spawned) if is_local => on_node(job, &spawned).0.to_string(),
                Some(spawned) => spawned.rank.to_string(),
                None => (u64::from(index) + if is_local { 0 } else { local.start }).to_string(),
            },
        }
    };
    let text = |name: &&str| CString::new(format!("{name}={}", value(name))).expect("no zero byte");
    let shared = job.part.as_ref().filter(|part| part.shares_machine);
    let node = shared.map(|part| format!("{VIRTUAL_NODE_VARIABLE}={}", part.node));
    let node = node.map(|node| CString::new(node).expect("no zero byte"));
    let place = spawned
        .map(|spawned| CString::new(format!("{SPAWNED_VARIABLE}={}", spawned.all)).expect("no zero byte"));
    let is_given = |name: &&&str| pmi.is_some() || !name.starts_with("PMI_");
    let number =
        job.number.map(|number| CString::new(format!("{NUMBER_VARIABLE}={number}")).expect("no zero byte"));
    let ports = job.part.as_ref().and_then(|part| part.ports);
    let ports = ports.map(|ports| CString::new(format!("{PORTS_VARIABLE}={ports}")).expect("no zero byte"));
    let more = node.into_iter().chain(place).chain(number).chain(ports);
    OWN_VARIABLES.iter().filter(is_given).map(text).chain(more).collect()
}

/// Of the ranks that were started with one: how many of its node come before it, and how many are there.
fn on_node(job: &Job, spawned: &SpawnedRank<'_>) -> (usize, usize) {
    let nodes = job.part.as_ref().map_or(1, |part| part.first_ranks.len());
    let began = job.ranks() as usize;
    let node = |rank: &u32| (*rank as usize).checked_sub(began).map(|behind| node_of_later(behind, nodes));
    let all = &spawned.all.ranks;
    let own = node(&all[spawned.rank]);
    let count = |ranks: &[u32]| ranks.iter().filter(|rank| node(rank) == own).count();
    (count(&all[..spawned.rank]), count(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    use tutti_protocol::wire::Part;
    use tutti_shm::spawn::Spawned;

    /// Eight ranks of two programs on three nodes, of which this is the second one.
    fn job() -> Job {
        let program = Program {
            file: "a.out".into(),
            arguments: Vec::new(),
            ranks: 8,
            directory: None,
            inherits: Inherits::All,
            variables: Vec::new(),
        };
        Job {
            id: 0xab,
            front_end: 1,
            part: Some(Part {
                node: 1,
                first_ranks: vec![0, 2, 5],
                address: [127, 0, 0, 1].into(),
                key: 7,
                shares_machine: true,
                names: Vec::new(),
                ports: Some("7420-7499".parse().unwrap()),
            }),
            number: Some(12),
            ..Job::of_programs(vec![Program { ranks: 3, ..program.clone() }, Program { ranks: 5, ..program }])
        }
    }

    #[track_caller]
    fn assert_has(variables: &[CString], expected: &[&str]) {
        let texts: Vec<&str> = variables.iter().map(|text| text.to_str().expect("ASCII")).collect();
        for expected in expected {
            assert!(texts.contains(expected), "{expected} is not in {texts:?}");
        }
    }

    #[test]
    fn environment_of_a_rank_that_others_have_started_counts_those_of_its_node() {
        // Behind eight ranks the later ones go round the three nodes: 8 and 11 are of the first, 9 and 12 of
        // the second, 13 of the third.
        let all = Spawned { ranks: vec![8, 9, 11, 12, 13], context: 0, parent: 0, number: 1 };
        let of_rank = |rank, job: &Job| {
            let spawned = SpawnedRank { all: &all, rank, program: 0, group: None };
            variables(job, 4, "socket:3:00", None, Some(spawned))
        };
        let job = job();
        for (rank, expected) in [
            (1, ["TUTTI_RANK=1", "TUTTI_SIZE=5", "TUTTI_LOCAL_RANK=0", "TUTTI_LOCAL_SIZE=2"]),
            (3, ["TUTTI_RANK=3", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "OMPI_COMM_WORLD_LOCAL_RANK=1"]),
            (4, ["TUTTI_RANK=4", "OMPI_COMM_WORLD_RANK=4", "TUTTI_LOCAL_RANK=0", "TUTTI_LOCAL_SIZE=1"]),
        ] {
            assert_has(&of_rank(rank, &job), &expected);
        }
        // On one node all are neighbours.
        let alone = Job { part: None, ..job };
        assert_has(&of_rank(3, &alone), &["TUTTI_LOCAL_RANK=3", "TUTTI_LOCAL_SIZE=5"]);
    }

    #[test]
    fn environment_has_all_variables_of_a_rank() {
        let expected = [
            "TUTTI_TICKET=socket:3:00",
            "TUTTI_APPNUM=1",
            "TUTTI_JOB=00000000000000ab",
            "TUTTI_JOBID=12",
            "TUTTI_PORTS=7420-7499",
            "TUTTI_RANK=3",
            "TUTTI_SIZE=8",
            "TUTTI_LOCAL_RANK=1",
            "TUTTI_LOCAL_SIZE=3",
            "MPI_LOCALRANKID=1",
            "MPI_LOCALNRANKS=3",
            "OMPI_COMM_WORLD_LOCAL_RANK=1",
            "OMPI_COMM_WORLD_LOCAL_SIZE=3",
            "PMI_RANK=3",
            "PMI_SIZE=8",
            "PMI_FD=77",
            "PMI_SPAWNED=0",
            "TUTTI_VIRTUAL_NODE=1",
        ];
        assert_has(&variables(&job(), 1, "socket:3:00", Some(77), None), &expected);
    }

    #[test]
    fn environment_limits_spinning_unless_the_user_has_said_how_to_wait() {
        let spins = |variables: &[(&str, &str)]| -> Vec<String> {
            let program = Program {
                file: "a.out".into(),
                arguments: Vec::new(),
                ranks: 1,
                directory: None,
                inherits: Inherits::Only(Vec::new()),
                variables: variables.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            };
            let mut prepared = Prepared::new(&program).expect("no zero byte");
            prepared.limit_spinning();
            let texts = prepared.environment.iter().map(|text| text.to_string_lossy().into_owned());
            texts.filter(|text| text.starts_with("GOMP_") || text.starts_with("OMP_WAIT")).collect()
        };
        assert_eq!(spins(&[]), ["GOMP_SPINCOUNT=10000"]);
        assert_eq!(spins(&[("GOMP_SPINCOUNT", "7")]), ["GOMP_SPINCOUNT=7"]);
        assert_eq!(spins(&[("OMP_WAIT_POLICY", "active")]), ["OMP_WAIT_POLICY=active"]);
    }
}
