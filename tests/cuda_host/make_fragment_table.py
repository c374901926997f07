#!/usr/bin/env python3
"""Makes fragment_table.h from CuTe's headers: which lane holds which element of the matrices of
mma.sync and ldmatrix, as somebody else wrote it down.

    pip install nvidia-cutlass==4.2.0.0        # in an environment of its own
    make_fragment_table.py INCLUDE_FOLDER > fragment_table.h

INCLUDE_FOLDER is where cute/ lies; CUDA's own headers are found by CUDA_HOME.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = r"""
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/tensor.hpp>
#include <cstdio>

// CuTe counts elements by columns: row + column * rows.
template <class Layout>
void table(const char* name, Layout layout, int elements, int rows, int first_bit_per_element) {
  std::printf("inline constexpr FragmentPlace %s[32][%d] = {\n", name, elements);
  for (int lane = 0; lane < 32; ++lane) {
    std::printf("    {");
    for (int i = 0; i < elements; ++i) {
      const int at = static_cast<int>(layout(lane, i * first_bit_per_element)) / first_bit_per_element;
      std::printf("{%d, %d}%s", at % rows, at / rows, i + 1 < elements ? ", " : "},\n");
    }
  }
  std::printf("};\n");
}

// An ldmatrix's target counts bits of 8 rows of 16 bytes, row by row.
template <class Layout>
void rows_table(const char* name, Layout layout) {
  std::printf("inline constexpr FragmentPlace %s[32][2] = {\n", name);
  for (int lane = 0; lane < 32; ++lane) {
    const int low = static_cast<int>(layout(lane, 0)) / 16;
    const int high = static_cast<int>(layout(lane, 16)) / 16;
    std::printf("    {{%d, %d}, {%d, %d}},\n", low / 8, low % 8, high / 8, high % 8);
  }
  std::printf("};\n");
}

int main() {
  using namespace cute;
  using Bf16 = MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>;
  using S8 = MMA_Traits<SM80_16x8x32_S32S8S8S32_TN>;
  // B is [n, k] there and [k, n] here: rows and columns are exchanged where it is read.
  table("kTableA16", Bf16::ALayout{}, 8, 16, 1);
  table("kTableB16", Bf16::BLayout{}, 4, 8, 1);
  table("kTableD", Bf16::CLayout{}, 4, 16, 1);
  table("kTableA8", S8::ALayout{}, 16, 16, 1);
  table("kTableB8", S8::BLayout{}, 8, 8, 1);
  rows_table("kTableMatrix", Copy_Traits<SM75_U32x1_LDSM_N>::DstLayout{});
}
"""

HEADER = """// Made by make_fragment_table.py from CuTe's layouts (nvidia-cutlass 4.2.0.0): {row, column} of
// each lane's elements. B's rows are n and its columns k.
#pragma once

#include <tenon/cuda/fragment_layout.h>

// clang-format off
namespace tenon::cuda::test {
"""


def main():
    include = sys.argv[1]
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layouts.cc")
        source.write_text(PROGRAM)
        program = str(source.with_suffix(""))
        subprocess.run(["g++", "-std=c++17", "-w", f"-I{include}", f"-I{cuda}/include",
                        f"-I{cuda}/include/cccl", str(source),
                        "-o", program], check=True)
        tables = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    print(HEADER + tables + "\n}  // namespace tenon::cuda::test\n// clang-format on")


if __name__ == "__main__":
    main()
