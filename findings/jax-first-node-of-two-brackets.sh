#!/bin/bash
# Slurm names nodes by expressions with one or more ranges: "Multiple numeric ranges can be included in the expression (e.g.
# "rack[0-63]_blade[0-41]")" (slurm.conf(5), NodeName), and SLURM_STEP_NODELIST has the nodes of a step in that form. JAX 0.10.2,
# whose jax.distributed.initialize() takes the first of them as the coordinator, stops at the first range: it is rack2 for
# rack[2-3]_blade[0-1], and no node has that name. ClusterShell 1.10.1 and
# python-hostlist 2.3.0 say rack2_blade0. With one range all agree. Seen with the wheels of PyPI on Python 3.11.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jax==0.10.2 clustershell==1.10.1 python-hostlist==2.3.0
SLURM_JOB_ID=7 venv/bin/python - <<'END'
import os
from ClusterShell.NodeSet import NodeSet
from hostlist import expand_hostlist
from jax._src.clusters.slurm_cluster import SlurmCluster

seen = []
for nodes in "node[007-009,012]", "rack[2-3]_blade[0-1]":
    os.environ["SLURM_STEP_NODELIST"] = nodes
    jax = SlurmCluster.get_coordinator_address(None, None).split(":")[0]
    seen.append([jax, str(NodeSet(nodes)[0]), expand_hostlist(nodes)[0]])
    print(f"{nodes}: JAX {seen[-1][0]}, ClusterShell {seen[-1][1]}, python-hostlist {seen[-1][2]}")
assert seen == [["node007"] * 3, ["rack2", "rack2_blade0", "rack2_blade0"]], "this has changed"
END
