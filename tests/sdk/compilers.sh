#!/usr/bin/env bash
# A plugin as `tenon plugins new` writes it, by every compiler that is here, for each standard, with and
# without optimisation, exceptions and RTTI: it is loaded and runs, or the program says why not.
#
#   compilers.sh TENON [COMPILER…]     (default: g++-12 g++ clang++-14 clang++-19 clang++)
set -euo pipefail
tenon=$(realpath "$1")
shift
compilers=("$@")
[[ ${#compilers[@]} -gt 0 ]] || compilers=(g++-12 g++ clang++-14 clang++-19 clang++)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$tenon" plugins new scheduler acme.mine > /dev/null
built=0 skipped=0
declare -A seen
for compiler in "${compilers[@]}"; do
  path=$(realpath -q "$(command -v "$compiler" || true)" || true)
  [[ -n $path ]] || { echo "$compiler is not here: skipped"; skipped=$((skipped + 1)); continue; }
  [[ -z ${seen[$path]:-} ]] || continue
  seen[$path]=1
  # clang 14 calls the standard of 2023 by its working name.
  later=c++23
  "$compiler" -std=c++23 -fsyntax-only -x c++ /dev/null 2> /dev/null || later=c++2b
  for standard in c++20 "$later"; do
    for kind in "-O2 -DNDEBUG" "-O0 -g"; do
      for without in "" "-fno-exceptions" "-fno-rtti" "-fno-exceptions -fno-rtti"; do
        flags=()
        for flag in "-std=$standard" $kind $without -Wall -Wextra -Werror; do flags+=(--flag "$flag"); done
        what="$compiler ${flags[*]//--flag/}"
        "$tenon" plugins build mine/mine.cc -o mine.so --compiler "$compiler" "${flags[@]}" > log 2>&1 || {
          cat log >&2
          echo "not built by $what" >&2
          exit 1
        }
        "$tenon" plugins check mine.so --quick --case scheduler.random_views --case any.defaults > log 2>&1 || {
          # Refused with the reason is an answer, too; anything else is not.
          grep -q 'does not fit this program' log || { cat log >&2; echo "fails as built by $what" >&2; exit 1; }
          echo "refused: $what"
        }
        built=$((built + 1))
      done
    done
  done
  echo "$compiler: $("$compiler" --version | head -1)"
done
[[ $built -gt 0 ]] || { echo "none of these compilers is here" >&2; exit 1; }
echo "$built builds are loaded and keep their promises, $skipped compilers are not here"
