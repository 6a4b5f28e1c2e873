//! `tutti timeline`: a page that needs nothing but itself, from the logs alone.

use crate::Cluster;
use crate::harness::await_that;

#[test]
fn the_page_shows_the_turns_of_gangs_also_when_the_daemons_are_gone() {
    let cluster = Cluster::up("cluster-timeline", 2, &["--slots", "1", "--slice", "20"]);
    let words = ["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done # <b> & \"c\""];
    let one = cluster.start(&words);
    await_that("it is job 1", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&words);
    await_that("it is job 2", || cluster.job(2).contains("\"running\""));
    let log = cluster.folder.join("turns.jsonl");
    let taken = || std::fs::read_to_string(&log).unwrap_or_default();
    if crate::gangs::cgroup(&one).is_some() {
        // Each node says once a second what its switch thread has done.
        await_that("both nodes' turns are logged", || {
            ["node0", "node1"].iter().all(|node| {
                taken().lines().any(|line| line.contains(&format!("\"{node}\"")) && line.contains("\"thaw\""))
            })
        });
    }
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    assert_eq!((one.end().0, other.end().0), (137, 137));
    cluster.tutti(&["down"]).expect_success();

    let page = cluster.folder.join("page.html");
    cluster.tutti(&["timeline", "--all", "-o", page.to_str().unwrap()]).expect_success();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("2 nodes, 2 jobs"), "{text}");
    assert!(text.contains("while :; do :; done # &lt;b&gt; &amp; &quot;c"), "commands are text, not markup");
    assert_eq!(
        text.matches("http").count(),
        text.matches("http://www.w3.org/2000/svg").count(),
        "it fetches nothing"
    );
    if taken().contains("\"thaw\"") {
        assert!(text.contains("<h2>One switch</h2>") && text.contains(" switches; "), "{text}");
    }
    let picture = cluster.folder.join("job.svg");
    cluster.tutti(&["timeline", "2", "-o", picture.to_str().unwrap()]).expect_success();
    assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    for name in ["job.png", "job"] {
        let other = cluster.folder.join(name);
        let refused = cluster.tutti(&["timeline", "2", "-o", other.to_str().unwrap()]);
        let said = format!(
            "tutti timeline: {} is neither a page (.html) nor a picture (.svg): there are no other formats\n",
            other.display()
        );
        assert_eq!((refused.code(), refused.stderr), (1, said));
        assert!(!other.exists());
    }
    let refused = cluster.tutti(&["timeline", "99"]);
    assert_eq!((refused.code(), refused.stderr.as_str()), (1, "tutti timeline: the logs know no job 99\n"));
}
