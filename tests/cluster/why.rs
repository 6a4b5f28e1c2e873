//! `tutti why`: the reason why a job does not go on.

use crate::Cluster;
use crate::harness::await_that;

#[test]
fn why_names_the_reason_in_every_state() {
    let cluster = Cluster::up("why-states", 1, &["--slots", "2"]);
    let why = |job: &str| cluster.tutti(&["why", job]).expect_success().stdout;
    let submit = |words: &[&str]| drop(cluster.tutti(&[&["submit"], words].concat()).expect_success());
    submit(&["-n", "1", "--exclusive", "sleep", "1000"]);
    await_that("it goes on", || why("1").contains("job 1 goes on: it takes turns"));
    submit(&["-n", "1", "true"]);
    await_that("the other waits for its nodes", || {
        why("2").contains("not taken by an exclusive job (job 1)")
    });
    submit(&["-n", "1", "--after-ok", "1", "true"]);
    assert!(why("3").starts_with("job 3 waits: until job 1 has ended with status 0"), "{}", why("3"));
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("it is suspended", || why("1").contains("tutti resume 1 lets it go on"));
    cluster.tutti(&["kill", "1"]).expect_success();
    await_that("it is over", || {
        why("1").contains("job 1 is over with status 137\njob 1 ends: it was killed by")
    });
    await_that("its dependent has failed", || {
        why("3").contains("job 1 has ended with status 137") || why("3").contains("is over")
    });
    let none = cluster.tutti(&["why", "99"]);
    assert!(none.code() == 1 && none.stderr.contains("there is no job 99"), "{none}");
}
