// A tree of drafts from a second model (model_runner/2 with model_runner_tree/1), level by level:
// each pass computes the tokens of one level of all sequences, and gives those of the next.
//
// The first token after each node is the one that the target would be drawn with the same key, so
// a tree of width 1 is the chain of <tenon/sdk/drafter/model_drafts.h>. Further ones are the next
// most likely; where drafts are verified by rejection they are drawn without replacement. A sampler
// that heeds no logits, as one of recorded tokens, is followed along a chain.
#pragma once

#include <tenon/drafter.h>
#include <tenon/extensions/model_runner_tree.h>
#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/model_runner.h>
#include <tenon/sdk/drafter/growing_tree.h>
#include <tenon/sdk/drafter/tree_shape.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::sdk {

inline constexpr std::string_view kTreeSentence =
    "how drafts branch: widths by level (\"2,2,1\"), \"grow\" for the likeliest max_draft_tokens "
    "tokens, or empty for a chain";
// What a drafter with the option `tree` can propose; it is agreed on before anything is made.
inline constexpr Fact kTreeFacts[] = {
    {.key = "draft.shape", .op = FactOp::in, .number = 0, .words = "chain tree"}};

// As read_tree_shape, of a pipeline that agreed on what it takes. Throws std::runtime_error with a
// sentence where it did not, and for trees that grow where drafts are verified by rejection.
TreeShape agreed_tree(const PipelineFacts& facts, std::string_view text, int64_t most);

class TreeDrafts {
 public:
  // What a model computed after the tokens that it has read: [asked sequences].
  struct Read {
    std::span<const uint32_t> who;         // index of the request
    std::span<const float* const> logits;  // [vocabulary]
    std::span<const float* const> states;  // [hidden] of models that continue from theirs, or empty
    uint32_t unread = 0;  // leading tokens of histories that the model is not given
  };

  TreeDrafts() = default;
  // Without a shape it does nothing. `hidden`: numbers of a state that a model continues from; 0:
  // it continues from none. Throws std::runtime_error where the host computes no trees.
  TreeDrafts(const HostServices& host, TreeShape shape, uint64_t hidden);

  const TreeShape& shape() const { return shape_; }
  // Fills drafts[who[i]].
  Status draft(std::span<const DraftRequest> requests, const Read& read,
               std::span<DraftOut> drafts);

 private:
  struct Sequence {
    uint32_t request = 0;
    bool greedy = false;  // the likeliest token is the one that is drawn
    GrowingTree tree;
    std::vector<int32_t> held;     // nodes whose states are kept; -1: after what is known
    std::vector<float> states;     // [held, hidden]
    std::vector<int32_t> way;      // [rows] nodes of the pass at hand
    std::vector<int32_t> open;     // nodes that tokens may follow
    std::vector<TokenId> tokens;   // [rows]
    std::vector<int32_t> parents;  // [rows] of the pass
    std::vector<uint8_t> wanted;   // [rows]
    std::vector<float> inputs;     // [rows, hidden]
  };
  struct Likely {
    TokenId token = kNoToken;
    float logit = 0.0f;
  };

  // What tokens are drawn by.
  enum class Heeds : uint8_t { unknown, logits, nothing };

  // How the row's token was drawn.
  Status find_out(const RunnerRow& row, const float* logits, TokenId drawn, bool& greedy);
  void keep_state(Sequence& sequence, int32_t node, const float* state);
  // The rows of the next pass; false: nothing is wanted.
  bool gather(std::span<const DraftRequest> requests, uint32_t unread);
  void gather_way(Sequence& sequence);
  Status run(std::span<const DraftRequest> requests, std::span<DraftOut> drafts);
  Status follow(const DraftRequest& request, DraftOut& out, Sequence& sequence, int32_t node,
                const float* logits);
  void add_likely(Sequence& sequence, int32_t node, TokenId drawn, uint32_t width,
                  std::span<const float> logits);
  void add_drawn(const RandomKey& key, DraftOut& out, GrowingTree& tree, int32_t node,
                 TokenId drawn, uint32_t width);
  void propose(DraftOut& out, const GrowingTree& tree) const;

  TreeShape shape_;
  uint64_t hidden_ = 0;
  Heeds heeds_ = Heeds::unknown;
  ModelRunner* runner_ = nullptr;
  ModelTreeRunner* trees_ = nullptr;
  std::vector<Sequence> sequences_;  // of the drafts at hand, the first `count_`
  size_t count_ = 0;
  std::vector<RunnerTree> rows_;
  std::vector<uint32_t> grown_;  // [rows] index of the sequence
  std::vector<const float*> logits_, states_;
  std::vector<Likely> likely_;
  std::vector<float> changed_;  // [vocabulary] a row to find something out with
};

}  // namespace tenon::sdk
