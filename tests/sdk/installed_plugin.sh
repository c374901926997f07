#!/usr/bin/env bash
# Installs the SDK into an empty folder and builds two plugins outside of the tree with nothing but
# what was installed: the example that comes with it, of headers alone, and a KV manager out of the
# SDK's library. Then composes each into a pipeline and runs it.
set -euo pipefail
build=$1
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/installed" --component sdk > /dev/null
# What a stranger looks for: the program, its documents, its licence, something to start from.
cmake --install "$build" --prefix "$work/all" > /dev/null
for file in bin/tenon libexec/tenon/tenon-guest share/doc/tenon/LICENSE share/doc/tenon/README.md \
  share/doc/tenon/docs/architecture.md share/tenon/examples/01-minimal/lottery.cc; do
  [[ -f $work/all/$file ]] || { echo "'$file' is not installed" >&2; exit 1; }
done
grep -q "^ExecStart=$work/all/bin/tenon serve" "$work/all/lib/systemd/system/tenon.service" || {
  echo "the installed service does not start the installed program" >&2
  exit 1
}
# Pages that installed files speak of are installed, too.
grep -rhoE 'docs/[a-z0-9_/-]+\.md' "$work/all/share/tenon" | sort -u | while read -r page; do
  [[ -f $work/all/share/doc/tenon/$page ]] || { echo "'$page' is named, not installed" >&2; exit 1; }
done
# Sanitizers of two compilers do not go together.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^TENON_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
build_plugin() {  # <folder> <name>
  cp -r "$1" "$work/$2"
  cmake -S "$work/$2" -B "$work/$2/build" -G Ninja \
    -DCMAKE_PREFIX_PATH="$work/installed" -DTENON_SANITIZE="$sanitize" \
    -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="${sanitize:+-fsanitize=$sanitize}" > /dev/null
  cmake --build "$work/$2/build" > /dev/null
  grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$work/$2/build/CMakeCache.txt" || {
    echo "'$2' was not built as Release, which an empty CMAKE_BUILD_TYPE means" >&2
    exit 1
  }
}
run() {
  "$build/bin/tenon" run "Once upon a time" --max-tokens 24 --temperature 0 --json "$@" |
    python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["requests"][0]["text"])'
}
expected=$(run)
check() {  # <folder> <name> <interface> <id>
  build_plugin "$1" "$2"
  "$build/bin/tenon" plugins inspect --plugin-path "$work/$2/build/plugins" "$3/$4"
  given=$(run --plugin-path "$work/$2/build/plugins" --set "$3.plugin=$4")
  [[ -n $expected && $given == "$expected" ]] || {
    echo "$3 '$4' gave '$given', the default one '$expected'" >&2
    exit 1
  }
}
check "$work/installed/share/tenon/examples/01-minimal" lottery scheduler example.lottery
check "$source_dir/tests/sdk/borrowed" borrowed kv_cache test.borrowed
# Without CMake, by what pkg-config says; also once the tree has been moved.
if command -v pkg-config > /dev/null && [[ -z $sanitize ]]; then
  mv "$work/installed" "$work/moved"
  export PKG_CONFIG_PATH="$work/moved/lib/pkgconfig:$work/moved/lib64/pkgconfig"
  mkdir "$work/by_hand"
  # shellcheck disable=SC2046  # words are meant
  "$compiler" -O2 -shared $(pkg-config --cflags tenon) "$work/lottery/lottery.cc" \
    $(pkg-config --libs tenon) -o "$work/by_hand/libtenon-lottery.so"
  given=$(run --plugin-path "$work/by_hand" --set scheduler.plugin=example.lottery)
  [[ $given == "$expected" ]] || { echo "built by pkg-config's flags it gives '$given'" >&2; exit 1; }
  mv "$work/moved" "$work/installed"
fi
cxx=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
complaint=$("$cxx" -std=c++17 -fsyntax-only -I"$work/installed/include" \
  "$work/lottery/lottery.cc" 2>&1 || true)
[[ $complaint == *"Tenon's headers need C++20"* ]] || {
  echo "C++17 is not refused by a sentence, but so: ${complaint:0:300}" >&2
  exit 1
}
echo "plugins built from what was installed run and change no token"
