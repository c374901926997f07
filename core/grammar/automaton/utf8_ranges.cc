#include "core/grammar/automaton/utf8_ranges.h"

namespace tenon::grammar {
namespace {

constexpr uint32_t kLastOfLength[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};

uint32_t length_of(uint32_t code) {
  uint32_t length = 1;
  while (code > kLastOfLength[length - 1]) ++length;
  return length;
}

std::array<uint8_t, 4> encode(uint32_t code, uint32_t length) {
  constexpr uint8_t kLead[] = {0x00, 0xc0, 0xe0, 0xf0};
  std::array<uint8_t, 4> bytes{};
  for (uint32_t i = length; i > 1; --i, code >>= 6) {
    bytes[i - 1] = static_cast<uint8_t>(0x80 | (code & 0x3f));
  }
  bytes[0] = static_cast<uint8_t>(kLead[length - 1] | code);
  return bytes;
}

// Cuts a range until all of its characters have the same length, and bytes after the first that
// differ run over all that they can be.
void add(uint32_t first, uint32_t last, std::vector<Utf8Range>& out) {
  const uint32_t length = length_of(first);
  if (last > kLastOfLength[length - 1]) {
    add(first, kLastOfLength[length - 1], out);
    return add(kLastOfLength[length - 1] + 1, last, out);
  }
  for (uint32_t i = 1; i < length; ++i) {
    const uint32_t low = (1u << (6 * i)) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      add(first, first | low, out);
      return add((first | low) + 1, last, out);
    }
    if ((last & low) != low) {
      add(first, (last & ~low) - 1, out);
      return add(last & ~low, last, out);
    }
  }
  const std::array<uint8_t, 4> from = encode(first, length), to = encode(last, length);
  Utf8Range range;
  range.length = length;
  for (uint32_t i = 0; i < length; ++i) range.bytes[i] = {from[i], to[i]};
  out.push_back(range);
}

}  // namespace

std::vector<Utf8Range> utf8_ranges(const CodeSet& codes) {
  std::vector<Utf8Range> ranges;
  for (const CodeRange& range : codes.ranges()) add(range.first, range.last, ranges);
  return ranges;
}

}  // namespace tenon::grammar
