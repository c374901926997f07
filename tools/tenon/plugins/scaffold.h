// A folder to begin a plugin with: sources, build, test and pipeline from the SDK's templates.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct ScaffoldRequest {
  std::string interface;  // "scheduler"
  std::string id;         // "acme.mine"
  std::string folder;     // to write; empty = the name after the vendor's, in the current folder
  std::string templates;  // folder of the templates
  std::string model;      // of the pipeline: an absolute path
  std::string prefix;     // where Tenon is installed, for the README
};

// What was written: the folder, and the plugin's files in it, by path.
struct Scaffold {
  std::string folder;
  std::vector<std::string> files;
};

// Writes the whole folder or nothing. Errors: invalid_argument (no such interface, no name of the
// form vendor.name, a folder that is not empty), failed (cannot be written), not_found (a
// template).
Result<Scaffold> write_scaffold(const ScaffoldRequest& request);

// `text` with @KEY@ of each pair replaced by its value. Error: a key that none of them has.
Result<std::string> fill_template(const std::string& text,
                                  const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace tenon
