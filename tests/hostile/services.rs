//! A user listens under thousands of names of services, also under names of others': what others offer is
//! listed beside them.

use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::Machine;

const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Names that a user takes of each kind: a node lists 1,024 services.
const NAMES: usize = 1100;

fn listen(user: u32, name: &str) -> UnixListener {
    let name = tutti_shm::published::service_socket_name(user, name);
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
    UnixListener::bind_addr(&address).expect("nobody else has it")
}

#[test]
fn services_of_another_user_are_listed_beside_thousands_under_all_names() {
    let Some(machine) = Machine::up("hostile-services", 1, 2, &[]) else { return };
    if let Err(error) = tutti_os::abstract_listeners() {
        return tutti_testkit::skip(
            tutti_testkit::Need::Kernel,
            format!("the kernel does not say whose sockets are: {error}"),
        );
    }
    // Of this process alone, which is root's.
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).expect("up to the most");
    let [honest, hostile] = [HONEST, HOSTILE].map(|user| machine.uid(user));
    let _offered = machine.as_user(HONEST, |_| listen(honest, "kv"));
    // In an order in which they would come first.
    let _taken: Vec<UnixListener> = machine.as_user(HOSTILE, |_| {
        let users = [0, honest, hostile];
        let names = |user| (0..NAMES).map(move |number| listen(user, &format!("a{number}")));
        users.into_iter().flat_map(names).collect()
    });
    let text = machine.tutti(HONEST, &["services", "--json"]).expect_success().stdout;
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let rows = found["services"].as_array().expect("a list");
    let of = |user: u32| -> BTreeSet<&str> {
        let of_user = rows.iter().filter(|row| row["uid"] == user);
        of_user.filter_map(|row| row["name"].as_str()).collect()
    };
    assert_eq!(of(honest), BTreeSet::from(["kv"]), "what another user has in this one's name is not listed");
    // Root may offer something of its own on this machine, under other names.
    let taken: BTreeSet<String> = (0..NAMES).map(|number| format!("a{number}")).collect();
    assert!(!of(0).iter().any(|name| taken.contains(*name)), "{:?}", of(0));
    assert!((1000..1024).contains(&of(hostile).len()), "{} of them", of(hostile).len());
    let is_asked = |row: &&Value| row["state"] != "not_asked";
    assert!(rows.iter().filter(is_asked).count() < 100, "few are asked");
    let own = rows.iter().find(|row| row["uid"] == honest).expect("it is listed");
    assert_ne!(own["state"], "not_asked", "it comes before the second one of who has thousands");
}
