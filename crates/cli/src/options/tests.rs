use super::table::OPTIONS;
use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_ascii_whitespace().map(OsString::from).collect()
}

fn job(line: &str) -> Options {
    match parse(&words(line)) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    match parse(&words(line)) {
        Err(error) => error.to_string(),
        Ok(request) => panic!("{line}: {request:?}"),
    }
}

#[test]
fn options_number_of_ranks_in_every_spelling() {
    for line in
        ["-n 4 a", "-np 4 a", "--np 4 a", "--n 4 a", "-n=4 a", "--np=4 a", "-n4 a", "-np4 a", "-q -n 4 -v a"]
    {
        let options = job(line);
        assert_eq!(options.programs[0].ranks, Some(4), "{line}");
        assert_eq!(options.programs[0].words, ["a"], "{line}");
    }
    assert_eq!(job("a").programs[0].ranks, None);
}

#[test]
fn options_behind_the_program_are_its_own() {
    let options = job("-n 2 a -n 3 --help -x --");
    assert_eq!(options.programs[0].words, words("a -n 3 --help -x --"));
    assert_eq!(job("-n 2 -- -n --help").programs[0].words, words("-n --help"));
    assert_eq!(error("-n 2 --"), error("-n 2"));
}

#[test]
fn options_mpmd_programs_have_their_own() {
    let options = job("-genv A 1 -n 1 -env A 2 -wdir /tmp a x : -n 3 -x B=b=c b : -np 2 -l c");
    let [a, b, c] = &options.programs[..] else { panic!("{options:?}") };
    let set = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    assert_eq!((a.ranks, b.ranks, c.ranks), (Some(1), Some(3), Some(2)));
    assert_eq!(a.environment.variables, set(&[("A", "1"), ("A", "2")]));
    assert_eq!(b.environment.variables, set(&[("A", "1"), ("B", "b=c")]));
    assert_eq!(a.directory, Some("/tmp".into()));
    assert_eq!(b.directory, None);
    assert!(options.output.label);
}

#[test]
fn options_select_environment() {
    let only = |names: &[&str]| Inherits::Only(names.iter().map(|name| (*name).into()).collect());
    assert_eq!(job("a").programs[0].environment.inherits, Inherits::All);
    assert_eq!(job("-genvlist A,B a").programs[0].environment.inherits, only(&["A", "B"]));
    assert_eq!(job("-genvnone a : -envlist C b").programs[0].environment.inherits, only(&[]));
    assert_eq!(job("-genvnone a : -envlist C b").programs[1].environment.inherits, only(&["C"]));
    assert_eq!(job("-genvnone -genvall a").programs[0].environment.inherits, Inherits::All);
    assert_eq!(job("-genv A=1 a").programs[0].environment.variables, [("A".into(), "1".into())]);
}

#[test]
fn options_of_both_families_are_accepted() {
    let options = job(
        "--allow-run-as-root --oversubscribe --mca btl self,vader -iface lo -map-by ppr:2:node --bind-to core:overload-allowed \
         -ppn 2 --host localhost,127.0.0.1 -f hosts --tag-output -launcher ssh --report-bindings -stdin all -c 2 \
         --timeout 1.5 -outfile-pattern o.%r a",
    );
    assert_eq!(options.remarks.foreign, ["--mca", "-iface", "-launcher"]);
    assert_eq!(options.binding, Binding::Core);
    assert_eq!(options.ranks_per_node, Some(2));
    assert_eq!(options.programs[0].hosts, ["localhost", "127.0.0.1"]);
    assert_eq!(options.programs[0].host_files, ["hosts"]);
    assert_eq!(options.input, Input::All);
    assert_eq!(options.cores_per_rank, Some(2));
    assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
    assert!(options.output.label && options.report_bindings);
}

/// Options that MPICH's and Open MPI's launchers take, with their number of values.
#[test]
fn options_of_other_launchers_take_their_own_number_of_values() {
    for line in [
        "-pmi-port",
        "-memory-alloc-kinds mpi,system",
        "-memory-alloc-kinds mpi:alloc_mem,system",
        "-usize INFINITE",
        "-usize SYSTEM",
        "-map-by socket",
        "-map-by numa:PE=1",
        "-map-by node",
        "-rank-by node",
        "-enable-x",
        "-disable-x",
        "-topolib hwloc",
        "-hybrid-hosts",
        "-disable-hostname-propagation",
        "-nameserver host:1",
        "-profile",
        "-localhost here",
        "--leave-session-attached",
        "--tmpdir /tmp",
        "--bind-to-core",
        "-pernode",
    ] {
        let options = job(&format!("{line} -n 2 a b"));
        assert_eq!(
            (options.programs[0].ranks, &options.programs[0].words),
            (Some(2), &words("a b")),
            "{line}"
        );
    }
    assert_eq!(job("-usize INFINITE a").universe, None);
    assert_eq!(job("--pernode a").ranks_per_node, Some(1));
    assert_eq!(job("--timeout 1m a").timeout, Some(Duration::from_secs(60)));
    assert_eq!(job("--timeout 1.5 a").timeout, Some(Duration::from_millis(1500)));
    assert_eq!(job("-memory-alloc-kinds cuda a").remarks.ignored.len(), 1);
    assert_eq!(
        job("-map-by socket a").remarks.ignored,
        [("-map-by socket".into(), "ranks are bound to cores in their own order")]
    );
}

#[test]
fn options_map_by_and_oversubscribe_say_what_is_done() {
    for line in ["--map-by slot a", "--map-by core a", "--rank-by slot a", "-rankby fill a"] {
        assert_eq!(job(line), job("a"), "{line}");
    }
    let options = job("--map-by PPR:3:node:PE=2,NOOVERSUBSCRIBE a");
    assert_eq!((options.ranks_per_node, options.cores_per_rank), (Some(3), Some(2)));
    assert!(options.no_oversubscribe);
    assert!(!job("--nooversubscribe --oversubscribe a").no_oversubscribe);
    assert!(!job("--nooversubscribe --map-by :OVERSUBSCRIBE a").no_oversubscribe);
    assert!(job("--oversubscribe --nooversubscribe a").no_oversubscribe);
}

#[test]
fn options_of_submit_that_need_a_front_end_are_refused_or_said() {
    let submit = |line: &str| parse_as(&words(line), Launcher::Submit);
    for line in ["--pty a", "--stdin 0 a", "--stdin all a", "--virtual-nodes 2 a", "--netns 2 a"] {
        let error = submit(line).expect_err(line).to_string();
        assert!(error.contains(" is not supported: "), "{error}");
        assert!(parse_as(&words(line), Launcher::Run).is_ok(), "{line}");
    }
    assert!(submit("--stdin none a").is_ok());
    let Ok(Request::Run(options)) = submit("-v --report-bindings --detach-on-hangup --display-map a") else {
        panic!("they are said, not refused")
    };
    let names: Vec<&str> = options.remarks.ignored.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["--report-bindings", "--detach-on-hangup", "--display-map"]);
}

#[test]
fn options_errors_are_one_line() {
    for (line, part) in [
        ("", "no program"),
        ("-n 4", "no program"),
        ("-n", "-n needs N"),
        ("-n 0 a", "-n is given \"0\", expected a whole number above 0"),
        ("-np -3 a", "\"-3\""),
        ("-n four a", "\"four\""),
        ("-n 99999999999 a", "\"99999999999\""),
        ("--frob a", "--frob is not an option"),
        ("--label=yes a", "--label=yes is not an option"),
        ("-n 1 a : -n 2", "beside the colon"),
        (": a", "beside the colon"),
        ("--timeout never a", "seconds"),
        ("--timeout 0m a", "seconds"),
        ("--bindto core a", "did you mean --bind-to? (see --help)"),
        ("-nn 2 a", "did you mean -n?"),
        ("--ntasks 2 a", "--ntasks is not an option; -n N is the number of ranks"),
        ("-x -n 2 a", "-x is given \"-n\", expected NAME or NAME=VALUE"),
        ("-x =1 a", "-x is given \"=1\""),
        ("--outfile-pattern out.%q a", "out.%q: %q is none of %r (the rank), %% (a percent sign)"),
        ("--errfile-pattern %j a", "%j: %j is none of %r"),
        ("--outfile-pattern out.%t a", "; the rank is %r"),
        ("--timeout 0 a", "seconds"),
        ("--bind-to moon a", "none, core or share"),
        ("-stdin x a", "a rank, all or none"),
        ("-genv A", "-genv needs VAR VALUE"),
        (
            "--map-by moon a",
            "--map-by is given \"moon\", expected slot, core, hwthread, socket or ppr:N:node",
        ),
        ("-usize 0 a", "-usize is given"),
        ("--map-by ppr:2:socket a", "--map-by is given"),
        ("--map-by ppr:0:node a", "--map-by is given"),
        ("--map-by slot:PE=0 a", "--map-by is given"),
        ("--map-by slot:SPAN a", "--map-by is given"),
        ("--rank-by span a", "--rank-by is given \"span\", expected slot, core, hwthread or fill"),
        ("--output xml a", "--output is given \"xml\", expected tag"),
        ("--output tag:0 a", "--output is given \"tag:0\", expected tag"),
        ("--output tag:11 a", "--output is given \"tag:11\", expected tag"),
        ("--bind-to user:0,1 a", "none, core or share"),
        ("--timestamp-output a", "--timestamp-output is not supported: "),
        ("--nolocal a", "--nolocal is not supported: "),
        ("--do-not-launch a", "--do-not-launch is not supported: "),
        ("- a", "- is not an option"),
        ("--", "no program"),
    ] {
        let text = error(line);
        assert!(text.contains(part), "{line}: {text}");
        assert_eq!(text.lines().count(), 1, "{line}");
    }
}

#[test]
fn help_names_every_own_option() {
    let text = help("tutti submit", Launcher::Submit) + &help("mpiexec", Launcher::Mpiexec);
    for option in OPTIONS.iter().filter(|option| !option.help.is_empty()) {
        for name in option.names {
            assert!(text.contains(&format!("-{name}")), "{name}");
        }
    }
    assert_eq!(parse(&words("-n 2 --help")), Ok(Request::Help));
    assert_eq!(parse(&words("--version")), Ok(Request::Version));
}

#[test]
fn help_has_each_option_once_and_fits_80_columns() {
    for (name, launcher) in
        [("mpiexec", Launcher::Mpiexec), ("tutti run", Launcher::Run), ("tutti submit", Launcher::Submit)]
    {
        let text = help(name, launcher);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for option in super::help::listed(launcher) {
            let first = option.names[0];
            let dashed = if first.len() <= 2 { format!("  -{first}") } else { format!("  --{first}") };
            let found = text.lines().filter(|line| {
                line.strip_prefix(&dashed).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
            });
            assert_eq!(found.count(), 1, "{name}: {dashed} in\n{text}");
        }
        assert!(text.contains("\nExamples:\n"));
    }
}

#[test]
fn options_have_unique_names() {
    let mut names: Vec<&str> = super::table::all().flat_map(|option| option.names.iter().copied()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
