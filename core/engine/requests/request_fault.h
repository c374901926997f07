// Something that is wrong with a request, and what of it is to blame.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

struct RequestFault {
  // The name of a parameter (parameters.h), or "prompt", or "grammar"; empty where it takes
  // several.
  std::string_view setting;
  std::string text;
};

}  // namespace tenon
