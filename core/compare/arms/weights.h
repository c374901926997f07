// Arms whose weights are the base's in another type: a file in the folder of results, made before
// anything is measured and removed when the comparison has ended.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/compare/comparison.h"
#include "core/compare/folder.h"

namespace tenon::compare {

// Error: an arm wants a type that nothing writes.
Status check_weights(const Comparison& comparison);

class ArmWeights {
 public:
  explicit ArmWeights(const Folder& folder) : folder_(folder) {}
  ~ArmWeights();
  ArmWeights(const ArmWeights&) = delete;
  ArmWeights& operator=(const ArmWeights&) = delete;

  // A file with the matrices of `model` as `type`; once a type.
  struct File {
    std::string path;
    std::vector<std::string> kept;  // matrices that stay as they are: rows of no whole blocks
  };
  Result<File> made(const std::string& model, const std::string& type);

 private:
  const Folder& folder_;
  std::map<std::string, File> files_;  // by type
};

}  // namespace tenon::compare
