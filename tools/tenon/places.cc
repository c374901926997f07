#include "tools/tenon/places.h"

#include <filesystem>
#include <system_error>

#include "core/base/quote.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

bool has_configs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "configs" / "pipelines" / "default.toml", error);
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string() : program.parent_path().string();
}

Result<std::string> data_folder() {
  const fs::path program = program_folder();
  const fs::path installed = program.parent_path() / "share" / "tenon";
  if (has_configs(installed)) return installed.string();
  const fs::path source = TENON_SOURCE_FOLDER;
  const std::string build = TENON_BUILD_FOLDER;
  if (program.string().starts_with(build) && has_configs(source)) return source.string();
  return not_found("Tenon's own pipelines and models are not in " + in_quotes(installed.string()) +
                   "; expected there after an installation: name a pipeline with --config");
}

Result<std::string> default_pipeline() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/pipelines/default.toml";
}

Result<std::string> chat_pipeline() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/pipelines/chat.toml";
}

Result<std::string> bundled_model() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/models/tale";
}

}  // namespace tenon
