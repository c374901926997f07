// The tensors of an opened model once more, for what lies in its checkpoint next to it.
#pragma once

#include <memory>

#include "core/base/result.h"
#include "core/model/checkpoint/checkpoint.h"

namespace tenon {

struct Model;
struct ModelPlan;

// All tensors of the model's folder or GGUF file, those for drafts included: a text part's under
// the names of a text model, published formats read into blocks, as open_model has them. `plan` is
// the model's with what follows its layers, in whose order a GGUF file's rows are put.
Result<std::unique_ptr<Checkpoint>> open_tensors_again(const Model& model, const ModelPlan& plan);

}  // namespace tenon
