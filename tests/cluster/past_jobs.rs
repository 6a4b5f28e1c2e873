//! The list of past jobs on the page: ten thousand of them, page by page.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::harness::await_that;
use crate::page::{Site, get, link};

/// The job that has another name, and that.
const WITH_COMMA: (u64, &str) = (5, "eps=0,1");

/// Past jobs in the log of events from which the page takes its history: by turns of two users and two names,
/// a third of each failed.
fn write_past(folder: &Path, jobs: u64) {
    std::fs::create_dir_all(folder).expect("the folder of the cluster");
    let begin_ms =
        SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as u64 - jobs * 60;
    let mut text = String::new();
    for job in 1..=jobs {
        let (ms, status) = (begin_ms + job * 60, u8::from(job % 3 == 0));
        let (uid, name) = (job % 2, if job % 4 < 2 { "even" } else { "odd" });
        let name = if job == WITH_COMMA.0 { WITH_COMMA.1 } else { name };
        for event in [
            json!({ "ms": ms, "event": "submitted", "job": job, "uid": uid, "ranks": 1, "name": name,
                "text": "./solve <i>--input</i> case-17.dat" }),
            json!({ "ms": ms, "event": "started", "job": job, "nodes": ["node0"] }),
            json!({ "ms": ms + 50, "event": "over", "job": job, "status": status }),
        ] {
            text.push_str(&format!("{event}\n"));
        }
    }
    std::fs::write(folder.join("events.jsonl"), text).expect("a log of events");
}

#[test]
fn page_lists_ten_thousand_past_jobs_page_by_page() {
    const JOBS: u64 = 10_000;
    let site = Site::up_with("page-past", 1, &[], |folder| write_past(folder, JOBS));
    let (cluster, address) = (&site.cluster, site.address);
    let ask = |query: &str| {
        let text = get(address, &format!("/api/history?{query}"));
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let newest = |query: &str| ask(query)["jobs"][0]["job"].as_u64();
    await_that("the history has them all", || newest("limit=1") == Some(JOBS));
    let (mut seen, mut behind) = (Vec::new(), String::new());
    loop {
        let page = ask(&format!("limit=100&uid=0&state=over{behind}"));
        let jobs = page["jobs"].as_array().expect("jobs").clone();
        seen.extend(jobs.iter().filter_map(|job| job["job"].as_u64()));
        let last = jobs.last().expect("a job");
        behind = format!("&behind_ms={}&behind_job={}", last["submitted_ms"], last["job"]);
        if page["more"] != true {
            break;
        }
    }
    assert_eq!(seen, (1..=JOBS).rev().filter(|job| job % 2 == 0).collect::<Vec<_>>());
    let found = cluster.tutti(&["ps", "--history", "--json", "--name", r"eps=0\,1,none"]).expect_success();
    let found: Value = serde_json::from_str(&found.stdout).expect("JSON");
    let found: Vec<&Value> = found.as_array().expect("jobs").iter().map(|job| &job["job"]).collect();
    assert_eq!(found, [WITH_COMMA.0]);
    let users: Value = serde_json::from_str(&get(address, "/api/history/users")).expect("JSON");
    assert_eq!(users[0], json!({ "uid": 0, "user": "root" }));
    assert_eq!(users.as_array().map(Vec::len), Some(2), "{users}");

    let Some(browser) = Browser::start("page-past-browser", (360, 740)) else { return };
    browser.open(&format!("{}#history", link(cluster, &[]).split('#').next().expect("a link")));
    let await_rows = |what: &str, rows: &str| {
        await_that(what, || browser.run("return document.body.dataset.past ?? ''") == rows);
    };
    let text = |selector: &str| {
        let script = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        browser.run(&script).as_str().expect("text").to_owned()
    };
    let count =
        |selector: &str| browser.run(&format!("return document.querySelectorAll({selector:?}).length"));
    await_rows("the first page is there", "100");
    assert_eq!(text("#past-count"), "100 jobs, and there are more");
    let first = text("tr[data-past]");
    assert!(first.starts_with(&format!("{JOBS}\tover(0)\troot")), "{first}");
    assert_eq!(count("#past-rows i"), 0);
    browser.press("m");
    await_rows("the next page is behind it", "200");
    let last = "return [...document.querySelectorAll('tr[data-past] a')].at(-1).textContent";
    assert_eq!(browser.run(last), (JOBS - 199).to_string());
    browser.run("document.getElementById('past-more').click()");
    await_rows("the button does the same", "300");
    // Behind the last row the next page follows; a job is opened, and the list is as it was.
    browser.run("past.select(300)");
    browser.press("j");
    await_rows("the key at the end does it, too", "400");
    browser.press("j\u{e007}");
    await_that("the job is open", || text("#h-job") == format!("Job {}", JOBS - 300));
    browser.run("history.back()");
    let is_shown = "return !document.querySelector('[data-of=history]').hidden";
    await_that("the list is there again", || browser.run(is_shown) == true);
    assert_eq!(text("#past-count"), "400 jobs, and there are more");
    // By a user, a name and a state; the link leads to the same list.
    browser.run(
        "document.getElementById('past-user').value = '0'; \
         document.getElementById('past-name').value = 'odd'; \
         document.getElementById('past-filter').requestSubmit()",
    );
    await_rows("the filter begins a list", "100");
    assert_eq!(browser.run("return location.hash"), "#history/uid=0&name=odd");
    let is_meant = "return past.jobs.every((job) => job.uid === 0 && job.name === 'odd')";
    assert_eq!(browser.run(is_meant), true);
    browser.run(
        "const state = document.getElementById('past-state'); state.value = 'waiting'; \
                 state.dispatchEvent(new Event('change'))",
    );
    await_rows("none of them waits", "0");
    assert_eq!((text("#past-count"), count("#past-more[hidden]")), ("no jobs".into(), json!(1)));
    assert_eq!(browser.complaints(&format!("http://{address}/")), Vec::<String>::new());
    browser.run("location.hash = '#history/uid=nobody'");
    await_that("a link that cannot be read is told of", || text("#past-count").starts_with("uid: "));
    browser.run("location.hash = '#history/uid=0&state=over'");
    await_rows("a link has its own list", "100");
    // To the last of five thousand; the focus that was on the button stays in the list.
    browser.run("document.getElementById('past-more').focus(); past.page = 10000; past.load()");
    await_rows("all are shown", &(JOBS / 2).to_string());
    assert_eq!(browser.run("return document.activeElement.textContent"), "2");
    assert_eq!(browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), true);
}
