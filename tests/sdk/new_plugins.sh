#!/usr/bin/env bash
# A stranger's first hour: installs into an empty folder, moves it, lets `tenon plugins new` write a
# plugin of every interface, and follows what their READMEs say: each builds without a warning, passes
# its own tests, and generates text in its own pipeline.
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/elsewhere" > /dev/null
mv "$work/elsewhere" "$work/prefix"
tenon=$work/prefix/bin/tenon
# Sanitizers of two compilers do not go together.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^TENON_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
flags="-Wall -Wextra -Wshadow -Werror ${sanitize:+-fsanitize=$sanitize}"

fail() {
  echo "$*" >&2
  exit 1
}

quietly() {  # runs a command; shows what it said only where it fails
  "$@" > "$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "failed: $*"
  }
}

cd "$work"
for interface in scheduler kv_cache attention state linear sampler drafter kv_store; do
  quietly "$tenon" plugins new "$interface" "acme.my_$interface"
  cd "my_$interface"
  ! grep -rE '@[A-Z]+@' . || fail "$interface: a placeholder was left"
  quietly cmake -B build -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
    -DTENON_SANITIZE="$sanitize" -DCMAKE_CXX_FLAGS="$flags"
  quietly cmake --build build
  quietly ctest --test-dir build --output-on-failure --no-tests=error
  quietly "$tenon" run "Once upon a time" --max-tokens 8 --config pipeline.toml
  cd ..
done
# Without the model that the build made, the one with recurrent layers would not have been used.
quietly "$tenon" run "Once" --max-tokens 2 --config my_state/pipeline.toml --json
grep -q 'acme.my_state' "$work/log" || fail "the state kernel had nothing to do"
echo "a new plugin of every interface builds, passes its tests and runs"
