// A drafter whose guesses are Python's. What it proposes is verified like any other draft.
#include <tenon/drafter.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <unordered_map>

#include "plugins/bridge/options.h"

namespace tenon::bridge {
namespace {

struct Options {
  std::string_view file, name, arguments, key, libpython;
  int64_t max_draft_tokens = 4;
};
constexpr OptionSpec kOptions[] = {
    kPythonOptions<Options>[0],
    kPythonOptions<Options>[1],
    kPythonOptions<Options>[2],
    kPythonOptions<Options>[3],
    kPythonOptions<Options>[4],
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 4, 1, 64, "tokens",
                                             "drafts of one step, at most"),
};
TENON_CHECK_OPTIONS(kOptions);

class PythonDrafter {
 public:
  PythonDrafter(const HostServices&, const PipelineFacts&, const Options& options)
      : options_(options), plugin_("drafter", source_of(options)) {}

  Status bind(const ModelShape& target, HiddenLayersOut&) {
    vocabulary_ = target.vocabulary;
    return {};
  }
  void begin(SeqId seq, SeqId parent) {
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(seq));
    given.push_back(plugin_.integer(parent == kNoSeq ? -1 : int64_t{parent}));
    plugin_.call("begin", std::move(given));
  }
  void end(SeqId seq) {
    proposed_.erase(seq);
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(seq));
    plugin_.call("end", std::move(given));
  }

  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    const Locked locked(plugin_.api());
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<TokenId>& drafts = proposed_[requests[i].seq];
      propose(requests[i], drafts);
      offered[i] = static_cast<uint32_t>(drafts.size());
    }
  }
  // What was proposed when it was offered: the history is the same.
  void draft(std::span<const DraftRequest> requests, std::span<DraftOut> outs) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::vector<TokenId>& drafts = proposed_[requests[i].seq];
      const size_t count = std::min<size_t>(drafts.size(), requests[i].max_tokens);
      std::copy_n(drafts.begin(), count, outs[i].tokens.begin());
      outs[i].count = static_cast<uint32_t>(count);
    }
  }
  void accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted, uint32_t accepted) {
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(seq));
    given.push_back(plugin_.memory(history.data(), history.size_bytes()));
    given.push_back(plugin_.whole(drafted));
    given.push_back(plugin_.whole(accepted));
    plugin_.call("accept", std::move(given));
  }

 private:
  void propose(const DraftRequest& request, std::vector<TokenId>& drafts) {
    const auto most =
        std::min<uint64_t>(request.max_tokens, static_cast<uint64_t>(options_.max_draft_tokens));
    drafts.clear();
    if (most == 0) return;
    std::vector<Object> given;
    given.push_back(plugin_.whole(request.seq));
    given.push_back(plugin_.memory(request.history.data(), request.history.size_bytes()));
    given.push_back(plugin_.whole(most));
    const PythonApi& api = plugin_.api();
    const Object list = plugin_.call("propose", std::move(given));
    for (PySize i = 0; i < api.list_size(list.get()); ++i) {
      const long long token = api.to_int(api.in_list(list.get(), i));
      if (api.error() != nullptr || token < 0 || token >= vocabulary_) {
        api.clear_error();
        throw std::runtime_error("propose gave something that is no token of the vocabulary");
      }
      drafts.push_back(static_cast<TokenId>(token));
    }
  }

  const Options options_;
  Plugin plugin_;
  int64_t vocabulary_ = 0;
  std::unordered_map<SeqId, std::vector<TokenId>> proposed_;
};

constexpr PluginDescriptor kDrafter = sdk::descriptor<Drafter, PythonDrafter, Options>(
    {.id = "python",
     .version = "1.0.0",
     .summary = "proposes what a class in Python says, for trying ideas",
     .license = "Apache-2.0"},
    kOptions);

}  // namespace
}  // namespace tenon::bridge
TENON_PLUGIN_LIBRARY(&tenon::bridge::kDrafter)
