// A smaller model of the same vocabulary goes ahead, as a chain or a tree; the target checks its
// tokens all at once.
//
// After speculative decoding (Leviathan et al., ICML 2023; Chen et al., 2023). The draft draws
// through the pipeline's sampler with the keys that the target will draw with, so where the two
// models agree on the distribution they agree on the token, at any temperature. All sequences of a
// step share each forward pass. How many tokens are worth proposing is learned by
// <tenon/sdk/drafter/adaptive_drafts.h>.
#include <tenon/model_runner.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>
#include <tenon/sdk/drafter/kept_path.h>
#include <tenon/sdk/drafter/model_drafts.h>
#include <tenon/sdk/drafter/tree_drafts.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace tenon {
namespace {

struct Options {
  int64_t max_draft_tokens = 4;
  std::string_view tree;
  bool adaptive = true;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 4, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::text<&Options::tree>("tree", "", sdk::kTreeSentence),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

class DraftModel {
 public:
  DraftModel(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : max_draft_tokens_(options.max_draft_tokens), adaptive_(options.adaptive, false) {
    const void* found = sdk::extension_of(host, kModelRunner);
    if (found == nullptr) {
      throw std::runtime_error(
          "there is no second model to draft with; set drafter.model to the "
          "folder of a smaller model with the same vocabulary");
    }
    runner_ = *static_cast<ModelRunner* const*>(found);
    const sdk::TreeShape shape = sdk::agreed_tree(facts, options.tree, options.max_draft_tokens);
    branches_ = shape.is_tree();
    if (branches_) max_draft_tokens_ = shape.nodes;
    trees_ = sdk::TreeDrafts(host, shape, 0);
    adaptive_.ask_costs(host);
  }

  void begin(SeqId seq, SeqId) {
    read_.insert_or_assign(seq, Read());
    adaptive_.begin(seq);
  }
  void end(SeqId seq) {
    read_.erase(seq);
    proposed_.end(seq);
    adaptive_.end(seq);
  }

  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    unread_.assign(requests.size(), 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      offered[i] = sdk::room_for(requests[i], *runner_, max_draft_tokens_);
      if (offered[i] > 0 && adaptive_.adaptive()) unread_[i] = unread(requests[i]);
    }
    adaptive_.choose(requests, offered, unread_);
  }

  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    for (const DraftRequest& request : requests) note(request);
    if (branches_) return draft_trees(requests, drafts);
    Status status;
    for (uint32_t level = 0; status.ok() && collect(requests, drafts, level); ++level) {
      status = draft_level(drafts);
    }
    return status;
  }

  void accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted, uint32_t accepted) {
    if (branches_) {
      return adaptive_.learn_tree(seq, drafted, proposed_.kept(seq, history, accepted));
    }
    adaptive_.learn(seq, std::min(accepted + 1, drafted), accepted);
  }

  void measured(const DraftStepCost& cost) { adaptive_.measured(cost); }

 private:
  // Tokens that the model has seen, drafts included. A sequence may begin with those of another.
  struct Read {
    size_t tokens = 0;
    bool asked = false;
  };

  uint64_t unread(const DraftRequest& request) {
    Read& read = read_[request.seq];
    if (!read.asked) {
      read.asked = true;
      read.tokens = std::max<size_t>(read.tokens, runner_->computed(request.seq, request.history));
    }
    const size_t known = request.history.size();
    return known > read.tokens ? known - read.tokens : 0;
  }
  void note(const DraftRequest& request) {
    adaptive_.granted(request.max_tokens, unread(request));
    read_[request.seq].tokens = request.history.size() + request.max_tokens;
  }

  // The sequences that want a token number `level`. One whose row failed has stopped.
  bool collect(std::span<const DraftRequest> requests, std::span<const DraftOut> drafts,
               uint32_t level) {
    rows_.clear();
    who_.clear();
    for (uint32_t i = 0; i < requests.size(); ++i) {
      if (requests[i].max_tokens <= level || drafts[i].count < level) continue;
      RunnerRow& row = rows_.emplace_back();
      row.seq = requests[i].seq;
      row.history = {requests[i].history.data(), requests[i].history.size() + level};
      who_.push_back(i);
    }
    return !rows_.empty();
  }

  Status draft_trees(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    if (!collect(requests, drafts, 0)) return {};
    logits_.assign(rows_.size(), nullptr);
    if (Status status = runner_->forward(rows_, logits_, {}); !status.ok()) return status;
    Status status = trees_.draft(requests, {who_, logits_, {}, 0}, drafts);
    for (const uint32_t i : who_) proposed_.note(requests[i], drafts[i]);
    return status;
  }

  Status draft_level(std::span<DraftOut> drafts) {
    logits_.assign(rows_.size(), nullptr);
    if (Status status = runner_->forward(rows_, logits_, {}); !status.ok()) return status;
    return sdk::draw_next(*runner_, rows_, logits_, who_, drafts, draws_);
  }

  int64_t max_draft_tokens_;
  bool branches_ = false;
  ModelRunner* runner_ = nullptr;
  sdk::TreeDrafts trees_;
  sdk::KeptPaths proposed_;  // where drafts form trees
  sdk::AdaptiveDrafts adaptive_;
  std::unordered_map<SeqId, Read> read_;
  std::vector<uint64_t> unread_;  // [requests]
  std::vector<RunnerRow> rows_;
  std::vector<uint32_t> who_;  // [rows] index of the request
  std::vector<const float*> logits_;
  std::vector<RunnerDraw> draws_;
};

constexpr PluginDescriptor kDraftModel = sdk::with_requirements(
    sdk::with_facts(
        sdk::descriptor<Drafter, DraftModel, Options>(
            {.id = "draft_model",
             .version = "1.1.0",
             .summary = "lets a smaller model of the same vocabulary ([drafter] model) go ahead",
             .license = "Apache-2.0"},
            kOptions),
        sdk::kTreeFacts),
    sdk::kModelDraftNeeds);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kDraftModel)
