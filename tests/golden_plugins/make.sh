#!/usr/bin/env bash
# Builds the golden plugins of today's SDK: one of each interface, as `tenon plugins new` writes them.
#
#   tests/golden_plugins/make.sh BUILD_FOLDER [INTERFACE…]
#
# into tests/golden_plugins/<boundary>/, where <boundary> is the hash of the boundary that they were
# built against. README.md says when that is to be done.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: make.sh BUILD_FOLDER [INTERFACE…]}" && pwd)
shift
interfaces=("$@")
[[ $# -gt 0 ]] || interfaces=(scheduler kv_cache attention state linear sampler drafter)
boundary=$(sed -n 's/.*TENON_BOUNDARY_HASH "\(.*\)".*/\1/p' "$build/boundary/tenon/abi_generated.h")
target=$source/tests/golden_plugins/${boundary:?no boundary hash in $build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$target"
cd "$scratch"
# The SDK's own sources function by function, so that a plugin has only what it calls.
flags=(-std=c++20 -Os -DNDEBUG -fPIC -fvisibility=hidden -ffp-contract=off -ffunction-sections
  -fdata-sections -ffile-prefix-map="$source"= -I "$source/core/include"
  -I "$source/sdk/include" -I "$build/boundary")
for file in "$source"/sdk/src/*/*.cc; do
  object=$(basename "$(dirname "$file")")_$(basename "$file" .cc).o
  ${CXX:-g++} "${flags[@]}" -c "$file" -o "$object"
done
ar rc libsdk.a ./*.o
for interface in "${interfaces[@]}"; do
  sed -e "s/@ID@/golden.$interface/g" -e "s/@CLASS@/Golden/g" \
    "$source/sdk/templates/$interface/plugin.cc.in" > "$interface.cc"
  # The flags of sdk/cmake/TenonPlugin.cmake; small rather than fast, and without symbols.
  ${CXX:-g++} "${flags[@]}" -c "$interface.cc" -o "$interface.o"
  ${CXX:-g++} -shared -Wl,--gc-sections -Wl,-z,nodelete -Wl,-z,now -Wl,-z,defs -Wl,--build-id=none \
    -Wl,--version-script="$source/sdk/cmake/plugin.map" -s "$interface.o" libsdk.a \
    -o "$target/libtenon-golden_$interface.so"
done
ls -l "$target"
