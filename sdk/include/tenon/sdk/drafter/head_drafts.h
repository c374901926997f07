// The chain or tree that a head drafts from the target's hidden states, level by level, for
// drafters of any kind of head.
//
// The head runs as a second model (model_runner/2) whose row i is of token i + 1 and of the
// target's states at token i. Drafted tokens have no such states, so the head goes on from its own;
// those rows are forgotten when the drafts are judged. How many tokens are worth proposing is
// learned by <tenon/sdk/drafter/adaptive_drafts.h>.
#pragma once

#include <tenon/extensions/draft_head.h>
#include <tenon/model_runner.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>
#include <tenon/sdk/drafter/kept_path.h>
#include <tenon/sdk/drafter/kept_states.h>
#include <tenon/sdk/drafter/model_drafts.h>
#include <tenon/sdk/drafter/tree_drafts.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

// A drafter but for its options: the methods are those of Drafter (<tenon/sdk/plugin.h>).
// Threads: those of Drafter.
class HeadDrafts {
 public:
  // `kind` is what the head must be, `advice` what to configure where there is none. Throws
  // std::runtime_error with a sentence where the pipeline has no such head.
  HeadDrafts(const HostServices& host, std::string_view kind, const std::string& advice,
             int64_t max_draft_tokens, bool adaptive, const TreeShape& shape = {})
      : max_draft_tokens_(shape.is_tree() ? shape.nodes : max_draft_tokens),
        trees_(shape.is_tree()),
        adaptive_(adaptive, false) {
    const auto* head = static_cast<const HiddenLayersOut*>(extension_of(host, kDraftHead));
    const auto* found = static_cast<const std::string_view*>(extension_of(host, kDraftHeadKind));
    const void* runner = extension_of(host, kModelRunner);
    const auto* model = static_cast<const ModelShape*>(extension_of(host, kModelRunnerShape));
    if (head == nullptr || found == nullptr || runner == nullptr || model == nullptr) {
      throw std::runtime_error("there is no head to draft with; " + advice);
    }
    if (*found != kind) {
      throw std::runtime_error("the head is of the kind \"" + std::string(*found) +
                               "\"; set drafter.plugin = \"" + std::string(*found) + "\", or " +
                               advice);
    }
    runner_ = *static_cast<ModelRunner* const*>(runner);
    layers_.assign(head->layers.begin(), head->layers.begin() + head->count);
    head_hidden_ = model->hidden;
    drafts_ = TreeDrafts(host, shape, head_hidden_);
  }

  Status bind(const ModelShape& target, HiddenLayersOut& wanted) {
    width_ = uint64_t{target.hidden} * layers_.size();
    std::copy(layers_.begin(), layers_.end(), wanted.layers.begin());
    wanted.count = static_cast<uint32_t>(layers_.size());
    return {};
  }

  void begin(SeqId seq, SeqId parent) {
    const auto from = sequences_.find(parent);
    const KeptStates kept = from == sequences_.end() ? KeptStates() : from->second;
    sequences_.insert_or_assign(seq, kept);
    adaptive_.begin(seq);
  }
  void end(SeqId seq) {
    sequences_.erase(seq);
    proposed_.end(seq);
    adaptive_.end(seq);
  }

  void observe(std::span<const HiddenView> hidden) {
    for (const HiddenView& view : hidden) {
      const auto kept = sequences_.find(view.seq);
      if (kept != sequences_.end()) kept->second.add(view, width_);
    }
  }

  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const size_t known = requests[i].history.size();
      offered[i] = room_for(requests[i], *runner_, max_draft_tokens_);
      if (!sequences_[requests[i].seq].reaches(known)) offered[i] = 0;
    }
    adaptive_.choose(requests, offered);
  }

  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    Status status = draft_all(requests, drafts);
    for (const DraftRequest& request : requests) {
      if (status.ok()) sequences_[request.seq].forget_before(request.history.size());
    }
    return status;
  }

  void accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted, uint32_t accepted) {
    if (trees_) return adaptive_.learn_tree(seq, drafted, proposed_.kept(seq, history, accepted));
    adaptive_.learn(seq, std::min(accepted + 1, drafted), accepted);
  }

  void measured(const DraftStepCost& cost) { adaptive_.measured(cost); }

 private:
  static TensorView rows_of(const float* data, uint64_t rows, uint64_t width) {
    TensorView view;
    view.data = data;
    view.dtype = DType::f32;
    view.rank = 2;
    view.shape[0] = rows;
    view.shape[1] = width;
    view.stride[0] = width;
    view.stride[1] = 1;
    return view;
  }

  Status draft_all(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    who_.clear();
    for (uint32_t i = 0; i < requests.size(); ++i) {
      if (requests[i].max_tokens > 0 && add_first(requests[i])) who_.push_back(i);
    }
    if (trees_) return draft_trees(requests, drafts);
    for (uint32_t level = 0; !rows_.empty(); ++level) {
      if (Status status = draft_level(requests, drafts); !status.ok()) return status;
      go_on(requests, drafts, level + 1);
    }
    return {};
  }

  Status draft_trees(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    if (rows_.empty()) return {};
    logits_.assign(rows_.size(), nullptr);
    states_.assign(rows_.size(), nullptr);
    if (Status status = runner_->forward(rows_, logits_, states_); !status.ok()) return status;
    // The first token of a text is not given to heads.
    Status status = drafts_.draft(requests, {who_, logits_, states_, 1}, drafts);
    for (const uint32_t i : who_) proposed_.note(requests[i], drafts[i]);
    rows_.clear();
    return status;
  }

  // A row for the tokens that the head has not read, with the target's states before each of them.
  bool add_first(const DraftRequest& request) {
    if (who_.empty()) rows_.clear();
    KeptStates& kept = sequences_[request.seq];
    const std::span<const TokenId> tokens = request.history.subspan(1);
    if (tokens.empty()) return false;
    const uint32_t read = runner_->computed(request.seq, tokens);
    if (!kept.covers(read, tokens.size())) {
      kept.lost(read);
      return false;
    }
    adaptive_.granted(request.max_tokens, tokens.size() <= read + kUsualLag);
    RunnerRow& row = rows_.emplace_back();
    row.seq = request.seq;
    row.history = tokens;
    row.hidden = rows_of(kept.at(read, width_), tokens.size() - read, width_);
    return true;
  }

  Status draft_level(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    logits_.assign(rows_.size(), nullptr);
    states_.assign(rows_.size(), nullptr);
    if (Status status = runner_->forward(rows_, logits_, states_); !status.ok()) return status;
    own_.resize(rows_.size() * head_hidden_);
    drawn_.clear();
    for (size_t i = 0; i < rows_.size(); ++i) {
      std::copy_n(states_[i], head_hidden_,
                  own_.begin() + static_cast<ptrdiff_t>(i * head_hidden_));
      const DraftRequest& request = requests[who_[i]];
      RunnerRow& row = drawn_.emplace_back();
      row.seq = request.seq;
      row.history = {request.history.data(), request.history.size() + drafts[who_[i]].count};
    }
    return draw_next(*runner_, drawn_, logits_, who_, drafts, draws_);
  }

  // The sequences that want one more token, which goes on from the head's own state. One whose row
  // had no token has stopped.
  void go_on(std::span<const DraftRequest> requests, std::span<const DraftOut> drafts,
             uint32_t level) {
    size_t left = 0;
    for (size_t i = 0; i < who_.size(); ++i) {
      const DraftRequest& request = requests[who_[i]];
      if (request.max_tokens <= level || drafts[who_[i]].count < level) continue;
      RunnerRow& row = rows_[left];
      row.seq = request.seq;
      row.history = {request.history.data() + 1, request.history.size() - 1 + level};
      row.hidden = rows_of(own_.data() + i * head_hidden_, 1, head_hidden_);
      who_[left++] = who_[i];
    }
    rows_.resize(left);
    who_.resize(left);
  }

  int64_t max_draft_tokens_;
  bool trees_;
  TreeDrafts drafts_;
  KeptPaths proposed_;  // where drafts form trees
  ModelRunner* runner_ = nullptr;
  std::vector<LayerId> layers_;
  uint64_t width_ = 0;        // of the target's states at one token
  uint64_t head_hidden_ = 0;  // of the head's own
  AdaptiveDrafts adaptive_;
  std::unordered_map<SeqId, KeptStates> sequences_;
  std::vector<RunnerRow> rows_, drawn_;
  std::vector<uint32_t> who_;  // [rows] index of the request
  std::vector<const float*> logits_, states_;
  std::vector<float> own_;  // [rows, head_hidden_]
  std::vector<RunnerDraw> draws_;
};

}  // namespace tenon::sdk
