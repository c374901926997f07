#!/usr/bin/env bash
# Each boundary and SDK header compiles alone, warning-free, and all of them with every compiler that
# is here; an example plugin and the whole SDK library link with nothing of the core.
#
#   check_boundary.sh GENERATED SDK
#
# GENERATED: the folder above abi_generated.h; SDK: the built libtenon_sdk.a.
set -euo pipefail
cd "$(dirname "$0")/../.."
generated=$(realpath "$1")
sdk=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -Wall -Wextra -Wshadow -Werror -Icore/include -Isdk/include "-I$generated")
mapfile -t headers < <(find core/include sdk/include -name '*.h' | sed -E 's,^(core|sdk)/include/,,' | sort)
for header in "${headers[@]}"; do
  printf '#include <%s>\n#include <%s>\n' "$header" "$header" > "$work/alone.cc"
  g++ "${flags[@]}" -fsyntax-only "$work/alone.cc"
done
printf '#include <%s>\n' "${headers[@]}" > "$work/together.cc"
for compiler in g++ clang++; do
  command -v $compiler > /dev/null || { echo "$compiler is not here: skipped"; continue; }
  $compiler "${flags[@]}" -fsyntax-only "$work/together.cc"
  $compiler "${flags[@]}" -O1 -fPIC -shared -fvisibility=hidden -Wl,-z,defs \
    -Wl,--version-script=sdk/cmake/plugin.map sdk/examples/01-minimal/lottery.cc \
    -Wl,--whole-archive "$sdk" -Wl,--no-whole-archive -o "$work/lottery.so"
  exported=$(nm -D --defined-only "$work/lottery.so" | awk '{print $3}')
  [[ $exported == tenon_plugin_library_v1 ]] || { echo "$compiler: exports are: $exported"; exit 1; }
done
echo "${#headers[@]} headers compile alone; the example plugin exports one symbol"
