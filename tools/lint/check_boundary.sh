#!/usr/bin/env bash
# Each boundary and SDK header compiles alone, warning-free, with every compiler that is here; an
# example plugin and the SDK's library link with nothing of the core. Arguments: folder with abi_generated.h's parent.
set -euo pipefail
cd "$(dirname "$0")/../.."
generated=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -Wall -Wextra -Wshadow -Werror -Icore/include -Isdk/include "-I$generated")
count=0
for compiler in g++ clang++; do
  command -v $compiler > /dev/null || { echo "$compiler is not here: skipped"; continue; }
  for header in core/include/tenon/*.h $(find sdk/include -name '*.h'); do
    name=${header#core/include/}
    name=${name#sdk/include/}
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" > "$work/alone.cc"
    $compiler "${flags[@]}" -fsyntax-only "$work/alone.cc"
    count=$((count + 1))
  done
  $compiler "${flags[@]}" -O1 -fPIC -shared -fvisibility=hidden -Wl,-z,defs \
    -Wl,--version-script=sdk/cmake/plugin.map sdk/examples/01-minimal/lottery.cc \
    sdk/src/*/*.cc -o "$work/lottery.so"
  exported=$(nm -D --defined-only "$work/lottery.so" | awk '{print $3}')
  [[ $exported == tenon_plugin_library_v1 ]] || { echo "$compiler: exports are: $exported"; exit 1; }
done
echo "$count headers compile alone; the example plugin exports one symbol"
