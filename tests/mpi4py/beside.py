"""Compares what has become of mpi4py's tests in two runs of run.py.

    beside.py FOLDER FOLDER RANKS...

Says a line for each number of ranks, and one for each test that ended otherwise in the second folder than in the first, up to
LINES_MAX. Ends with status 1 if there is such a test, or a run that was not brought to its end.
"""

import json
import pathlib
import sys

LINES_MAX = 20


def results(folder, ranks):
    """What each test came to."""
    return json.loads((pathlib.Path(folder) / f"results-{ranks}.json").read_text())["results"]


def main():
    folders, numbers = sys.argv[1:3], sys.argv[3:]
    is_same = True
    for ranks in numbers:
        first, second = (results(folder, ranks) for folder in folders)
        others = [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]
        print(f"{ranks} rank{'' if ranks == '1' else 's'}: {len(first)} tests, of which {len(others)} ended otherwise under ours", flush=True)
        for name in others[:LINES_MAX]:
            print(f"    {name}: {first.get(name, 'not run')}, under ours {second.get(name, 'not run')}", flush=True)
        if len(others) > LINES_MAX:
            print(f"    and {len(others) - LINES_MAX} more", flush=True)
        is_same &= not others and "the suite" not in first
    sys.exit(0 if is_same else 1)


main()
