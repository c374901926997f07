// A model without its bytes, for whatever asks only what a model takes and costs: every tensor has
// its name, shape and format, and reads as zeros. It takes address space alone, however large it
// is.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/model.h"

namespace tenon {

// `path` is a model that open_model() takes (nothing but its norms is read), a folder that has a
// config.json and no weights, or ends in the name of a shape (named_shapes.h). `format` is that of
// the matrices of layers and of the head: "bf16", "f32", "f16" or of blocks ("q8_0"); empty: as the
// checkpoint stores them, and bf16 where there is none. The embedding, routers, and matrices whose
// rows are no whole blocks are bf16 beside blocks. `as`: as open_model().
//
// Errors: those of open_model(); not_found (neither a model nor a shape); invalid_argument (no such
// format; a format for a model whose weights are there; a config.json of a quantised model, without
// a format).
Result<std::unique_ptr<Model>> open_without_weights(const std::string& path, std::string_view as,
                                                    std::string_view format);

}  // namespace tenon
