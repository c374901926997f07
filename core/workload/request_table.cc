#include "core/workload/request_table.h"

#include "core/workload/request_list.h"

namespace tenon {

uint64_t bytes_of(const WorkloadRequest& request) {
  const AnswerSettings& answer = request.answer;
  uint64_t bytes = request.prompt.size() +
                   sizeof(TokenId) * (answer.stop_tokens.size() + answer.allowed_tokens.size()) +
                   sizeof(LogitBias) * answer.logit_bias.size();
  for (const DrawnTokens& part : request.drawn) {
    bytes += sizeof(part) + sizeof(TokenId) * uint64_t{part.tokens};
  }
  for (const auto* texts : {&answer.stop, &answer.bad_words, &answer.dry_breakers}) {
    for (const std::string& text : *texts) bytes += sizeof(text) + text.size();
  }
  for (const VendorSetting& setting : answer.params) {
    bytes += sizeof(setting) + setting.key.size() + setting.text.size();
  }
  return bytes;
}

void RequestExpansion::expand(const RequestTable& table, RequestList& out) {
  out.begin_table(table);
  int64_t arrival_ns = table.request.arrival_ns;
  std::vector<std::pair<uint32_t, uint32_t>> turns(table.turns);  // own tokens, those of answers
  for (uint32_t i = 0; i < table.count; ++i) {
    for (uint32_t turn = 0; turn < table.turns; ++turn) {
      auto& [own_tokens, answer_tokens] = turns[turn];
      answer_tokens = table.max_tokens ? draw_.length(*table.max_tokens) : 1;
      const auto& own = turn > 0 && table.turn_tokens ? table.turn_tokens : table.prompt_tokens;
      own_tokens = own ? draw_.length(*own) : 0;
    }
    // Lengths are drawn before arrivals, so that a file without `turns` means what it always did.
    if (table.rate && i > 0) arrival_ns += draw_.gap_ns(*table.rate, table.burstiness);
    for (uint32_t turn = 0; turn < table.turns; ++turn) {
      out.add(turns[turn].first, turns[turn].second,
              arrival_ns + table.every_ns * i + table.think_ns * turn);
    }
  }
}

}  // namespace tenon
