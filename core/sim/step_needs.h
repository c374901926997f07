// What a step's arithmetic reads and computes, by kernel: the left side of a roofline. Of a model
// and of what is in the step alone; no machine is in it.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace tenon::sim {

// Matrices that are stored alike and multiplied by the same rows.
struct ProductNeed {
  std::string_view format;  // the model's
  double elements = 0;      // of all of them; of experts, of those that rows choose
  double bytes = 0;         // the same, as stored; read once a step
  double rows = 0;          // that each is multiplied by
};

struct StepNeeds {
  std::vector<ProductNeed> products;
  // Of attention and recurrences, each summed over sequences: the first of those whose rows are so
  // few that reading K and V takes longest, the second of all others (StepModel::needs_of).
  double decode_bytes = 0;
  double prompt_operations = 0;
  double layers = 0;
  double sequences = 0;
  double logits = 0;        // numbers: rows times vocabulary
  double expert_bytes = 0;  // of `products`
  // Of machines that compute together, each of which needs all of the above: sums of a row's
  // hidden state over all of them, and logits that are gathered.
  double sums = 0;
  double summed_bytes = 0;    // of each sum, at each machine
  double gathered_bytes = 0;  // that each machine gets from the others
};

// One sequence of a step.
struct SequenceLoad {
  uint32_t rows = 0;       // computed, drafts included
  uint32_t kv_tokens = 0;  // entries of K and V once the rows are stored
};

class StepModel {
 public:
  // `geometry` has the groups of `shape`. All are read here and not kept. With `ranks` machines
  // that compute together they are the first one's (core/exec/ranks/model_cut.h): heads are cut
  // already, and the other matrices are divided here.
  StepModel(const Model& model, const ModelShape& shape, const KvGeometry& geometry,
            uint32_t ranks = 1);

  // `turn` is how many operations of attention take as long as reading a byte of K and V
  // (machine_turn): what has more of them computes longer than it reads.
  StepNeeds needs_of(std::span<const SequenceLoad> sequences, uint32_t logits_rows,
                     double turn) const;
  // The same into what is there, so that a step takes no memory.
  void needs_of(std::span<const SequenceLoad> sequences, uint32_t logits_rows, double turn,
                StepNeeds& out) const;
  // As a batch says it.
  static void loads_of(const BatchView& batch, GroupId ledger_group,
                       std::vector<SequenceLoad>& out);

  // Every format that a matrix has, with its share of all elements.
  struct FormatShare {
    std::string format;
    double share = 0;
  };
  std::vector<FormatShare> formats() const;

 private:
  struct Matrices {
    std::string format;
    double elements = 0, bytes = 0;
    bool head = false;
    // Of experts: of each layer so many, of which a row chooses some; elements and bytes are of
    // all.
    double experts = 0, chosen = 0;
  };
  struct Group {
    double bytes_per_token = 0;
    double operations = 0;  // of a row for each entry that it sees
    uint32_t window_tokens = 0;
    double state_bytes = 0;  // recurrent; the rest is 0 then
  };
  // `part` of it is this machine's.
  void add(const Weight& weight, double part, bool head, double experts, double chosen);
  void add_layer(const LayerWeights& layer, const LayerPlan& plan);
  void add_block(const LayerWeights& from);

  std::vector<Matrices> matrices_;
  std::vector<Group> groups_;
  double layers_ = 0, vocabulary_ = 0, hidden_ = 0;
  double ranks_ = 1;
  double sums_ = 0;  // of a step
};

}  // namespace tenon::sim
