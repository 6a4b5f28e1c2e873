"""Jobs of Tutti from Python: submit, wait, cancel, list, ask why.

    import tutti

    job = tutti.submit(["./a.out", "input"], ranks=8, name="first")
    print(tutti.why(job))
    if tutti.wait(job).status != 0:
        ...

The daemon of this node is asked over its local socket: the one that ``TUTTI_DAEMON`` names, the user's own, the cluster's,
or the one that ``mpiexec`` has started. A job is named by its number. Errors are exceptions below :class:`Error`, each with
one line for people. :mod:`tutti.aio` has the same functions as coroutines.
"""

from ._api import cancel, hold, job, jobs, release, submit, wait, why
from ._job import Job, State
from ._wire import Error, NoDaemon, Refused

__all__ = [
    "Error",
    "Job",
    "NoDaemon",
    "Refused",
    "State",
    "cancel",
    "hold",
    "job",
    "jobs",
    "release",
    "submit",
    "wait",
    "why",
]
