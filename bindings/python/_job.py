"""A job as the daemon describes it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any, Dict, Literal, Mapping, Optional, Tuple, cast

#: What is with a job: it waits for nodes, its nodes make ready, it runs, is suspended, is being ended, or is over.
State = Literal["waiting", "starting", "running", "suspended", "ending", "over"]


@dataclass(frozen=True)
class Job:
    """A job when the daemon was asked. Its values do not change: ask again for later ones."""

    #: Its number.
    number: int
    #: What is with it.
    state: State
    #: What its user calls it; empty: nothing.
    name: str
    #: Number of its user.
    uid: int
    #: Its ranks.
    ranks: int
    #: Its nodes, in order of ranks; empty while it waits.
    nodes: Tuple[str, ...]
    #: What runs, shortened.
    command: str
    #: Exit status, from 0 to 255, when it is over; none: not over, or not known.
    status: Optional[int]
    #: When it was submitted.
    submitted: datetime.datetime
    #: When its ranks ran.
    started: Optional[datetime.datetime]
    #: When it was over.
    ended: Optional[datetime.datetime]
    #: Why it waits for nodes.
    waits: Optional[str]
    #: Why it ended, if not by itself.
    cause: Optional[str]
    #: Files of its output; names may have the patterns of ``tutti submit -o``.
    output: Tuple[str, ...]
    #: Everything that the daemon says of it, by the names of ``tutti status --json``; may grow with releases.
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state == "over"

    def __int__(self) -> int:
        return self.number


def job_of(row: Dict[str, Any]) -> Job:
    """The job of a row of the daemon's answer. A row of another release may lack what is not in all of them."""

    def moment(name: str) -> Optional[datetime.datetime]:
        ms = row.get(name)
        return None if ms is None else datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)

    submitted = moment("submitted_ms")
    return Job(
        number=int(row["job"]),
        state=cast(State, row["state"]),
        name=row.get("name", ""),
        uid=int(row["uid"]),
        ranks=int(row["ranks"]),
        nodes=tuple(row.get("nodes", ())),
        command=row.get("command", ""),
        status=row.get("status"),
        submitted=submitted or datetime.datetime.fromtimestamp(0, datetime.timezone.utc),
        started=moment("started_ms"),
        ended=moment("ended_ms"),
        waits=row.get("waits"),
        cause=row.get("cause"),
        output=tuple(row.get("output", ())),
        raw=row,
    )
