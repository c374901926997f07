#include "tools/tenon/calibrate/models.h"

#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "core/files/gguf.h"
#include "core/model/convert/convert.h"
#include "core/model/synth/synth.h"

namespace tenon {

namespace fs = std::filesystem;

Result<TemporaryModels> TemporaryModels::make() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "tenon-calibrate-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) {
    return failed("no temporary folder can be made; set TMPDIR to one that has 2 GB free");
  }
  return TemporaryModels(std::move(name));
}

TemporaryModels::TemporaryModels(TemporaryModels&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryModels::~TemporaryModels() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

Result<std::string> TemporaryModels::folder(const CalibrationShape& shape) const {
  const std::string path = path_ + "/" + shape.shape + "-" + std::to_string(shape.layers);
  SynthesisOptions options;
  options.out_folder = path;
  options.layers = shape.layers;
  TENON_RETURN_IF_ERROR(synthesize_model(shape.shape, options));
  return path;
}

Result<std::string> TemporaryModels::eight_bits(const std::string& folder) {
  TENON_ASSIGN_OR_RETURN(const auto model, open_model(folder));
  const std::string path = folder + ".gguf";
  TENON_RETURN_IF_ERROR(
      write_gguf_model(*model, path, {}, {.type = find_tensor_type("q8_0")}).take_status());
  return path;
}

}  // namespace tenon
