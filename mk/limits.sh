#!/bin/bash
# limits.sh ROOT: puts the table between the marks of docs/user/limits.md between those of README.md, as a list. `limits.sh ROOT -`
# only prints it.
set -euo pipefail
page=$1/docs/user/limits.md readme=$1/README.md
list=$(sed -n '/<!-- limits: begin -->/,/<!-- limits: end -->/p' "$page" |
    awk -F ' *[|] *' '/^[|]/ && !/^[|]---/ && $2 != "subject" { print "- " toupper(substr($2, 1, 1)) substr($2, 2) ": " $3 "." }' |
    fold -s -w 110 | sed 's/ *$//; /^- /!s/^/  /')
[ -n "$list" ] || { echo "limits: $page has no table between its marks" >&2; exit 1; }
if [ "${2:-}" = - ]; then
    echo "$list"
    exit 0
fi
new=$(LIST=$list awk '/<!-- limits: begin -->/ { print; print ENVIRON["LIST"]; skip = 1 } /<!-- limits: end -->/ { skip = 0 } !skip' "$readme")
echo "$new" >"$readme.new"
mv "$readme.new" "$readme"
