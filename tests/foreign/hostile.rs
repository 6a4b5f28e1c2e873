//! Requests of a rank on its PMI descriptor: they harm nobody but its own job.

use tutti_tests::Ran;

use crate::harness::mpiexec;

/// Two ranks: the first does this in bash, the other waits.
#[track_caller]
fn as_a_rank(script: &str) -> Ran {
    let script = format!("if [ $PMI_RANK = 0 ]; then {script}; else exec sleep 1000; fi");
    mpiexec(&["-n", "2", "bash", "-c", &script])
}

#[test]
fn pmi_protocol_violation_ends_the_job_with_one_line() {
    for rubbish in [
        "echo hello >&$PMI_FD; exec sleep 1000",
        "exec 2>&-; head -c 1000000 /dev/zero | tr '\\0' a >&$PMI_FD; exec sleep 1000",
        "exec 2>&-; head -c 100000 /dev/urandom >&$PMI_FD; exec sleep 1000",
        "echo cmd=init pmi_version=1 >&$PMI_FD; echo cmd=put >&$PMI_FD; exec sleep 1000",
    ] {
        let ran = as_a_rank(rubbish);
        assert_eq!(ran.code(), 1, "{rubbish}: {ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{rubbish}: {ran}");
        assert!(
            ran.stderr.contains("rank 0 (pid ") && ran.stderr.contains("that is not PMI"),
            "{rubbish}: {ran}"
        );
    }
}

#[test]
fn pmi_partial_line_is_ignored() {
    let ran = mpiexec(&["-n", "2", "bash", "-c", "printf cmd=in >&$PMI_FD"]).expect_success();
    assert_eq!(ran.stderr, "");
}

#[test]
fn pmi_key_quota_is_enforced() {
    let script = "cat <&$PMI_FD | grep -c rc=-1 & seq -f 'cmd=put key=k%.0f value=v' 100000 >&$PMI_FD; \
        echo cmd=barrier_in >&$PMI_FD; echo cmd=finalize >&$PMI_FD; exec {PMI_FD}>&-; kill %1 2>/dev/null; wait";
    let ran = mpiexec(&["-n", "1", "bash", "-c", script]).expect_success();
    assert_eq!(
        ran.stderr, "mpiexec: rank 0 has stored 1024 KiB over PMI, its share; more is refused\n",
        "{ran}"
    );
}

#[test]
fn pmi_unread_answers_block_only_their_rank() {
    let script = "while :; do echo cmd=get key=PMI_process_mapping; done >&$PMI_FD";
    let script = format!(
        "if [ $PMI_RANK = 0 ]; then {script}; else for i in {{1..500}}; do echo $i; done; exit 3; fi"
    );
    let ran = mpiexec(&["-n", "2", "bash", "-c", &script]);
    assert_eq!((ran.code(), ran.stdout.lines().count()), (3, 500), "{ran}");
}
