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
// EAGLE 1 and 2 (Li et al., 2024) are the same without any of those norms, and without one before
// their first layer's attention or before the LM head.
//
// Row i of a head pairs token i + 1 with the states at token i: a head is given histories without
// their first token.
//
// Some heads draft a block of tokens in one pass. DFlash (2026), with t the last token, at
// position a:
//
//   c_i = state_norm(fc(g_i)) for each i < a; every layer makes K and V of them, at position i
//   the rows of a block are t and masks, from position a on; they go through the layers, see all c
//   and all of each other, and each proposes a token
//
// DSpark adds to a row's logits markov_out · markov_in[the token before], and says how likely the
// row's token is to be kept. Medusa (Cai et al., 2024) has no layers that attend: head k reads
// g_a-1 after the final norm, through layers x + silu(weight · x + bias) and an LM head of its own,
// and proposes the token at a + 1 + k. P-EAGLE is EAGLE-3 whose rows after the last one have a
// mask's embedding, and in place of g a vector that was learned.
#pragma once

#include <tenon/drafter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace tenon {

// What is done to the target's states before fc.
enum class FeatureNorm : uint8_t {
  none,
  whole,  // one norm over all layers' states (`norm_before_fc`)
  each,   // a norm for each layer's (`fc_norm`)
};

enum class HeadKind : uint8_t { eagle3, mtp, dflash, medusa, eagle };

// The word for it in messages and for drafters (kDraftHeadKind): all of EAGLE's are "eagle3".
std::string_view head_kind_name(HeadKind kind);

// What DSpark adds to the logits: of the token before alone, or of that times a gate that reads the
// row's state as well.
enum class MarkovKind : uint8_t { vanilla, gated };

// Of heads that draft several tokens in one pass.
struct BlockPlan {
  uint32_t tokens = 0;  // that one pass proposes; 0: the head drafts token by token
  TokenId mask = kNoToken;
  // Of dflash: row j proposes the token after its position, and there are `tokens` rows; else row
  // j + 1 proposes token j, and there is one more.
  bool from_anchor = false;
  std::vector<float> mask_state;  // [features] of eagle3: in place of states

  explicit operator bool() const { return tokens > 0; }
};

struct MedusaLayer {
  Weight weight;            // [hidden, hidden]
  std::vector<float> bias;  // [hidden], or none
};
struct MedusaHead {
  std::vector<MedusaLayer> layers;
  Weight lm_head;  // [vocabulary, or as many as there are token_ids; hidden]
};

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

  Weight fc;                         // [hidden, features]; of mtp and eagle [hidden, 2 · hidden]
  std::vector<float> fc_bias;        // [hidden] of eagle, or none
  std::vector<float> token_norm;     // [hidden], of mtp
  std::vector<float> features_norm;  // [features]
  std::vector<float> state_norm;     // [hidden]: hidden_norm, hnorm
  std::vector<TokenId> token_ids;    // [rows of the LM head] the target's; empty: the same ids

  BlockPlan block;
  Weight markov_in, markov_out;         // [vocabulary, rank], [rows of the LM head, rank]; or none
  Weight markov_gate;                   // [rank, hidden + rank]; or none
  std::vector<float> markov_gate_bias;  // [rank]
  std::vector<float> confidence;  // [hidden, or hidden + rank]; empty: the head says nothing of it
  float confidence_bias = 0.0f;
  std::vector<MedusaHead> medusa;  // of medusa: a token of the block each

  // Rows that a block takes, from the slot after the history on.
  uint32_t block_rows() const {
    if (kind == HeadKind::dflash) return block.tokens + (block.from_anchor ? 0 : 1);
    return kind == HeadKind::eagle3 && block.tokens > 0 ? block.tokens - 1 : 0;
  }
  // Whether there are layers for an executor to run.
  bool has_layers() const { return kind != HeadKind::medusa; }
  // Whether its rows have read the token after their own, besides the target's states.
  bool reads_tokens() const { return kind != HeadKind::dflash; }
  // Whether embedding and state are two halves that one product makes the stream of.
  bool joins_halves() const { return kind == HeadKind::mtp || kind == HeadKind::eagle; }
  // Whether rows of a batch are the target's states alone, of which layers keep K and V and make
  // nothing else.
  bool is_context(bool has_states) const { return kind == HeadKind::dflash && has_states; }

  // The state that goes on to the next token is the one after this layer, of `layers`.
  LayerId state_layer(uint32_t layers) const { return norm_output ? layers : layers - 1; }
  // Whether the layer reads embeddings next to the stream.
  bool joins(uint32_t layer) const { return kind == HeadKind::eagle3 && layer == 0; }
};

struct OpenedHead {
  std::unique_ptr<Model> model;  // `vocabulary` is the target's; the LM head may have fewer rows
  std::unique_ptr<Head> head;
};

// Whether `path` is a folder whose config.json is that of a head, of whatever kind, or a GGUF file
// of a head alone.
bool is_head(const std::string& path);

// Opens the folder of an EAGLE, P-EAGLE, DFlash or DSpark head, as its authors write it or as
// speculators does, or a GGUF file of an EAGLE-3 head or of a model's layers for drafts
// (docs/formats/heads.md). Embedding and LM head are the target's where the folder has none, and
// borrowed from it then. Errors: unsupported for other kinds of heads and for features of the
// target that are not built; invalid_argument for a head that was made for another target, and for
// files that are cut or say what cannot be.
Result<OpenedHead> open_head(const std::string& path, const Model& target);

// Opens a folder of Medusa heads, as Medusa's authors or vLLM name their tensors; the model has
// no layers. Errors: as of open_head.
Result<OpenedHead> open_medusa(const std::string& path, const Model& target);

// Opens the layers for drafts that the target's own folder has next to it, of the kind mtp:
// embedding and LM head are the target's where they have none. Of several modules it is the first,
// which is applied again for each further draft. Errors: not_found where there are none;
// unsupported for what is not built; invalid_argument for tensors that lack or do not fit.
// `path`: a GGUF file of that layer alone, which lies next to the target's; empty: the target's
// own.
Result<OpenedHead> open_own_head(const Model& target, const std::string& path = {});

}  // namespace tenon
