#!/usr/bin/env bash
# GCC 12.2 takes the additions of a tile of 8-bit products apart from its multiplications: of
#   sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x))
# it computes all products of a block first, stores them on the stack, and adds them up afterwards,
# so that a tile of eight sums, which fits the sixteen registers of AVX2, moves more than sixty
# registers to memory and back. -O2 and -O3 do it alike; -fno-tree-reassoc and -fno-tree-ter help in
# part. An empty asm statement that holds the sum after each addition ends it. Clang keeps the sums
# in registers. Intrinsics for additions are plain + of vectors to GCC, and integers may be added
# in any order; dot products of AVX-512 VNNI and sums of floats stay where they were written, which
# is why kernels that are fast there can be slow on AVX2 alone.
#
# Seen on 2026-11-30 (x86-64), registers stored to or loaded from the stack in one tile of 4 rows x
# 16 columns x 32 products: g++ 12.2.0: 74 (-O2), 74 (-O3), 0 with the sums held; clang of ziglang
# 0.15.1: 7.
# Fails where GCC uses the stack fewer than 20 times, clang more than 12, or held sums more than 4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=12.2.0-14+deb12u1
apt-get -qq -o APT::Sandbox::User=root download "g++-12=$version" "libgcc-12-dev=$version" libisl23 libmpc3 libmpfr6 libgmp10
for package in *.deb; do dpkg -x "$package" gcc; done
python3 -m venv venv
venv/bin/pip install -q ziglang==0.15.1
cat > tile.cc <<'CODE'
#include <immintrin.h>
#ifdef HELD
inline __m256i held(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}
#else
inline __m256i held(__m256i sum) { return sum; }
#endif
void tile(const __m256i* w, const int* const* x, long groups, __m256i* y) {
  for (long g = 0; g < groups; ++g) {
    __m256i sum[4][2];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const __m256i four = _mm256_set1_epi32(x[r][g * 8 + k]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          const __m256i bytes = _mm256_loadu_si256(w + (g * 8 + k) * 2 + v);
          sum[r][v] = held(_mm256_add_epi16(sum[r][v], _mm256_maddubs_epi16(bytes, four)));
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const __m256i pairs = _mm256_madd_epi16(sum[r][v], _mm256_set1_epi16(1));
        y[r * 2 + v] = _mm256_add_epi32(y[r * 2 + v], pairs);
      }
    }
  }
}
CODE
gcc() {
  local root=$folder/gcc/usr/lib
  LD_LIBRARY_PATH=$root/x86_64-linux-gnu "$root/gcc/x86_64-linux-gnu/12/cc1plus" -quiet -ffreestanding \
    -nostdinc -isystem "$root/gcc/x86_64-linux-gnu/12/include" -D_MM_MALLOC_H_INCLUDED -mavx2 "$@" \
    tile.cc -o tile.s
  on_stack
}
clang() {
  venv/bin/python -m ziglang c++ -target x86_64-linux-gnu -ffreestanding -O2 -mavx2 -S tile.cc -o tile.s \
    2> /dev/null
  on_stack
}
on_stack() { grep -cE '^\s+vmov(dq|ap|up).*\((%rsp|%rbp)\)' tile.s || true; }
plain=$(gcc -O2)
more=$(gcc -O3)
held=$(gcc -O2 -DHELD)
other=$(clang)
echo "g++ $version: $plain (-O2), $more (-O3), $held with the sums held; clang of ziglang 0.15.1: $other"
if [ "$plain" -lt 20 ] || [ "$more" -lt 20 ] || [ "$held" -gt 4 ] || [ "$other" -gt 12 ]; then
  echo "not as it was seen"
  exit 1
fi
echo "as it was seen"
