//! Services between processes and jobs of a node: typed clients in C++ and Python, whom a service is for,
//! clients that send anything.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tutti_testkit::{Need, await_that, has_command};
use tutti_tests::users::Users;
use tutti_tests::{Scratch, dist, program, root, run};

use super::{LIMIT, compile};

/// Numbers of `tutti::fault`.
const BUSY: &str = "fault 5\n";
const NO_SERVICE: &str = "fault 12\n";
const NOT_ALLOWED: &str = "fault 13\n";

/// A server, killed when dropped.
struct Server {
    child: Child,
    name: String,
}

impl Server {
    /// Starts one by a command, which gets its words; it serves when this returns.
    #[track_caller]
    fn start(mut command: Command, name: &str, whom: &str, folder: &Path) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let said = folder.join(format!("{name}-says"));
        let file = std::fs::File::create(&said).expect("a scratch file");
        command.args(["serve", &name, whom]).stdin(Stdio::null()).stdout(file);
        let server = Server { child: command.spawn().expect("a server"), name };
        await_that("the service is open", || {
            std::fs::read_to_string(&said).is_ok_and(|text| text == "serving\n")
        });
        server
    }

    /// The end of one that was asked to stop.
    #[track_caller]
    fn expect_end(mut self) {
        assert!(self.child.wait().expect("our own child").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compiled(scratch: &Scratch) -> Option<PathBuf> {
    has_command(Need::Cxx, "c++")
        .then(|| compile("tutticxx", &[], "tests/cxx/programs/services.cpp", scratch.path()))
}

// Paper: C28
#[test]
fn service_keeps_its_promises_to_typed_clients() {
    let scratch = Scratch::new("cxx-service");
    let Some(client) = compiled(&scratch) else { return };
    let server = Server::start(Command::new(&client), "typed", "user", scratch.path());
    let ran = run(Command::new(&client).args(["ask", &server.name]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "ask: ok\n", "{ran}");
    let ran = run(Command::new(&client).args(["fault", &server.name]), LIMIT).expect_success();
    assert_eq!(ran.stdout, NO_SERVICE, "the server was killed: {ran}");
}

// Paper: C28
#[test]
fn service_of_a_job_is_called_by_other_jobs() {
    let scratch = Scratch::new("cxx-service-jobs");
    let Some(client) = compiled(&scratch) else { return };
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "1"]).arg(&client);
    let server = Server::start(mpiexec, "jobs", "user", scratch.path());
    let own = format!("{}/{}", rustix::process::geteuid().as_raw(), server.name);
    for name in [&server.name, &own] {
        let mut mpiexec = program("mpiexec");
        let ran = run(mpiexec.args(["-n", "3"]).arg(&client).args(["use", name]), LIMIT).expect_success();
        assert_eq!(ran.stdout, "use: ok\n".repeat(3), "{ran}");
    }
    run(Command::new(&client).args(["stop", &server.name]), LIMIT).expect_success();
    server.expect_end();
}

/// A client in Python: values of all types, exceptions, and what is refused before it is sent.
#[test]
fn service_is_called_from_python_and_by_hand() {
    let scratch = Scratch::new("cxx-service-python");
    let Some(client) = compiled(&scratch) else { return };
    let server = Server::start(Command::new(&client), "python", "user", scratch.path());
    let mut tutti = program("tutti");
    let ran = run(tutti.args(["call", &server.name, "text", "3"]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "\"xxx\"\n", "{ran}");
    if has_command(Need::Python, "python3") {
        let package = scratch.path().join("site/tutti");
        std::fs::create_dir_all(&package).expect("a folder");
        for entry in std::fs::read_dir(root().join("bindings/python")).expect("the modules").flatten() {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), package.join(entry.file_name())).expect("a copy");
            }
        }
        std::os::unix::fs::symlink(dist(), package.join("_tree")).expect("a link");
        let mut python = Command::new("python3");
        python.arg("-B").arg(root().join("tests/cxx/programs/services.py")).arg(&server.name);
        let ran = run(python.env("PYTHONPATH", scratch.path().join("site")), LIMIT).expect_success();
        assert_eq!(ran.stdout, "python: ok\n", "{ran}");
    }
    run(Command::new(&client).args(["stop", &server.name]), LIMIT).expect_success();
    server.expect_end();
}

#[test]
fn service_is_open_to_the_audience_of_its_owner() {
    let Some(users) = Users::new("tutti-service", 2) else { return };
    let scratch = Scratch::new("cxx-service-users");
    let Some(client) = compiled(&scratch) else { return };
    let client = users.reachable(&client);
    let [owner, other] = users.uids() else { panic!("two users") };
    let by = |uid: u32| {
        let mut command = users.foreign(uid, &client);
        command.env("LD_LIBRARY_PATH", users.programs().join("lib"));
        command
    };
    let audiences = [
        ("own", "user".to_owned(), false),
        ("bob", format!("user:{other}"), true),
        ("carol", format!("user:{}", other + 1000), false),
        ("group", format!("group:{other}"), true),
        ("all", "everybody".to_owned(), true),
    ];
    for (name, whom, is_let_in) in audiences {
        let server = Server::start(by(*owner), name, &whom, scratch.path());
        let theirs = format!("{owner}/{}", server.name);
        if is_let_in {
            let ran = run(by(*other).args(["use", &theirs]), LIMIT).expect_success();
            assert_eq!(ran.stdout, "use: ok\n", "{name}: {ran}");
        } else {
            let ran = run(by(*other).args(["fault", &theirs]), LIMIT).expect_success();
            assert_eq!(ran.stdout, NOT_ALLOWED, "{name}: {ran}");
        }
        // The name of one user is not another's.
        let ran = run(by(*other).args(["fault", &server.name]), LIMIT).expect_success();
        assert_eq!(ran.stdout, NO_SERVICE, "{name}: {ran}");
        run(by(*owner).args(["stop", &server.name]), LIMIT).expect_success();
        server.expect_end();
    }
}

/// A connection without the library.
fn raw(name: &str) -> OwnedFd {
    let uid = rustix::process::geteuid().as_raw();
    let name = format!("tutti-service/{uid}/{name}");
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(LIMIT)).expect("a socket of ours");
    net::connect(&socket, &address).expect("the service");
    socket
}

/// Bytes that come; none when the service has closed the connection.
fn answer(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut packet = vec![0; 1 << 16];
    let (_, bytes) = net::recv(socket, &mut packet[..], RecvFlags::empty()).unwrap_or((0, 0));
    (bytes > 0).then(|| packet[..bytes].to_vec())
}

/// Packets of random bytes and lengths, questions without answers taken, as many connections as may be.
#[test]
fn service_survives_clients_that_send_anything() {
    let scratch = Scratch::new("cxx-service-hostile");
    let Some(client) = compiled(&scratch) else { return };
    let server = Server::start(Command::new(&client), "hostile", "user", scratch.path());
    let open = [&0x5453_7631_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0; 32]].concat();
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    let honest = raw(&server.name);
    let mut asked = 0;
    for _ in 0..300 {
        let socket = raw(&server.name);
        // A right head in half of them.
        let mut packet = if random.below(2) == 0 { open.clone() } else { Vec::new() };
        let more = random.below(200) as usize;
        packet.extend((0..more).map(|_| random.below(256) as u8));
        let is_question = packet == open;
        if packet.is_empty() {
            continue;
        }
        let _ = net::send(&socket, &packet, SendFlags::NOSIGNAL);
        assert_eq!(answer(&socket).is_some(), is_question, "{packet:?}");
        net::send(&honest, &open, SendFlags::NOSIGNAL).expect("its connection stays");
        asked += usize::from(answer(&honest).is_some_and(|signatures| signatures.len() > 16));
    }
    assert!(asked > 250, "{asked} answers");
    // One that asks and takes no answer is closed, and holds nobody up.
    let deaf = raw(&server.name);
    await_that("the service closes who takes no answers", || {
        loop {
            match net::send(&deaf, &open, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => break true,
                Err(_) => break false,
            }
        }
    });
    let ran = run(Command::new(&client).args(["use", &server.name]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "use: ok\n", "{ran}");
    // One user has so many connections, and then none until one ends.
    let many: Vec<_> = (1..128).map(|_| raw(&server.name)).collect();
    for socket in &many {
        net::send(socket, &open, SendFlags::NOSIGNAL).expect("there is room");
        assert!(answer(socket).is_some());
    }
    let ran = run(Command::new(&client).args(["fault", &server.name]), LIMIT).expect_success();
    assert_eq!(ran.stdout, BUSY, "{ran}");
    drop(many);
    await_that("connections that ended make room", || {
        run(Command::new(&client).args(["use", &server.name]), LIMIT).status.success()
    });
    drop(honest);
    run(Command::new(&client).args(["stop", &server.name]), LIMIT).expect_success();
    server.expect_end();
}
