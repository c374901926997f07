// Where the program's own files are: installed next to it, or in the source tree that it was built
// from when it still lies in its build folder. Never the current folder.
#pragma once

#include <string>
#include <vector>

#include "core/llm/open/places.h"

namespace tenon {

// Folder of the running program; empty when the system does not tell.
std::string program_folder();
using llm::data_folder;
Result<std::string> chat_pipeline();  // configs/pipelines/chat.toml
Result<std::string> bundled_model();  // configs/models/tale
// What `tenon plugins new` writes from. Error: the SDK is not installed.
Result<std::string> template_folder();

// What a plugin is compiled with: folders of headers, the SDK's library, and the linker's script
// that leaves one symbol visible. Error: the SDK is not installed.
struct SdkPlaces {
  std::vector<std::string> includes;
  std::string library;
  std::string exports;
};
Result<SdkPlaces> sdk_places();

}  // namespace tenon
