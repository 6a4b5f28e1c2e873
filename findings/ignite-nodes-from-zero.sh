#!/bin/bash
# pytorch-ignite 0.5.5 and py-hostlist 0.0.2.dev0, from which it has the rule, fill the numbers of a range of nodes up to the
# count of leading zeros and one more, not to the width that is written. So the nodes of node[0-3] are node00 to node03 for
# them, those of node[00-03] begin with node000, and the first of node[098-101] is node98: no node has such a name. Where
# scontrol is not found, as in a container, ignite takes the first one as MASTER_ADDR. ClusterShell 1.10.1 and
# python-hostlist 2.3.0 say node0, node00 and node098. Of ignite only the function is run, by itself: it needs no torch.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for venv in ours theirs; do python3 -m venv $venv; done
theirs/bin/pip install --quiet --disable-pip-version-check clustershell==1.10.1 python-hostlist==2.3.0
ours/bin/pip install --quiet --disable-pip-version-check --no-deps py-hostlist==0.0.2.dev0 pytorch-ignite==0.5.5
cat >ours.py <<'END'
import ast, glob, re
from hostlist.hostlist import expand

source = open(glob.glob("ours/lib/python3*/site-packages/ignite/distributed/comp_models/native.py")[0]).read()
function = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "_expand_hostlist")
names = {"re": re}
exec(ast.unparse(function), names)
for nodes in "node[1-3]", "node[0-3]", "node[00-03]", "node[098-101]":
    print(f"{nodes}: ignite {names['_expand_hostlist'](nodes)[0]}, py-hostlist {expand(nodes).split(',')[0]}")
END
cat >theirs.py <<'END'
from ClusterShell.NodeSet import NodeSet
from hostlist import expand_hostlist

for nodes in "node[1-3]", "node[0-3]", "node[00-03]", "node[098-101]":
    print(f"{nodes}: ClusterShell {NodeSet(nodes)[0]}, python-hostlist {expand_hostlist(nodes)[0]}")
END
{ timeout 60 ours/bin/python ours.py && timeout 60 theirs/bin/python theirs.py; } | tee said
cat >expected <<'END'
node[1-3]: ignite node1, py-hostlist node1
node[0-3]: ignite node00, py-hostlist node00
node[00-03]: ignite node000, py-hostlist node000
node[098-101]: ignite node98, py-hostlist node98
node[1-3]: ClusterShell node1, python-hostlist node1
node[0-3]: ClusterShell node0, python-hostlist node0
node[00-03]: ClusterShell node00, python-hostlist node00
node[098-101]: ClusterShell node098, python-hostlist node098
END
cmp -s said expected || { echo "this has changed"; exit 1; }
