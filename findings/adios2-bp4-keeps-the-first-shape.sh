#!/bin/bash
# The shape of a global array of ADIOS2 may change from step to step. Here it has 2, 3 and 4 numbers. ADIOS2 2.12.1 knows
# that, in both of its formats: Variable.shape() is 2, 3, 4. Stream.read(name) without a selection gives all of it from a file
# of BP5. From BP4 it gives the first two of each step, since count() stays at 2: the rest is lost without a word. A part that
# was read in one step is all that BP4 reads in the next ones; in BP5 each step begins anew. In a file that is open for random
# access ("rra") both give two numbers of the last step, whose shape they know, and go on to give the part that was asked for
# once. Seen with the wheel of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check adios2==2.12.1.1001 numpy==2.4.6
cat >grow.py <<'END'
import numpy as np
from adios2 import Adios, Stream

for engine in "BP4", "BP5":

    def stream(mode):
        io = Adios().declare_io("io")
        io.set_engine(engine)
        return Stream(io, engine, mode)

    with stream("w") as file:
        for step in file.steps(3):
            n = step.current_step() + 2
            step.write("grows", np.arange(n, dtype="i4"), [n], [0], [n])
            step.write("same", np.arange(4, dtype="i4"), [4], [0], [4])
    with stream("r") as file:
        said = [f"{step.inquire_variable('grows').shape()} {step.read('grows').tolist()}" for step in file.steps()]
    print(f"{engine}, step by step:", ", ".join(said))
    with stream("r") as file:
        said = [step.read("same", [1], [1] if step.current_step() == 0 else []).tolist() for step in file.steps()]
    print(f"{engine}, a part in the first step:", *said)
    with stream("rra") as file:
        shape, last = file.inquire_variable("grows").shape(2), file.read("grows", step_selection=[2, 1])
        print(f"{engine}, random access: {shape} {last.tolist()},", end=" ")
        print("a part, and all:", file.read("same", [1], [1]).tolist(), file.read("same").tolist())
END
timeout 100 venv/bin/python grow.py | tee said
cat >expected <<'END'
BP4, step by step: [2] [0, 1], [3] [0, 1], [4] [0, 1]
BP4, a part in the first step: [1] [1] [1]
BP4, random access: [4] [0, 1], a part, and all: [1] [1]
BP5, step by step: [2] [0, 1], [3] [0, 1, 2], [4] [0, 1, 2, 3]
BP5, a part in the first step: [1] [0, 1, 2, 3] [0, 1, 2, 3]
BP5, random access: [4] [0, 1], a part, and all: [1] [1]
END
cmp -s said expected || { echo "this has changed"; exit 1; }
