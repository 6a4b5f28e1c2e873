//! The page over HTTP: reading only, everything bounded.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | connections | [`CONNECTIONS_MAX`] | 503, closed at once |
//! | readers that follow | [`FOLLOWERS_MAX`] | 503 |
//! | a request's head | 16 KiB, [`HEAD_TIME`] | 431, closed |
//! | answers from the history at once | [`HEAVY_MAX`] | wait of 5 s, then 503 |
//! | a reader that takes nothing | [`READER_TIME`] | closed by the kernel |
//!
//! `Host` must be an address, `localhost` or a name of the configuration: a page of elsewhere whose name
//! leads to this machine gets nothing (DNS rebinding). Below `/api` readers need the token where the daemon
//! is not root's ([`Access`]): by `tutti ps`, too, other users of the machine see less of its jobs.

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tutti_client::name_list;
use tutti_client::report::{Answers, Report};

use crate::access::{Access, is_equal};
use crate::history::{self, read};
use crate::live::{self, Frame};
use crate::metrics::{Format, Metrics, Own};
use crate::output;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 256;
/// Readers that follow at once.
pub const FOLLOWERS_MAX: usize = 64;
/// Answers from the history at once.
const HEAVY_MAX: usize = 8;
/// An answer from the history is waited for so long.
const HEAVY_TIME: Duration = Duration::from_secs(5);
/// Time for the head of a request, also for the next one of a connection.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD_BYTES: usize = 16 << 10;
/// A reader that takes nothing for so long has gone.
const READER_TIME: Duration = Duration::from_secs(30);
/// Bytes of an answer that are handed on at once.
const PIECE_BYTES: usize = 64 << 10;
/// Jobs of an answer where no limit is given.
const JOBS_LIMIT: u32 = 1000;
/// Users, names or states of a question, at most.
const MEANT_MAX: usize = 100;

/// Type of a script.
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Files of the page, with their types.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", SCRIPT, include_str!("page/page.js")),
    ("/job.js", SCRIPT, include_str!("page/job.js")),
    ("/timeline.js", SCRIPT, include_str!("page/timeline.js")),
    ("/history.js", SCRIPT, include_str!("page/history.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Rules for the browser: loads nothing of elsewhere, and shows the page in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// State of the present, for those who answer requests.
#[derive(Debug, Default)]
pub struct Now {
    /// Answers of daemons.
    pub answers: Answers,
    /// Report that follows from them.
    pub report: Report,
    /// Counters.
    pub metrics: Metrics,
}

/// Names by which the page may be asked for.
pub type Hosts = Vec<String>;

/// Sources of answers.
#[derive(Debug)]
pub struct Site {
    /// Newest frame.
    pub frames: watch::Sender<Arc<Frame>>,
    /// The present.
    pub now: Mutex<Now>,
    /// Folder of the history.
    pub folder: PathBuf,
    /// Names beside addresses and `localhost`.
    pub hosts: Hosts,
    /// Right to read.
    pub access: Access,
    /// Bounds.
    pub limits: Limits,
}

/// Room that is left below the bounds.
#[derive(Clone, Debug)]
pub struct Limits {
    connections: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    head_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            heavy: Arc::new(Semaphore::new(HEAVY_MAX)),
            head_time: HEAD_TIME,
        }
    }
}

type Shared = State<Arc<Site>>;

/// Answers requests, for ever.
pub async fn serve(listener: TcpListener, site: Arc<Site>) {
    let router = router(Arc::clone(&site));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free: some will be.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&site.limits.connections).try_acquire_owned() else {
            refuse(&stream);
            continue;
        };
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, READER_TIME.as_millis() as u32);
        let head_time = site.limits.head_time;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(head_time)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // Rubbish, and readers that go away, are no events.
            let _ = connection.await;
            drop(permit);
        });
    }
}

/// A line for one who is too many; it is not waited for.
fn refuse(stream: &TcpStream) {
    let text = "the page has too many connections\n";
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    );
    let _ = stream.try_write(answer.as_bytes());
}

fn router(site: Arc<Site>) -> Router {
    let mut router = Router::new()
        .route("/metrics", get(metrics))
        .route("/api/state", get(state))
        .route("/api/events", get(events))
        .route("/api/job/{number}", get(job))
        .route("/api/output/{number}", get(output))
        .route("/api/history", get(jobs))
        .route("/api/history/users", get(users))
        .route("/api/timeline", get(timeline));
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
    }
    router
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "there is nothing of this name") })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    let mut text: String = text.into();
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Lets a request pass, and says to the browser what the page may do.
async fn guard(State(site): Shared, request: Request, next: Next) -> Response {
    let mut response = match refusal(&site, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(site: &Site, request: &Request) -> Option<Response> {
    if !is_host(&site.hosts, request.headers()) {
        let text = "this is not the host's name: use its address, or name it in [sight] hosts";
        return Some(plain(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Some(plain(StatusCode::METHOD_NOT_ALLOWED, "the page can only be read"));
    }
    if let (Access::Token(token), true) = (&site.access, request.uri().path().starts_with("/api/"))
        && bearer(request.headers()).is_none_or(|given| !is_equal(given, token))
    {
        let text = "the page of a user's own daemon needs a token: `tutti page` prints the link";
        return Some(plain(StatusCode::UNAUTHORIZED, text));
    }
    None
}

/// An address is what the reader has typed; a name may be anybody's.
fn is_host(hosts: &Hosts, headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (given.next(), given.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match inside {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            name.parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        }
    }
}

/// Token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

async fn metrics(State(site): Shared, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::of_accept(accept);
    let free = site.limits.connections.available_permits();
    let own =
        Own { history_bytes: read::bytes(&site.folder), connections: CONNECTIONS_MAX.saturating_sub(free) };
    let text = site.present(|now| now.metrics.text(&now.report, own, format));
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

async fn state(State(site): Shared) -> Response {
    let frame = Arc::clone(&site.frames.borrow());
    json(frame.whole(0))
}

async fn events(State(site): Shared) -> Response {
    let Ok(permit) = Arc::clone(&site.limits.followers).try_acquire_owned() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many readers follow the page");
    };
    let mut last = 0;
    let frames = WatchStream::new(site.frames.subscribe()).map(move |frame| {
        let _held = &permit;
        let event = frame.event(last);
        last = frame.number;
        Ok::<_, Infallible>(event)
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

async fn job(State(site): Shared, Path(number): Path<u64>) -> Response {
    let live = site.present(|now| {
        let row = now.answers.jobs.iter().find(|row| row.job.0 == number);
        row.map(live::details)
    });
    from_history(&site, move |folder| {
        let past = read::one(&folder, number).unwrap_or_default();
        Ok(serde_json::json!({ "now": live, "past": past }))
    })
    .await
}

async fn output(State(site): Shared, Path(number): Path<u64>, headers: HeaderMap) -> Response {
    let Some(token) = bearer(&headers).map(str::to_owned) else {
        return plain(
            StatusCode::UNAUTHORIZED,
            "the output is for the job's owner: `tutti page` prints the link",
        );
    };
    let access = site.access.clone();
    let room = tokio::time::timeout(HEAVY_TIME, Arc::clone(&site.limits.heavy).acquire_owned()).await;
    let Ok(Ok(_permit)) = room else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the daemon is asked too much");
    };
    match tokio::task::spawn_blocking(move || output::tail(&access, number, &token)).await {
        Ok(Ok(text)) => plain(StatusCode::OK, text),
        Ok(Err(text)) => plain(StatusCode::FORBIDDEN, tutti_os::stderr::escape_control(&text)),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the daemon could not be asked"),
    }
}

/// Span and filter of a question to the history. A list with more than [`MEANT_MAX`] words is refused.
#[derive(Debug, Deserialize)]
struct Asked {
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    /// Users by number, separated by commas.
    uid: Option<String>,
    /// Names, separated by commas; a comma of a name is `\,`.
    name: Option<String>,
    /// States, separated by commas.
    state: Option<String>,
    /// Only jobs behind this one of a list: when it was submitted, and its number.
    behind_ms: Option<i64>,
    behind_job: Option<i64>,
    limit: Option<u32>,
}

impl Asked {
    fn span(&self) -> read::Span {
        let until_ms = self.until_ms.unwrap_or_else(history::now_ms);
        read::Span { from_ms: self.since_ms.unwrap_or(0).min(until_ms), until_ms }
    }

    /// Jobs that are meant; the name of a list that cannot be read.
    fn meant(&self) -> Result<read::Meant, &'static str> {
        let meant = read::Meant {
            uids: listed(&self.uid, |uid| uid.parse().ok()).ok_or("uid: numbers of users")?,
            names: Some(self.name.as_deref().map(name_list::split).unwrap_or_default())
                .filter(|names| names.len() <= MEANT_MAX)
                .ok_or("name: names of jobs")?,
            states: listed(&self.state, read::State::of).ok_or("state: waiting, running, over")?,
            behind: self.behind_ms.map(|ms| (ms, self.behind_job.unwrap_or(i64::MAX))),
        };
        Ok(meant)
    }
}

/// Words of a list; none: there are too many, or one of them is none.
fn listed<T>(text: &Option<String>, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let words = text.iter().flat_map(|text| text.split(','));
    let found: Vec<T> = words.map(read).collect::<Option<_>>()?;
    (found.len() <= MEANT_MAX).then_some(found)
}

async fn jobs(State(site): Shared, Query(asked): Query<Asked>) -> Response {
    let meant = match asked.meant() {
        Ok(meant) => meant,
        Err(what) => {
            let text = format!("{what}, at most {MEANT_MAX} and separated by commas, are expected");
            return plain(StatusCode::BAD_REQUEST, text);
        }
    };
    let (span, limit) = (asked.span(), asked.limit.unwrap_or(JOBS_LIMIT));
    from_history(&site, move |folder| read::jobs(&folder, span, &meant, limit)).await
}

async fn users(State(site): Shared) -> Response {
    from_history(&site, |folder| read::all_users(&folder)).await
}

async fn timeline(State(site): Shared, Query(asked): Query<Asked>) -> Response {
    let span = asked.span();
    from_history(&site, move |folder| read::timeline(&folder, span)).await
}

/// An answer from the database, by a thread that may wait for the disk.
async fn from_history<T: serde::Serialize>(
    site: &Site,
    ask: impl FnOnce(PathBuf) -> rusqlite::Result<T> + Send + 'static,
) -> Response {
    let room = tokio::time::timeout(HEAVY_TIME, Arc::clone(&site.limits.heavy).acquire_owned()).await;
    let Ok(Ok(permit)) = room else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the history has too many readers");
    };
    let folder = site.folder.clone();
    let text = |answer: T| serde_json::to_string(&answer).expect("answers are serialisable");
    let asked = tokio::task::spawn_blocking(move || ask(folder).map(text)).await;
    match asked {
        Ok(Ok(text)) => {
            ([(header::CONTENT_TYPE, "application/json")], in_pieces(text, permit)).into_response()
        }
        Ok(Err(error)) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, format!("the history cannot be read: {error}"))
        }
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the history could not be asked"),
    }
}

/// The room of an answer is free when its reader has it.
fn in_pieces(text: String, permit: OwnedSemaphorePermit) -> Body {
    let bytes = axum::body::Bytes::from(text);
    let count = bytes.len().div_ceil(PIECE_BYTES);
    let piece = move |at: usize| {
        let _held = &permit;
        let from = at * PIECE_BYTES;
        Ok::<_, Infallible>(bytes.slice(from..bytes.len().min(from + PIECE_BYTES)))
    };
    Body::from_stream(tokio_stream::iter(0..count).map(piece))
}

impl Site {
    /// Looks at the present.
    pub fn present<T>(&self, look: impl FnOnce(&mut Now) -> T) -> T {
        look(&mut self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
