//! Shares of the machine: users have them whose jobs work, and nobody else.

use std::process::{Child, Command, Stdio};

use std::io::BufRead;

use tutti_tests::users::Users;
use tutti_tests::{await_that, comes_true};

use crate::harness::{RANK, Running};
use crate::machine::Machine;

/// Number of users who listen on names of daemons and do nothing.
const IDLE: usize = 7;

/// A network namespace, in which names of sockets are its own: no other test's daemons are seen.
struct Space(Child);

impl Space {
    fn new() -> Option<Self> {
        if !tutti_testkit::has_command(tutti_testkit::Need::Ip, "ip") {
            return None;
        }
        let mut command = Command::new("unshare");
        let script = "ip link set lo up && echo up && exec sleep 1000";
        command.args(["--net", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut space = Space(command.spawn().ok()?);
        let mut line = String::new();
        std::io::BufReader::new(space.0.stdout.take()?).read_line(&mut line).ok()?;
        if line != "up\n" {
            tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "no network namespace can be made");
            return None;
        }
        Some(space)
    }

    /// A command of a user's in it.
    fn inside(&self, uid: u32, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg("setpriv");
        inside.args([format!("--reuid={uid}"), format!("--regid={uid}")]).arg("--clear-groups");
        inside.arg(command.get_program()).args(command.get_args());
        inside.current_dir(command.get_current_dir().expect("its folder"));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Space {
    /// Moves this thread, and what it starts from now on, into the namespace.
    fn enter(&self) {
        let file = std::fs::File::open(format!("/proc/{}/ns/net", self.0.id())).expect("it lives");
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)
            .expect("we are root");
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn shares_of_the_machine_are_only_for_users_that_work() {
    let Some(users) = Users::new("hostile-shares", 1 + IDLE as u32) else { return };
    let Some(space) = Space::new() else { return };
    let (honest, idle) = (users.uids()[0], &users.uids()[1..]);
    let rank = users.reachable(RANK.as_ref());
    let mut listeners: Vec<Running> = idle
        .iter()
        .map(|uid| {
            let mut listener = users.foreign(*uid, &rank);
            listener.arg(format!("listen=tutti/{uid}/1"));
            Running::start_command(&mut space.inside(*uid, &listener))
        })
        .collect();
    listeners.iter_mut().for_each(|listener| listener.await_line("listens"));
    let words = ["-n", "2", "sh", "-c", "while :; do :; done"];
    let job = Running::start_command(&mut space.inside(honest, &users.command(honest, "mpiexec", &words)));
    listeners.iter_mut().for_each(|listener| listener.await_line("asked"));
    let log = || std::fs::read_to_string(users.on_demand(honest).join("tuttid.log")).unwrap_or_default();
    // One of them works: now there are two, and then one again.
    let mut worker = users.foreign(idle[0], "sh");
    worker.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
    let mut worker = worker.spawn().expect("sh");
    let shares = |text: &str| comes_true(|| log().contains(text));
    assert!(shares("2 users' jobs share this machine by turns"), "{}", log());
    worker.kill().expect("it is ours");
    worker.wait().expect("it is ours");
    assert!(shares("no other user's jobs share this machine"), "{}", log());
    // The one that works may be seen to rest on a busy machine, and to work again.
    let of_more = |line: &&str| line.contains("users' jobs share") && !line.contains(" 2 users' jobs share");
    assert_eq!(log().lines().find(of_more), None, "the others count for nobody: {}", log());
    job.signal(rustix::process::Signal::INT);
    assert_eq!(job.end().0, 130);
    drop(listeners);
    await_that("nothing is left", || idle.iter().all(|uid| users.processes(*uid).is_empty()));
}

/// Logs of the daemons that a user's programs have started, as many as there are.
fn logs(users: &Users, uid: u32) -> String {
    let folders = std::fs::read_dir(users.folder(uid)).expect("its folder").flatten();
    folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("tuttid.log")).ok()).collect()
}

/// Names that a user takes: more than are asked in many looks, those among them that daemons will want.
const TAKEN: u32 = 600;

/// Takes names of daemons of these users, as a user in the namespace, until what is given is dropped.
fn take_names(space: &Space, uid: u32, of: &[u32]) -> Vec<std::os::unix::net::UnixListener> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let next = std::process::id();
    let names = of.iter().flat_map(|of| (next..next + TAKEN).map(move |pid| format!("tutti/{of}/{pid:x}")));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            space.enter();
            let user = rustix::process::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root may");
            let bind =
                |name: String| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok();
            names.filter_map(bind).collect()
        });
        thread.join().expect("it binds names")
    })
}

/// Taking names by the thousand, also those that daemons are about to want, hides nobody's jobs.
#[test]
fn shares_are_given_beside_thousands_of_names_that_a_user_has_taken() {
    let Some(users) = Users::new("hostile-names", 3) else { return };
    let Some(space) = Space::new() else { return };
    let [one, other, hostile] = users.uids() else { panic!("three users") };
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limit = rustix::process::Rlimit { current: most, maximum: most };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("below its maximum");
    let taken = take_names(&space, *hostile, &[*one, *other]);
    println!("{} names are taken", taken.len());
    assert!(taken.len() > 1000, "{} names", taken.len());
    let words = ["-n", "2", "sh", "-c", "while :; do :; done"];
    let jobs = [one, other]
        .map(|uid| Running::start_command(&mut space.inside(*uid, &users.command(*uid, "mpiexec", &words))));
    let log = |uid: u32| logs(&users, uid);
    for uid in [*one, *other] {
        let is_shared = comes_true(|| log(uid).contains("2 users' jobs share this machine by turns"));
        assert!(is_shared, "{}", log(uid));
    }
    for job in jobs {
        job.signal(rustix::process::Signal::INT);
        assert_eq!(job.end().0, 130);
    }
    drop(taken);
}

/// The same command where `/proc` hides the processes of other users.
fn without_others(command: &Command) -> Command {
    let script = "mount -t proc -o hidepid=2 proc /proc || exit 77; exec \"$@\"";
    let mut hidden = Command::new("unshare");
    hidden.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
    hidden.arg(command.get_program()).args(command.get_args());
    hidden.current_dir(command.get_current_dir().expect("its folder"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hidden.env(name, value),
            None => hidden.env_remove(name),
        };
    }
    hidden
}

/// Users whose daemon cannot see whether others work take no turns with them.
#[test]
fn shares_are_nobodys_where_processes_of_others_are_hidden_and_the_log_says_so() {
    let Some(users) = Users::new("hostile-hidepid", 2) else { return };
    let Some(space) = Space::new() else { return };
    let [honest, other] = users.uids() else { panic!("two users") };
    let inside = |uid: u32, words: &[&str]| {
        let command = users.command(uid, "mpiexec", &[&["-n", "2", "sh", "-c"], words].concat());
        space.inside(uid, &command)
    };
    let tried = tutti_tests::run(&mut without_others(&inside(*honest, &["true"])), tutti_tests::LIMIT);
    if tried.code() == 77 {
        return tutti_testkit::skip(tutti_testkit::Need::MountNamespace, "no /proc that hides processes");
    }
    tried.expect_success();
    let loops = ["while :; do :; done"];
    let beside = Running::start_command(&mut inside(*other, &loops));
    let job = Running::start_command(&mut without_others(&inside(*honest, &loops)));
    let log = || logs(&users, *honest);
    let is_said = comes_true(|| log().contains("hides the processes of other users here (hidepid)"));
    assert!(is_said, "{}", log());
    assert!(!log().contains("users' jobs share"), "{}", log());
    // Users are told what the scheduler does, though the other one's jobs can be listed.
    let say = |words: &[&str]| {
        let tutti = users.command(*honest, "tutti", words);
        tutti_tests::run(&mut without_others(&space.inside(*honest, &tutti)), tutti_tests::LIMIT).stdout
    };
    await_that("the reason is said", || say(&["ps", "-l"]).contains("(hidepid)"));
    assert!(say(&["ps"]).contains(&format!("{other}")), "{}", say(&["ps"]));
    let told = [say(&["ps", "-l"]), say(&["prices"]), say(&["doctor"])];
    assert!(told.iter().all(|text| text.contains("(hidepid)") && !text.contains("50.0%")), "{told:?}");
    let prices: serde_json::Value = serde_json::from_str(&say(&["prices", "--json"])).expect("JSON");
    assert_eq!((&prices["sharers"], &prices["hides_others"]), (&serde_json::json!([]), &true.into()));
    for job in [job, beside] {
        job.signal(rustix::process::Signal::INT);
        assert_eq!(job.end().0, 130);
    }
}

/// Users are notified of those with whom the scheduler shares the machine, and of nobody else.
#[test]
fn shares_in_ps_and_prices_are_those_of_the_scheduler() {
    let Some(users) = Users::new("hostile-sharers", 3) else { return };
    let Some(space) = Space::new() else { return };
    let [one, other, idle] = users.uids() else { panic!("three users") };
    let start = |uid: u32, script: &str| {
        let command = users.command(uid, "mpiexec", &["-n", "2", "sh", "-c", script]);
        Running::start_command(&mut space.inside(uid, &command))
    };
    let sharers = |uid: u32| -> Vec<u64> {
        let mut tutti = space.inside(uid, &users.command(uid, "tutti", &["prices", "--json"]));
        let ran = tutti_tests::run(&mut tutti, tutti_tests::LIMIT);
        if ran.code() != 0 {
            // The daemon has not begun.
            return Vec::new();
        }
        let prices: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(prices["hides_others"], false, "{prices}");
        prices["sharers"].as_array().expect("a list").iter().filter_map(|one| one["uid"].as_u64()).collect()
    };
    let loops = "while :; do :; done";
    let jobs = [start(*one, loops), start(*other, loops), start(*idle, "exec sleep 1000")];
    // A busy machine may let one of them rest for a moment: what is said then is as true.
    await_that("each is named to the other", || {
        sharers(*one) == [u64::from(*other)] && sharers(*other) == [u64::from(*one)]
    });
    await_that("and in the texts", || {
        let say = |words: &[&str]| {
            let mut tutti = space.inside(*one, &users.command(*one, "tutti", words));
            tutti_tests::run(&mut tutti, tutti_tests::LIMIT).stdout
        };
        say(&["ps", "-l"]).contains("50.0% of the time: ") && say(&["prices"]).matches("50.0%").count() == 4
    });
    let [job, beside, resting] = jobs;
    beside.signal(rustix::process::Signal::INT);
    assert_eq!(beside.end().0, 130);
    await_that("nobody is left", || sharers(*one).is_empty());
    for job in [job, resting] {
        job.signal(rustix::process::Signal::INT);
        assert_eq!(job.end().0, 130);
    }
}

/// A card that takes 1 Mbit/s and behind which nobody listens.
const NARROW: &str = "ip link add name card type veth peer name far && ip addr add 10.99.0.1/24 dev card && \
    ip link set card up && ip link set far up && \
    ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev card && \
    tc qdisc add dev card root tbf rate 1mbit burst 3000 limit 6000";

/// Users who flood a network that others use pay for it by what the kernel has counted, and are left out of
/// the row that they share with them.
// Paper: C26
#[test]
fn shares_of_a_flooding_user_shrink_on_a_narrow_network() {
    let Some(space) = Space::new() else { return };
    space.enter();
    let card = Command::new("sh").args(["-c", NARROW]).stderr(Stdio::null()).status();
    if !card.is_ok_and(|status| status.success()) {
        return tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "no card of its own: ip, tc");
    }
    let Some(machine) = Machine::up("hostile-flood", 1, 2, &["--slots", "2"]) else { return };
    // The other one computes between two datagrams: for a mate that sleeps nobody would be left out.
    let send = |pause: &str| format!("while :; do printf %01300d 0 > /dev/udp/10.99.0.2/9; {pause} done");
    for (user, pause) in [(0, ""), (1, "for ((i = 0; i < 20000; i++)); do :; done;")] {
        let script = send(pause);
        machine.tutti(user, &["submit", "-n", "1", "bash", "-c", &script]).expect_success();
    }
    let prices = || -> serde_json::Value {
        let text = machine.cluster.tutti(&["prices", "--json"]).expect_success().stdout;
        serde_json::from_str(&text).expect("JSON")
    };
    await_that("the network has its price", || prices()["nodes"][0]["network_wanted_bytes_s"].is_u64());
    if prices()["nodes"][0]["network_counted"] == false {
        tutti_testkit::skip(tutti_testkit::Need::Cgroup, "the kernel does not count what cgroups send");
        machine.cluster.tutti(&["kill", "1", "2"]).expect_success();
        return;
    }
    await_that("it is scarce", || {
        prices()["nodes"][0]["network_price_milli"].as_u64().is_some_and(|price| price > 1000)
    });
    let used = |user: usize| {
        let prices = prices();
        let of = |one: &&serde_json::Value| one["uid"] == machine.uid(user);
        prices["users"].as_array().and_then(|users| users.iter().find(of)?["used_ns"].as_u64()).unwrap_or(0)
    };
    await_that("who floods pays more than the other one", || used(0) > 4 * used(1) && used(0) > 0);
    await_that("he is left out", || prices()["left_out"] == serde_json::json!([1]));
    await_that("and comes back", || prices()["left_out"] == serde_json::json!([]));
    let board = machine.cluster.tutti(&["board", "--json"]).expect_success().stdout;
    assert!(board.contains("\"congested\""), "{board}");
    let shown = machine.tutti(1, &["prices"]).expect_success().stdout;
    assert!(shown.contains("network of node0") && shown.contains("unclaimed on node0"), "{shown}");
    machine.cluster.tutti(&["kill", "1", "2"]).expect_success();
}

/// Users divide the time, not jobs: it helps nobody to start many.
#[test]
fn shares_one_job_beside_four_of_another_user_has_half_of_the_slices() {
    let more = ["--slots", "1", "--slice", "20"];
    let Some(machine) = Machine::up("hostile-half", 1, 2, &more) else { return };
    for user in [0, 1, 1, 1, 1] {
        let words = ["submit", "-n", "1", "sh", "-c", "while :; do :; done"];
        machine.tutti(user, &words).expect_success();
    }
    let rows = || -> Vec<serde_json::Value> {
        let text = machine.cluster.tutti(&["ps", "--json"]).expect_success().stdout;
        serde_json::from_str(&text).expect("JSON")
    };
    let turns = || {
        // One answer for both: turns go on between two.
        let rows = rows();
        [0, 1].map(|user| -> u64 {
            let own = rows.iter().filter(|row| row["uid"] == machine.uid(user));
            own.filter_map(|row| row["turns"].as_u64()).sum()
        })
    };
    let weights = || rows().iter().filter_map(|row| row["effective_milli"].as_u64()).collect::<Vec<_>>();
    await_that("all have their weights", || {
        let weights = weights();
        weights.len() == 5 && weights[1..].iter().all(|weight| weight.abs_diff(weights[0] / 4) * 10 < *weight)
    });
    let before = turns();
    let mut after = before;
    await_that("the one job has had some slices", || {
        after = turns();
        after[0] > before[0] + 100
    });
    let (one, four) = (after[0] - before[0], after[1] - before[1]);
    assert!(one.abs_diff(four) * 10 <= one + four, "{one} slices of the one job, {four} of the four");
    let listed = machine.tutti(0, &["ps", "-l"]).expect_success().stdout;
    let line = listed.lines().nth(1).expect("its line");
    assert!(line.contains("of the time for 1 jobs: share 50.0%"), "{listed}");
    let prices = machine.tutti(1, &["prices"]).expect_success().stdout;
    assert!(prices.lines().any(|line| line.starts_with("processor")) && prices.contains("50.0%"), "{prices}");
    machine.cluster.tutti(&["kill", "1", "2", "3", "4", "5"]).expect_success();
}

/// A filler of one user beside a gang of another: it runs out of its turns, until what it costs that gang is
/// found to be unknown.
#[test]
fn shares_filler_of_another_user_fills_only_where_its_cost_is_measured() {
    let Some(machine) = Machine::up("hostile-filler", 1, 2, &["--slots", "1"]) else { return };
    let spin = ["sh", "-c", "while :; do :; done"];
    let filler = machine.submit(0, &[&["--fill", "-n", "1"], &spin[..]].concat());
    machine.await_state(filler, "running");
    if machine.row(filler)["enforced"][0][1]["behind"] != true {
        let why = "no group of the controller cpu can be made here";
        return tutti_testkit::skip_part(tutti_testkit::Need::Cgroup, why);
    }
    let gang = machine.submit(1, &[&["-n", "1"], &spin[..]].concat());
    machine.await_state(gang, "running");
    let put_out = || machine.row(filler)["put_out"][0][1].clone();
    await_that("it is put out", || put_out()["gang"] == gang);
    assert_eq!((&put_out()["permille"], &put_out()["for_ms"]), (&0.into(), &10_000.into()));
    let listed = machine.tutti(0, &["ps"]).expect_success().stdout;
    let line = format!("what it costs job {gang} of another user cannot be measured");
    assert!(listed.contains(&line), "{listed}");
    // Beside his own job it fills although nobody measures that.
    machine.cluster.tutti(&["kill", &gang.to_string()]).expect_success();
    await_that("it fills again", || put_out().is_null());
    let own = machine.submit(0, &[&["-n", "1"], &spin[..]].concat());
    machine.await_state(own, "running");
    let turns = || machine.row(own)["turns"].as_u64();
    await_that("the other has had its turns", || turns() > Some(0));
    assert!(put_out().is_null(), "{}", put_out());
    machine.cluster.tutti(&["kill", &filler.to_string(), &own.to_string()]).expect_success();
}

/// A user who may not read the file is told so in one line with its place.
#[test]
fn shares_configuration_that_a_user_may_not_read_is_one_line_and_status_2() {
    let Some(machine) = Machine::up("hostile-unreadable", 1, 1, &[]) else { return };
    let file = machine.cluster.folder.join("secret.toml");
    std::fs::write(&file, "[shares]\n").expect("a file");
    let allow = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    let path = file.to_str().expect("UTF-8");
    let check = || machine.tutti(0, &["config", "check", path]);
    std::fs::set_permissions(&file, allow(0o644)).expect("our own file");
    let ran = check();
    assert_eq!(ran.code(), 0, "whom the folder lets in may read it: {ran}");
    std::fs::set_permissions(&file, allow(0o600)).expect("our own file");
    let ran = check();
    let line = format!("{path}:1:1: it cannot be read: Permission denied\n");
    assert_eq!((ran.code(), format!("{}{}", ran.stdout, ran.stderr)), (2, line), "{ran}");
}
