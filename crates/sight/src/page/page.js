// The page of a cluster. It reads, and does nothing else: a frame each second (/api/events), the history when
// it is asked for. Texts of users become text nodes, never markup. The views with scripts of their own are
// loaded before: this one begins them.
"use strict";

const $ = (id) => document.getElementById(id);
const state = { jobs: {}, nodes: {}, users: {}, at_ms: 0, rows: 0, daemon: false };
const view = { name: "cluster", job: null, sort: "job", down: false, selected: null };
const ROWS_MAX = 500;
const COLORS = 12;

// --- token ---------------------------------------------------------------------------------------------------

// The link of `tutti page` has it behind the #, which no server sees.
function takeToken() {
  const found = location.hash.match(/(?:^#|&)token=([0-9A-Za-z._-]+)/);
  if (found) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", location.pathname + (location.hash.replace(/[#&]?token=[^&]*/, "") || "#cluster"));
  }
}

function ask(path, signal) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  return fetch(path, { headers, signal, cache: "no-store" });
}

async function answer(path) {
  const response = await ask(path);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

// --- small things --------------------------------------------------------------------------------------------

function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  return made;
}

// Makes the children of a box those of a fresh one, and leaves what is the same: who is on a link, has scrolled
// or has marked text stays there, although all is drawn anew each second.
function put(box, fresh) {
  const focused = document.activeElement;
  renew(box, fresh);
  if (focused && focused.isConnected && focused !== document.activeElement && box.contains(focused)) focused.focus({ preventScroll: true });
}

function renew(old, fresh) {
  const key = (node) => (node.dataset && (node.dataset.key || node.dataset.job)) || null;
  const wanted = new Set([...fresh.childNodes].map(key));
  const known = new Map([...old.childNodes].map((node) => [key(node), node]));
  for (const [name, node] of known) if (name !== null && !wanted.has(name)) node.remove();
  let at = old.firstChild;
  for (const made of [...fresh.childNodes]) {
    const name = key(made);
    const node = name !== null ? known.get(name) : at && key(at) === null && at.nodeName === made.nodeName ? at : null;
    if (!node) { old.insertBefore(made, at); continue; }
    if (node === at) at = at.nextSibling;
    else old.insertBefore(node, at);
    if (node.nodeType === Node.TEXT_NODE) { if (node.data !== made.data) node.data = made.data; continue; }
    for (const { name: gone } of [...node.attributes]) if (gone !== "style" && !made.hasAttribute(gone)) node.removeAttribute(gone);
    for (const { name: of, value } of made.attributes) if (of !== "style" && node.getAttribute(of) !== value) node.setAttribute(of, value);
    // The page's rules forbid styles in markup; this is none.
    if (node.style.cssText !== made.style.cssText) node.style.cssText = made.style.cssText;
    renew(node, made);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const percent = (permille) => (permille === null || permille === undefined ? "-" : Math.round(permille / 10) + "%");
const percentPpm = (ppm) => (ppm === null || ppm === undefined ? "-" : Math.round(ppm / 10000) + "%");

function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return days + "d " + hours + ":" + two(minutes) + ":" + two(seconds % 60);
  return hours ? hours + ":" + two(minutes) + ":" + two(seconds % 60) : minutes + ":" + two(seconds % 60);
}

function moment(ms) {
  if (!ms) return "-";
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  return date.getFullYear() + "-" + two(date.getMonth() + 1) + "-" + two(date.getDate()) + " " + two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds());
}

function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit += 1; }
  return bytes.toFixed(bytes < 10 && unit ? 1 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

// Light colours: the text on them is dark in both looks.
const color = (job) => "hsl(" + ((Number(job) * 137.5) % 360).toFixed(0) + " 65% " + (70 + (Number(job) % COLORS % 3) * 5) + "%)";
const order = new Intl.Collator("en", { numeric: true }).compare;

// --- live ----------------------------------------------------------------------------------------------------

function say(text, bad) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", Boolean(bad));
}

function take(kind, data) {
  for (const name of ["jobs", "nodes", "users"]) {
    if (kind === "all") state[name] = data[name];
    else Object.assign(state[name], data[name]);
    for (const key of (data.gone && data.gone[name]) || []) delete state[name][key];
  }
  Object.assign(state, { at_ms: data.at_ms, rows: data.rows, daemon: data.daemon });
  say(data.daemon ? moment(data.at_ms) : "no daemon answers", !data.daemon);
  document.body.dataset.frame = data.number;
  draw();
}

async function follow() {
  for (let pause = 1000; ; pause = Math.min(pause * 2, 10000)) {
    try {
      const control = new AbortController();
      const response = await ask("/api/events", control.signal);
      if (!response.ok) throw new Error((await response.text()).trim());
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        // A server that is stopped says nothing, and keeps the connection.
        const late = setTimeout(() => control.abort(), 60000);
        const { done, value } = await reader.read();
        clearTimeout(late);
        if (done) throw new Error("the page's server has ended; trying again");
        text += decoder.decode(value, { stream: true });
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
          const lines = text.slice(0, end).split("\n");
          text = text.slice(end + 2);
          const field = (name) => (lines.find((line) => line.startsWith(name + ": ")) || "").slice(name.length + 2);
          take(field("event"), JSON.parse(field("data")));
          pause = 1000;
        }
      }
    } catch (error) {
      say(String(error.message || error), true);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

// --- views ---------------------------------------------------------------------------------------------------

// A link may have been cut off in the middle of a letter.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  takeToken();
  const words = location.hash.slice(1).split("/");
  view.name = ["cluster", "jobs", "users", "timeline", "history", "help", "job"].includes(words[0]) ? words[0] : "cluster";
  view.job = view.name === "job" ? decoded(words.slice(1).join("/")) : null;
  for (const section of document.querySelectorAll("[data-of]")) section.hidden = section.dataset.of !== view.name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view.name === "job") openJob();
  if (view.name === "timeline") timeline.open();
  if (view.name === "history") past.open(words.slice(1).join("/"));
  draw();
}

function draw() {
  if (view.name === "cluster") drawCluster();
  if (view.name === "jobs") drawJobs();
  if (view.name === "users") drawUsers();
  if (view.name === "job") { drawJob(); refreshJob(); }
}

function drawCluster() {
  const nodes = Object.values(state.nodes).sort((a, b) => order(a.name, b.name));
  const jobs = Object.values(state.jobs);
  const running = jobs.filter((job) => job.runs).length;
  const up = nodes.filter((node) => node.state !== "lost").length;
  $("summary").textContent = up + " of " + nodes.length + " nodes, " + nodes.reduce((sum, node) => sum + node.slots, 0) + " slots, " + running + " jobs run, " + (jobs.length - running) + " wait, " + state.rows + " rows";
  const all = document.createDocumentFragment();
  for (const node of nodes) all.append(nodePicture(node));
  put($("nodes"), all);
}

// Number as people write it: that of a task of an array has the array's before it.
const numberOf = (job) => state.jobs[job]?.task ?? job;

function nodePicture(node) {
  const box = element("div", null, { class: "node", "data-key": node.name });
  box.append(element("h3", node.name + " - " + node.state + (node.why ? ": " + node.why : ""), { class: node.state === "lost" ? "bad" : null }));
  const beside = node.beside.map(([job, ranks]) => "job " + numberOf(job) + " with " + ranks + " ranks");
  const memory = node.memory_bytes ? ", memory " + size(node.declared_bytes) + " of " + size(node.memory_bytes) + " declared" : "";
  box.append(element("p", node.slots + " slots, " + node.ranks + " ranks" + memory + (beside.length ? "; beside the rows: " + beside.join(", ") : "")));
  for (const row of Object.keys(node.rows).sort((a, b) => a - b)) {
    const matrix = element("div", null, { class: "matrix" });
    matrix.style.gridTemplateColumns = "repeat(" + Math.min(node.slots, 64) + ", minmax(0, 1fr))";
    const at = new Map(node.rows[row].map(([slot, job]) => [slot, job]));
    for (let slot = 0; slot < Math.min(node.slots, 64); slot += 1) {
      const job = at.get(slot);
      if (job === undefined) { matrix.append(element("span", "", { class: "free" })); continue; }
      const cell = element("a", numberOf(job), { href: "#job/" + job, "aria-label": "row " + row + ", slot " + slot + ": job " + numberOf(job) });
      cell.style.background = color(job);
      matrix.append(cell);
    }
    box.append(matrix);
  }
  return box;
}

const COLUMNS = [
  ["job", "Job", "number", (job) => job.job],
  ["state", "State", "", (job) => job.state],
  ["user", "User", "", (job) => job.user],
  ["ranks", "Ranks", "number", (job) => job.ranks],
  ["node_count", "Nodes", "number rare", (job) => job.node_count],
  ["rows", "Row", "rare", (job) => job.rows.join(",") || "-"],
  ["asked", "Asked", "number rare", (job) => percent(job.asked)],
  ["had", "Had", "number", (job) => percent(job.had)],
  ["busy", "Busy", "number rare", (job) => percent(job.busy)],
  ["messages_s", "Messages/s", "number rare", (job) => (job.messages_s ?? "-")],
  ["since_ms", "Time", "number", (job) => (job.runs ? duration(state.at_ms - job.since_ms) : "(" + duration(state.at_ms - job.since_ms) + ")")],
  ["name", "Name", "rare", (job) => job.name || "-"],
  ["command", "Command", "text", (job) => job.command],
];

function columns() {
  const row = document.createDocumentFragment();
  for (const [key, title, kind] of COLUMNS) {
    const head = element("th", null, { scope: "col", class: kind.replace("text", "") });
    const button = element("button", title, { type: "button" });
    button.dataset.sort = key;
    if (view.sort === key) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    head.append(button);
    row.append(head);
  }
  put($("columns"), row);
}

function sortBy(key) {
  view.down = view.sort === key && !view.down;
  view.sort = key;
  columns();
  drawJobs();
}

function shownJobs() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (job) => words.every((word) => [job.job, job.task ?? "", job.state, job.user, job.name, job.command].some((text) => String(text).toLowerCase().includes(word)));
  const found = Object.values(state.jobs).filter(has);
  const value = (job) => (view.sort === "rows" ? job.rows.join(",") : job[view.sort]);
  found.sort((a, b) => {
    const [one, two] = [value(a), value(b)];
    const numbers = typeof one === "number" || typeof two === "number";
    return (numbers ? (one ?? -1) - (two ?? -1) : order(String(one ?? ""), String(two ?? ""))) || order(a.job, b.job);
  });
  return view.down ? found.reverse() : found;
}

function drawJobs() {
  const jobs = shownJobs();
  const rows = document.createDocumentFragment();
  for (const job of jobs.slice(0, ROWS_MAX)) {
    const row = element("tr", null, { "data-job": job.job });
    if (view.selected === job.job) row.setAttribute("aria-selected", "true");
    for (const [key, , kind, text] of COLUMNS) {
      const cell = element("td", key === "job" ? null : text(job), { class: kind });
      if (key === "job") cell.append(element("a", job.task ?? job.job, { href: "#job/" + encodeURIComponent(job.job) }));
      row.append(cell);
    }
    rows.append(row);
  }
  put($("rows"), rows);
  $("more").textContent = jobs.length > ROWS_MAX ? "and " + (jobs.length - ROWS_MAX) + " more: filter them" : jobs.length ? "" : "no jobs";
}

function drawUsers() {
  const rows = document.createDocumentFragment();
  for (const user of Object.values(state.users).sort((a, b) => order(a.user, b.user))) {
    const row = element("tr");
    const cells = [user.user, user.jobs, user.waiting, user.ranks, percentPpm(user.share_ppm), percentPpm(user.used_ppm), percentPpm(user.gets_ppm), user.limits];
    for (const text of cells) row.append(element("td", text));
    row.dataset.key = user.user;
    rows.append(row);
  }
  put($("users"), rows);
}

// --- keys ----------------------------------------------------------------------------------------------------

function look() {
  const next = { dark: "light", light: "", "": "dark" }[document.documentElement.dataset.look || ""];
  if (next) document.documentElement.dataset.look = next;
  else delete document.documentElement.dataset.look;
  localStorage.setItem("look", next);
  timeline.paint();
}

function select(by) {
  const jobs = shownJobs().slice(0, ROWS_MAX).map((job) => job.job);
  const at = jobs.indexOf(view.selected);
  view.selected = jobs[Math.min(jobs.length - 1, Math.max(0, at + by))] ?? null;
  drawJobs();
  const row = document.querySelector("tr[aria-selected]");
  if (row) row.scrollIntoView({ block: "nearest" });
}

function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") { event.target.blur(); location.hash = "#jobs"; return; }
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (view.name === "timeline" && timeline.key(event)) { event.preventDefault(); return; }
  if (view.name === "history" && past.key(event)) { event.preventDefault(); return; }
  const views = { 1: "cluster", 2: "jobs", 3: "users", 4: "timeline", 5: "history", "?": "help" };
  if (views[event.key]) location.hash = "#" + views[event.key];
  else if (event.key === "d") look();
  else if (event.key === "/") { event.preventDefault(); location.hash = "#jobs"; setTimeout(() => $("filter").focus(), 0); }
  else if (view.name === "jobs" && (event.key === "j" || event.key === "k")) select(event.key === "j" ? 1 : -1);
  else if (view.name === "jobs" && event.key === "Enter" && view.selected !== null && event.target.tagName !== "A" && event.target.tagName !== "BUTTON") location.hash = "#job/" + encodeURIComponent(view.selected);
}

const kept = localStorage.getItem("look");
if (kept) document.documentElement.dataset.look = kept;
columns();
timeline.begin();
past.start();
window.addEventListener("hashchange", route);
document.addEventListener("keydown", keys);
$("filter").addEventListener("input", drawJobs);
$("columns").addEventListener("click", (event) => { const head = event.target.closest("[data-sort]"); if (head) sortBy(head.dataset.sort); });
route();
follow();
