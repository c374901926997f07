#!/usr/bin/env bash
# Runs the program on an emulated processor without AVX: a stray instruction of a higher set ends
# it at once. The bits must be those of `--isa portable` on the real processor.
set -euo pipefail
tenon=$1
emulator=$(command -v qemu-x86_64) || { echo "qemu-user is not installed: skipped"; exit 77; }
digest() {
  "$@" run "Once upon a time" --max-tokens 3 --temperature 0 --json \
    --set limits.context_tokens=64 --set limits.max_sequences=2 --isa portable |
    sed -n 's/.*"digest": "\(.*\)".*/\1/p'
}
emulated=$(digest "$emulator" -cpu qemu64 "$tenon")
real=$(digest "$tenon")
echo "emulated $emulated, real $real"
[[ -n $real && $emulated == "$real" ]]
