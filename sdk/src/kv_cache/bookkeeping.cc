#include <tenon/sdk/kv_cache/bookkeeping.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::sdk {

Status KvProgress::check_grow(const KvRequest& request, uint64_t step) const {
  const uint32_t least = request.at_least;
  if (request.known_tokens < request.tokens.size()) {
    return wrong(request.seq, "has " + std::to_string(request.tokens.size()) + " tokens – only " +
                                  std::to_string(request.known_tokens) + " are said to be known");
  }
  const uint32_t from = request.computed;
  if (from >= planned_from && from <= granted && least > 0 && least <= request.at_most &&
      least <= limit - from) {
    if (from > planned_from || granted == planned_from || last_step == step) return {};
    return wrong(request.seq, "asked for tokens behind " + std::to_string(from) +
                                  " – a step in flight computes them, up to " +
                                  std::to_string(granted));
  }
  return wrong(request.seq, "asked for " + std::to_string(least) + " to " +
                                std::to_string(request.at_most) + " tokens behind " +
                                std::to_string(from) + " – it has " + std::to_string(computed) +
                                " and may reach " + std::to_string(limit));
}

Status KvProgress::check_trim(SeqId seq, uint32_t tokens) const {
  if (tokens <= granted - planned_from) return {};
  return wrong(seq, "cannot be trimmed to " + std::to_string(tokens) + " tokens – it was granted " +
                        std::to_string(granted - planned_from));
}

Status KvProgress::check_resolve(const KvOutcome& outcome) const {
  const auto& kept = outcome.kept;
  bool sound = outcome.base == computed && outcome.computed == outcome.base + kept.size() &&
               uint64_t{outcome.computed} + outcome.in_flight <= granted;
  // With later steps in flight, a step's slots are the leading ones and all of them stay.
  const size_t slots = outcome.in_flight > 0 ? kept.size() : granted - computed;
  for (size_t i = 0; sound && i < kept.size(); ++i) {
    sound = kept[i] < slots && (i == 0 || kept[i] > kept[i - 1]);
  }
  if (sound) return {};
  return wrong(outcome.seq, "cannot keep " + std::to_string(kept.size()) + " tokens behind " +
                                std::to_string(outcome.base) + " and " +
                                std::to_string(outcome.in_flight) + " in flight – it has " +
                                std::to_string(computed) + " and slots for " +
                                std::to_string(granted));
}

Status KvProgress::wrong(SeqId seq, const std::string& text) {
  return Status::error(StatusCode::invalid_argument,
                       "sequence " + std::to_string(seq) + " " + text);
}

void MoveQueue::take(KvMovesOut& out) {
  const size_t count = std::min(moves_.size() - taken_, out.moves.size());
  std::copy_n(moves_.begin() + static_cast<ptrdiff_t>(taken_), count, out.moves.begin());
  out.count = static_cast<uint32_t>(count);
  taken_ += count;
  if (taken_ < moves_.size()) return;
  moves_.clear();
  taken_ = 0;
}

void KvCounters::flush(const HostServices& host) {
  const std::pair<std::string_view, uint64_t> all[] = {
      {"hit_tokens", hit_tokens},
      {"promised_tokens", promised_tokens},
      {"evicted_blocks", evicted_blocks},
      {"copied_blocks", copied_blocks},
      {"swapped_out_blocks", swapped_out_blocks},
      {"swapped_in_blocks", swapped_in_blocks},
      {"kept_states", kept_states},
      {"hash_collisions", hash_collisions},
  };
  for (const auto& [name, amount] : all) {
    if (amount > 0 && host.count != nullptr) host.count(host.context, name, amount);
  }
  *this = {};
}

}  // namespace tenon::sdk
