// A drafter that looks in a text which the pipeline hands it: [drafter] text = "stories.txt".
//
// After REST (He et al., "Retrieval-Based Speculative Decoding", 2023). The text's positions are
// sorted by the tokens that follow them. The longest end of what is known that also stands in the
// text, min_match … max_match tokens, is a run of them; each draft token is the one that most
// places of the run go on with, and leaves the run of those that do.
//
// The file is read, and turned into tokens, by the host: plugins open no files. It is found as the
// extension "drafter_text/1", a `const std::span<const TokenId>` that lives as long as the
// pipeline.
#include <tenon/sdk/drafter/lookup.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

using namespace tenon;
using Tokens = std::span<const TokenId>;

// Places in the text, sorted by what follows; `depth` tokens of each place are compared.
class Corpus {
 public:
  explicit Corpus(Tokens text, size_t depth) : text_(text), depth_(depth), places_(text.size()) {
    std::iota(places_.begin(), places_.end(), 0);
    std::sort(places_.begin(), places_.end(), [&](uint32_t a, uint32_t b) {
      return std::ranges::lexicographical_compare(behind(a), behind(b)) ||
             (std::ranges::equal(behind(a), behind(b)) && a < b);
    });
  }
  using Run = std::span<const uint32_t>;
  Run all() const { return places_; }
  // Of a run whose places agree in their first `known` tokens, those that go on with `token`.
  Run narrow(Run run, size_t known, TokenId token) const {
    const auto first = std::partition_point(
        run.begin(), run.end(), [&](uint32_t place) { return token_at(place + known) < token; });
    const auto last = std::partition_point(
        first, run.end(), [&](uint32_t place) { return token_at(place + known) == token; });
    return {first, last};
  }
  // What most places of the run go on with, the lowest id among equals; kNoToken at the text's end.
  TokenId most_frequent(Run run, size_t known) const {
    TokenId best = kNoToken;
    for (size_t most = 0; !run.empty();) {
      const TokenId token = token_at(run.front() + known);
      const Run same = narrow(run, known, token);
      if (token != kNoToken && same.size() > most) most = same.size(), best = token;
      run = run.subspan(same.size());
    }
    return best;
  }

 private:
  Tokens behind(size_t place) const {
    return text_.subspan(place, std::min(depth_, text_.size() - place));
  }
  TokenId token_at(size_t at) const { return at < text_.size() ? text_[at] : kNoToken; }

  Tokens text_;
  size_t depth_;
  std::vector<uint32_t> places_;
};

struct Options {
  int64_t min_match = 2;
  int64_t max_match = 8;
  int64_t max_draft_tokens = 8;
  bool adaptive = true;
  const Corpus* corpus = nullptr;  // no option: how the drafter's indices find it
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::min_match>("min_match", 2, 1, 16, "tokens",
                                      "shortest end of what is known that is looked up"),
    sdk::integer<&Options::max_match>("max_match", 8, 1, 16, "tokens",
                                      "longest one, which is tried first"),
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 8, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

Status validate(const void* memory) noexcept {
  const auto& options = *static_cast<const Options*>(memory);
  if (options.min_match <= options.max_match) return {};
  return Status::error(StatusCode::invalid_argument,
                       "min_match is more than max_match – lower it, or raise max_match");
}

// What one sequence knows of the text: nothing of its own.
class Lookup {
 public:
  explicit Lookup(const Options& options) : options_(options) {}
  void extend(Tokens) {}
  uint32_t propose(Tokens history, std::span<TokenId> out) const {
    const size_t most = std::min<size_t>(history.size(), options_.max_match);
    for (size_t match = most; match >= static_cast<size_t>(options_.min_match); --match) {
      Corpus::Run run = options_.corpus->all();
      for (size_t i = 0; i < match && !run.empty(); ++i) {
        run = options_.corpus->narrow(run, i, history[history.size() - match + i]);
      }
      if (run.empty()) continue;
      uint32_t count = 0;
      for (; count < out.size(); ++count) {
        const TokenId next = options_.corpus->most_frequent(run, match + count);
        if (next == kNoToken) break;
        out[count] = next;
        run = options_.corpus->narrow(run, match + count, next);
      }
      if (count > 0) return count;
    }
    return 0;
  }

 private:
  Options options_;
};

Tokens handed_text(const HostServices& host) {
  const void* text = host.extension(host.context, "drafter_text/1");
  if (text == nullptr) throw std::invalid_argument("no text to look in – set drafter.text");
  return *static_cast<const Tokens*>(text);
}

// The corpus is made before the drafter whose options name it.
class Retrieval : Corpus, public sdk::LookupDrafter<Lookup, Options> {
 public:
  Retrieval(const HostServices& host, const PipelineFacts& facts, Options options)
      : Corpus(handed_text(host), options.max_match + options.max_draft_tokens),
        LookupDrafter(host, facts, (options.corpus = this, options)) {}
};

constexpr PluginDescriptor kRetrieval = sdk::with_requirements(
    sdk::descriptor<Drafter, Retrieval, Options>(
        {.id = "example.retrieval",
         .version = "1.0.0",
         .summary = "proposes what most often goes on like this in a text of the user's",
         .license = "Apache-2.0",
         .validate = &validate},
        kOptions),
    sdk::kLookupNeeds);

}  // namespace

TENON_PLUGIN_LIBRARY(&kRetrieval)
