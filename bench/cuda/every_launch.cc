#include "bench/cuda/every_launch.h"

#include <cstdint>
#include <initializer_list>

#include "core/exec/cuda/kernels/launch_ranks.h"
#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda::bench {
namespace {

constexpr Input kTypes[] = {Input::f32, Input::bf16};
constexpr CacheType kCacheTypes[] = {CacheType::f32, CacheType::bf16, CacheType::i8, CacheType::i4};
constexpr int kWidth = 128;

struct Codes {
  int bits;
  bool floats;
};
constexpr Codes kCodes[] = {{4, false}, {8, false}, {8, true}};

QuantScales quantised(const Codes& codes) {
  QuantScales quant = {};
  quant.floats = codes.floats;
  quant.groups = 1;
  quant.group = kWidth;
  quant.bits = codes.bits;
  quant.rows = kWidth;
  return quant;
}

bool embeds(Input type, const QuantScales& quant) {
  EmbedCall embed = {};
  embed.weights = type;
  embed.quant = quant;
  embed.rows = 1;
  embed.width = kWidth;
  return launch_embed(nullptr, embed) == 0;
}

bool norms(Input type) {
  for (const int width : {128, 4096, 16384, 32768}) {
    NormShape norm;
    norm.rows = 1;
    norm.width = norm.out_stride = width;
    if (launch_norm(nullptr, nullptr, nullptr, nullptr, nullptr, type, norm) != 0) return false;
  }
  return true;
}

bool rows_of(Input type) {
  return embeds(type, {}) && norms(type) &&
         launch_gate(nullptr, nullptr, nullptr, nullptr, type, 1, kWidth, kWidth, kWidth,
                     ActivationKind::silu) == 0 &&
         launch_open(nullptr, nullptr, nullptr, type, 1, kWidth, kWidth, kWidth) == 0 &&
         launch_take_rows(nullptr, nullptr, nullptr, nullptr, type, 1, kWidth, kWidth) == 0 &&
         launch_adjust(nullptr, nullptr, kWidth, 1.0f, 0.0f, 0.0f) == 0;
}

MultiplyCall product(uint32_t rows, int columns = kWidth) {
  MultiplyCall call = {};
  call.rows = rows;
  call.k_in = call.x_stride = call.w_stride = kWidth;
  call.n_out = call.y_stride = columns;
  return call;
}

bool products(uint32_t rows, int columns) {
  const MultiplyCall call = product(rows, columns);
  bool taken = true;
  for (const Input type : kTypes) {
    taken &= launch_multiply(nullptr, type, call) == 0 &&
             launch_multiply_heads(nullptr, type, call, {2, kWidth, kWidth, kWidth}) == 0;
  }
  for (const Codes& codes : kCodes) {
    for (const int group : {32, 64, 96, 128, 256}) {
      QuantScales quant = quantised(codes);
      quant.groups = (kWidth + group - 1) / group;
      quant.group = group;
      taken &= launch_multiply_quant(nullptr, {call, quant, {}}) == 0;
    }
  }
  return taken;
}

bool products_of_many_rows() {
  bool taken = true;
  for (const ProductTiles tiles : {ProductTiles::narrow, ProductTiles::wide}) {
    MultiplyCall call = product(128);
    call.tiles = tiles;
    taken &= launch_multiply(nullptr, Input::bf16, call) == 0;
    for (const Codes& codes : kCodes) {
      taken &= launch_multiply_quant(nullptr, {call, quantised(codes), {}}) == 0;
    }
  }
  return taken;
}

bool products_with_experts(uint32_t rows) {
  ExpertRows chosen = {};
  chosen.rows = chosen.room = rows;
  chosen.chosen = chosen.count = 1;
  const MultiplyCall call = product(rows);
  bool taken = launch_collect_places(nullptr, chosen, nullptr, nullptr) == 0 &&
               launch_multiply_experts(nullptr, Input::f32, call, {}, chosen, 1) == 0;
  taken &= launch_multiply_experts(nullptr, Input::bf16, call, {}, chosen, 1) == 0;
  for (const Codes& codes : kCodes) {
    taken &= launch_multiply_experts(nullptr, Input::bf16, call, quantised(codes), chosen, 1) == 0;
  }
  return taken;
}

bool routes() {
  RouteCall route = {};
  route.rows = 1;
  RouteShape shape = {};
  shape.width = shape.x_stride = shape.router_stride = kWidth;
  shape.count = 8;
  shape.chosen = 2;
  shape.groups = shape.groups_chosen = 1;
  AddExpertsCall add = {};
  add.rows = 1;
  add.chosen = 2;
  add.width = kWidth;
  return launch_route(nullptr, route, shape) == 0 && launch_add_experts(nullptr, add) == 0;
}

bool recurrences() {
  StateSteps steps = {};
  steps.rows = steps.count = 1;
  ConvolveCall convolution = {};
  convolution.steps = steps;
  convolution.channels = convolution.x_stride = kWidth;
  convolution.width = 4;
  bool taken = launch_convolve(nullptr, convolution) == 0;
  ShortConvCall short_conv = {};
  short_conv.steps = steps;
  short_conv.channels = kWidth;
  short_conv.width = 3;
  taken &= launch_short_conv(nullptr, short_conv) == 0;
  for (int state = 4; state <= kMaxChannelState; state *= 2) {
    ScanChannelsCall scan = {};
    scan.steps = steps;
    scan.channels = scan.y_stride = kWidth;
    scan.state = state;
    taken &= launch_scan_channels(nullptr, scan) == 0;
  }
  for (int state = 32; state <= kMaxHeadState; state *= 2) {
    ScanHeadsCall scan = {};
    scan.steps = steps;
    scan.heads = scan.groups = 1;
    scan.dim = scan.y_stride = kWidth;
    scan.state = state;
    taken &= launch_scan_heads(nullptr, scan) == 0;
  }
  for (int state = 32; state <= kMaxMlstmState; state *= 2) {
    ScanMlstmCall scan = {};
    scan.steps = steps;
    scan.heads = 1;
    scan.dim = kWidth;
    scan.state = state;
    taken &= launch_scan_mlstm(nullptr, scan) == 0;
  }
  for (int state = 8; state <= kMaxDeltaState; state *= 2) {
    ScanDeltaCall scan = {};
    scan.steps = steps;
    scan.heads = scan.groups = scan.decays = 1;
    scan.dim = scan.y_stride = kWidth;
    scan.state = state;
    taken &= launch_scan_delta(nullptr, scan) == 0;
  }
  return taken;
}

bool draws() {
  DrawCall call = {};
  call.rows = 1;
  call.vocabulary = kWidth;
  return launch_draw(nullptr, call) == 0;
}

// `v_dim` is less than head_dim in latent attention alone.
bool attention(CacheType type, Input out_type, int head_dim, int v_dim) {
  AttentionShape shape = {};
  shape.cache = {type, 1, head_dim, 16};
  shape.v_dim = v_dim;
  shape.out_type = out_type;
  shape.out_stride = shape.out_head_stride = v_dim;
  shape.heads = 1;
  shape.rows = shape.tiles = shape.tree_tiles = shape.splits = shape.split_rows = 1;
  shape.wide_tiles = v_dim == head_dim ? 1 : 0;
  return launch_attention(nullptr, {}, shape) == 0;
}

bool caches(CacheType type) {
  static const float kSome = 0.0f;
  HeadsCall heads = {};
  heads.k = &kSome;
  heads.cache = {type, 1, kWidth, 16};
  heads.rows = 1;
  bool taken = launch_place_heads(nullptr, heads) == 0;
  for (const Input out_type : kTypes) {
    // The last one is a width that tensor cores do not serve.
    for (const int head_dim : {64, 80, 96, 128, 256, 72}) {
      taken &= attention(type, out_type, head_dim, head_dim);
    }
    taken &= attention(type, out_type, 576, 512) && attention(type, out_type, 320, 256);
  }
  return taken;
}

bool gathers(Input type) {
  PlaceColumnsCall place = {};
  place.type = type;
  place.rows = 1;
  place.stride = place.to_stride = kWidth;
  place.columns.ranks = 2;
  place.columns.starts[1] = kWidth / 2;
  place.columns.starts[2] = kWidth;
  PeerGatherCall peers = {};
  peers.place = place;
  peers.boxes.slot_bytes = kWidth * sizeof(float);
  return launch_place_columns(nullptr, place) == 0 && launch_peer_gather(nullptr, peers) == 0;
}

bool places_tokens() {
  PlaceTokensCall place = {};
  place.rows = 1;
  place.width = kWidth;
  place.tokens_of.ranks = 2;
  return launch_place_tokens(nullptr, place) == 0;
}

}  // namespace

bool launch_every_kernel() {
  bool taken = products_of_many_rows() && products_with_experts(1) && products_with_experts(64) &&
               routes() && recurrences() && draws() && places_tokens();
  for (const uint32_t rows : {1, 4, 16, 32, 64}) {
    for (const int columns : {kWidth, 128 * kWidth}) taken &= products(rows, columns);
  }
  for (const Input type : kTypes) taken &= rows_of(type) && gathers(type);
  for (const Codes& codes : kCodes) taken &= embeds(Input::bf16, quantised(codes));
  for (const CacheType type : kCacheTypes) taken &= caches(type);
  return taken;
}

}  // namespace tenon::cuda::bench
