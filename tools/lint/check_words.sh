#!/usr/bin/env bash
# The project speaks of itself alone: no absolute paths of a machine in what is committed.
set -euo pipefail
cd "$(dirname "$0")/../.."
if git rev-parse --git-dir > /dev/null 2>&1; then
  pattern='(^|[^a-zA-Z0-9_./-])/(home|root|work|mnt|Users)/[a-zA-Z]'
  if git grep -nIE "$pattern" -- . ':!tools/lint/check_words.sh'; then
    echo "absolute paths of a machine are committed" >&2
    exit 1
  fi
fi
echo "no paths of a machine"
