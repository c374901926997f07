// The way of a model's arrays to the device: a matrix packed where kernels can read it so, else
// widened row by row through memory of the host, so that a model is never there twice. The same
// calls count bytes where nothing is to be uploaded, so that the sum cannot differ from the load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/cuda/weights/packed_matrix.h"
#include "core/model/model.h"
#include "core/parallel/column_cut.h"

namespace tenon::cuda {

// Matrices of [n_out, stride], one or several, one below the other. Rows end with zeros where
// stride is above k_in.
struct DeviceMatrix {
  const void* data = nullptr;
  int n_out = 0;
  int k_in = 0;
  int stride = 0;  // elements; bytes where `bits` is not 0
  int bits = 0;    // 0: elements of the model's type; else codes with scales, as QuantScales says
  int group = 0;
  int groups = 0;
  int rows = 0;  // of scales and zeros, from group to group
  const void* scales = nullptr;
  const uint8_t* zeros = nullptr;
  bool floats = false;
  // Where each of several ranks has some rows: who has which, `n_out` being this one's, which may
  // be none. Else null.
  const ColumnStarts* starts = nullptr;

  bool is_there() const { return n_out > 0 || starts != nullptr; }
  // Of what all ranks make.
  int columns() const { return starts == nullptr ? n_out : static_cast<int>(starts->back()); }
};

// Matrices with the same columns as one, and where each of them stands in it. Those that do not go
// together stand alone, and `all` is empty.
struct StackedMatrices {
  DeviceMatrix all;
  std::vector<DeviceMatrix> parts;
};

class WeightUpload {
 public:
  // Without memory bytes are counted alone, and pointers are null. `type` is that of matrices that
  // are not packed.
  WeightUpload(DeviceMemory* memory, Input type) : memory_(memory), type_(type) {}
  // A weight without rows, or none, makes an empty matrix. Formats that `readable_by_rows` refuses
  // are errors.
  Result<DeviceMatrix> matrix(std::span<const Weight* const> weights);
  Result<DeviceMatrix> matrix(const Weight& weight);
  // One below the other, where all are there, with the same columns, and would be packed alike or
  // not at all.
  Result<StackedMatrices> stacked(std::span<const Weight* const> weights);
  // In f32 or bf16, whatever the model's type and the weight's format.
  Result<DeviceMatrix> elements(std::span<const Weight* const> weights, Input type);
  // Null where it is empty.
  Result<const float*> vector(std::span<const float> values);

  uint64_t bytes() const { return bytes_; }
  bool has_packed() const { return packed_; }

 private:
  DeviceMatrix rows_of(const DeviceMatrix& all, uint32_t first, uint32_t count) const;
  Result<DeviceMatrix> packed(std::span<const Weight* const> weights, const PackedLayout& layout);
  Result<void*> room(uint64_t bytes, std::string_view what);
  Status send(void* to, const void* from, uint64_t bytes);

  DeviceMemory* memory_;
  Input type_;
  uint64_t bytes_ = 0;
  bool packed_ = false;
};

}  // namespace tenon::cuda
