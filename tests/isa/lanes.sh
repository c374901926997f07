#!/usr/bin/env bash
# The vectors and the 8-bit products of every instruction set, compiled alone and held against their
# definitions and then against each other: sets that share the name of their numerics print the same
# hash of products, whatever kind of processor they are of (decision 159). Those of AArch64 are
# cross-compiled and run on emulated processors, each on one that has little beyond its set, where a
# stray instruction ends the program; so is AVX2, beside the real processor. Takes seconds; tools/arm
# builds and tests the whole program.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -O1 -ffp-contract=off -Wall -Wextra -Wshadow -Werror -I. -Icore/include -Isdk/include)
# Each starts compiling; all are run at the end: start NAME COMPILER FLAGS…
names=()
start() {
  local name=$1
  shift
  names+=("$name")
  "$@" "${flags[@]}" tests/isa/lanes_check.cc -o "$work/$name" &
  compilers[$name]=$!
}
declare -A compilers runners
has() {
  grep -qE "^flags.* $1( |$)" /proc/cpuinfo
}
avx2=(-mavx2 -mfma -mf16c)
if [[ $(uname -m) == x86_64 ]]; then
  start portable g++
  if has avx2; then start avx2 g++ "${avx2[@]}"; fi
  if has avx_vnni; then start avx_vnni g++ "${avx2[@]}" -mavxvnni; fi
  if has avx512_vnni; then
    start avx512_vnni g++ "${avx2[@]}" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
  fi
fi
arm=aarch64-linux-gnu-g++
if command -v $arm > /dev/null && command -v qemu-aarch64 > /dev/null; then
  start arm_portable $arm -static
  start neon $arm -static -DTENON_NEON
  start neon_dotprod $arm -static -DTENON_NEON -march=armv8.2-a+dotprod
  start neon_i8mm $arm -static -DTENON_NEON -march=armv8.2-a+dotprod+i8mm
  runners=([arm_portable]=cortex-a72 [neon]=cortex-a72 [neon_dotprod]=neoverse-n1 [neon_i8mm]=max)
else
  echo "no cross compiler for AArch64, or no qemu-user: its sets are skipped"
fi
# run NAME COMMAND…: runs it, and keeps its hash.
declare -A products
run() {
  local name=$1 said
  shift
  said=$("$@") || { echo "$said"; exit 1; }
  echo "$said"
  products[$name]=$(sed -n 's/^products //p' <<< "$said")
}
for name in "${names[@]}"; do
  wait "${compilers[$name]}"
  processor=${runners[$name]:-}
  run "$name" ${processor:+qemu-aarch64 -cpu $processor} "$work/$name"
done
# What has SVE runs NEON's sets: one without dot products of bytes, and vectors of two lengths.
if [[ -n ${runners[neon]:-} ]]; then
  run neon_a64fx qemu-aarch64 -cpu a64fx "$work/neon"
  run neon_i8mm_sve256 qemu-aarch64 -cpu max,sve256=on "$work/neon_i8mm"
  run neon_i8mm_sve128 qemu-aarch64 -cpu max,sve128=on "$work/neon_i8mm"
fi
haswell=Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid
if [[ -x $work/avx2 ]] && command -v qemu-x86_64 > /dev/null; then
  if qemu-x86_64 -cpu $haswell /bin/true 2>&1 | grep -q 'CPUID.*avx2'; then
    echo "this emulator has no AVX2: its set is not run without AVX-512"
  else
    run avx2_emulated qemu-x86_64 -cpu $haswell "$work/avx2"
  fi
fi
# The portable sets round twice where the others fuse.
declare -A hashes
for name in "${!products[@]}"; do
  rounding=fused
  [[ $name != *portable ]] || rounding=twice
  : "${hashes[$rounding]:=${products[$name]}}"
  if [[ -z ${products[$name]} || ${hashes[$rounding]} != "${products[$name]}" ]]; then
    echo "products of sets that share a name differ:"
    for each in "${!products[@]}"; do echo "  $each ${products[$each]}"; done
    exit 1
  fi
done
echo "equal products: ${!products[*]}"
