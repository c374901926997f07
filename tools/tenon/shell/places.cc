#include "tools/tenon/shell/places.h"

#include <filesystem>
#include <system_error>

#include "core/base/files/own_place.h"
#include "core/base/quote.h"

namespace tenon {

namespace fs = std::filesystem;

std::string program_folder() {
  // This code may lie in libtenon.
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

Result<std::string> chat_pipeline() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/pipelines/chat.toml";
}

Result<std::string> bundled_model() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  return folder + "/configs/models/tale";
}

Result<std::string> template_folder() {
  TENON_ASSIGN_OR_RETURN(const std::string folder, data_folder());
  std::error_code error;
  // As installed, and as in the source tree.
  for (const char* place : {"/templates", "/sdk/templates"}) {
    if (fs::exists(folder + place + "/common/CMakeLists.txt.in", error)) return folder + place;
  }
  return not_found("the SDK's templates are not in " + path_in_quotes(folder + "/templates") +
                   "; expected there after an installation: install Tenon's component 'sdk'");
}

Result<SdkPlaces> sdk_places() {
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  SdkPlaces places;
  if (data == TENON_SOURCE_FOLDER) {
    const std::string build = TENON_BUILD_FOLDER;
    places = {{data + "/core/include", data + "/sdk/include", build + "/boundary"},
              build + "/sdk/libtenon_sdk.a",
              data + "/sdk/cmake/plugin.map"};
  } else {
    const std::string prefix = fs::path(data).parent_path().parent_path().string();
    const std::string libraries = prefix + "/" + std::string(library_folder());
    places = {{prefix + "/include"},
              libraries + "/libtenon_sdk.a",
              libraries + "/cmake/tenon/plugin.map"};
  }
  for (const std::string& file :
       {places.includes.front() + "/tenon/plugin.h", places.library, places.exports}) {
    std::error_code error;
    if (fs::exists(file, error)) continue;
    return not_found("there is no " + path_in_quotes(file) +
                     ", which plugins are built with; expected there after an installation: "
                     "install Tenon's component 'sdk'");
  }
  return places;
}

}  // namespace tenon
