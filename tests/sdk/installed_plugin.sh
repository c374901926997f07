#!/usr/bin/env bash
# Installs the SDK into an empty folder, builds the example plugin from a copy outside of the tree
# with nothing but what was installed, then composes it into a pipeline and runs it.
set -euo pipefail
build=$1
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/installed" --component sdk > /dev/null
cp -r "$source_dir/sdk/examples/01-minimal" "$work/lottery"
sanitize=$(sed -n 's/^TENON_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
cmake -S "$work/lottery" -B "$work/lottery/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/installed" -DTENON_SANITIZE="$sanitize" \
  -DCMAKE_CXX_FLAGS="${sanitize:+-fsanitize=$sanitize}" > /dev/null
cmake --build "$work/lottery/build" > /dev/null
"$build/bin/tenon" plugins inspect --plugin-path "$work/lottery/build/plugins" \
  scheduler/example.lottery
run() {
  "$build/bin/tenon" run "Once upon a time" --max-tokens 24 --temperature 0 --json "$@" |
    python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["requests"][0]["text"])'
}
expected=$(run)
drawn=$(run --plugin-path "$work/lottery/build/plugins" --set scheduler.plugin=example.lottery)
[[ -n $expected && $drawn == "$expected" ]] || {
  echo "the example scheduler gave '$drawn', the default one '$expected'" >&2
  exit 1
}
echo "a plugin built from installed headers runs and changes no token"
