//! Memory that a call cannot access is the user's line, whatever copies it: it names the call and the
//! argument, and the job ends with the status of an error.

use std::process::Command;

use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, compile, program, run};

use crate::LIMIT;

/// Options of `mpiexec`: the rank is alone, the other one is on its node, or on another one.
const PLACES: [&[&str]; 3] = [&["-n", "1"], &["-n", "2"], &["-n", "2", "--virtual-nodes", "2"]];

/// Operations on windows: the word for the program, the call, the argument.
const ON_WINDOWS: [(&str, &str, &str); 18] = [
    ("put", "MPI_Put", "origin_addr"),
    ("put-large", "MPI_Put", "origin_addr"),
    ("put-gaps", "MPI_Put", "origin_addr"),
    ("rput", "MPI_Rput", "origin_addr"),
    ("get", "MPI_Get", "origin_addr"),
    ("get-large", "MPI_Get", "origin_addr"),
    ("get-fixed", "MPI_Get", "origin_addr"),
    ("get-gaps", "MPI_Get", "origin_addr"),
    ("rget", "MPI_Rget", "origin_addr"),
    ("accumulate", "MPI_Accumulate", "origin_addr"),
    ("raccumulate", "MPI_Raccumulate", "origin_addr"),
    ("fetch", "MPI_Fetch_and_op", "origin_addr"),
    ("fetch-result", "MPI_Fetch_and_op", "result_addr"),
    ("swap", "MPI_Compare_and_swap", "origin_addr"),
    ("swap-compare", "MPI_Compare_and_swap", "compare_addr"),
    ("swap-result", "MPI_Compare_and_swap", "result_addr"),
    ("get-accumulate", "MPI_Get_accumulate", "origin_addr"),
    ("get-accumulate-result", "MPI_Get_accumulate", "result_addr"),
];

/// Other calls, with the places in which they are tried.
const OTHERS: [(&str, &str, &str, &[usize]); 31] = [
    ("self", "MPI_Sendrecv", "sendbuf", &[0]),
    ("self-received", "MPI_Sendrecv", "recvbuf", &[0]),
    ("self-large", "MPI_Sendrecv", "recvbuf", &[0]),
    ("replace", "MPI_Sendrecv_replace", "buf", &[0, 1]),
    ("later", "MPI_", "pending", &[0]),
    ("status", "MPI_Sendrecv", "status", &[0]),
    ("send", "MPI_Send", "buf", &[1, 2]),
    ("send-large", "MPI_Send", "buf", &[1, 2]),
    ("receive", "MPI_Recv", "buf", &[1, 2]),
    ("receive-large", "MPI_Recv", "buf", &[1, 2]),
    ("bsend", "MPI_Bsend", "buf", &[0]),
    ("bcast", "MPI_Bcast", "buffer", &[1, 2]),
    ("bcast-large", "MPI_Bcast", "buffer", &[1]),
    ("reduce", "MPI_Reduce", "sendbuf", &[0, 1]),
    ("allreduce", "MPI_Allreduce", "sendbuf", &[0, 1, 2]),
    ("allreduce-result", "MPI_Allreduce", "recvbuf", &[0, 1]),
    ("gather", "MPI_Gather", "recvbuf", &[1]),
    ("scatter", "MPI_Scatter", "sendbuf", &[1]),
    ("allgather", "MPI_Allgather", "recvbuf", &[0, 1]),
    ("alltoall", "MPI_Alltoall", "sendbuf", &[0, 1]),
    ("alltoallv-counts", "MPI_Alltoallv", "sendcounts", &[0]),
    ("scan", "MPI_Scan", "sendbuf", &[0, 1]),
    ("reduce-local", "MPI_Reduce_local", "inbuf", &[0]),
    ("pack", "MPI_Pack", "inbuf", &[0]),
    ("pack-into", "MPI_Pack", "outbuf", &[0]),
    ("unpack", "MPI_Unpack", "outbuf", &[0]),
    ("comm-rank", "MPI_Comm_rank", "rank", &[0]),
    ("file-read", "MPI_File_read", "buf", &[0]),
    ("file-write", "MPI_File_write", "buf", &[0]),
    ("file-read-gaps", "MPI_File_read", "buf", &[0]),
    ("file-write-gaps", "MPI_File_write", "buf", &[0]),
];

struct Tried {
    scratch: Scratch,
    program: std::path::PathBuf,
}

impl Tried {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let program = compile("tests/mpi/programs/bad_memory.c", scratch.path());
        Tried { scratch, program }
    }

    fn command(&self, place: usize, word: &str) -> Command {
        let mut mpiexec = program("mpiexec");
        mpiexec.env("BAD_MEMORY_FILE", self.scratch.path().join("file"));
        mpiexec.args(PLACES[place]).arg(&self.program).arg(word);
        mpiexec
    }

    /// Expects a line that has both, and the status; what was printed before is there.
    #[track_caller]
    fn expect_line(&self, place: usize, word: &str, call: &str, argument: &str) {
        let ran = run(&mut self.command(place, word), LIMIT);
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| !line.starts_with("mpiexec: ")).collect();
        // Between nodes another call may find it, or a thread of the library, which says that it is pending.
        let is_pending = |line: &str| place == 2 && line.contains("MPI_") && line.contains("pending");
        let is_named = |line: &&str| {
            let whose = line.contains(&format!(" {call}: ")) || call == "MPI_" && line.contains(call);
            (whose && line.contains(argument) || is_pending(line)) && line.contains("wrong?")
        };
        assert!(lines.len() == 1 && lines.first().is_some_and(is_named), "{word} in place {place}: {ran}");
        assert!(ran.code() != 0 && ran.code() < 128, "{word} in place {place}: {ran}");
        assert!(ran.stdout.contains("rank 0 goes\n"), "{word} in place {place}: {ran}");
    }
}

#[test]
fn bad_memory_of_a_window_operation_is_the_user_s_line_wherever_the_window_is() {
    let tried = Tried::new("mpi-bad-memory-window");
    for place in 0..PLACES.len() {
        for (word, call, argument) in ON_WINDOWS {
            tried.expect_line(place, word, call, argument);
        }
    }
}

#[test]
fn bad_memory_of_any_call_is_the_user_s_line() {
    let tried = Tried::new("mpi-bad-memory");
    for (word, call, argument, places) in OTHERS {
        for place in places {
            tried.expect_line(*place, word, call, argument);
        }
    }
}

/// Files have a handler that lets errors pass; memory is no error of a file.
#[test]
fn bad_memory_of_every_call_on_a_file_is_the_user_s_line() {
    let tried = Tried::new("mpi-bad-memory-files");
    let calls = ["", "_at", "_all", "_at_all", "_shared", "_ordered"];
    let begun = ["_all_begin", "_at_all_begin", "_ordered_begin"];
    for verb in ["read", "write"] {
        let started = calls[..5].iter().map(|call| format!("i{verb}{call}"));
        let others = calls.iter().chain(&begun).map(|call| format!("{verb}{call}"));
        for call in others.chain(started) {
            let word = format!("file.{call}");
            tried.expect_line(0, &word, &format!("MPI_File_{call}"), "buf");
            if call.contains("all") || call.contains("ordered") {
                tried.expect_line(1, &word, "MPI_", if call.contains("_begin") { "" } else { "buf" });
            }
        }
    }
}

#[test]
fn bad_memory_is_the_user_s_line_below_a_handler_that_passes_the_signal_on() {
    let tried = Tried::new("mpi-bad-memory-chained");
    tried.expect_line(0, "chained-reduce-local", "MPI_Reduce_local", "inbuf");
}

#[test]
fn bad_memory_that_the_program_itself_touches_ends_by_its_signal() {
    let tried = Tried::new("mpi-bad-memory-program");
    for word in ["program", "operation", "sent", "chained-program", "chained-sent"] {
        let ran = run(&mut tried.command(0, word), LIMIT);
        assert_eq!(ran.code(), 128 + 11, "{word}: {ran}");
        let is_alone = ran.stderr.lines().count() == 1 && ran.stderr.contains("was killed by signal 11");
        assert!(is_alone, "{word}: {ran}");
    }
}

/// Of a fault in a call, as of one in the program; the status of the job is the same as without.
#[test]
fn bad_memory_leaves_a_core_file_where_the_user_asks_for_one() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
    if !pattern.starts_with("core") || pattern.contains('/') {
        return skip(Need::Kernel, "core files do not go to the working directory");
    }
    let tried = Tried::new("mpi-bad-memory-core");
    for (limit, wanted) in [("0", 0), ("unlimited", 1)] {
        let mpiexec = program("mpiexec");
        let mut shell = Command::new("bash");
        let folder = tried.scratch.path().join(limit);
        std::fs::create_dir(&folder).expect("a folder");
        shell
            .args(["-c", &format!("ulimit -S -c {limit} && exec \"$@\""), "bash"])
            .arg(mpiexec.get_program());
        shell.env("BAD_MEMORY_FILE", folder.join("file")).current_dir(&folder);
        shell.args(["-n", "1"]).arg(&tried.program).arg("self");
        let ran = run(&mut shell, LIMIT);
        assert!(ran.code() != 0 && ran.code() < 128 && ran.stderr.contains("MPI_Sendrecv"), "{limit}: {ran}");
        let files = std::fs::read_dir(&folder).expect("the folder").flatten();
        let cores: Vec<_> =
            files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"core")).collect();
        assert_eq!(cores.len(), wanted, "{limit}: {ran}");
        for core in cores {
            let bytes = std::fs::read(core.path()).expect("a core file");
            // The kind of an ELF file: 4 is a core.
            assert!(bytes.starts_with(b"\x7fELF") && bytes[16] == 4, "it is none");
        }
    }
}
