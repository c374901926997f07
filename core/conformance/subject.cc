#include "core/conformance/subject.h"

#include <algorithm>

#include "core/plugin/facts/fact_words.h"

namespace tenon {
namespace {

constexpr int64_t kContextTokens = 256;

// Few phrases over and over, of ids that every case's vocabulary has.
std::vector<TokenId> repeating_text(uint64_t seed) {
  constexpr uint32_t kPhrases = 5, kPhraseTokens = 12, kRepetitions = 40, kTokens = 50;
  CaseRandom random(seed);
  std::vector<TokenId> phrases, text;
  for (uint32_t i = 0; i < kPhrases * kPhraseTokens; ++i) {
    phrases.push_back(static_cast<TokenId>(random.below(kTokens)));
  }
  for (uint32_t i = 0; i < kRepetitions; ++i) {
    const auto from = phrases.begin() + kPhraseTokens * random.below(kPhrases);
    text.insert(text.end(), from, from + kPhraseTokens);
  }
  return text;
}

std::span<const Fact> facts_of(const Fact* facts, uint32_t count) {
  return {facts, facts == nullptr ? 0 : count};
}

}  // namespace

Subject::Subject(const LoadedLibrary& library, const PluginDescriptor& descriptor,
                 const HostFacts& host, std::vector<Setting> settings, uint64_t seed,
                 uint32_t effort, uint32_t scene)
    : library_(library),
      descriptor_(descriptor),
      host_(host),
      settings_(std::move(settings)),
      seed_(seed),
      effort_(effort),
      scene_(scene) {
  const auto provides = facts_of(descriptor.provides, descriptor.provide_count);
  Participant alone{std::string(interface_word(descriptor.interface)), name(), {}, {}, {}, {}};
  alone.provides.assign(provides.begin(), provides.end());
  NegotiationRequest request;
  request.participants.push_back(std::move(alone));
  request.context_tokens = kContextTokens;
  // There are no other participants, so only its own facts can contradict each other.
  if (auto resolved = negotiate(request); resolved.ok()) resolved_ = *std::move(resolved);
  facts_ = resolved_.facts();
  text_ = repeating_text(seed);
  text_view_ = text_;
  extensions_.add("drafter_text/1", &text_view_);
  surroundings_ = {&host_, &clock_, &facts_, &extensions_};
}

bool Subject::provides(std::string_view key, std::string_view word) const {
  for (const Fact& fact : facts_of(descriptor_.provides, descriptor_.provide_count)) {
    if (fact.key == key && has_word(fact, word)) return true;
  }
  return false;
}

bool Subject::has_setting(std::string_view key) const {
  return std::any_of(settings_.begin(), settings_.end(),
                     [&](const Setting& setting) { return setting.key == key; });
}

bool Subject::speaks_of(std::string_view key) const {
  const auto provides = facts_of(descriptor_.provides, descriptor_.provide_count);
  return std::any_of(provides.begin(), provides.end(),
                     [&](const Fact& fact) { return fact.key == key; });
}

uint64_t Subject::provides_at_most(std::string_view key) const {
  for (const Fact& fact : facts_of(descriptor_.provides, descriptor_.provide_count)) {
    if (fact.key == key && fact.op == FactOp::at_most && fact.number > 0) {
      return static_cast<uint64_t>(fact.number);
    }
  }
  return 0;
}

std::string Subject::needs() const {
  for (const Fact& fact : facts_of(descriptor_.requirements, descriptor_.requirement_count)) {
    if (fact.key == "draft.needs" && !has_word(fact, "nothing")) {
      return "it needs what only a pipeline has: " + std::string(fact.words);
    }
  }
  return {};
}

std::vector<Setting> Subject::merged(const std::vector<Setting>& more) const {
  std::vector<Setting> all = more;
  for (const Setting& setting : settings_) {
    const bool replaced = std::any_of(
        more.begin(), more.end(), [&](const Setting& other) { return other.key == setting.key; });
    if (!replaced) all.push_back(setting);
  }
  return all;
}

Result<FilledOptions> Subject::fill(const std::vector<Setting>& more) const {
  return fill_options(descriptor_, merged(more));
}

}  // namespace tenon
