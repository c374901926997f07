// Weights that are no finite numbers. A model with some runs: a row of a head that no text asks for
// does no harm.
#pragma once

#include <span>
#include <string>

namespace tenon {

// One warning that names the first of these tensors; none for none.
void warn_of_strange_values(std::span<const std::string> tensors);

}  // namespace tenon
