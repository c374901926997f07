// Letters of ASCII, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// "Content-Type" is "content-type"; all that is no letter of ASCII stays.
inline std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace tenon
