// The folder below which requests may name adapters.
#pragma once

#include <string>

#include "core/server/api/write/error.h"

namespace tenon::server {

// The folder of an adapter that a request names by `path`, which starts at `root` unless it is
// absolute. Links are followed first: the folder, and the files of it that are read, lie below
// `root`. Errors: status 400, without a word of what lies elsewhere.
api::Outcome<std::string> adapter_folder(const std::string& root, const std::string& path);

}  // namespace tenon::server
