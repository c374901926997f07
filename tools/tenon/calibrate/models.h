// Models that `tenon calibrate` makes, in a folder that goes with it.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace tenon {

struct CalibrationShape {
  const char* shape;
  uint32_t layers;  // 0: as many as the shape has
};

class TemporaryModels {
 public:
  // Error: failed (there is no folder for temporary files).
  static Result<TemporaryModels> make();
  TemporaryModels(TemporaryModels&& other) noexcept;
  TemporaryModels(const TemporaryModels&) = delete;
  TemporaryModels& operator=(const TemporaryModels&) = delete;
  TemporaryModels& operator=(TemporaryModels&&) = delete;
  ~TemporaryModels();

  // Makes a folder in bf16 and returns its path.
  Result<std::string> folder(const CalibrationShape& shape) const;
  // The same in 8 bits, of such a folder.
  static Result<std::string> eight_bits(const std::string& folder);

 private:
  explicit TemporaryModels(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tenon
