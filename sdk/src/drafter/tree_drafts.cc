#include <tenon/sdk/drafter/model_drafts.h>
#include <tenon/sdk/drafter/tree_drafts.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tenon::sdk {
namespace {

// A target that takes the likeliest token takes a drafter's likeliest one more often than the
// drafter holds it likely: shares are those of logits times this. Fitted to greedy texts of the
// bundled models (docs/experiments/005-drafters.md).
constexpr double kSharper = 2.0;
// By which a token leads an even row: less than any penalty is likely to take, and too little to be
// drawn by chance.
constexpr float kLead = 0.5f;

// log(Σ exp(scale · logit)) of a row that has a finite logit.
double log_sum(std::span<const float> logits, float highest, double scale) {
  double sum = 0.0;
  for (const float logit : logits) {
    // Far below it adds nothing, and most are.
    const float below = logit - highest;
    if (below <= 0.0f && below > -30.0f) sum += std::exp(scale * static_cast<double>(below));
  }
  return scale * static_cast<double>(highest) + std::log(sum);
}

// What a share leaves, which is given as a logarithm; never nothing.
double rest(double log_share) {
  return std::max(-std::expm1(log_share), 1e-12);
}

TensorView states_of(const std::vector<float>& values, uint64_t rows, uint64_t width) {
  TensorView view;
  if (width == 0) return view;
  view.data = values.data();
  view.dtype = DType::f32;
  view.rank = 2;
  view.shape[0] = rows;
  view.shape[1] = view.stride[0] = width;
  view.stride[1] = 1;
  return view;
}

}  // namespace

TreeShape agreed_tree(const PipelineFacts& facts, std::string_view text, int64_t most) {
  TreeShape shape = read_tree_shape(text, most);
  if (!shape.is_tree()) return shape;
  const ResolvedFact* agreed = facts.find("draft.shape");
  if (agreed == nullptr || agreed->word != "tree") {
    throw std::runtime_error(
        "drafter.options.tree is set, but the host agreed on chains of drafts; it is older than "
        "this drafter: remove the option");
  }
  const ResolvedFact* verify = facts.find("sampler.verify");
  if (shape.grows && verify != nullptr && verify->word == "rejection") {
    throw std::runtime_error(
        "drafter.options.tree is \"grow\", which proposes the likeliest tokens, but drafter.verify "
        "is \"rejection\", which needs tokens that were drawn; write widths by level, as "
        "\"2,2,1\", or set drafter.verify = \"exact\"");
  }
  return shape;
}

TreeDrafts::TreeDrafts(const HostServices& host, TreeShape shape, uint64_t hidden)
    : shape_(std::move(shape)), hidden_(hidden) {
  if (!shape_.is_tree()) return;
  const void* runner = extension_of(host, kModelRunner);
  const void* trees = extension_of(host, kModelRunnerTree);
  if (runner == nullptr || trees == nullptr) {
    throw std::runtime_error(
        "the host computes no trees of drafts (model_runner_tree/1); remove drafter.options.tree");
  }
  runner_ = *static_cast<ModelRunner* const*>(runner);
  trees_ = *static_cast<ModelTreeRunner* const*>(trees);
}

Status TreeDrafts::draft(std::span<const DraftRequest> requests, const Read& read,
                         std::span<DraftOut> drafts) {
  count_ = read.who.size();
  if (sequences_.size() < count_) sequences_.resize(count_);
  for (size_t i = 0; i < count_; ++i) {
    Sequence& sequence = sequences_[i];
    sequence.request = read.who[i];
    DraftOut& out = drafts[sequence.request];
    const auto room = static_cast<uint32_t>(std::min(out.tokens.size(), out.parents.size()));
    sequence.tree.begin(std::min(room, shape_.nodes), out.probs != nullptr);
    sequence.states.clear();
    sequence.held.clear();
    if (room == 0) continue;
    if (hidden_ > 0) keep_state(sequence, -1, read.states[i]);
    const DraftRequest& request = requests[sequence.request];
    if (Status status = follow(request, out, sequence, -1, read.logits[i]); !status.ok()) {
      return status;
    }
  }
  while (gather(requests, read.unread)) {
    if (Status status = run(requests, drafts); !status.ok()) return status;
  }
  for (size_t i = 0; i < count_; ++i) propose(drafts[sequences_[i].request], sequences_[i].tree);
  return {};
}

void TreeDrafts::keep_state(Sequence& sequence, int32_t node, const float* state) {
  sequence.held.push_back(node);
  sequence.states.insert(sequence.states.end(), state, state + hidden_);
}

bool TreeDrafts::gather(std::span<const DraftRequest> requests, uint32_t unread) {
  rows_.clear();
  grown_.clear();
  for (uint32_t i = 0; i < count_; ++i) {
    Sequence& sequence = sequences_[i];
    const std::span<const int32_t> level = sequence.tree.next_level();
    sequence.open.assign(level.begin(), level.end());
    std::erase_if(sequence.open,
                  [&](int32_t node) { return shape_.width_at(sequence.tree.depth_of(node)) == 0; });
    if (sequence.open.empty()) continue;
    gather_way(sequence);
    RunnerTree& row = rows_.emplace_back();
    const DraftRequest& request = requests[sequence.request];
    row.seq = request.seq;
    row.history = request.history.subspan(unread);
    row.tokens = sequence.tokens;
    row.parents = sequence.parents;
    row.wanted = sequence.wanted;
    row.hidden = states_of(sequence.inputs, sequence.tokens.size(), hidden_);
    grown_.push_back(i);
  }
  return !rows_.empty();
}

// The open nodes and all that they follow, each after the one that it follows.
void TreeDrafts::gather_way(Sequence& sequence) {
  const std::span<const GrowingTree::Node> nodes = sequence.tree.nodes();
  std::vector<int32_t>& way = sequence.way;
  way.clear();
  for (int32_t node : sequence.open) {
    for (; node >= 0; node = nodes[static_cast<size_t>(node)].parent) way.push_back(node);
  }
  std::ranges::sort(way);
  way.erase(std::unique(way.begin(), way.end()), way.end());
  sequence.tokens.clear();
  sequence.parents.clear();
  sequence.wanted.clear();
  sequence.inputs.clear();
  for (const int32_t id : way) {
    const GrowingTree::Node& node = nodes[static_cast<size_t>(id)];
    sequence.tokens.push_back(node.token);
    const auto parent = std::ranges::lower_bound(way, node.parent);
    sequence.parents.push_back(node.parent < 0 ? -1 : static_cast<int32_t>(parent - way.begin()));
    sequence.wanted.push_back(std::ranges::binary_search(sequence.open, id) ? 1 : 0);
    if (hidden_ == 0) continue;
    const auto place = std::ranges::find(sequence.held, node.parent) - sequence.held.begin();
    const float* from = sequence.states.data() + static_cast<uint64_t>(place) * hidden_;
    sequence.inputs.insert(sequence.inputs.end(), from, from + hidden_);
  }
}

Status TreeDrafts::run(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
  size_t wanted = 0;
  for (const uint32_t i : grown_) wanted += sequences_[i].open.size();
  logits_.assign(wanted, nullptr);
  states_.assign(hidden_ > 0 ? wanted : 0, nullptr);
  if (Status status = trees_->forward_tree(rows_, logits_, states_); !status.ok()) return status;
  size_t at = 0;
  for (const uint32_t i : grown_) {
    Sequence& sequence = sequences_[i];
    for (const int32_t node : sequence.open) {
      if (hidden_ > 0) keep_state(sequence, node, states_[at]);
      Status status = follow(requests[sequence.request], drafts[sequence.request], sequence, node,
                             logits_[at++]);
      if (!status.ok()) return status;
    }
  }
  return {};
}

// Adds the tokens after a node. Its path is written where drafts stand, directly after the history:
// what is proposed is written there at the end.
Status TreeDrafts::follow(const DraftRequest& request, DraftOut& out, Sequence& sequence,
                          int32_t node, const float* logits) {
  GrowingTree& tree = sequence.tree;
  if (tree.full()) return {};
  const uint32_t depth = tree.depth_of(node), vocabulary = runner_->vocabulary();
  tree.write_path(node, out.tokens);
  RunnerRow row;
  row.seq = request.seq;
  row.history = {request.history.data(), request.history.size() + depth};
  RunnerDraw draw;
  if (tree.in_order()) draw.probs = out.probs + tree.nodes().size() * uint64_t{vocabulary};
  if (Status status = runner_->draw({&row, 1}, {&logits, 1}, {&draw, 1}); !status.ok()) {
    return status;
  }
  if (draw.token == kNoToken) return {};
  // Where nothing else could be drawn, as with greedy requests, any tree may be proposed and is
  // verified exactly.
  const bool certain = draw.probs != nullptr && draw.probs[static_cast<size_t>(draw.token)] >= 1.0f;
  if (node < 0 && certain) tree.begin(std::min(tree.most(), shape_.nodes), false);
  const uint32_t width = shape_.width_at(depth);
  if (tree.in_order()) {
    RandomKey key = request.key;
    key.position += depth;
    add_drawn(key, out, tree, node, draw.token, width);
  } else {
    if (node < 0) {
      Status status = find_out(row, logits, draw.token, sequence.greedy);
      if (!status.ok()) return status;
    }
    add_likely(sequence, node, draw.token, width, {logits, vocabulary});
  }
  return {};
}

// Draws again from other rows: a sampler that says the same where that is impossible says what was
// recorded, and so does the target; of an even row in which the token leads, it is drawn again
// where the likeliest one always is. The last draw of the row is its own again.
Status TreeDrafts::find_out(const RunnerRow& row, const float* logits, TokenId drawn,
                            bool& greedy) {
  RunnerDraw again;
  const auto draw_from = [&](const float* from) {
    return runner_->draw({&row, 1}, {&from, 1}, {&again, 1});
  };
  const auto id = static_cast<size_t>(drawn);
  if (heeds_ == Heeds::unknown) {
    changed_.assign(logits, logits + runner_->vocabulary());
    changed_[id] = -std::numeric_limits<float>::infinity();
    if (Status status = draw_from(changed_.data()); !status.ok()) return status;
    heeds_ = again.token == drawn ? Heeds::nothing : Heeds::logits;
  }
  changed_.assign(runner_->vocabulary(), 0.0f);
  changed_[id] = kLead;
  if (Status status = draw_from(changed_.data()); !status.ok()) return status;
  greedy = again.token == drawn;
  return draw_from(logits);
}

// The token that was drawn stands for the likeliest one: drawn with the target's key, it is what
// the target will say where both agree. The others share what that leaves.
void TreeDrafts::add_likely(Sequence& sequence, int32_t node, TokenId drawn, uint32_t width,
                            std::span<const float> logits) {
  GrowingTree& tree = sequence.tree;
  if (heeds_ == Heeds::nothing) return tree.add(node, drawn, 0.0);
  likely_.clear();
  float highest = std::numeric_limits<float>::lowest();
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (!(logit > std::numeric_limits<float>::lowest())) continue;
    highest = std::max(highest, logit);
    const bool full = likely_.size() + 1 >= width;
    if (static_cast<TokenId>(id) == drawn) continue;
    if (full && (likely_.empty() || !(logit > likely_.back().logit))) continue;
    if (full) likely_.pop_back();
    const auto place =
        std::ranges::upper_bound(likely_, logit, std::ranges::greater(), &Likely::logit);
    likely_.insert(place, {static_cast<TokenId>(id), logit});
  }
  const double scale = sequence.greedy ? kSharper : 1.0, all = log_sum(logits, highest, scale);
  const auto share = [&](float logit) { return scale * static_cast<double>(logit) - all; };
  tree.add(node, drawn, share(highest));
  // No more than 0: less is left where the likeliest token was not drawn.
  const double of_drawn = share(logits[static_cast<size_t>(drawn)]);
  const double left = std::log(rest(share(highest)) / rest(of_drawn));
  for (const Likely& other : likely_) tree.add(node, other.token, share(other.logit) + left);
}

// Each from what the ones before it have left, whose distribution is kept.
void TreeDrafts::add_drawn(const RandomKey& key, DraftOut& out, GrowingTree& tree, int32_t node,
                           TokenId drawn, uint32_t width) {
  const uint64_t vocabulary = runner_->vocabulary();
  tree.add(node, drawn, 0.0);
  for (uint32_t round = 1; round < width && !tree.full(); ++round) {
    const float* before = out.probs + (tree.nodes().size() - 1) * vocabulary;
    const std::span<float> left(out.probs + tree.nodes().size() * vocabulary, vocabulary);
    std::copy_n(before, vocabulary, left.begin());
    left[static_cast<size_t>(tree.nodes().back().token)] = 0.0f;
    double total = 0.0;
    for (const float share : left) total += share;
    if (!(total > 0.0)) return;
    for (float& share : left) share = static_cast<float>(share / total);
    double target = uniform(key, RandomPurpose::draft, round);
    TokenId token = kNoToken;
    for (size_t id = 0; id < vocabulary && (token == kNoToken || target >= 0.0); ++id) {
      if (!(left[id] > 0.0f)) continue;
      token = static_cast<TokenId>(id);
      target -= left[id];
    }
    if (token == kNoToken) return;
    tree.add(node, token, 0.0);
  }
}

void TreeDrafts::propose(DraftOut& out, const GrowingTree& tree) const {
  const std::span<const int32_t> chosen = tree.chosen();
  out.count = static_cast<uint32_t>(chosen.size());
  out.is_tree = true;
  out.has_probs = tree.in_order() && out.probs != nullptr;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const GrowingTree::Node& node = tree.nodes()[static_cast<size_t>(chosen[i])];
    out.tokens[i] = node.token;
    out.parents[i] =
        node.parent < 0
            ? -1
            : static_cast<int32_t>(std::ranges::find(chosen, node.parent) - chosen.begin());
  }
}

}  // namespace tenon::sdk
