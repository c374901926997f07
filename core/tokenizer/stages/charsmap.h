// SentencePiece's precompiled character map: which strings normalization replaces, and by what.
//
// Layout (little endian): u32 bytes of the trie | the trie, u32 units | replacements, each ended by
// NUL. The trie is a double array as the Darts-clone library writes it; a unit holds
//   bits 0–7 label · 8 has a leaf · 9 offset is shifted by 8 · 10–31 offset    (inner unit)
//   bits 0–30 value: where the replacement starts · 31 set                     (leaf)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::tok {

// Immutable and safe to use from any thread.
class CharsMap {
 public:
  struct Match {
    size_t bytes = 0;  // of the text; 0: none
    std::string_view replacement;
  };

  // Errors (invalid_argument): a blob that is cut off; replacements that are no UTF-8.
  static Result<CharsMap> parse(std::string_view blob);

  // The longest string at the front of structurally valid `text` that is replaced. A damaged trie
  // finds nothing.
  Match longest(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace tenon::tok
