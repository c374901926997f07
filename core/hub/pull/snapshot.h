// Makes files visible that are all there: a snapshot of a commit, and the name of a revision.
#pragma once

#include <span>
#include <string>

#include "core/base/result.h"
#include "core/hub/pull/listing.h"

namespace tenon::hub {

// Links `files` into snapshots/<commit> of `model_folder`, whose blobs are all there. A snapshot
// that is new appears whole; one that is there gets what it lacks, config.json last. Then
// `revision` names it, unless that is the commit itself. Errors: failed.
Status publish(const std::string& model_folder, const std::string& commit,
               const std::string& revision, std::span<const RemoteFile> files);

}  // namespace tenon::hub
