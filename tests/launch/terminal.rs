//! `mpiexec` at a terminal: typing, Ctrl-C, Ctrl-Z, background.

use crate::console::Terminal;
use crate::harness::mpiexec_path;

/// Runs a script, with `$mpiexec` set.
fn at_terminal(script: &str) -> Terminal {
    Terminal::run(script, &[("mpiexec", mpiexec_path().as_os_str())])
}

#[test]
fn terminal_input_reaches_rank_0() {
    let mut terminal =
        at_terminal("$mpiexec -n 2 sh -c 'while read x; do echo $TUTTI_RANK got $x; done; echo end'");
    terminal.await_text("end");
    terminal.press("hello\n");
    terminal.await_text("0 got hello");
    terminal.press("again\n");
    terminal.await_text("0 got again");
    terminal.press("\x04");
    terminal.await_text("end");
}

#[test]
fn terminal_ctrl_c_ends_the_job() {
    let mut terminal =
        at_terminal("trap 'echo trapped' INT; $mpiexec -n 2 sh -c 'echo here; sleep 1000'; echo status $?");
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.press("\x03");
    // The shell sees a program that died of the signal, as the loops of scripts need it.
    terminal.await_text("trapped");
    terminal.await_text("status 130");
}

#[test]
fn terminal_ctrl_z_stops_and_fg_resumes() {
    let script = "$mpiexec -n 2 sh -c 'echo here; while ! [ -e $MARKER ]; do sleep 0.02; done; echo over'; \
                  echo stopped $?; touch $MARKER; fg; echo status $?";
    let scratch = tutti_tests::Scratch::new("ctrl-z");
    let marker = scratch.path().join("marker");
    let mut terminal = at_terminal(&format!("set -m; export MARKER={}; {script}", marker.display()));
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    terminal.await_text("over");
    terminal.await_text("over");
    terminal.await_text("status 0");
}

#[test]
fn terminal_background_job_is_not_stopped_for_reading() {
    let mut terminal =
        at_terminal("set -m; $mpiexec -n 1 sh -c 'sleep 0.2; echo alive' & wait $!; echo status $?");
    terminal.press("typed for the shell\n");
    terminal.await_text("alive");
    terminal.await_text("status 0");
}

#[test]
fn terminal_pty_keys_are_for_rank_0() {
    let scratch = tutti_tests::Scratch::new("pty");
    let marker = scratch.path().join("marker");
    let rank =
        "trap 'echo int' INT; tty -s && echo here; while ! [ -e $MARKER ]; do sleep 0.02; done; echo over";
    let script = format!(
        "set -m; export MARKER={}; $mpiexec --pty -n 2 bash -c \"$RANK\"; echo stopped $?; touch $MARKER; fg; \
         echo status $?",
        marker.display()
    );
    let mut terminal =
        Terminal::run(&script, &[("mpiexec", mpiexec_path().as_os_str()), ("RANK", rank.as_ref())]);
    terminal.await_text("here");
    terminal.press("\x03");
    terminal.await_text("int");
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    terminal.await_text("over");
    terminal.await_text("over");
    terminal.await_text("status 0");
}

#[test]
fn terminal_window_size_reaches_the_ranks() {
    let mut terminal = at_terminal(
        "$mpiexec -n 2 bash -c 'trap \"stty size <&1; exit\" WINCH; echo here; while :; do sleep 0.02; done'; echo $?",
    );
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.resize(33, 77);
    terminal.await_text("33 77");
    terminal.await_text("33 77");
}

#[test]
fn terminal_hangup_ends_the_job() {
    let mut terminal = at_terminal("$mpiexec -n 2 sh -c 'echo here; sleep 1000'; echo over");
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.hang_up();
}

#[test]
fn terminal_prompt_is_seen_at_once() {
    let mut terminal = at_terminal("$mpiexec -n 1 sh -c 'printf \"name? \"; read x; echo hello $x'");
    terminal.await_text("name? ");
    terminal.press("you\n");
    terminal.await_text("hello you");
}
