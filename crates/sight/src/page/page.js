// The page of a cluster. It reads, and does nothing else: a frame each second (/api/events), the history when
// it is asked for. Texts of users become text nodes, never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const state = { jobs: {}, nodes: {}, users: {}, at_ms: 0, rows: 0, daemon: false };
const view = { name: "cluster", job: null, sort: "job", down: false, selected: null };
const ROWS_MAX = 500;
const WAITS_MAX = 64;
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

function route() {
  takeToken();
  const words = location.hash.slice(1).split("/");
  view.name = ["cluster", "jobs", "users", "timeline", "help", "job"].includes(words[0]) ? words[0] : "cluster";
  view.job = view.name === "job" ? decodeURIComponent(words.slice(1).join("/")) : null;
  for (const section of document.querySelectorAll("[data-of]")) section.hidden = section.dataset.of !== view.name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view.name === "job") openJob();
  if (view.name === "timeline") timeline.open();
  draw();
}

function draw() {
  if (view.name === "cluster") drawCluster();
  if (view.name === "jobs") drawJobs();
  if (view.name === "users") drawUsers();
  if (view.name === "job") drawJob();
}

function drawCluster() {
  const nodes = Object.values(state.nodes).sort((a, b) => order(a.name, b.name));
  const jobs = Object.values(state.jobs);
  const running = jobs.filter((job) => job.runs).length;
  const up = nodes.filter((node) => node.state !== "lost").length;
  $("summary").textContent = up + " of " + nodes.length + " nodes, " + nodes.reduce((sum, node) => sum + node.slots, 0) + " slots, " + running + " jobs run, " + (jobs.length - running) + " wait, " + state.rows + " rows";
  const all = document.createDocumentFragment();
  for (const node of nodes) all.append(nodePicture(node));
  $("nodes").replaceChildren(all);
}

function nodePicture(node) {
  const box = element("div", null, { class: "node" });
  box.append(element("h3", node.name + " - " + node.state + (node.why ? ": " + node.why : ""), { class: node.state === "lost" ? "bad" : null }));
  const beside = node.beside.map(([job, ranks]) => "job " + job + " with " + ranks + " ranks");
  const memory = node.memory_bytes ? ", memory " + size(node.declared_bytes) + " of " + size(node.memory_bytes) + " declared" : "";
  box.append(element("p", node.slots + " slots, " + node.ranks + " ranks" + memory + (beside.length ? "; beside the rows: " + beside.join(", ") : "")));
  for (const row of Object.keys(node.rows).sort((a, b) => a - b)) {
    const matrix = element("div", null, { class: "matrix" });
    matrix.style.gridTemplateColumns = "repeat(" + Math.min(node.slots, 64) + ", minmax(0, 1fr))";
    const at = new Map(node.rows[row].map(([slot, job]) => [slot, job]));
    for (let slot = 0; slot < Math.min(node.slots, 64); slot += 1) {
      const job = at.get(slot);
      if (job === undefined) { matrix.append(element("span", "", { class: "free" })); continue; }
      const cell = element("a", job, { href: "#job/" + job, "aria-label": "row " + row + ", slot " + slot + ": job " + job });
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
    button.addEventListener("click", () => { view.down = view.sort === key && !view.down; view.sort = key; columns(); drawJobs(); });
    if (view.sort === key) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    head.append(button);
    row.append(head);
  }
  $("columns").replaceChildren(row);
}

function shownJobs() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (job) => words.every((word) => [job.job, job.state, job.user, job.name, job.command].some((text) => String(text).toLowerCase().includes(word)));
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
      if (key === "job") cell.append(element("a", job.job, { href: "#job/" + encodeURIComponent(job.job) }));
      row.append(cell);
    }
    rows.append(row);
  }
  const focused = document.activeElement && document.activeElement.closest && document.activeElement.closest("tr[data-job]");
  const back = focused ? focused.dataset.job : null;
  $("rows").replaceChildren(rows);
  // The table is made anew; whoever was on a link stays there.
  if (back !== null) {
    const link = [...$("rows").children].find((row) => row.dataset.job === back);
    if (link) link.querySelector("a").focus({ preventScroll: true });
  }
  $("more").textContent = jobs.length > ROWS_MAX ? "and " + (jobs.length - ROWS_MAX) + " more: filter them" : jobs.length ? "" : "no jobs";
}

function drawUsers() {
  const rows = document.createDocumentFragment();
  for (const user of Object.values(state.users).sort((a, b) => order(a.user, b.user))) {
    const row = element("tr");
    const cells = [user.user, user.jobs, user.waiting, user.ranks, percentPpm(user.share_ppm), percentPpm(user.used_ppm), percentPpm(user.gets_ppm), user.limits];
    for (const text of cells) row.append(element("td", text));
    rows.append(row);
  }
  $("users").replaceChildren(rows);
}

// --- one job -------------------------------------------------------------------------------------------------

let details = null;

async function openJob() {
  const job = view.job;
  details = null;
  if (!/^[0-9]+$/.test(job)) return;
  try {
    const found = await answer("/api/job/" + job);
    if (view.job !== job) return;
    details = found;
    details.output = await outputOf(job);
  } catch (error) {
    if (view.job === job) details = { problem: String(error.message || error) };
  }
  drawJob();
}

async function outputOf(job) {
  if (!sessionStorage.getItem("token")) return null;
  const response = await ask("/api/output/" + job);
  const text = await response.text();
  return response.ok ? text : "(" + text.trim() + ")";
}

function facts(list, pairs) {
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("dt", name), element("dd", value));
  }
}

function drawJob() {
  const box = document.createDocumentFragment();
  const job = state.jobs[view.job];
  const { now, past, problem } = details || {};
  $("h-job").textContent = "Job " + view.job;
  if (!job && !past) box.append(element("p", problem || (details ? "neither the daemon nor the history knows this job" : "reading"), { class: problem ? "bad" : null }));
  const list = element("dl");
  if (job) {
    facts(list, [
      ["State", job.state], ["User", job.user], ["Name", job.name], ["Command", job.command],
      ["Ranks", job.ranks], ["Nodes", job.nodes.join(" ") || job.node_count],
      [job.runs ? "Runs for" : "Waits for", duration(state.at_ms - job.since_ms)],
      ["Weight", job.weight], ["Rows", job.rows.join(", ")],
      ["Share", job.asked === null ? "" : "asks for " + percent(job.asked) + ", had " + percent(job.had) + ", computes " + percent(job.busy)],
    ]);
    if (job.messages) facts(list, [["Messages", job.messages + " sent" + (job.messages_s === null ? "" : ", " + job.messages_s + " in a second")]]);
    for (const remark of job.remarks) facts(list, [["Note", remark]]);
  }
  if (now) facts(list, [["Slices", now.turns], ["Output", now.output.join(", ")]]);
  if (past && !job) facts(list, [["State", past.ended_ms ? "over, status " + (past.status ?? "unknown") : "unknown"], ["User", past.user], ["Name", past.name], ["Command", past.command], ["Ranks", past.ranks], ["Nodes", past.nodes.join(" ")], ["Cause", past.cause]]);
  if (past) facts(list, [["Submitted", moment(past.submitted_ms)], ["Started", moment(past.started_ms)], ["Ended", past.ended_ms ? moment(past.ended_ms) : ""], ["Processors", past.cpu_us === null ? "" : (past.cpu_us / 1e6).toFixed(1) + " s"], ["Largest process", past.largest_bytes === null ? "" : size(past.largest_bytes)]]);
  box.append(list);
  const cycle = (job && job.state === "deadlock" && job.remarks.find((line) => waitsOf(line).length)) || (now && now.deadlock);
  if (cycle) box.append(element("h3", "Ranks that wait for each other"), waits(cycle), element("pre", cycle, { tabindex: "0" }));
  if (now && job && now.parts.length) box.append(element("h3", "Ranks"), ranks(job, now));
  if (past && past.places && past.places.length) box.append(element("h3", "Places"), places(past.places));
  if (details && details.output) box.append(element("h3", "Output, the last of it"), element("pre", details.output, { tabindex: "0" }));
  $("job").replaceChildren(box);
}

// Who waits for whom, as pairs of ranks: "rank 0 receives from rank 1; rank 1 waits for ranks 0, 2-3 in a
// collective call". Each waits for the next one, and for those that its words name.
function waitsOf(text) {
  const links = text.replace(/^.* for ever: /, "").split("; ").map((part) => part.match(/^rank ([0-9]+) (.*)$/));
  if (!links.every(Boolean)) return [];
  const pairs = [];
  links.forEach(([, from, words], at) => {
    const named = [...words.matchAll(/\branks? ([0-9]+(?:-[0-9]+)?)((?:, [0-9]+(?:-[0-9]+)?(?! of ))*)/g)];
    const all = named.flatMap(([whole, first, more]) => (whole.startsWith("ranks") ? (first + more).split(", ") : [first]));
    const to = new Set([Number(links[(at + 1) % links.length][1])]);
    for (const [first, last] of all.map((run) => run.split("-").map(Number))) {
      for (let rank = first; rank <= (last ?? first) && to.size < WAITS_MAX; rank += 1) to.add(rank);
    }
    // Only of itself who waits for nobody else.
    if (to.size > 1) to.delete(Number(from));
    for (const one of to) pairs.push([Number(from), one]);
  });
  return pairs;
}

// A circle of ranks with an arrow to each that a rank waits for.
function waits(text) {
  const pairs = waitsOf(text);
  const all = [...new Set(pairs.flat())].slice(0, WAITS_MAX);
  const [size, far] = [Math.min(320, 140 + 20 * all.length), 24];
  const make = (kind, attributes, label) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (label !== undefined) made.textContent = label;
    return made;
  };
  const picture = make("svg", { viewBox: "0 0 " + size + " " + size, class: "waits", role: "img", "aria-label": "who waits for whom: " + pairs.map(([from, to]) => "rank " + from + " for rank " + to).join(", ") });
  const place = (rank) => {
    const angle = (2 * Math.PI * all.indexOf(rank)) / all.length - Math.PI / 2;
    return [size / 2 + (size / 2 - far) * Math.cos(angle), size / 2 + (size / 2 - far) * Math.sin(angle)];
  };
  for (const [from, to] of pairs) {
    if (!all.includes(from) || !all.includes(to)) continue;
    const [[x, y], [u, v]] = [place(from), place(to)];
    if (from === to) {
      picture.append(make("path", { d: "M" + (x - 8) + " " + (y + 13) + "a11 11 0 1 0 16 0m-6 -2l6 2l1 6" }));
      continue;
    }
    const length = Math.hypot(u - x, v - y) || 1;
    const [dx, dy] = [(u - x) / length, (v - y) / length];
    // Two that wait for each other have two arrows side by side.
    const [ox, oy] = [-dy * 4, dx * 4];
    const [ax, ay, bx, by] = [x + dx * 16 + ox, y + dy * 16 + oy, u - dx * 18 + ox, v - dy * 18 + oy];
    picture.append(make("path", { d: "M" + ax + " " + ay + "L" + bx + " " + by + "m" + (-dx * 8 - dy * 5) + " " + (-dy * 8 + dx * 5) + "L" + bx + " " + by + "l" + (-dx * 8 + dy * 5) + " " + (-dy * 8 - dx * 5) }));
  }
  for (const rank of all) {
    const [x, y] = place(rank);
    picture.append(make("circle", { cx: x, cy: y, r: 15 }), make("text", { x, y: y + 4 }, rank));
  }
  return picture;
}

function table(titles, rows) {
  const made = element("table");
  const head = element("tr");
  for (const title of titles) head.append(element("th", title, { scope: "col" }));
  const [top, body] = [element("thead"), element("tbody")];
  top.append(head);
  for (const cells of rows) {
    const row = element("tr");
    for (const text of cells) row.append(element("td", text));
    body.append(row);
  }
  made.append(top, body);
  const wide = element("div", null, { class: "wide", tabindex: "0", role: "region", "aria-label": titles.join(", ") });
  wide.append(made);
  return wide;
}

function ranks(job, now) {
  const rows = [];
  now.parts.forEach((part, at) => {
    for (let index = 0; index < (job.node_ranks[at] || 0) && rows.length < ROWS_MAX; index += 1) {
      rows.push([(part.first ?? 0) + index, part.node, part.pids && part.pids[index] ? part.pids[index] : "-"]);
    }
  });
  return table(["Rank", "Node", "Process"], rows);
}

function places(all) {
  return table(["From", "Until", "Rows", "Slots", "Asked"], all.slice(-ROWS_MAX).map(([, from, until, rows, slots, asked]) => [moment(from), until ? moment(until) : "now", rows || "-", slots, percent(asked)]));
}

// --- timeline ------------------------------------------------------------------------------------------------

const timeline = {
  from: 0, until: 0, live: true, data: null, asked: null, pending: false, lanes: [], hits: [],

  open() {
    if (!this.until) { this.until = Date.now(); this.from = this.until - 3600000; }
    this.load();
  },

  // The span and as much on both sides, so that moving needs no answer.
  async load() {
    const length = this.until - this.from;
    if (this.pending) { this.again = true; return; }
    this.pending = true;
    try {
      const [from, until] = [Math.floor(this.from - length), Math.ceil(this.until + length)];
      this.data = await answer("/api/timeline?since_ms=" + from + "&until_ms=" + until);
      this.asked = [from, until];
      this.arrange();
    } catch (error) {
      $("span").textContent = String(error.message || error);
    }
    this.pending = false;
    this.paint();
    if (this.again) { this.again = false; this.load(); }
  },

  move(from, until) {
    const length = Math.min(Math.max(until - from, 1000), 400 * 86400000);
    const middle = (from + until) / 2;
    [this.from, this.until] = [middle - length / 2, middle + length / 2];
    this.live = this.until >= Date.now() - 1000;
    this.paint();
    if (!this.asked || this.from < this.asked[0] || this.until > this.asked[1] || (this.asked[1] - this.asked[0]) > 12 * length) this.load();
  },

  // Bars by node, each in the first line of its node that is free.
  arrange() {
    const { data } = this;
    const jobs = new Map(data.jobs.map((job) => [job.job, job]));
    const nodes = new Map(Object.keys(data.nodes).sort(order).map((name) => [name, []]));
    const bar = (name, job, from, until, rows) => {
      if (!nodes.has(name)) nodes.set(name, []);
      nodes.get(name).push({ job, from, until: until ?? Infinity, rows });
    };
    const placed = new Set();
    for (const [job, from, until, rows, slots] of data.places) {
      placed.add(job);
      for (const part of slots.split(" ").filter(Boolean)) bar(part.slice(0, part.lastIndexOf(":")), job, from, until, rows);
    }
    for (const job of data.jobs) {
      if (placed.has(job.job) || !job.started_ms) continue;
      for (const name of job.nodes) bar(name, job.job, job.started_ms, job.ended_ms, "");
    }
    this.lanes = [];
    for (const [name, bars] of nodes) {
      bars.sort((a, b) => a.from - b.from);
      const ends = [];
      const of = new Map();
      for (const one of bars) {
        // A job stays in its line.
        let line = of.get(one.job);
        if (line === undefined || ends[line] > one.from) line = ends.findIndex((end) => end <= one.from);
        if (line < 0 || line === undefined) line = ends.length;
        ends[line] = one.until;
        of.set(one.job, line);
        one.line = line;
        one.label = jobs.get(one.job);
      }
      this.lanes.push({ name, bars, lines: Math.max(1, Math.min(ends.length, 32)), load: data.nodes[name] || [] });
    }
  },

  paint() {
    if (view.name !== "timeline") return;
    requestAnimationFrame(() => this.paintNow());
  },

  paintNow() {
    const canvas = $("canvas");
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const [paper, ink, faint, line] = ["--paper", "--ink", "--faint", "--line"].map((name) => style.getPropertyValue(name));
    pen.fillStyle = paper;
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    const left = Math.min(110, width / 4);
    const x = (ms) => left + ((ms - this.from) / (this.until - this.from)) * (width - left);
    this.axis(pen, { left, width, height, x, faint, line });
    this.hits = [];
    const room = height - 22;
    const lines = this.lanes.reduce((sum, lane) => sum + lane.lines + 1, 0) || 1;
    const step = Math.max(3, Math.min(18, room / lines));
    let y = 22;
    for (const lane of this.lanes) {
      if (y > height) break;
      const tall = (lane.lines + 0.6) * step;
      pen.fillStyle = ink;
      pen.fillText(lane.name, 4, y + Math.min(12, tall), left - 8);
      this.load_(pen, lane, y + lane.lines * step, step * 0.5, x, left, faint);
      for (const one of lane.bars) {
        const from = Math.max(left, x(one.from));
        const until = Math.min(width, x(Math.min(one.until, Date.now())));
        if (until < left || from > width || one.line >= 32) continue;
        const [top, wide] = [y + one.line * step, Math.max(1, until - from)];
        pen.fillStyle = color(one.job);
        pen.fillRect(from, top, wide, step - 1);
        this.hits.push([from, top, wide, step - 1, one]);
        if (wide > 40 && step > 11) {
          pen.fillStyle = "#111";
          const label = one.label ? one.job + " " + (one.label.name || (one.label.command || "").split(" ")[0].split("/").pop()) : String(one.job);
          pen.save();
          pen.beginPath();
          pen.rect(from, top, wide, step);
          pen.clip();
          pen.fillText(label, from + 3, top + Math.min(12, step - 3));
          pen.restore();
        }
      }
      pen.fillStyle = line;
      pen.fillRect(0, y + tall, width, 1);
      y += tall + step * 0.4;
    }
    this.gaps(pen, left, width, height, x, faint);
    $("span").textContent = moment(this.from) + " to " + moment(this.until) + (this.data ? ", " + this.data.jobs.length + " jobs" : "");
    document.body.dataset.bars = this.hits.length;
  },

  axis(pen, { left, width, height, x, faint, line }) {
    const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];
    const wanted = ((this.until - this.from) / 1000) * (110 / Math.max(1, width - left));
    const step = (steps.find((one) => one >= wanted) || 7776000) * 1000;
    const shift = new Date().getTimezoneOffset() * 60000;
    for (let at = Math.ceil((this.from - shift) / step) * step + shift; at <= this.until; at += step) {
      pen.fillStyle = line;
      pen.fillRect(x(at), 16, 1, height);
      pen.fillStyle = faint;
      const text = moment(at);
      pen.fillText(step >= 86400000 ? text.slice(5, 10) : step >= 60000 ? text.slice(5, 16) : text.slice(11), x(at) + 3, 12);
    }
  },

  load_(pen, lane, y, height, x, left, faint) {
    pen.fillStyle = faint;
    lane.load.forEach(([at, , , busy], index) => {
      const next = index + 1 < lane.load.length ? lane.load[index + 1][0] : Math.min(this.until, Date.now());
      if (busy === undefined || busy === null) return;
      const [from, until] = [Math.max(left, x(at)), x(next)];
      const tall = (busy / 1000) * height;
      if (until > left && tall > 0) pen.fillRect(from, y + height - tall, Math.max(0.5, until - from), tall);
    });
  },

  gaps(pen, left, width, height, x, faint) {
    for (const [from, until] of (this.data && this.data.gaps) || []) {
      const [begin, end] = [Math.max(left, x(from)), Math.min(width, x(until ?? Date.now()))];
      if (end <= left || begin >= width) continue;
      pen.save();
      pen.beginPath();
      pen.rect(begin, 16, Math.max(1, end - begin), height);
      pen.clip();
      pen.strokeStyle = faint;
      for (let at = begin - height; at < end; at += 8) {
        pen.beginPath();
        pen.moveTo(at, height);
        pen.lineTo(at + height, 0);
        pen.stroke();
      }
      pen.restore();
    }
  },

  at(event) {
    const box = $("canvas").getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    return this.hits.find(([left, top, wide, tall]) => px >= left && px <= left + Math.max(wide, 3) && py >= top && py <= top + tall);
  },

  key(event) {
    const length = this.until - this.from;
    const moves = {
      ArrowLeft: [-length / 5, -length / 5], ArrowRight: [length / 5, length / 5],
      "+": [length / 4, -length / 4], "=": [length / 4, -length / 4], "-": [-length / 2, length / 2],
    };
    const move = moves[event.key];
    if (move) this.move(this.from + move[0], this.until + move[1]);
    return Boolean(move);
  },

  begin() {
    const canvas = $("canvas");
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      const left = Math.min(110, box.width / 4);
      const part = Math.min(1, Math.max(0, (event.clientX - box.left - left) / (box.width - left)));
      const [length, factor] = [this.until - this.from, event.deltaY > 0 ? 1.2 : 1 / 1.2];
      const fixed = this.from + part * length;
      if (event.shiftKey) this.move(this.from + (event.deltaY / 1000) * length, this.until + (event.deltaY / 1000) * length);
      else this.move(fixed - part * length * factor, fixed + (1 - part) * length * factor);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from: this.from, until: this.until, moved: false }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      if (held) {
        const shift = ((held.x - event.clientX) / canvas.clientWidth) * (held.until - held.from);
        held.moved = held.moved || Math.abs(held.x - event.clientX) > 3;
        if (held.moved) this.move(held.from + shift, held.until + shift);
        return;
      }
      const hit = this.at(event);
      const one = hit && hit[4];
      $("pointed").textContent = one ? "job " + one.job + (one.label ? " of " + one.label.user + ": " + (one.label.command || "") : "") + ", " + moment(one.from) + " to " + (one.until === Infinity ? "now" : moment(one.until)) + (one.rows ? ", row " + one.rows : "") : "";
    });
    canvas.addEventListener("pointerup", (event) => {
      const hit = held && !held.moved && this.at(event);
      held = null;
      if (hit) location.hash = "#job/" + hit[4].job;
    });
    for (const button of document.querySelectorAll("[data-span]")) {
      button.addEventListener("click", () => { const until = Date.now(); this.move(until - Number(button.dataset.span), until); });
    }
    const press = (id, key) => $(id).addEventListener("click", () => this.key({ key }));
    press("earlier", "ArrowLeft"); press("later", "ArrowRight"); press("nearer", "+"); press("farther", "-");
    $("now").addEventListener("click", () => { const length = this.until - this.from; this.move(Date.now() - length, Date.now()); });
    window.addEventListener("resize", () => this.paint());
    setInterval(() => {
      if (view.name !== "timeline" || !this.live) return;
      const length = this.until - this.from;
      [this.until, this.from] = [Date.now(), Date.now() - length];
      this.load();
    }, 5000);
  },
};

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
  if (["INPUT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (view.name === "timeline" && timeline.key(event)) { event.preventDefault(); return; }
  const views = { 1: "cluster", 2: "jobs", 3: "users", 4: "timeline", "?": "help" };
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
window.addEventListener("hashchange", route);
document.addEventListener("keydown", keys);
$("filter").addEventListener("input", drawJobs);
route();
follow();
