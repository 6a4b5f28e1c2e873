// The timeline in a canvas: which job ran on which node and when.
"use strict";

// Lines of a node's picture, for jobs that are there at once.
const LINES_MAX = 32;

const timeline = {
  from: 0, until: 0, live: true, data: null, asked: null, pending: false, lanes: [], hits: [], beyond: new Set(),

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
      this.lanes.push({ name, bars, lines: Math.max(1, Math.min(ends.length, LINES_MAX)), load: data.nodes[name] || [] });
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
    this.beyond = new Set();
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
        if (until < left || from > width) continue;
        if (one.line >= LINES_MAX) { this.beyond.add(one.job); continue; }
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
    $("span").textContent = moment(this.from) + " to " + moment(this.until) + (this.data ? ", " + this.counted() : "");
    document.body.dataset.bars = this.hits.length;
  },

  // Jobs of the span that is shown: more are known than that. The answer has a bound, and says so.
  counted() {
    const drawn = new Set(this.hits.map(([, , , , one]) => one.job));
    const beyond = [...this.beyond].filter((job) => !drawn.has(job)).length;
    return drawn.size + (drawn.size === 1 ? " job" : " jobs") + (beyond ? ", and " + beyond + " more than " + LINES_MAX + " at once on a node" : "")
      + (this.data.more ? "; older ones are left out: zoom in to see them" : "");
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
