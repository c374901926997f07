// Tensors of a quantised matrix as the formats of other tools publish them
// (docs/formats/published-weights.md): the writers next to the readers of core/model/published.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/threads/worker_pool.h"
#include "core/quantize/methods/grid.h"

namespace tenon::quantize {

struct MadeTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};
using MadeTensors = std::vector<MadeTensor>;

// Rows are shared out among the pool's workers; what comes of them is the same for any number.

// GPTQ, versions 1 and 2 (which stores zero points as they are). `stem` is the matrix's name
// without ".weight", here and below. Version 1 needs zero points of at least 1.
MadeTensors gptq_tensors(const std::string& stem, const CodedMatrix& matrix, bool second_version,
                         WorkerPool& pool);
// AWQ's "gemm", of 4 bits.
MadeTensors awq_tensors(const std::string& stem, const CodedMatrix& matrix, WorkerPool& pool);

// Of a matrix w [n, k] alone; w becomes what is read back.
// bitsandbytes' NF4 in blocks of 64 values.
MadeTensors nf4_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                        WorkerPool& pool);
// compressed-tensors' "int-quantized" and "float-quantized" (E4M3), a scale a row.
MadeTensors int8_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                         WorkerPool& pool);
MadeTensors float8_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                           WorkerPool& pool);

}  // namespace tenon::quantize
