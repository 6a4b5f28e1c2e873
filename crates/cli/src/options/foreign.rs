//! Options of other launchers, MPICH's and Open MPI's: those that would change the job are refused, those
//! that control their own launcher alone are ignored. `tests/launch/every_option.rs` reads this, too.

use super::keys::{Key, MAP, NO_RESTART, Spec, Unfit, option};

type Texts = &'static [&'static str];

/// Option that would change the job, and why no job has it or what is there in its place.
const fn refused(why: &'static str, names: Texts, values: Texts) -> Spec {
    option(Key::Unfit(Unfit::Refused(why)), names, values, "")
}

/// Option without effect, and why.
const fn ignored(why: &'static str, names: Texts, values: Texts) -> Spec {
    option(Key::Unfit(Unfit::Ignored(why)), names, values, "")
}

/// Option that controls another launcher alone.
const fn foreign(names: Texts, values: Texts) -> Spec {
    option(Key::Foreign, names, values, "")
}

pub const FOREIGN: &[Spec] = &[
    ignored(
        MAP,
        &[
            "display-map",
            "display-allocation",
            "display-devel-map",
            "display-devel-allocation",
            "display-topo",
        ],
        &[],
    ),
    ignored(MAP, &["display"], &["VALUE"]),
    ignored(
        "the first exit status that is not 0 is printed, and is the command's",
        &["print-all-exitcodes", "exitinfo"],
        &[],
    ),
    ignored(
        "INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are forwarded in any case",
        &["forward-signals"],
        &["VALUE"],
    ),
    refused("-n gives the number of ranks", &["soft"], &["VALUE"]),
    refused("all nodes of a job have one architecture", &["arch"], &["VALUE"]),
    refused("signals are always forwarded to the ranks", &["forward-signals-none"], &[]),
    refused("a job that is given is started; -v prints what is started where", &["do-not-launch"], &[]),
    refused("--host names the nodes that the job is to have", &["nolocal", "skip-launch-node"], &[]),
    refused(
        "--host names the nodes that the job is to have",
        &["rankmap", "add-host", "add-hostfile", "rankfile", "rf"],
        &["VALUE"],
    ),
    refused(
        "--bind-to, -c and --report-bindings choose and show the cores of a rank",
        &["cpu-set", "cpu-list", "slot-list", "membind"],
        &["VALUE"],
    ),
    refused("-l begins each line with its rank", &["prepend-pattern"], &["VALUE"]),
    refused(
        "-l begins each line with its rank, and the shell's 2>&1 puts both streams together",
        &["timestamp-output", "xml", "merge-stderr-to-stdout"],
        &[],
    ),
    refused(
        "--output-filename, --outfile-pattern and --errfile-pattern write files",
        &["output-directory"],
        &["VALUE"],
    ),
    refused(
        "`mpiexec -n 1 gdb --args PROGRAM`, or gdb -p with a pid that -v prints, debugs a rank",
        &["debug", "tv", "stop-on-exec", "stop-in-init", "stop-in-app"],
        &[],
    ),
    refused(
        "a terminal shows all ranks with -l; `mpiexec -n N xterm -e PROGRAM` has one for each",
        &["xterm"],
        &["VALUE"],
    ),
    refused("programs and their files are found where they are on each node", &["preload-files"], &["VALUE"]),
    refused(
        "programs and their files are found where they are on each node",
        &["preload-binary", "set-cwd-to-session-dir"],
        &[],
    ),
    refused(
        "--gpus N gives a job so many GPUs of each node of the cluster",
        &["gpus-per-proc", "gpu-subdevs-per-proc"],
        &["VALUE"],
    ),
    refused(NO_RESTART, &["disable-auto-cleanup", "enable-recovery", "continuous"], &[]),
    refused(NO_RESTART, &["max-restarts", "with-ft"], &["VALUE"]),
    refused("ranks are bound to cores in their own order", &["order-nodes", "npersocket"], &["VALUE"]),
    refused(
        "ranks are numbered node by node, and -ppn N is how many a node gets",
        &["bynode", "byslot"],
        &[],
    ),
    refused("--configfile FILE reads programs and their options from a file", &["file"], &["VALUE"]),
    refused("Tutti has no options for what it does at errors", &["runtime-options"], &["VALUE"]),
    foreign(&["mca", "omca", "gmca", "prtemca", "pmixmca", "gpmixmca"], &["NAME", "VALUE"]),
    foreign(
        &[
            "pmi-port",
            "enable-x",
            "disable-x",
            "profile",
            "hybrid-hosts",
            "disable-hostname-propagation",
            "debug-daemons",
            "debug-daemons-file",
            "leave-session-attached",
            "get-stack-traces",
            "report-state-on-timeout",
            "report-child-jobs-separately",
            "show-progress",
            "noprefix",
            "no-app-prefix",
            "hetero-nodes",
            "set-sid",
            "system-server-first",
            "system-server-only",
            "disable-recovery",
            "parsable",
            "parseable",
        ],
        &[],
    ),
    foreign(
        &[
            "iface",
            "launcher",
            "launcher-exec",
            "bootstrap",
            "bootstrap-exec",
            "rmk",
            "tune",
            "demux",
            "personality",
            "localhost",
            "am",
            "prefix",
            "topolib",
            "nameserver",
            "pmix-prefix",
            "app-pmix-prefix",
            "tmpdir",
            "pset",
            "spawn-timeout",
            "dvm",
            "dvm-uri",
            "keepalive",
            "launch-agent",
            "max-vm-size",
            "report-pid",
            "report-uri",
            "stream-buffering",
        ],
        &["VALUE"],
    ),
];
