// Heads: small models that draft from the hidden states of another one, their target. What a head
// has in common with models (layers, embedding, LM head) is a Model; this is what stands before its
// layers.
//
// EAGLE-3 (Li et al., 2025), with g the target's states of several layers at a token, e the
// embedding of the token after it:
//
//   f = fc(norm(g)), or the state that the head made at the token before
//   the first layer's q, k and v read [input_layernorm(e), hidden_norm(f)]; what it makes is added
//   to f, or to hidden_norm(f) with `norm_before_residual`
//
// Multi-token prediction (DeepSeek-V3, 2024), whose layers lie in the target's own checkpoint, with
// g the target's state after its final norm:
//
//   what enters the first layer is fc([token_norm(e), state_norm(g)]), or the other way round;
//   after a draft g is the head's own state after its last norm
//
// Row i of a head pairs token i + 1 with the states at token i: a head is given histories without
// their first token.
#pragma once

#include <tenon/drafter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace tenon {

// What is done to the target's states before fc.
enum class FeatureNorm : uint8_t {
  none,
  whole,  // one norm over all layers' states (`norm_before_fc`)
  each,   // a norm for each layer's (`fc_norm`)
};

enum class HeadKind : uint8_t { eagle3, mtp };

struct Head {
  HeadKind kind = HeadKind::eagle3;
  std::string source;                 // the path of its config.json, for messages
  std::vector<LayerId> state_layers;  // of the target, rising
  uint32_t features = 0;              // width of all their states at one token
  NormPlan norm;                      // of all norms here
  FeatureNorm feature_norm = FeatureNorm::none;
  // 1 or 0; -1: the checkpoint does not say, and programs differ in what they take that for.
  int8_t norm_before_residual = -1;
  bool norm_output = false;  // what goes on to the next token is the state after the last norm
  bool state_first = false;  // of mtp: fc reads the state before the embedding

  Weight fc;                         // [hidden, features]; of mtp [hidden, 2 · hidden]
  std::vector<float> token_norm;     // [hidden], of mtp
  std::vector<float> features_norm;  // [features]
  std::vector<float> state_norm;     // [hidden]: hidden_norm, hnorm
  std::vector<TokenId> token_ids;    // [rows of the LM head] the target's; empty: the same ids

  // The state that goes on to the next token is the one after this layer, of `layers`.
  LayerId state_layer(uint32_t layers) const { return norm_output ? layers : layers - 1; }
  // Whether the layer reads embeddings next to the stream.
  bool joins(uint32_t layer) const { return kind == HeadKind::eagle3 && layer == 0; }
};

struct OpenedHead {
  std::unique_ptr<Model> model;  // `vocabulary` is the target's; the LM head may have fewer rows
  std::unique_ptr<Head> head;
};

// Whether `path` is a folder whose config.json is that of a head, of whatever kind.
bool is_head_folder(const std::string& path);

// Opens the folder of an EAGLE-3 head, as EAGLE and SpecForge write it or as speculators does
// (docs/formats/heads.md). Embedding and LM head are the target's where the folder has none, and
// borrowed from it then. Errors: unsupported for other kinds of heads and for features of the
// target that are not built; invalid_argument for a head that was made for another target, and for
// files that are cut or say what cannot be.
Result<OpenedHead> open_head(const std::string& path, const Model& target);

// Opens the layers for drafts that the target's own folder has next to it, of the kind mtp:
// embedding and LM head are the target's where they have none. Of several modules it is the first,
// which is applied again for each further draft. Errors: not_found where there are none;
// unsupported for what is not built; invalid_argument for tensors that lack or do not fit.
Result<OpenedHead> open_own_head(const Model& target);

}  // namespace tenon
