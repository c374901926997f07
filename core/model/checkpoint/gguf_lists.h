// Tensors of one number for each layer that GGUF files keep in their metadata, as a list of all
// layers.
#pragma once

#include <string_view>

#include "core/model/blocks/block.h"

namespace tenon {

// The key of such a list; empty: the role has tensors of its own there.
inline std::string_view gguf_list_key(Role role) {
  switch (role) {
    case Role::xielu_alpha_p:
      return "xielu.alpha_p";
    case Role::xielu_alpha_n:
      return "xielu.alpha_n";
    case Role::xielu_beta:
      return "xielu.beta";
    case Role::xielu_eps:
      return "xielu.eps";
    default:
      return {};
  }
}

}  // namespace tenon
