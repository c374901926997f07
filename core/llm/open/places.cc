#include "core/llm/open/places.h"

#include <filesystem>
#include <system_error>

#include "core/base/files/own_place.h"
#include "core/base/quote.h"

namespace tenon::llm {
namespace {

namespace fs = std::filesystem;

bool has_configs(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "configs" / "pipelines" / "default.toml", error);
}

}  // namespace

Result<std::string> data_folder() {
  const std::string own = own_file();
  const fs::path installed = fs::path(install_prefix(own)) / "share" / "tenon";
  if (has_configs(installed)) return installed.string();
  const fs::path source = TENON_SOURCE_FOLDER;
  if (own.starts_with(TENON_BUILD_FOLDER) && has_configs(source)) return source.string();
  return not_found(
      "Tenon's own pipelines and models are not in " + in_quotes(installed.string()) +
      "; expected there after an installation: name a pipeline with --config, or in the options");
}

Result<std::string> default_pipeline() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/pipelines/default.toml";
}

}  // namespace tenon::llm
