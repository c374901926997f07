#include "core/parallel/collective.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

constexpr uint64_t kMostTextBytes = 2048;  // of a rank, its length before it included

}  // namespace

std::string name_of_rank(uint32_t rank, const RankPlace& place) {
  return "rank " + std::to_string(rank) + " on " + place.host + " (process " +
         std::to_string(place.process) + ")";
}

Result<std::vector<std::string>> gather_texts(Collective& ranks, const std::string& own) {
  const uint64_t most = std::min(ranks.slot_bytes(), kMostTextBytes);
  const uint64_t length = std::min<uint64_t>(own.size(), most - sizeof(uint64_t));
  std::memcpy(ranks.outgoing(), &length, sizeof(length));
  std::memcpy(ranks.outgoing() + sizeof(length), own.data(), length);
  TENON_RETURN_IF_ERROR(ranks.exchange(std::vector<uint64_t>(ranks.size(), most)));
  std::vector<std::string> texts;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    uint64_t given = 0;
    std::memcpy(&given, ranks.incoming(rank), sizeof(given));
    given = std::min(given, most - sizeof(given));
    texts.emplace_back(reinterpret_cast<const char*>(ranks.incoming(rank)) + sizeof(given), given);
  }
  return texts;
}

}  // namespace tenon
