// A sampler with parameters of its own, `acme.heat` (a number: takes the token of that rank, 0 the
// most likely) and `acme.mood` (a text: "contrary" ranks from the other end). Greedy without them.
#pragma once

#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::test {

class HeatedSampler {
 public:
  HeatedSampler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  void begin(SeqId seq, const SamplingParams& params, SeqId) {
    Wish wish;
    for (const VendorParam& param : params.vendor) {
      if (param.key == "acme.heat" && !param.is_text) {
        wish.rank = static_cast<size_t>(param.number);
      } else if (param.key == "acme.mood" && param.is_text) {
        wish.contrary = param.text == "contrary";
      } else {
        throw std::invalid_argument("the parameter '" + std::string(param.key) +
                                    "' was not announced, or has another type");
      }
    }
    wishes_[seq] = wish;
  }
  void end(SeqId seq) { wishes_.erase(seq); }

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) results[i].token = token_of(rows[i]);
  }

 private:
  struct Wish {
    size_t rank = 0;
    bool contrary = false;
  };

  TokenId token_of(const SampleRow& row) const {
    const auto found = wishes_.find(row.seq);
    const Wish wish = found == wishes_.end() ? Wish() : found->second;
    std::vector<TokenId> ids(row.vocabulary);
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(),
                     [&](TokenId a, TokenId b) { return row.logits[a] > row.logits[b]; });
    if (wish.contrary) std::reverse(ids.begin(), ids.end());
    return ids[std::min(wish.rank, ids.size() - 1)];
  }

  std::unordered_map<SeqId, Wish> wishes_;
};

inline constexpr Fact kHeatedFacts[] = {
    {.key = "sampler.params", .op = FactOp::in, .number = 0, .words = "acme.heat acme.mood"},
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "none"},
};
inline constexpr PluginDescriptor kHeated = sdk::with_facts(
    sdk::descriptor<Sampler, HeatedSampler>({.id = "acme.heated",
                                             .version = "1.0.0",
                                             .summary = "takes acme.heat and acme.mood",
                                             .license = "Apache-2.0"}),
    kHeatedFacts);

}  // namespace tenon::test
