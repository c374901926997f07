// A comparison that was measured, made up: for tests of what is said about it.
#pragma once

#include <string>

#include "core/report/statistics/measured.h"
#include "core/report/statistics/random_draws.h"

namespace tenon {

inline RequestRow row(uint32_t index, double ttft_ms, double latency_ms) {
  RequestRow out;
  out.index = index;
  out.tokens = 10;
  out.arrival_ms = index;
  out.ttft_ms = ttft_ms;
  out.latency_ms = latency_ms;
  out.answer = "tokens" + std::to_string(index);
  out.digest = "logits" + std::to_string(index);
  return out;
}

// Arm "a" takes about a second a piece; other arms `factor` times that.
struct World {
  World() {
    measured.arms = {{.name = "a", .numerics = "n", .plugins = {{"scheduler", "static"}}},
                     {.name = "b", .numerics = "n", .plugins = {{"scheduler", "chunked"}}}};
  }

  MeasuredPiece& add(PieceKind kind, const std::string& arm, uint32_t block, double factor,
                     bool again = false) {
    MeasuredPiece piece{.kind = kind, .arm = arm, .block = block, .again = again};
    piece.seconds = factor * (1 + spread * draws.normal());
    piece.generated_tokens = 1000;
    piece.decode[0] = piece.seconds * 0.8;
    piece.prefill[0] = 0.2;
    piece.before = piece.after = {.read_gbps = 30, .fma_gflops = 100};
    for (uint32_t i = 0; i < 12; ++i) piece.requests.push_back(row(i, 20 * factor, 200 * factor));
    piece.counters = {{"decode_steps", 100 * factor}};
    return measured.pieces.emplace_back(std::move(piece));
  }
  void pairs(int count, double factor) {
    for (int i = 0; i < count; ++i) {
      add(PieceKind::measured, "a", i, 1);
      add(PieceKind::measured, "b", i, factor);
    }
  }

  double spread = 0.01;
  RandomDraws draws{4};
  MeasuredComparison measured;
};

}  // namespace tenon
