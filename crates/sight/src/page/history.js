// Past jobs, the one that was submitted last first: a page of them at once, the next one when it is asked for.
// The filter stands in the address, so that a link leads to the same list.
"use strict";

const PAST_COLUMNS = [
  ["Job", "number"], ["State", ""], ["User", ""], ["Ranks", "number rare"], ["Nodes", "number rare"],
  ["Submitted", ""], ["Waited", "number rare"], ["Ran", "number"], ["Name", "rare"], ["Command", "text"],
];

const past = {
  page: 100, query: null, jobs: [], gaps: [], more: false, problem: "", list: 0, pending: 0, selected: null,

  // Parameters of the filter, without those that leave all.
  filter() {
    const given = [["uid", $("past-user").value], ["name", $("past-name").value.trim()], ["state", $("past-state").value]];
    return new URLSearchParams(given.filter(([, value]) => value)).toString();
  },

  // The list of the address; one that is there already stays as it was left.
  async open(query) {
    const wanted = new URLSearchParams(query);
    await this.users(wanted.get("uid") || "");
    if (view.name !== "history") return;
    $("past-name").value = wanted.get("name") || "";
    $("past-state").value = wanted.get("state") || "";
    if (this.query !== this.filter() || this.problem) this.begin();
  },

  async users(chosen) {
    let all = [];
    try {
      all = await answer("/api/history/users");
    } catch {
      // The list says why.
    }
    if (chosen && !all.some((one) => String(one.uid) === chosen)) all.push({ uid: chosen, user: chosen });
    const options = all.sort((a, b) => order(a.user, b.user)).map((one) => element("option", one.user, { value: one.uid }));
    $("past-user").replaceChildren(element("option", "all", { value: "" }), ...options);
    $("past-user").value = chosen;
  },

  begin() {
    Object.assign(this, { query: this.filter(), jobs: [], gaps: [], more: false, problem: "", selected: null });
    this.list += 1;
    history.replaceState(null, "", "#history" + (this.query ? "/" + this.query : ""));
    $("past-rows").replaceChildren();
    this.load();
  },

  async load() {
    if (this.pending === this.list) return;
    const list = (this.pending = this.list);
    const last = this.jobs.at(-1);
    const behind = last ? "&behind_ms=" + last.submitted_ms + "&behind_job=" + last.job : "";
    const query = this.query ? "&" + this.query : "";
    $("past-count").textContent = "reading";
    let found;
    try {
      found = await answer("/api/history?limit=" + this.page + query + behind);
    } catch (error) {
      found = { problem: String(error.message || error) };
    }
    // Another list was asked for meanwhile.
    if (list !== this.list) return;
    this.pending = 0;
    this.problem = found.problem || "";
    if (!this.problem) {
      if (!last) this.gaps = found.gaps.slice().reverse();
      this.more = found.more;
      this.put(found.jobs);
    }
    this.say();
  },

  say() {
    const { jobs, more, problem } = this;
    $("past-count").classList.toggle("bad", Boolean(problem));
    $("past-count").textContent = problem || (jobs.length ? jobs.length + (more ? " jobs, and there are more" : jobs.length === 1 ? " job" : " jobs") : "no jobs");
    // A page that could not be read can be asked for again.
    const hidden = !more && !problem;
    if (hidden && document.activeElement === $("past-more")) [...$("past-rows").querySelectorAll("a")].at(-1)?.focus();
    $("past-more").hidden = hidden;
    $("past-more").textContent = problem ? "again" : "more";
    document.body.dataset.past = problem ? "" : jobs.length;
  },

  // Rows behind those that are there; a gap stands before the first job that was submitted before it.
  put(jobs) {
    const rows = document.createDocumentFragment();
    const gaps = (until) => {
      while (this.gaps.length && this.gaps[0][0] > until) rows.append(this.gap(this.gaps.shift()));
    };
    for (const job of jobs) {
      gaps(job.submitted_ms);
      rows.append(this.row(job));
    }
    if (!this.more) gaps(-Infinity);
    this.jobs.push(...jobs);
    $("past-rows").append(rows);
  },

  gap([from, until, why]) {
    const row = element("tr");
    row.append(element("td", "gap from " + moment(from) + " to " + (until ? moment(until) : "now") + ": " + why, { colspan: PAST_COLUMNS.length, class: "gap" }));
    return row;
  },

  row(job) {
    const begun = job.started_ms !== null;
    const end = job.ended_ms ?? Date.now();
    const cells = [
      null, job.ended_ms === null ? (begun ? "running" : "waiting") : "over" + (job.status === null ? "" : "(" + job.status + ")"),
      job.user, job.ranks, job.nodes.length || "-", moment(job.submitted_ms),
      duration((begun ? job.started_ms : end) - job.submitted_ms), begun ? duration(end - job.started_ms) : "-", job.name || "-", job.command,
    ];
    const row = element("tr", null, { "data-past": job.job });
    cells.forEach((text, at) => row.append(element("td", text, { class: PAST_COLUMNS[at][1] })));
    row.firstElementChild.append(element("a", job.job, { href: "#job/" + job.job }));
    return row;
  },

  // The next row, or the one before; behind the last one the next page is asked for.
  select(by) {
    if (!this.jobs.length) return;
    const at = this.jobs.findIndex((job) => job.job === this.selected) + by;
    if (at >= this.jobs.length && this.more) this.load();
    this.selected = this.jobs[Math.min(this.jobs.length - 1, Math.max(0, at))].job;
    $("past-rows").querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    const row = $("past-rows").querySelector("[data-past='" + this.selected + "']");
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
  },

  // Whether a key was meant for the list.
  key(event) {
    if (event.key === "/") setTimeout(() => $("past-name").focus(), 0);
    else if (event.key === "j" || event.key === "k") this.select(event.key === "j" ? 1 : -1);
    else if (event.key === "m") { if (!$("past-more").hidden) this.load(); }
    else if (event.key === "Enter" && this.selected !== null && !["A", "BUTTON", "SELECT"].includes(event.target.tagName)) location.hash = "#job/" + this.selected;
    else return false;
    return true;
  },

  start() {
    $("past-columns").append(...PAST_COLUMNS.map(([title, kind]) => element("th", title, { scope: "col", class: kind.replace("text", "") })));
    $("past-filter").addEventListener("submit", (event) => { event.preventDefault(); this.begin(); });
    for (const id of ["past-user", "past-state"]) $(id).addEventListener("change", () => this.begin());
    $("past-more").addEventListener("click", () => this.load());
  },
};
