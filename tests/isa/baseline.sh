#!/usr/bin/env bash
# Runs the program on emulated processors that lack what some kernels use: a stray instruction of a
# higher set ends it at once. One has nothing beyond x86-64, one has AVX2 and no AVX-512; others have
# a part of what AVX2's kernels need, or all of that and nothing else of its generation. The program
# finds that out by itself. The bits must be those of the same set, asked for by --isa, on the real
# processor: of weights in bf16, and on the first two of 8 and 4 bits.
set -euo pipefail
tenon=$1
emulator=$(command -v qemu-x86_64) || { echo "qemu-user is not installed: skipped"; exit 77; }
model=$(cd "$(dirname "$0")/../.." && pwd)/configs/models/tale
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for type in q8_0 q4_0; do
  "$tenon" model convert "$model" "$work/$type.gguf" --type $type > /dev/null
done

# What a run of three tokens says of its numerics and its logits: facts MODEL COMMAND…
facts() {
  local weights=$1
  shift
  "$@" --model "$weights" --max-tokens 3 --temperature 0 --json \
    --set limits.context_tokens=64 --set limits.max_sequences=2 |
    sed -n -e 's/.*"numerics": "\([^"]*\)".*/\1/p' -e 's/.*"digest": "\(.*\)".*/\1/p'
}
# compare SET PROCESSOR WEIGHTS…: whole runs on the emulated processor against the real one.
declare -A reals
compare() {
  local set=$1 processor=$2 weights emulated real
  shift 2
  for weights in "$@"; do
    emulated=$(facts "$weights" "$emulator" -cpu "$processor" "$tenon" run "Once upon a time")
    real=${reals[$set $weights]:=$(facts "$weights" "$tenon" run "Once upon a time" --isa "$set")}
    echo "$set on $processor, $(basename "$weights"): emulated" $emulated "- real" $real
    [[ $real == *"/$set"*[0-9a-f] && $emulated == "$real" ]]
  done
}
compare portable qemu64 "$model" "$work/q8_0.gguf" "$work/q4_0.gguf"
# Without what the emulator says that it leaves out.
haswell=Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid
if ! grep -qE '^flags.* avx2( |$)' /proc/cpuinfo; then
  echo "this processor has no AVX2: its set is not compared"
elif "$emulator" -cpu "$haswell" /bin/true 2>&1 | grep -q 'CPUID.*avx2'; then
  echo "this emulator has no AVX2: its set is not compared"
else
  compare avx2 "$haswell" "$model" "$work/q8_0.gguf" "$work/q4_0.gguf"
  compare avx2 "$haswell,-bmi1,-bmi2,-movbe,-abm,-popcnt" "$model"
  for missing in avx2 fma f16c xsave; do compare portable "$haswell,-$missing" "$model"; done
fi
