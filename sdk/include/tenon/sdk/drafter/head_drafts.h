// The chain or tree that a head drafts from the target's hidden states, level by level or as a
// block in one pass, for drafters of any kind of head.
//
// The head runs as a second model (model_runner/2) whose row i is of token i + 1 and of the
// target's states at token i. Drafted tokens have no such states, so the head goes on from its own;
// those rows are forgotten when the drafts are judged. How many tokens are worth proposing is
// learned by <tenon/sdk/drafter/adaptive_drafts.h>.
#pragma once

#include <tenon/extensions/draft_head.h>
#include <tenon/extensions/model_runner_block.h>
#include <tenon/extensions/prompt_states.h>
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
  // `kind` is what the head must be, `advice` what to configure where there is none. A block ends
  // where the product of what the head says of its tokens' chances falls below `min_confidence`.
  // Throws std::runtime_error with a sentence where the pipeline has no such head.
  HeadDrafts(const HostServices& host, std::string_view kind, const std::string& advice,
             int64_t max_draft_tokens, bool adaptive, const TreeShape& shape = {},
             double min_confidence = 0.0)
      : max_draft_tokens_(shape.is_tree() ? shape.nodes : max_draft_tokens),
        trees_(shape.is_tree()),
        min_confidence_(min_confidence),
        blocks_(block_runner_of(host)),
        adaptive_(adaptive, false, blocks_ != nullptr) {
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
    adaptive_.ask_costs(host);
    if (blocks_ != nullptr) {
      if (trees_) {
        throw std::runtime_error(
            "the head drafts a block in one pass, which is a chain; remove "
            "drafter.options.tree");
      }
      max_draft_tokens_ = std::min<int64_t>(max_draft_tokens_, blocks_->block_tokens());
    }
    layers_.assign(head->layers.begin(), head->layers.begin() + head->count);
    head_hidden_ = model->hidden;
    most_unread_ = most_unread(*model);
    drafts_ = TreeDrafts(host, shape, head_hidden_);
  }

  HeadDrafts(const HeadDrafts&) = delete;
  HeadDrafts& operator=(const HeadDrafts&) = delete;

  Status bind(const ModelShape& target, HiddenLayersOut& wanted) {
    width_ = uint64_t{target.hidden} * layers_.size();
    std::copy(layers_.begin(), layers_.end(), wanted.layers.begin());
    wanted.count = static_cast<uint32_t>(layers_.size());
    // Without states from there on, one row of a prompt alone goes through all of the last layer.
    const bool late = layers_.back() + 1 >= target.layer_count;
    adaptive_.seeing_takes(late ? 1.0 / std::max(target.layer_count, 1u) : 0.0, most_unread_);
    return {};
  }

  void begin(SeqId seq, SeqId parent) {
    const auto from = sequences_.find(parent);
    const Text text =
        from == sequences_.end() ? Text{.is_seen = adaptive_.sees_next()} : from->second;
    sequences_.insert_or_assign(seq, text);
    adaptive_.begin(seq);
  }
  void end(SeqId seq) {
    sequences_.erase(seq);
    proposed_.end(seq);
    adaptive_.end(seq);
  }

  void observe(std::span<const HiddenView> hidden) {
    for (const HiddenView& view : hidden) {
      const auto text = sequences_.find(view.seq);
      if (text == sequences_.end() || never_drafts(text->second)) continue;
      text->second.states.add(view, width_);
    }
  }

  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    unread_.assign(requests.size(), 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      offered[i] = room_for(requests[i], *runner_, max_draft_tokens_);
      if (offered[i] > 0 && !has_states(requests[i])) offered[i] = 0;
      if (offered[i] == 0) continue;
      const uint64_t read = sequences_[requests[i].seq].states.read();
      unread_[i] = std::min(requests[i].history.size() - 1 - read, most_unread_);
    }
    adaptive_.choose(requests, offered, unread_);
  }

  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    Status status = draft_all(requests, drafts);
    for (const DraftRequest& request : requests) {
      if (status.ok()) sequences_[request.seq].states.forget_before(request.history.size());
    }
    return status;
  }

  void accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted, uint32_t accepted) {
    if (trees_) return adaptive_.learn_tree(seq, drafted, proposed_.kept(seq, history, accepted));
    adaptive_.learn(seq, std::min(accepted + 1, drafted), accepted);
  }

  void measured(const DraftStepCost& cost) { adaptive_.measured(cost); }

  const void* extension(std::string_view id) const {
    return id == kPromptStates ? &prompt_states_ : nullptr;
  }

 private:
  struct Text {
    KeptStates states = {};
    bool is_seen = true;  // along its prompt
  };

  // A head that reads whole texts can read none of those whose prompt it has not seen.
  bool never_drafts(const Text& text) const { return !text.is_seen && most_unread_ == UINT64_MAX; }

  // Whether the states of all that the head has not read are here. After a prefix that was shared
  // they are not; but another sequence may let the head read it, and windows move on.
  bool has_states(const DraftRequest& request) {
    const size_t known = request.history.size();
    Text& text = sequences_[request.seq];
    KeptStates& kept = text.states;
    if (never_drafts(text)) return false;
    if (known < 2 || kept.reaches(known)) return known >= 2;
    if (!kept.asks_again(known)) return false;
    kept.found(runner_->computed(request.seq, request.history.subspan(1)), known);
    return kept.reaches(known);
  }
  // Rows of a text that the head ever reads at once: none if it has no layers, the last window if
  // they all have one.
  static uint64_t most_unread(const ModelShape& model) {
    if (model.layer_count == 0) return 0;
    uint64_t most = 0;
    for (uint32_t group = 0; group < model.group_count; ++group) {
      const uint64_t window = model.groups[group].window_tokens;
      if (window == 0) return UINT64_MAX;
      most = std::max(most, window);
    }
    return most;
  }
  static ModelBlockRunner* block_runner_of(const HostServices& host) {
    const void* found = extension_of(host, kModelRunnerBlock);
    return found == nullptr ? nullptr : *static_cast<ModelBlockRunner* const*>(found);
  }
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
    if (blocks_ != nullptr) return draft_blocks(requests, drafts);
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

  Status draft_blocks(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    block_rows_.clear();
    first_of_.clear();
    size_t wanted = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const uint32_t tokens = std::min(requests[who_[i]].max_tokens, blocks_->block_tokens());
      block_rows_.push_back({rows_[i].seq, rows_[i].history, rows_[i].hidden, tokens});
      first_of_.push_back(wanted);
      wanted += tokens;
    }
    rows_.clear();
    if (block_rows_.empty()) return {};
    block_logits_.assign(wanted, nullptr);
    block_states_.assign(wanted, nullptr);
    chance_.assign(block_rows_.size(), 1.0);
    Status status = blocks_->forward_blocks(block_rows_, block_logits_, block_states_);
    for (uint32_t level = 0; status.ok() && gather(requests, drafts, level); ++level) {
      status = draw_level(drafts);
    }
    return status;
  }

  // The sequences whose blocks go on after `level` tokens.
  bool gather(std::span<const DraftRequest> requests, std::span<const DraftOut> drafts,
              uint32_t level) {
    drawn_.clear();
    logits_.clear();
    states_.clear();
    before_.clear();
    going_.clear();
    drawing_.clear();
    for (size_t i = 0; i < block_rows_.size(); ++i) {
      const DraftRequest& request = requests[who_[i]];
      if (block_rows_[i].tokens <= level || drafts[who_[i]].count < level) continue;
      RunnerRow& row = drawn_.emplace_back();
      row.seq = request.seq;
      row.history = {request.history.data(), request.history.size() + level};
      before_.push_back(row.history.back());
      logits_.push_back(block_logits_[first_of_[i] + level]);
      states_.push_back(block_states_[first_of_[i] + level]);
      going_.push_back(i);
      drawing_.push_back(who_[i]);
    }
    return !drawn_.empty();
  }

  Status draw_level(std::span<DraftOut> drafts) {
    if (blocks_->follows() || blocks_->has_confidence()) {
      confidence_.assign(before_.size(), 1.0f);
      Status status = blocks_->follow(before_, logits_, states_, confidence_);
      if (!status.ok()) return status;
      leave_unlikely();
    }
    return draw_next(*runner_, drawn_, logits_, drawing_, drafts, draws_);
  }

  // Blocks end where a token and all before it are not likely enough to be kept.
  void leave_unlikely() {
    size_t left = 0;
    for (size_t i = 0; i < going_.size(); ++i) {
      double& chance = chance_[going_[i]];
      chance *= static_cast<double>(confidence_[i]);
      if (chance < min_confidence_) continue;
      drawn_[left] = drawn_[i];
      logits_[left] = logits_[i];
      going_[left] = going_[i];
      drawing_[left++] = drawing_[i];
    }
    drawn_.resize(left);
    logits_.resize(left);
    going_.resize(left);
    drawing_.resize(left);
  }

  // A row for the tokens that the head has not read, with the target's states before each of them.
  bool add_first(const DraftRequest& request) {
    if (who_.empty()) rows_.clear();
    KeptStates& kept = sequences_[request.seq].states;
    const std::span<const TokenId> tokens = request.history.subspan(1);
    if (tokens.empty()) return false;
    const uint32_t read = runner_->computed(request.seq, tokens);
    if (!kept.covers(read, tokens.size())) {
      kept.lost(read, request.history.size());
      return false;
    }
    adaptive_.granted(request.max_tokens, tokens.size() - read);
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
  double min_confidence_;
  ModelBlockRunner* blocks_;  // null: the head drafts token by token
  TreeDrafts drafts_;
  KeptPaths proposed_;  // where drafts form trees
  ModelRunner* runner_ = nullptr;
  std::vector<LayerId> layers_;
  uint64_t width_ = 0;        // of the target's states at one token
  uint64_t head_hidden_ = 0;  // of the head's own
  uint64_t most_unread_ = UINT64_MAX;
  AdaptiveDrafts adaptive_;
  std::unordered_map<SeqId, Text> sequences_;
  const PromptStates prompt_states_{.self = this, .wanted = [](void* self, SeqId seq) noexcept {
                                      const auto& sequences =
                                          static_cast<HeadDrafts*>(self)->sequences_;
                                      const auto text = sequences.find(seq);
                                      return text == sequences.end() || text->second.is_seen;
                                    }};
  std::vector<uint64_t> unread_;  // [requests]
  std::vector<RunnerRow> rows_, drawn_;
  std::vector<uint32_t> who_;  // [rows] index of the request
  std::vector<const float*> logits_, states_;
  std::vector<float> own_;  // [rows, head_hidden_]
  std::vector<RunnerDraw> draws_;
  std::vector<RunnerBlock> block_rows_;  // [who_]
  std::vector<size_t> first_of_;         // [who_] of block_logits_
  std::vector<double> chance_;           // [who_] that all tokens so far are kept
  std::vector<const float*> block_logits_, block_states_;
  std::vector<TokenId> before_;    // [drawn_]
  std::vector<size_t> going_;      // [drawn_] index in who_
  std::vector<uint32_t> drawing_;  // [drawn_] index of the request
  std::vector<float> confidence_;  // [drawn_]
};

}  // namespace tenon::sdk
