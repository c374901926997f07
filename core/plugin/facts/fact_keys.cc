#include "core/plugin/facts/fact_keys.h"

#include <algorithm>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

constexpr std::string_view kKeys[] = {
    "device.space",   "kv.dtype",          "kv.block_tokens",   "kv.sharing",     "kv.rollback",
    "kv.swap",        "kv.trees",          "kv.recurrent",      "kv.snapshots",   "attn.head_dim",
    "attn.group",     "attn.query_len",    "attn.mask.sliding", "attn.mask.tree", "attn.mask.spans",
    "attn.latent",    "attn.chosen",       "attn.soft_cap",     "attn.sinks",     "attn.alibi",
    "weight.format",  "linear.epilogues",  "sampler.verify",    "sampler.trees",  "sampler.stages",
    "sampler.params", "sampler.logprobs",  "draft.shape",       "draft.needs",    "sched.emits",
    "sched.drafts",   "sched.whole_spans", "numerics.rows",
};

std::string_view first_word(std::string_view key) {
  return key.substr(0, key.find('.'));
}

// A word before the first point that no key of the vocabulary begins with.
bool of_third_party(std::string_view key) {
  return valid_plugin_id(key) && key.find('.') != key.npos &&
         std::ranges::none_of(
             kKeys, [&](std::string_view known) { return first_word(known) == first_word(key); });
}

}  // namespace

std::span<const std::string_view> fact_keys() {
  return kKeys;
}

std::string fact_key_fault(std::string_view key) {
  if (std::ranges::find(kKeys, key) != std::end(kKeys) || of_third_party(key)) return {};
  const std::vector<std::string> known(std::begin(kKeys), std::end(kKeys));
  const std::string guess = did_you_mean(key, known);
  return "the fact " + in_quotes(key) + " is not in the vocabulary" +
         (guess.empty() ? ";" : guess) + " keys of third parties carry a prefix: 'acme.key'";
}

}  // namespace tenon
