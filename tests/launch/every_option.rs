//! No option of any command is accepted and ignored: each one of the table is done, and the test that shows
//! it has a name here; or the command says in one line that it ignores or refuses it, and is run to see that.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tutti_tests::{Ran, Scratch, program, root};

use crate::harness::LIMIT;

#[path = "../../crates/cli/src/options/foreign.rs"]
mod foreign;
#[path = "../../crates/cli/src/options/keys.rs"]
#[allow(dead_code, reason = "the command decides by it")]
mod keys;
#[path = "../../crates/cli/src/options/table.rs"]
#[allow(dead_code, reason = "its help is for the command")]
mod table;

use keys::{Launcher, Spec};

/// Effect of an option on a command.
#[derive(Clone, Copy)]
enum Fate {
    /// Option that does what it says, as this test shows.
    Done(&'static str),
    /// A line says that it is ignored, and the job runs.
    Reported,
    /// A line says that it is not supported, and nothing runs.
    Refused,
}

use Fate::{Done, Refused, Reported};

const FACES: [Launcher; 3] = [Launcher::Mpiexec, Launcher::Run, Launcher::Submit];

const fn all(fate: Fate) -> [Fate; 3] {
    [fate; 3]
}

const PROGRAM: &str = "submit_program_options_are_those_of_mpiexec";
const FILES: &str = "submit_output_names_hold_job_rank_and_node";
const TIME: &str = "time_limit_ends_a_job_with_status_124";
const THIS: &str = "every_option_of_every_command_is_done_or_said";

/// By the first name of each option: what mpiexec, tutti run and tutti submit do with it.
const FATES: &[(&str, [Fate; 3])] = &[
    (
        "n",
        [
            Done("options_number_of_ranks_in_every_spelling"),
            Done("run_uses_the_requested_number_of_nodes"),
            Done(FILES),
        ],
    ),
    ("wdir", with_submit("working_directory_is_the_callers_or_given", PROGRAM)),
    (
        "files",
        [
            Done("origin_mpiexec_serves_files_by_calls"),
            Done("origin_files_are_there_for_a_program_on_machines_without_them"),
            Done("origin_files_of_a_submitted_job_are_served_until_it_is_over"),
        ],
    ),
    ("path", with_submit("search_path_is_searched_before_path", PROGRAM)),
    ("own-mpi", with_submit("mpich_program_runs_on_machines_of_a_cluster", PROGRAM)),
    ("initial-errhandler", all(Done("mpiexec_sets_the_initial_error_handler"))),
    ("x", with_submit("environment_is_the_callers_with_changes", PROGRAM)),
    ("env", with_submit("environment_is_the_callers_with_changes", PROGRAM)),
    ("envlist", all(Done("options_select_environment"))),
    ("envnone", all(Done("options_select_environment"))),
    ("genv", with_submit("environment_is_the_callers_with_changes", PROGRAM)),
    ("genvlist", all(Done("environment_is_the_callers_with_changes"))),
    ("genvnone", all(Done("environment_is_the_callers_with_changes"))),
    ("genvall", all(Done("options_select_environment"))),
    ("bind-to", all(Done("binding_stays_within_the_callers_cores"))),
    ("c", all(Done("binding_to_single_cores"))),
    (
        "report-bindings",
        [
            Done("binding_stays_within_the_callers_cores"),
            Done("binding_stays_within_the_callers_cores"),
            Reported,
        ],
    ),
    ("nooversubscribe", with_submit("too_many_ranks_are_refused", PROGRAM)),
    ("oversubscribe", all(Done("options_map_by_and_oversubscribe_say_what_is_done"))),
    ("map-by", with_submit("ranks_per_node_and_hosts_give_the_number_of_ranks", PROGRAM)),
    ("rank-by", all(Done("options_map_by_and_oversubscribe_say_what_is_done"))),
    ("weight", all(Done("weights_are_shares_under_both_policies"))),
    ("queue", all(Done("queue_gives_nodes_weight_and_time_and_the_end_names_it"))),
    ("exclusive", all(Done("exclusive_job_waits_and_has_its_node_alone"))),
    ("memory", all(Done("memory_request_waits_or_is_refused"))),
    ("gpus", all(Done("gpus_are_one_jobs_alone"))),
    ("phases", all(Done("r15_three_policies_run_the_same_program"))),
    ("fill", all(Done("filler_has_what_a_gang_leaves"))),
    ("gang", all(Done("job_without_turns_runs_all_the_time"))),
    ("no-gang", all(Done("job_without_turns_runs_all_the_time"))),
    (
        "l",
        [
            Done("stdout_labels_name_the_rank"),
            Done("run_output_of_all_ranks_reaches_the_front_end"),
            Done("submit_labels_are_in_its_files_once"),
        ],
    ),
    ("output", with_submit("stdout_labels_name_the_rank", FILES)),
    ("outfile-pattern", with_submit("stdout_goes_to_files_on_request", FILES)),
    ("errfile-pattern", with_submit("output_files_are_labelled_and_shared", PROGRAM)),
    ("output-filename", with_submit("output_files_are_labelled_and_shared", FILES)),
    ("o", [Refused, Refused, Done(FILES)]),
    ("e", [Refused, Refused, Done(FILES)]),
    ("open-mode", [Refused, Refused, Done(FILES)]),
    (
        "stdin",
        [Done("stdin_goes_to_rank_0_alone"), Done("terminal_input_and_window_size_reach_the_ranks"), Refused],
    ),
    ("pty", [Done("terminal_pty_keys_are_for_rank_0"), Done("terminal_pty_keys_are_for_rank_0"), Refused]),
    ("detach-on-hangup", [Done("detach_on_hangup"), Done("detach_on_hangup"), Reported]),
    ("timeout", with_submit("virtual_nodes_timeout_ends_the_job", TIME)),
    ("time", with_submit("time_limit_gives_ranks_time_to_clean_up", TIME)),
    (
        "kill-after",
        [
            Done("kill_after_gives_ranks_time_to_clean_up"),
            Done("kill_after_is_between_term_and_kill_of_a_job_of_the_cluster"),
            Done("kill_after_is_between_term_and_kill_of_a_job_of_the_cluster"),
        ],
    ),
    ("on-deadlock", all(Done("on_deadlock_end_kills_a_job_of_the_cluster_with_status_35"))),
    ("on-idle", all(Done("on_idle_suspends_a_job_of_the_cluster_until_it_is_resumed"))),
    ("name", all(Done("ps_filters_by_user_state_and_name"))),
    ("after", all(Done("dependency_starts_or_fails_a_job"))),
    ("after-ok", all(Done("dependency_starts_or_fails_a_job"))),
    ("after-not-ok", all(Done("dependency_starts_or_fails_a_job"))),
    ("after-same-name", all(Done("start_rules_keep_a_job_waiting"))),
    ("begin", all(Done("start_rules_keep_a_job_waiting"))),
    ("exclude", all(Done("start_rules_keep_a_job_waiting"))),
    ("reservation", all(Done("reserved_node_takes_its_own_jobs_and_those_that_are_over_before"))),
    ("mail-type", all(Done("mail_is_sent_as_the_user_of_the_job"))),
    ("mail-user", all(Done("mail_is_sent_as_the_user_of_the_job"))),
    ("signal", all(Done("signal_comes_before_the_time_limit"))),
    ("hold", [Refused, Refused, Done("held_job_starts_when_it_is_released")]),
    ("requeue", [Refused, Refused, Done("job_with_requeue_outlives_a_node_of_it")]),
    ("array", [Refused, Refused, Done("array_runs_each_task_and_is_over_with_the_last")]),
    ("json", [Refused, Refused, Done("ps_and_nodes_print_tables_and_json")]),
    ("host", all(Done("hosts_select_nodes_order_and_ranks"))),
    ("hostfile", all(Done("hosts_select_nodes_order_and_ranks"))),
    ("ppn", all(Done("run_without_n_has_a_rank_for_each_slot_of_its_nodes"))),
    ("nodes", all(Done("run_uses_the_requested_number_of_nodes"))),
    ("universe", all(Done("universe_says_how_many_ranks_a_program_may_have"))),
    (
        "virtual-nodes",
        [Done("virtual_nodes_ranks_reach_each_other"), Done("virtual_nodes_ranks_reach_each_other"), Refused],
    ),
    (
        "netns",
        [Done("virtual_nodes_ranks_reach_each_other"), Done("virtual_nodes_ranks_reach_each_other"), Refused],
    ),
    (
        "netns-mtu",
        [Done("mtu_of_different_links_is_negotiated"), Done("mtu_of_different_links_is_negotiated"), Refused],
    ),
    ("q", with_submit("options_of_other_launchers_are_reported_once", THIS)),
    (
        "v",
        [
            Done("verbose_prints_which_ranks_start_where"),
            Done("verbose_prints_which_ranks_start_where"),
            Done("script_runs_once_and_its_steps_have_its_ranks"),
        ],
    ),
    ("V", with_submit("command_names_select_the_command", THIS)),
    ("h", with_submit("command_names_select_the_command", "help_says_what_n_means_for_each_command")),
    // Root may, and hardware threads are cores.
    ("allow-run-as-root", all(Done("options_of_other_launchers_are_reported_once"))),
    ("memory-alloc-kinds", all(Done("options_of_other_launchers_take_their_own_number_of_values"))),
    ("pernode", all(Done("options_of_other_launchers_take_their_own_number_of_values"))),
    ("bind-to-core", all(Done("options_of_other_launchers_take_their_own_number_of_values"))),
    ("bind-to-none", all(Done("options_of_other_launchers_take_their_own_number_of_values"))),
    ("display-map", all(Reported)),
    ("display", all(Reported)),
    ("print-all-exitcodes", all(Reported)),
    ("forward-signals", all(Reported)),
    ("forward-signals-none", all(Refused)),
    ("do-not-launch", all(Refused)),
    ("nolocal", all(Refused)),
    ("rankmap", all(Refused)),
    ("cpu-set", all(Refused)),
    ("prepend-pattern", all(Refused)),
    ("timestamp-output", all(Refused)),
    ("output-directory", all(Refused)),
    ("debug", all(Refused)),
    ("xterm", all(Refused)),
    ("preload-files", all(Refused)),
    ("preload-binary", all(Refused)),
    ("gpus-per-proc", all(Refused)),
    ("pmi-port", all(Reported)),
    ("disable-auto-cleanup", all(Refused)),
    ("max-restarts", all(Refused)),
    ("order-nodes", all(Refused)),
    ("bynode", all(Refused)),
    ("soft", all(Refused)),
    ("arch", all(Refused)),
    ("configfile", all(Done("options_of_programs_are_read_from_a_file"))),
    ("file", all(Refused)),
    ("runtime-options", all(Refused)),
    ("mca", all(Reported)),
    ("iface", all(Reported)),
];

const fn with_submit(test: &'static str, of_submit: &'static str) -> [Fate; 3] {
    [Done(test), Done(test), Done(of_submit)]
}

fn command(launcher: Launcher) -> (Command, &'static str) {
    let (mut command, name) = match launcher {
        Launcher::Mpiexec => (program("mpiexec"), "mpiexec"),
        Launcher::Alloc => (program("tutti"), "tutti alloc"),
        Launcher::Run | Launcher::Submit => {
            (program("tutti"), if launcher == Launcher::Run { "tutti run" } else { "tutti submit" })
        }
    };
    command.args(name.split(' ').skip(1));
    (command, name)
}

/// The option as it is written, with values.
fn written(option: &Spec, name: &str) -> Vec<String> {
    let dashed = if name.len() <= 2 { format!("-{name}") } else { format!("--{name}") };
    std::iter::once(dashed).chain(option.values.iter().map(|_| "1".to_owned())).collect()
}

#[track_caller]
fn run(launcher: Launcher, folder: &Path, words: &[String]) -> Ran {
    let (mut command, _) = command(launcher);
    tutti_tests::run(command.args(words).args(["-n", "1", "true"]).current_dir(folder), LIMIT)
}

/// Checks that an option is ignored with a line. There is no daemon: of `tutti submit` that is the next line.
#[track_caller]
fn check_reported(launcher: Launcher, folder: &Path, option: &Spec, name: &str) {
    let words = written(option, name);
    let ran = run(launcher, folder, &words);
    let line = ran.stderr.lines().next().unwrap_or_default();
    let begin = format!("{}: {} ", command(launcher).1, words[0]);
    assert!(line.starts_with(&begin) && line.contains(" ignored"), "{begin}: {ran}");
    let submits = launcher == Launcher::Submit;
    assert_eq!((ran.code(), ran.stderr.lines().count()), if submits { (1, 2) } else { (0, 1) }, "{ran}");
    let ran = run(launcher, folder, &[words, vec!["-q".into()]].concat());
    assert_eq!(ran.stderr.lines().count(), usize::from(submits), "{ran}");
}

#[track_caller]
fn check_refused(launcher: Launcher, folder: &Path, option: &Spec, name: &str) {
    let words = written(option, name);
    let ran = run(launcher, folder, &words);
    let begin = format!("{}: {} is ", command(launcher).1, words[0]);
    assert!(ran.stderr.starts_with(&begin) && ran.stderr.lines().count() == 1, "{begin}: {ran}");
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{ran}");
}

/// Names of all functions of the sources that may be tests.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root().join("tests"), root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                let marked = text.split("#[test]").skip(1);
                let name = |text: &str| Some(text.split_once("fn ")?.1.split_once("()")?.0.to_owned());
                names.extend(marked.filter_map(name));
            }
        }
    }
    names
}

#[test]
fn every_option_of_every_command_is_done_or_said() {
    let (tests, scratch) = (tests(), Scratch::new("every-option"));
    for (name, _) in FATES {
        assert!(table::all().any(|option| option.names[0] == *name), "there is no option {name} any more");
    }
    for option in table::all() {
        let name = option.names[0];
        let fates = FATES.iter().find(|(known, _)| *known == name);
        let (_, fates) = fates.unwrap_or_else(|| panic!("what is done with {name} is not said here"));
        for (launcher, fate) in FACES.into_iter().zip(fates) {
            for name in option.names {
                match fate {
                    Done(test) => {
                        assert!(tests.contains(*test), "{launcher:?}, {name}: there is no test {test}")
                    }
                    Reported => check_reported(launcher, scratch.path(), option, name),
                    Refused => check_refused(launcher, scratch.path(), option, name),
                }
            }
        }
    }
    let version = ["--version".to_owned()];
    assert!(run(Launcher::Submit, scratch.path(), &version).expect_success().stdout.contains("Tutti"));
    assert_eq!(std::fs::read_dir(scratch.path()).expect("the folder").count(), 0);
}
