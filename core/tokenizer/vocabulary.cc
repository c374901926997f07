#include "core/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "core/base/quote.h"
#include "core/base/utf8.h"

namespace tenon::tok {
namespace {

constexpr int64_t kHighestId = (int64_t{1} << 24) - 1;
constexpr int64_t kIdsPerPiece = 16;
// Decoding gives a token's whole piece, however often it comes; the longest in use have a few
// hundred bytes.
constexpr size_t kLongestPiece = 4096;
constexpr int64_t kFreeIds = int64_t{1} << 20;
// Longer probe sequences do not happen by chance, only in files made to be slow.
constexpr size_t kLongestProbe = 256;

Status check_entry(const Vocabulary::Entry& entry, int64_t highest_id) {
  if (entry.piece.empty()) {
    return invalid_argument("the piece with id " + std::to_string(entry.id) + " is empty");
  }
  if (entry.piece.size() > kLongestPiece) {
    return unsupported("the piece with id " + std::to_string(entry.id) + " has " +
                       std::to_string(entry.piece.size()) + " bytes: at most " +
                       std::to_string(kLongestPiece) + " are supported");
  }
  if (!is_utf8(entry.piece)) {
    return invalid_argument("the piece with id " + std::to_string(entry.id) +
                            " is not valid UTF-8");
  }
  if (entry.id < 0 || entry.id > highest_id) {
    return invalid_argument("piece " + in_quotes(entry.piece) + " has the id " +
                            std::to_string(entry.id) + "; for this vocabulary ids run from 0 to " +
                            std::to_string(highest_id) + " at most");
  }
  return Status();
}

}  // namespace

int64_t Vocabulary::highest_id_allowed(size_t pieces) {
  return std::min(kHighestId, static_cast<int64_t>(pieces) * kIdsPerPiece + kFreeIds);
}

Result<Vocabulary> Vocabulary::create(const std::vector<Entry>& entries) {
  const int64_t highest_allowed = highest_id_allowed(entries.size());
  int64_t highest = -1;
  size_t bytes = 0;
  for (const Entry& entry : entries) {
    TENON_RETURN_IF_ERROR(check_entry(entry, highest_allowed));
    highest = std::max(highest, entry.id);
    bytes += entry.piece.size();
  }
  if (bytes > std::numeric_limits<uint32_t>::max()) {
    return invalid_argument("the pieces have " + std::to_string(bytes) + " bytes together");
  }
  std::vector<const Entry*> by_id(static_cast<size_t>(highest + 1), nullptr);
  for (const Entry& entry : entries) {
    const Entry*& place = by_id[static_cast<size_t>(entry.id)];
    if (place != nullptr) {
      return invalid_argument("the id " + std::to_string(entry.id) + " is given to both " +
                              in_quotes(place->piece) + " and " + in_quotes(entry.piece));
    }
    place = &entry;
  }
  Vocabulary out;
  out.bytes_.reserve(bytes);
  out.offsets_.reserve(by_id.size() + 1);
  for (const Entry* entry : by_id) {
    if (entry != nullptr) out.bytes_ += entry->piece;
    out.offsets_.push_back(static_cast<uint32_t>(out.bytes_.size()));
  }
  out.slots_.assign(std::bit_ceil(2 * entries.size() + 1), kNoToken);
  for (size_t id = 0; id < by_id.size(); ++id) {
    if (by_id[id] != nullptr) TENON_RETURN_IF_ERROR(out.index(static_cast<TokenId>(id)));
  }
  return out;
}

size_t Vocabulary::slot_of(std::string_view piece) const {
  return std::hash<std::string_view>()(piece) & (slots_.size() - 1);
}

Status Vocabulary::index(TokenId id) {
  const std::string_view text = piece(id);
  size_t slot = slot_of(text);
  for (size_t probe = 0; probe < kLongestProbe; ++probe) {
    if (slots_[slot] == kNoToken) {
      slots_[slot] = id;
      probes_ = std::max(probes_, probe + 1);
      return Status();
    }
    if (piece(slots_[slot]) == text) {
      return invalid_argument("the piece " + in_quotes(text) + " has both the ids " +
                              std::to_string(slots_[slot]) + " and " + std::to_string(id));
    }
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return invalid_argument(
      "the pieces of the vocabulary collide in its table; the file was made so");
}

std::optional<TokenId> Vocabulary::find(std::string_view wanted) const {
  if (slots_.empty()) return std::nullopt;
  size_t slot = slot_of(wanted);
  for (size_t probe = 0; probe < probes_; ++probe) {
    const TokenId id = slots_[slot];
    if (id == kNoToken) return std::nullopt;
    if (piece(id) == wanted) return id;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return std::nullopt;
}

}  // namespace tenon::tok
