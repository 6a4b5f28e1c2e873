// One job: facts, ranks, places, the last of its output, who waits for whom.
"use strict";

const WAITS_MAX = 64;
// What is shown of a job that goes on is asked for again after so long, and at once when its state is another.
const DETAILS_MS = 10000;
// The same of one whose end the history does not have yet.
const ENDED_MS = 2000;
let details = null;
let reading = null;

function openJob() {
  details = null;
  readJob();
}

async function readJob() {
  const job = view.job;
  const seen = state.jobs[job]?.state;
  // A number with a name is of another daemon: nothing more is known of it here.
  if (!/^[0-9]+$/.test(job)) { details = { seen, until: Infinity }; return; }
  reading = job;
  let found;
  try {
    found = await answer("/api/job/" + job);
    found.output = await outputOf(job);
  } catch (error) {
    found = { problem: String(error.message || error) };
  }
  // Another one was opened meanwhile.
  if (reading === job) reading = null;
  if (view.job !== job) return;
  // What is known stays where the server is away for a while.
  if (!found.problem || !details || details.problem) details = found;
  const isOver = found.past ? found.past.ended_ms : found.past === null;
  details.seen = seen;
  details.until = seen !== undefined ? Date.now() + DETAILS_MS : isOver ? Infinity : Date.now() + ENDED_MS;
  drawJob();
}

function refreshJob() {
  if (!details || reading === view.job || document.hidden) return;
  if (Date.now() >= details.until || details.seen !== state.jobs[view.job]?.state) readJob();
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
  $("h-job").textContent = "Job " + numberOf(view.job);
  if (!job && !past) box.append(element("p", problem || (details ? "neither the daemon nor the history knows this job" : "reading"), { class: problem ? "bad" : null }));
  const list = element("dl");
  if (job) {
    facts(list, [
      ["State", job.state], ["Array", job.task === null ? "" : "task " + job.task.split("_")[1] + " of job " + job.task.split("_")[0]], ["User", job.user], ["Name", job.name], ["Command", job.command],
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
  if (job && job.deadlock) {
    const { line, cycle } = job.deadlock;
    box.append(element("h3", "Ranks that wait for each other"), ...(cycle.length ? [waits(cycle)] : []), element("pre", line, { tabindex: "0" }));
  }
  const tasks = job ? tasksOf(job) : [];
  if (tasks.length) box.append(element("h3", "Tasks of the array that are not over"), links(tasks));
  if (now && job && now.parts.length) box.append(element("h3", "Ranks"), ranks(job, now));
  if (past && past.places && past.places.length) box.append(element("h3", "Places"), places(past.places));
  if (details && details.output) box.append(element("h3", "Output, the last of it"), element("pre", details.output, { tabindex: "0" }));
  put($("job"), box);
}

// The tasks of an array, or of a task's array, that are not over.
function tasksOf(job) {
  const array = job.task === null ? job.job : job.task.split("_")[0];
  const all = Object.values(state.jobs).filter((one) => one.task !== null && one.task.split("_")[0] === array);
  return all.sort((a, b) => order(a.task, b.task));
}

function links(jobs) {
  const list = element("p", null, { class: "tasks" });
  for (const job of jobs.slice(0, ROWS_MAX)) {
    list.append(element("a", job.task, { href: "#job/" + job.job, "data-key": job.job, title: job.state, "aria-current": job.job === view.job ? "true" : null }), " ");
  }
  if (jobs.length > ROWS_MAX) list.append("and " + (jobs.length - ROWS_MAX) + " more");
  return list;
}

// A circle of the ranks of a cycle, with an arrow from each to the next one.
function waits(cycle) {
  const pairs = cycle.map((rank, at) => [rank, cycle[(at + 1) % cycle.length]]).slice(0, WAITS_MAX);
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
