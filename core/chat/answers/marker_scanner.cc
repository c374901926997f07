#include "core/chat/answers/marker_scanner.h"

namespace tenon::chat {

std::string_view MarkerScanner::push(char c, std::span<const std::string_view> active,
                                     std::string& text) {
  held_ += c;
  while (!held_.empty()) {
    bool may_begin = false;
    for (const std::string_view marker : active) {
      if (!marker.starts_with(held_)) continue;
      may_begin = true;
      if (marker.size() > held_.size()) continue;
      held_.clear();
      return marker;
    }
    if (may_begin) break;
    text += held_.front();
    held_.erase(0, 1);
  }
  return {};
}

void MarkerScanner::release(std::string& text) {
  text += held_;
  held_.clear();
}

}  // namespace tenon::chat
