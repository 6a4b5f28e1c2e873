//! A headless Chromium, driven by its driver over WebDriver (HTTP and JSON).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tutti_testkit::{Need, has_command};
use tutti_tests::Scratch;

/// An answer is there before that, also on a crowded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Status and body of a request to a server on this machine.
pub fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    request_with(address, method, path, "", body)
}

/// The same with further lines in the head.
pub fn request_with(address: SocketAddr, method: &str, path: &str, more: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("a request");
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        line.trim_end().to_owned()
    };
    let status = line().split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let header = line().to_ascii_lowercase();
        match header.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse::<usize>().ok(),
            Some(("transfer-encoding", value)) => is_chunked = value.trim() == "chunked",
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).expect("a body");
        }
        None if is_chunked => loop {
            let mut size = String::new();
            reader.read_line(&mut size).expect("a chunk");
            let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).expect("a chunk");
            body.extend(&chunk[..size]);
            if size == 0 {
                break;
            }
        },
        None => drop(reader.read_to_end(&mut body).expect("a body")),
    }
    (status, String::from_utf8(body).expect("text"))
}

/// A browser that ends with its test.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: Scratch,
}

impl Browser {
    /// Starts one with a window of this size; none, and the test is counted as skipped, where there is none.
    #[track_caller]
    pub fn start(name: &str, (width, height): (u32, u32)) -> Option<Self> {
        if !(has_command(Need::Browser, "chromium") && has_command(Need::Browser, "chromedriver")) {
            return None;
        }
        let profile = Scratch::new(name);
        let driver = Command::new("chromedriver")
            .args(["--port=0"])
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut driver = driver.expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.rsplit_once("on port ")?
                .1
                .trim_end_matches('.')
                .parse::<u16>()
                .ok()
                .filter(|port| *port != 0)
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("the driver names its port")));
        // What it says later is of no interest, and may not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, address, session: String::new(), _profile: profile };
        let arguments = [
            "--headless=new".into(),
            // Root has no sandbox, and the page is our own.
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-dev-shm-usage".into(),
            "--no-first-run".into(),
            "--hide-scrollbars".into(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", browser._profile.path().join("profile").display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        Some(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let (status, text) = request(self.address, method, path, &body);
        assert_eq!(status, 200, "{method} {path}: {text}");
        serde_json::from_str::<Value>(&text).expect("JSON")["value"].clone()
    }

    fn of_session(&self, command: &str) -> String {
        format!("/session/{}/{command}", self.session)
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.ask("POST", &self.of_session("url"), &json!({ "url": url }));
    }

    /// Value of a script in the page.
    pub fn run(&self, script: &str) -> Value {
        self.ask("POST", &self.of_session("execute/sync"), &json!({ "script": script, "args": [] }))
    }

    /// Value that a script hands to its last argument, later.
    pub fn run_later(&self, script: &str) -> Value {
        self.ask("POST", &self.of_session("execute/async"), &json!({ "script": script, "args": [] }))
    }

    /// Keys, as if they were pressed.
    pub fn press(&self, keys: &str) {
        let actions = keys.chars().flat_map(|key| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let actions =
            json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions.collect::<Vec<_>>() }] });
        self.ask("POST", &self.of_session("actions"), &actions);
    }

    /// Errors and warnings about pages below an address since the last call; the browser has pages of its
    /// own.
    pub fn complaints(&self, base: &str) -> Vec<String> {
        let log = self.ask("POST", &self.of_session("se/log"), &json!({ "type": "browser" }));
        let messages = log.as_array().expect("entries").iter().filter_map(|entry| entry["message"].as_str());
        messages.filter(|message| message.starts_with(base)).map(str::to_owned).collect()
    }

    /// Picture of the window, PNG in base 64.
    pub fn picture(&self) -> String {
        let picture = self.ask("GET", &self.of_session("screenshot"), &Value::Null);
        picture.as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            let (status, text) = request(self.address, "DELETE", &format!("/session/{}", self.session), "");
            assert_eq!(status, 200, "{text}");
        }
        if let Some(group) = Pid::from_raw(self.driver.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.driver.wait();
    }
}
