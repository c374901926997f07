// Messages in a stream of bytes, which is what writers of answers make: each has its length in
// front of it. A failure is a frame too, the last one.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tenon::server {

struct Frame {
  std::string_view bytes;  // a message, or the sentence of a failure
  unsigned failure = 0;    // its HTTP status; 0 = none
};

inline void append_frame(std::string& out, const Frame& frame) {
  const uint32_t head[] = {static_cast<uint32_t>(frame.bytes.size()), frame.failure};
  out.append(reinterpret_cast<const char*>(head), sizeof(head)).append(frame.bytes);
}

// Takes the first frame off `rest`, which holds whole ones.
inline Frame take_frame(std::string_view& rest) {
  uint32_t head[2];
  std::memcpy(head, rest.data(), sizeof(head));
  const Frame frame{.bytes = rest.substr(sizeof(head), head[0]), .failure = head[1]};
  rest.remove_prefix(sizeof(head) + head[0]);
  return frame;
}

}  // namespace tenon::server
