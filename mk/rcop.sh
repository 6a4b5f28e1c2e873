#!/bin/bash
# rcop.sh FOLDER LLVM_CONFIG: builds the plugin compiler/rcop into FOLDER/rcop.so, unless it is newer than all it is made of.
# Without LLVM 19 or g++ there is none: one line, and status 0.
set -euo pipefail
cd "${0%/*}/.."
folder=$1 config=$2
if ! { command -v "$config" && command -v clang-19 && command -v g++; } >/dev/null 2>&1; then
    rm -f "$folder/rcop.so"
    echo "rcop: no plugin for tutticc: clang-19, llvm-19-dev and g++ are not all there (make dsm)"
    exit 0
fi
case $("$config" --version) in
19.*) ;;
*) echo "rcop: $config is of version $("$config" --version), expected 19" >&2; exit 1 ;;
esac
mkdir -p "$folder"
read -ra flags <<<"$("$config" --cxxflags) -std=c++17 -O1 -fPIC -fno-rtti -Wall -Wextra -Wno-unused-parameter"
objects=() jobs=()
for source in compiler/rcop/*.cpp; do
    object=$folder/$(basename "$source" .cpp).o
    objects+=("$object")
    # Each is small, and a header is read by most.
    if [ -n "$(find compiler/rcop mk/rcop.sh -type f -newer "$object" 2>/dev/null || echo none)" ]; then
        g++ "${flags[@]}" -isystem "$("$config" --includedir)" -c "$source" -o "$object.new" && mv "$object.new" "$object" &
        jobs+=($!)
    fi
done
[ ${#jobs[@]} -gt 0 ] || [ ! -e "$folder/rcop.so" ] || exit 0
for job in "${jobs[@]}"; do wait "$job"; done
g++ -shared -o "$folder/rcop.so.new" "${objects[@]}"
mv "$folder/rcop.so.new" "$folder/rcop.so"
