// Git LFS keeps large files elsewhere: a clone without it has short texts in their places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// invalid_argument where `bytes`, a whole file, is such a text; the message carries no file name.
inline Status check_no_git_lfs_pointer(std::string_view bytes) {
  constexpr std::string_view kFirst = "version https://git-lfs.", kSize = "\nsize ";
  if (!bytes.starts_with(kFirst) || bytes.size() > 1024) return {};
  const size_t at = bytes.find(kSize);
  std::string size;
  if (at != std::string_view::npos) {
    const std::string_view rest = bytes.substr(at + kSize.size());
    size = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), size_t{20}));
  }
  return invalid_argument("is a Git LFS pointer of " + std::to_string(bytes.size()) + " bytes" +
                          (size.empty() ? "" : " to a file of " + size) +
                          "; expected the file itself – run 'git lfs pull' in its folder, or "
                          "download it");
}
inline Status check_no_git_lfs_pointer(std::span<const std::byte> bytes) {
  return check_no_git_lfs_pointer(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace tenon
