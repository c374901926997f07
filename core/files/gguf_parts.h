// A GGUF model as it lies on the disk: one file, or parts that lie in one folder
// (docs/formats/gguf.md, "Models in parts").
//
//   NAME-00001-of-00003.gguf   the model's metadata, its first tensors | split.no 0
//   NAME-00002-of-00003.gguf   more tensors                            | split.no 1
//   NAME-00003-of-00003.gguf   the last tensors                        | split.no 2
//
// Each is a GGUF file with split.count 3 and, in split.tensors.count, the tensors of all together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/result.h"
#include "core/files/gguf.h"

namespace tenon {

// What a part's name says: "m-00002-of-00003.gguf".
struct GgufPartName {
  std::string prefix;   // "m", with its folder
  uint32_t number = 0;  // from 1
  uint32_t count = 0;
  std::string path() const;
};
std::optional<GgufPartName> gguf_part_name(const std::string& path);
// Of a model's name, what the number of a part is no part of: "m-00002-of-00003.gguf" → "m.gguf".
std::string without_gguf_part(const std::string& path);
// All files that a model may have by the name of one of them, there or not; of a file whose name is
// no part's, itself.
std::vector<std::string> gguf_part_paths(const std::string& path);

// The bytes of a tensor, where its type is known; else from its first byte on.
using GgufBytes = std::function<std::span<const std::byte>(const GgufTensor&)>;

// Opened and mapped, all parts of it.
class GgufParts {
 public:
  // `path` is any part. Errors: those of MappedFile::open and GgufFile::parse, led by the path;
  // invalid_argument for a part that is missing, wrong, or of another model, in one sentence.
  static Result<GgufParts> open(const std::string& path);

  const GgufFile& file() const { return file_; }  // its texts are borrowed from the parts
  const std::vector<MappedFile>& parts() const { return parts_; }
  std::span<const std::byte> bytes_of(const GgufTensor& tensor) const;
  uint64_t total_bytes() const;

 private:
  GgufFile file_;
  std::vector<MappedFile> parts_;
};

}  // namespace tenon
