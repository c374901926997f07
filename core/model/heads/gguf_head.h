// Heads in GGUF files, as llama.cpp writes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/model/heads/head.h"
#include "core/model/heads/head_config.h"

namespace tenon {

// Which head a GGUF file is of; nothing where it is of a whole model, or no GGUF file.
std::optional<HeadKind> head_in_file(const std::string& path);

// As open_head.
Result<OpenedHead> open_head_file(const std::string& path, const Model& target);

// The tensors of a head, by the names that a model of its layers would have, into `opened`, whose
// model has its path and whose head its source. Errors: as of open_head.
Status take_head(const HeadConfig& config, std::unique_ptr<Checkpoint> tensors, const Model& target,
                 OpenedHead& opened);

}  // namespace tenon
