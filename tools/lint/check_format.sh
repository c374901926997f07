#!/usr/bin/env bash
# Every C++ file is as clang-format leaves it. With --fix, formats instead of complaining.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v clang-format > /dev/null; then
  echo "clang-format is not installed: install the package clang-format" >&2
  exit 1
fi
mapfile -t files < <(find core sdk plugins tools tests bench \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -type f | sort)
if [[ ${1:-} == --fix ]]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run -Werror "${files[@]}"
  echo "${#files[@]} files are formatted"
fi
