#!/bin/bash
# metricstash 0.1.0, which collects metrics into SQLite, takes answers of the type application/openmetrics-text and reads
# them by prometheus_client's parser of the older text format. There a time behind a value is in milliseconds; in
# OpenMetrics "Timestamps MUST be Unix Epoch in seconds". So a sample of 2026 is stored in 1970, where no query with a
# range finds it. An exemplar ("# {...} 0.25") becomes a time too: 0.25 ms after the epoch. The same sample as text/plain,
# in milliseconds, is stored right. Seen with prometheus-client 0.26.0; all on loopback.
set -euo pipefail
work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
server=
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check metricstash==0.1.0 prometheus-client==0.26.0 aiohttp==3.14.5
cat >server.py <<'END'
import http.server, os
OPEN = "# TYPE load gauge\nload 7 1790000000.5\n# TYPE jobs counter\njobs_total 3 # {job=\"12\"} 0.25\n# EOF\n"
TEXT = "# TYPE load gauge\nload 7 1790000000500\n# TYPE jobs_total counter\njobs_total 3\n"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_open = self.path == "/open"
        kind = "application/openmetrics-text; version=1.0.0; charset=utf-8" if is_open else "text/plain; version=0.0.4"
        body = (OPEN if is_open else TEXT).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open("port.new", "w").write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
END
python3 server.py &
server=$!
for _ in $(seq 100); do [ -e port ] && break; sleep 0.1; done
# The parser of OpenMetrics of the same package accepts the answer, so it is valid.
venv/bin/python - <<'END'
import os, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
text = urllib.request.urlopen(f"http://127.0.0.1:{open('port').read()}/open").read().decode()
assert float(list(parse(text))[0].samples[0].timestamp) == 1790000000.5
END
for kind in open text; do
    cat >$kind.toml <<END
[[tasks]]
system = "s"
module = "m"
[[tasks.metrics]]
name = "load"
type = "gauge"
[[tasks.metrics]]
name = "jobs_total"
type = "counter"
[[tasks.targets]]
url = "http://127.0.0.1:$(cat port)/$kind"
END
    venv/bin/metricstash collect --config $kind.toml --db $kind.db >said 2>&1 || { cat said; exit 1; }
done
venv/bin/python - <<'END'
import sqlite3, time
seen = {}
for kind in ("open", "text"):
    rows = sqlite3.connect(kind + ".db").execute(
        "SELECT metric_name, sample_timestamp_ms FROM samples JOIN series ON id = series_id "
        "WHERE metric_name IN ('load', 'jobs_total')")
    for name, ms in rows:
        seen[kind, name] = ms
        print(f"metricstash 0.1.0, {kind}: {name} at", time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms / 1000)))
assert seen["text", "load"] == 1790000000500, seen
assert seen["open", "load"] < 10**10 and seen["open", "jobs_total"] < 10, seen
END
