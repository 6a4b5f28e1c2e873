//! Readers of the page, well and ill-behaved, over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Stream};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::*;
use crate::samples;

/// An answer of a healthy server comes long before.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that ends with its test.
struct Server {
    address: SocketAddr,
    site: Arc<Site>,
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(access: Access, head_time: Duration) -> Self {
        let folder = std::env::temp_dir().join(format!("tutti-no-history-{}", std::process::id()));
        let limits = Limits { head_time, ..Limits::default() };
        let (frames, now) = (watch::Sender::default(), Mutex::default());
        let site = Arc::new(Site { frames, now, folder, hosts: Vec::new(), access, limits });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (ends, ended) = oneshot::channel();
        let served = Arc::clone(&site);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, served) => {}
                    _ = ended => {}
                }
            });
        });
        Server { address, site, ends: Some(ends), thread: Some(thread) }
    }

    fn connect(&self) -> Stream {
        let stream = Stream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        stream
    }

    /// Status and text of an answer to these bytes.
    fn send(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // One that is refused at once may be so before it has said everything.
        let _ = stream.write_all(bytes);
        answer(&mut stream)
    }

    fn get(&self, path: &str, more: &str) -> (u16, String) {
        self.send(format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{more}\r\n").as_bytes())
    }

    fn put_frame(&self, at_ms: u64) {
        let answers = samples::answers(at_ms, [0, 0]);
        let report = Report::new(&answers, &Default::default(), &tutti_client::filter::Filter::default());
        let frame = Frame::after(&self.site.frames.borrow(), &report, &answers.nodes);
        self.site.frames.send_replace(Arc::new(frame));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.ends.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// Bytes up to the end of the connection.
fn answer(stream: &mut Stream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), text)
}

#[test]
fn host_is_an_address_or_a_name_of_the_configuration() {
    let of = |host: &str| {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, HeaderValue::from_str(host).expect("a header"));
        is_host(&vec!["cluster.example".into()], &headers)
    };
    for right in ["127.0.0.1:7480", "[::1]:7480", "10.1.2.3", "LOCALHOST", "cluster.example:80"] {
        assert!(of(right), "{right}");
    }
    for wrong in ["evil.example", "evil.example:7480", "127.0.0.1.evil.example", "", "[evil]", "localhost:x"]
    {
        assert!(!of(wrong), "{wrong}");
    }
    let mut twice = HeaderMap::new();
    twice.append(header::HOST, HeaderValue::from_static("127.0.0.1"));
    twice.append(header::HOST, HeaderValue::from_static("127.0.0.1"));
    assert!(!is_host(&Vec::new(), &twice) && !is_host(&Vec::new(), &HeaderMap::new()));
}

#[test]
fn page_is_read_only_and_loads_nothing_of_elsewhere() {
    let server = Server::start(Access::Open, HEAD_TIME);
    server.put_frame(5000);
    for (path, _, content) in FILES {
        let (status, text) = server.get(path, "");
        assert_eq!(status, 200, "{path}");
        assert!(text.contains("default-src 'none'") && text.ends_with(content), "{path}");
        // A namespace of SVG is a name.
        let others = content.replace("http://www.w3.org/2000/svg", "");
        assert!(!others.contains("http:") && !others.contains("https:"), "{path}");
        assert!(!content.contains("innerHTML") && !content.contains("onclick="), "{path}");
    }
    let (status, text) = server.get("/api/state", "");
    assert!(status == 200 && text.contains("\"at_ms\":5000"), "{text}");
    let cases: [(&[u8], u16); 9] = [
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 421),
        (b"POST /api/state HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"GET /../../etc/passwd HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET /%2e%2e/etc/passwd HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET /api/job/x HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /api/history?uid=root HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /api/history?since_ms=x HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /api/history HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 503),
    ];
    for (request, expected) in cases {
        let (status, text) = server.send(request);
        assert_eq!(status, expected, "{}: {text}", String::from_utf8_lossy(request));
        let body = text.split("\r\n\r\n").nth(1).unwrap_or_default();
        assert_eq!(body.trim_end().lines().count(), 1, "{text}");
    }
}

#[test]
fn page_of_a_users_daemon_needs_the_token() {
    let server = Server::start(Access::Token("0123abcd".into()), HEAD_TIME);
    server.put_frame(5000);
    for path in
        ["/api/state", "/api/events", "/api/job/1", "/api/history", "/api/history/users", "/api/timeline"]
    {
        assert_eq!(server.get(path, "").0, 401, "{path}");
        assert_eq!(server.get(path, "Authorization: Bearer 0123abcx\r\n").0, 401, "{path}");
    }
    assert_eq!(server.get("/api/state", "Authorization: Bearer 0123abcd\r\n").0, 200);
    // Numbers alone, and the page without anything in it.
    assert_eq!((server.get("/metrics", "").0, server.get("/", "").0), (200, 200));
}

#[test]
fn page_survives_requests_that_are_nearly_right() {
    let server = Server::start(Access::Open, HEAD_TIME);
    server.put_frame(5000);
    let host = "Host: 127.0.0.1";
    let requests = [
        format!("GET /api/state HTTP/1.1\r\n{host}\r\nAccept: */*\r\n\r\n"),
        format!("GET /api/history?since_ms=5&until_ms=9&uid=1,2&limit=10 HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("GET /api/output/17 HTTP/1.1\r\n{host}\r\nAuthorization: Bearer ab12\r\n\r\n"),
        format!("GET /api/job/17 HTTP/1.0\r\n{host}\r\n\r\n"),
        format!("POST /metrics HTTP/1.1\r\n{host}\r\nContent-Length: 5\r\n\r\nhello"),
        format!("GET / HTTP/1.1\r\n{host}:80\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n".to_owned(),
    ];
    let samples = requests.map(String::into_bytes);
    // Each is a connection: fewer than of those that are only read.
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    for _ in 0..tutti_testkit::nearly::count() / 10 {
        let bytes = tutti_testkit::nearly::frame(&mut random, &samples);
        let mut stream = server.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let long = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    tutti_testkit::await_that("the page answers", || server.get("/", "").0 == 200);
    assert_eq!(server.send(long.as_bytes()).0, 431);
    // Followers that have gone are seen to be with the next frame.
    let mut second = 5;
    tutti_testkit::await_that("all have ended", || {
        second += 1;
        server.put_frame(second * 1000);
        server.site.limits.connections.available_permits() == CONNECTIONS_MAX
            && server.site.limits.followers.available_permits() == FOLLOWERS_MAX
    });
}

/// Questions to the history by their part behind the `?`: refused with one line, or answered.
#[test]
fn page_questions_that_are_nearly_right_are_answered_or_refused() {
    let scratch = tutti_testkit::Scratch::new("page-questions");
    let bounds = history::Bounds { keep_ms: i64::MAX, day_bytes: 1 << 20 };
    let mut kept = history::History::open(scratch.path(), bounds);
    let answers = samples::answers(1_000_000_000_000, [0, 0]);
    let report = Report::new(&answers, &Default::default(), &tutti_client::filter::Filter::default());
    let entry = history::Entry {
        now_ms: 1_000_000_000_000,
        pause_ms: 1000,
        events: &[],
        position: None,
        is_lost: false,
        report: Some(&report),
    };
    assert!(kept.record(&entry));
    let samples: Vec<Vec<u8>> = [
        "since_ms=1000000000000&until_ms=1000000007200&limit=10",
        "since_ms=-9223372036854775808&until_ms=9223372036854775807",
        "uid=0,7,1000&state=waiting,running,over",
        "name=a,b%5C%2Cc,%C3%A4+x&behind_ms=9223372036854775807&behind_job=-1",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let mut answered = 0_u64;
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        let target = [b"/api/history?", bytes].concat();
        let Ok(uri) = axum::http::Uri::try_from(target) else { return };
        let Ok(Query(asked)) = Query::<Asked>::try_from_uri(&uri) else { return };
        let (span, limit) = (asked.span(), asked.limit.unwrap_or(JOBS_LIMIT));
        assert!(span.from_ms <= span.until_ms);
        let Ok(meant) = asked.meant() else { return };
        assert!(meant.uids.len().max(meant.names.len()).max(meant.states.len()) <= MEANT_MAX);
        answered += 1;
        // Each opens the database: not all of them.
        if answered.is_multiple_of(20) {
            read::jobs(scratch.path(), span, &meant, limit).expect("an answer");
            read::timeline(scratch.path(), span).expect("an answer");
        }
    });
    assert!(answered > 0);
}

#[test]
fn page_gives_no_file_and_no_job_by_tricks_with_paths() {
    let server = Server::start(Access::Open, HEAD_TIME);
    server.put_frame(5000);
    for path in [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page.css/../../history.db",
        "/history.db",
        "//etc/passwd",
        "/api/job/../../etc/passwd",
        "/api/job/%2e%2e%2fhistory.db",
        "/api/",
    ] {
        let (status, text) = server.get(path, "");
        assert!([400, 404].contains(&status) && !text.contains("root:"), "{path}: {text}");
    }
    for path in [
        "/api/job/-1",
        "/api/job/18446744073709551616",
        "/api/job/1%00",
        "/api/output/1e3",
        "/api/history?since_ms=x",
        "/api/history?limit=-1",
        "/api/history?uid=0%20OR%201=1",
        "/api/timeline?until_ms=99999999999999999999",
    ] {
        assert_eq!(server.get(path, "Authorization: Bearer x\r\n").0, 400, "{path}");
    }
    assert_eq!(
        server.send(b"GET http://evil.example/api/state HTTP/1.1\r\nHost: evil.example\r\n\r\n").0,
        421
    );
    assert_eq!(server.get("/", "").0, 200);
}

#[test]
fn page_ends_connections_that_do_not_say_what_they_want() {
    let server = Server::start(Access::Open, Duration::from_millis(300));
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHo").expect("a piece");
    // The server ends it: the limit of the test is far behind that.
    assert!(slow.read_to_end(&mut Vec::new()).is_ok());
    let mut idle = server.connect();
    idle.write_all(b"GET /icon.svg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("a request");
    assert_eq!(answer(&mut idle).0, 200, "and the connection has ended");
}

#[test]
fn page_bounds_connections_and_followers() {
    let server = Server::start(Access::Open, LIMIT);
    server.put_frame(5000);
    let follow = || {
        let mut stream = server.connect();
        stream.write_all(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("a request");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        (stream, String::from_utf8_lossy(&head).into_owned())
    };
    let followers: Vec<_> = (0..FOLLOWERS_MAX).map(|_| follow()).collect();
    assert!(followers.iter().all(|(_, head)| head == "HTTP/1.1 200"));
    assert_eq!(follow().1, "HTTP/1.1 503");
    drop(followers);
    tutti_testkit::await_that("followers that have gone leave room", || {
        server.put_frame(6000);
        follow().1 == "HTTP/1.1 200"
    });
    // A thousand that say nothing: those beyond the bound are sent away, each in one line.
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..1000 {
        let mut stream = server.connect();
        stream.set_nonblocking(true).expect("a socket");
        open.push(stream.try_clone().expect("a socket"));
        let _ = stream.write(b"");
    }
    for mut stream in open.drain(CONNECTIONS_MAX..) {
        stream.set_nonblocking(false).expect("a socket");
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        let (status, text) = answer(&mut stream);
        assert!(status == 503 && text.ends_with("the page has too many connections\n"), "{text}");
        refused += 1;
    }
    assert_eq!(refused, 1000 - CONNECTIONS_MAX);
    drop(open);
    tutti_testkit::await_that("the page answers again", || server.get("/", "").0 == 200);
}

#[test]
fn follower_that_takes_nothing_is_not_waited_for() {
    let server = Server::start(Access::Open, LIMIT);
    server.put_frame(1000);
    let mut slow = server.connect();
    slow.write_all(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("a request");
    let mut bytes = [0; 1 << 16];
    let mut seen = String::new();
    while !seen.contains("event: all\nid: 1\n") {
        let read = slow.read(&mut bytes).expect("events");
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    // More frames than any buffer has room for; nobody reads, and others have their answers meanwhile.
    for second in 2..4000 {
        server.put_frame(second * 1000);
        if second % 500 == 0 {
            assert_eq!(server.get("/icon.svg", "").0, 200);
        }
    }
    let last = "\"number\":3999,";
    seen.clear();
    while !seen.contains(last) {
        let read = slow.read(&mut bytes).expect("events");
        assert!(read > 0, "the connection has ended");
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(seen.contains("event: all\n"), "it is given everything again");
    assert!(!seen.contains("\"missed\":0"), "and told that it has missed frames");
}
