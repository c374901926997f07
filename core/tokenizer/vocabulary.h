// The pieces of a vocabulary by id and by text.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::tok {

// Filled once, then immutable and safe to read from any thread. Ids may have gaps; a gap has an
// empty piece that find() does not know.
class Vocabulary {
 public:
  struct Entry {
    std::string piece;
    int64_t id;
  };

  // Errors (invalid_argument): an id that is negative, given twice, or far beyond what `entries`
  // justify; a piece given twice; a piece that is empty or not valid UTF-8.
  static Result<Vocabulary> create(const std::vector<Entry>& entries);

  // The highest id that a vocabulary of so many pieces may use: tables are as long as the highest
  // id, so ids may not run far beyond what the pieces justify.
  static int64_t highest_id_allowed(size_t pieces);

  // Highest id + 1.
  uint32_t size() const { return static_cast<uint32_t>(offsets_.size() - 1); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<uint32_t>(id) < size(); }
  // Only for ids below size().
  std::string_view piece(TokenId id) const {
    const auto at = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[at], offsets_[at + 1] - offsets_[at]);
  }
  std::optional<TokenId> find(std::string_view piece) const;

 private:
  Status index(TokenId id);
  size_t slot_of(std::string_view piece) const;

  std::string bytes_;                 // all pieces, in the order of their ids
  std::vector<uint32_t> offsets_{0};  // [size + 1]
  std::vector<TokenId> slots_;        // open addressing over pieces, a power of two
  size_t probes_ = 0;                 // the most that finding a piece takes
};

}  // namespace tenon::tok
