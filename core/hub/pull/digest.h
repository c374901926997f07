// Whether bytes are those that the hub names: by SHA-256, or as git names small files.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon::hub {

// The name of a file's bytes, as `expected` is made: of 64 hexadecimal digits SHA-256; of 40, the
// SHA-1 of git's blobs, over "blob SIZE\0" and the bytes. Errors: unsupported for other names;
// failed, where the file cannot be read.
Result<std::string> digest_of(const std::string& path, const std::string& expected);

}  // namespace tenon::hub
