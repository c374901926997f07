// Markers in text that arrives a byte at a time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::chat {

using MarkerTexts = std::vector<std::string_view>;

// Holds back what may be the beginning of a marker.
class MarkerScanner {
 public:
  // The marker that ends with this byte; empty: none. Appends to `text` what is certain to belong
  // to no marker. No marker of `active` is a part of another.
  std::string_view push(char c, std::span<const std::string_view> active, std::string& text);
  bool holds() const { return !held_.empty(); }
  // The end, or something that no marker reaches over.
  void release(std::string& text);

 private:
  std::string held_;
};

}  // namespace tenon::chat
