#!/bin/bash
# pylops-mpi 0.8.0: DistributedArray.norm(ord, axis) is the norm along an axis, "an array", on any number of processes. Of an
# array that each process has whole (Partition.BROADCAST) it is another on two processes than on one. It deals the array out
# to them again, along axis 0 whatever axis the array has: along the other axis the norms of the rows come once for each
# process, and if the array's own axis is 1 the rows of different processes are taken together, so that six rows have three
# norms. No call fails. An array that is scattered, and the norm of the whole array, are right. Seen with mpi4py 4.1.2 and
# MPICH 5.0.2 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pylops-mpi==0.8.0 pylops==2.8.0 scipy==1.17.1 numpy==2.4.6 \
    mpi4py==4.1.2 mpich==5.0.2
cat >norms.py <<'END'
import numpy as np
from mpi4py import MPI
from pylops_mpi import DistributedArray, Partition

rows = np.array([[3, 4], [6, 8], [9, 12], [12, 16], [15, 20], [18, 24.0]])
if MPI.COMM_WORLD.rank == 0:
    print("NumPy:", np.linalg.norm(rows, axis=1).tolist(), flush=True)
for partition in Partition.SCATTER, Partition.BROADCAST:
    for axis in 0, 1:
        array = DistributedArray.to_dist(rows, partition=partition, axis=axis)
        norms, whole = MPI.COMM_WORLD.gather(np.round(array.norm(2, axis=1), 2).tolist()), array.norm(2)
        if MPI.COMM_WORLD.rank == 0:
            print(f"{MPI.COMM_WORLD.size} processes, {partition.name}, axis {axis}: {norms[0]}, whole {whole:.2f}", flush=True)
END
export LD_LIBRARY_PATH=$work/venv/lib
for processes in 1 2; do
    timeout 100 venv/bin/mpiexec -n "$processes" venv/bin/python norms.py 2>/dev/null
done | tee said
cat >expected <<'END'
NumPy: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
1 processes, SCATTER, axis 0: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
1 processes, SCATTER, axis 1: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
1 processes, BROADCAST, axis 0: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
1 processes, BROADCAST, axis 1: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
NumPy: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
2 processes, SCATTER, axis 0: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
2 processes, SCATTER, axis 1: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
2 processes, BROADCAST, axis 0: [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0], whole 47.70
2 processes, BROADCAST, axis 1: [20.62, 26.93, 33.54], whole 47.70
END
cmp -s said expected || { echo "this has changed"; exit 1; }
