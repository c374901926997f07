// What formulas say that kernels move and compute is what the emulator counts, to the byte.
#include "tests/cuda/rig/counted.h"

namespace tenon::cuda::test {
namespace {

TEST(CudaCost, of_embedding_is_what_is_counted) {
  for (const Input type : kTypes) {
    for (const bool positions : {false, true}) {
      Counted device;
      EmbedCall call = {};
      call.rows = 4;
      call.width = 21;
      call.stride = call.position_stride = 24;
      call.weights = type;
      call.tokens = device.upload<int32_t>({3, 0, 3, 1}, "tokens");
      call.table = device.values(type, 5 * 24);
      call.hidden = device.floats(4 * 21);
      if (positions) {
        call.positions = device.upload<uint32_t>({0, 1, 2, 3}, "positions");
        call.position_table = device.values(type, 4 * 24);
      }
      EXPECT_EQ(launch_embed(nullptr, call), 0);
      expect_cost(device.of(0), bench::embed_cost(call, 3));
    }
  }
}

TEST(CudaCost, of_embedding_from_tables_of_integers_is_what_is_counted) {
  for (const int bits : {8, 4}) {
    for (const bool zeros : {false, true}) {
      Counted device;
      EmbedCall call = {};
      call.rows = 4;
      call.width = 71;
      call.stride = static_cast<int>(quant_stride(96, bits));
      call.weights = Input::bf16;
      call.tokens = device.upload<int32_t>({3, 0, 3, 1}, "tokens");
      call.table = device.upload(std::vector<uint8_t>(5ull * call.stride, 3), "table");
      call.quant.bits = bits;
      call.quant.group = 32;
      call.quant.groups = 3;
      call.quant.rows = 5;
      call.quant.scales = device.upload(std::vector<uint16_t>(5 * 3, 1), "scales");
      if (zeros) call.quant.zeros = device.upload(std::vector<uint8_t>(5 * 3, 1), "zeros");
      call.hidden = device.floats(4 * 71);
      if (zeros) {
        call.position_stride = 72;
        call.positions = device.upload<uint32_t>({0, 1, 2, 3}, "positions");
        call.position_table = device.values(Input::bf16, 4 * 72);
      }
      EXPECT_EQ(launch_embed(nullptr, call), 0);
      expect_cost(device.of(0), bench::embed_cost(call, 3));
    }
  }
}

TEST(CudaCost, of_norms_is_what_is_counted) {
  for (const Input type : kTypes) {
    for (const uint32_t rows : {1u, 5u}) {
      for (const int width : {7, 128, 300, 16388}) {
        for (const uint32_t weight_rows : {1u, 3u}) {
          Counted device;
          NormShape shape;
          shape.rows = rows;
          shape.width = shape.out_stride = width;
          shape.weight_rows = weight_rows;
          shape.centered = weight_rows == 3;
          shape.add = type == Input::f32;
          const float* weight = device.floats(uint64_t{weight_rows} * width);
          const float* bias =
              shape.centered ? device.floats(uint64_t{weight_rows} * width) : nullptr;
          const uint64_t count = uint64_t{rows} * width;
          EXPECT_EQ(launch_norm(nullptr, device.floats(count), weight, bias,
                                device.values(type, count), type, shape),
                    0);
          expect_cost(device.of(0), bench::norm_cost(type, shape, true, bias != nullptr));
        }
      }
    }
  }
}

TEST(CudaCost, of_other_row_kernels_is_what_is_counted) {
  for (const Input type : kTypes) {
    Counted device;
    for (const bool gate : {false, true}) {
      EXPECT_EQ(launch_gate(nullptr, gate ? device.floats(3 * 1333) : nullptr,
                            device.floats(3 * 1333), device.values(type, 3 * 1336), type, 3, 1331,
                            1333, 1336, ActivationKind::silu),
                0);
      expect_cost(device.of(gate ? 1 : 0), bench::gate_cost(type, 3, 1331, gate));
    }
    const int wide = 1070;
    EXPECT_EQ(
        launch_take_rows(nullptr, device.floats(9 * wide), device.upload<uint32_t>({8, 2}, "r"),
                         device.values(type, 2ull * wide), type, 2, wide, wide),
        0);
    expect_cost(device.of(2), bench::take_rows_cost(type, 2, wide, true));
    EXPECT_EQ(launch_adjust(nullptr, device.floats(999), 999, 2.0f, 3.0f, 0.0f), 0);
    expect_cost(device.of(3), bench::adjust_cost(999));
  }
}

TEST(CudaCost, of_heads_on_their_way_to_attention_is_what_is_counted) {
  for (const CacheType type : kCacheTypes) {
    for (const int dim : {24, 7}) {
      for (const bool turns : {false, true}) {
        for (const bool has_v : {false, true}) {
          Counted device;
          HeadsCall call = {};
          call.cache = {type, 2, dim, 4};
          call.rows = 3;
          call.q_heads = 5;
          call.q_dim = 20;
          call.q_stride = 5 * 20 + 3;
          call.kv_stride = 2 * dim + 1;
          call.half = 3;
          call.k_first = turns ? dim - 6 : 0;
          call.pairs = has_v;
          if (turns) call.q = device.floats(3ull * call.q_stride);
          if (turns) call.angles = device.floats(3 * 2 * 3);
          call.k = device.floats(3ull * call.kv_stride);
          if (has_v) call.v = device.floats(3ull * call.kv_stride);
          call.blocks = device.upload<uint32_t>({0, 2, 1}, "blocks");
          call.offsets = device.upload<uint32_t>({3, 0, 1}, "offsets");
          const std::vector<uint8_t> plane(3ull * 4 * 2 * dim * 4 + 100, 0);
          call.k_cache = device.upload_variable(plane, "K");
          call.v_cache = device.upload_variable(plane, "V");
          EXPECT_EQ(launch_place_heads(nullptr, call), 0);
          expect_cost(device.of(0), bench::place_heads_cost(call));
        }
      }
    }
  }
}

MultiplyCall call_of(uint32_t rows, int n, int k) {
  MultiplyCall call = {};
  call.rows = rows;
  call.n_out = n;
  call.k_in = k;
  call.x_stride = (k + 7) / 8 * 8;
  call.w_stride = (k + 31) / 32 * 32;
  call.y_stride = n;
  call.factor = 1.0f;
  return call;
}

TEST(CudaCost, of_products_is_what_is_counted) {
  for (const Input type : kTypes) {
    for (const uint32_t rows : {1u, 16u, 17u, 67u}) {
      for (const int n : {9, 64, 130}) {
        for (const int k : {8, 33, 100, 2100}) {
          SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(n) + ", K " +
                       std::to_string(k));
          Counted device;
          MultiplyCall call = call_of(rows, n, k);
          call.add = k == 33;
          call.x = device.values(type, uint64_t{rows} * call.x_stride);
          call.w = device.values(type, uint64_t(n) * call.w_stride);
          call.bias = k == 8 ? device.floats(n) : nullptr;
          call.y = device.floats(uint64_t{rows} * n);
          EXPECT_EQ(launch_multiply(nullptr, type, call), 0);
          expect_cost(device.of(0), bench::multiply_cost(type, call));
        }
      }
    }
  }
}

TEST(CudaCost, of_products_of_many_rows_is_what_is_counted) {
  for (const ProductTiles tiles :
       {ProductTiles::rows_64, ProductTiles::narrow, ProductTiles::wide}) {
    for (const uint32_t rows : {65u, 130u}) {
      for (const int n : {9, 258}) {
        for (const int k : {8, 100}) {
          SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(n) + ", K " +
                       std::to_string(k));
          Counted device;
          MultiplyCall call = call_of(rows, n, k);
          call.tiles = tiles;
          call.add = k == 100;
          call.x = device.values(Input::bf16, uint64_t{rows} * call.x_stride);
          call.w = device.values(Input::bf16, uint64_t(n) * call.w_stride);
          call.bias = k == 8 ? device.floats(n) : nullptr;
          call.y = device.floats(uint64_t{rows} * n);
          EXPECT_EQ(launch_multiply(nullptr, Input::bf16, call), 0);
          expect_cost(device.of(0), bench::multiply_cost(Input::bf16, call));
        }
      }
    }
  }
}

TEST(CudaCost, of_products_with_integers_is_what_is_counted) {
  for (const int bits : {8, 4}) {
    for (const uint32_t rows : {1u, 12u, 40u}) {
      for (const int k : {100, 2208}) {
        for (const bool zeros : {false, true}) {
          Counted device;
          QuantCall call = {};
          call.call = call_of(rows, 67, k);
          call.call.w_stride = static_cast<int>(quant_stride(k, bits));
          call.quant.group = 64;
          call.quant.groups = (k + 63) / 64;
          call.quant.bits = bits;
          call.quant.rows = 67;
          call.call.x = device.values(Input::bf16, uint64_t{rows} * call.call.x_stride);
          call.call.w = device.upload(std::vector<uint8_t>(67ull * call.call.w_stride, 3), "w");
          call.call.y = device.floats(uint64_t{rows} * 67);
          call.quant.scales =
              device.upload(std::vector<uint16_t>(67ull * call.quant.groups, 1), "scales");
          if (zeros) {
            call.quant.zeros =
                device.upload(std::vector<uint8_t>(67ull * call.quant.groups, 1), "zeros");
          }
          EXPECT_EQ(launch_multiply_quant(nullptr, call), 0);
          expect_cost(device.of(0), bench::multiply_quant_cost(call));
        }
      }
    }
  }
}

TEST(CudaCost, of_products_of_heads_is_what_is_counted) {
  constexpr int kHeads = 3, kN = 70, kK = 40;
  for (const Input type : kTypes) {
    for (const uint32_t rows : {1u, 20u, 70u}) {
      Counted device;
      MultiplyCall call = call_of(rows, kN, kK);
      if (rows == 70) call.tiles = ProductTiles::narrow;
      const HeadStrides heads = {kHeads, kK, kN * call.w_stride, kN};
      call.x_stride = kHeads * kK;
      call.y_stride = kHeads * kN;
      call.x = device.values(type, uint64_t{rows} * call.x_stride);
      call.w = device.values(type, uint64_t{kHeads} * heads.w);
      call.y = device.floats(uint64_t{rows} * call.y_stride);
      EXPECT_EQ(launch_multiply_heads(nullptr, type, call, heads), 0);
      expect_cost(device.of(0), bench::multiply_heads_cost(type, call, kHeads));
    }
  }
}

TEST(CudaCost, of_routing_is_what_is_counted) {
  for (const bool all : {false, true}) {
    Counted device;
    RouteShape shape = {};
    shape.width = shape.x_stride = shape.router_stride = 37;
    shape.count = 12;
    shape.chosen = 3;
    shape.groups = all ? 4 : 1;
    shape.groups_chosen = all ? 2 : 1;
    shape.scoring = all ? RouteScoring::sigmoid : RouteScoring::softmax;
    shape.scale = 1.0f;
    RouteCall call = {};
    call.rows = 5;
    call.x = device.floats(5 * 37);
    call.router = device.floats(12 * 37);
    if (all) {
      call.bias = device.floats(12);
      call.correction = device.floats(12);
      call.shared_router = device.floats(37);
    }
    call.experts = device.make<uint32_t>(5 * 3, "experts");
    call.factors = device.make<float>(5 * 4, "factors");
    EXPECT_EQ(launch_route(nullptr, call, shape), 0);
    expect_cost(device.of(0), bench::route_cost(5, shape, call));
  }
}

// Each row chose two of five experts, of which one has no row.
struct Choices {
  std::vector<uint32_t> experts, places_of;
  ExpertRows rows;

  Choices(uint32_t count, Counted& device) : places_of(5, 0) {
    for (uint32_t row = 0; row < count; ++row) {
      for (const uint32_t expert : {row % 3, 4u}) {
        experts.push_back(expert);
        ++places_of[expert];
      }
    }
    rows = {};
    rows.experts = device.upload(experts, "choices");
    rows.rows = count;
    rows.chosen = 2;
    rows.count = 5;
    rows.room = count;
    auto* lists = device.make<uint32_t>(5ull * count, "lists");
    auto* counts = device.make<uint32_t>(5, "counts");
    EXPECT_EQ(launch_collect_places(nullptr, rows, lists, counts), 0);
    rows.lists = lists;
    rows.counts = counts;
  }
};

TEST(CudaCost, of_lists_of_rows_and_sums_of_experts_is_what_is_counted) {
  for (const uint32_t count : {3u, 70u}) {
    Counted device;
    const Choices choices(count, device);
    expect_cost(device.of(0), bench::collect_places_cost(choices.rows));
    AddExpertsCall add = {};
    add.rows = count;
    add.chosen = 2;
    add.width = 33;
    add.scale = 1.0f;
    add.add = count == 3;
    add.of = device.floats(count * 2ull * 33);
    add.factors = device.floats(count * 3ull);
    add.shared = count == 3 ? nullptr : device.floats(count * 33ull);
    add.out = device.floats(count * 33ull);
    EXPECT_EQ(launch_add_experts(nullptr, add), 0);
    expect_cost(device.of(1), bench::add_experts_cost(add));
  }
}

TEST(CudaCost, of_products_with_experts_is_what_is_counted) {
  for (const int bits : {0, 8, 4}) {
    for (const uint32_t count : {3u, 70u}) {
      for (const uint32_t each : {1u, 2u}) {
        for (const Input type : kTypes) {
          if (bits != 0 && type == Input::f32) continue;
          SCOPED_TRACE(std::to_string(bits) + " bits, " + std::to_string(count) + " rows, each " +
                       std::to_string(each));
          Counted device;
          const Choices choices(count, device);
          MultiplyCall call = call_of(count, 67, 100);
          QuantScales quant = {};
          call.x = device.values(type, uint64_t{count} * 2 / each * call.x_stride);
          call.bias = each == 1 ? device.floats(5 * 67) : nullptr;
          call.y = device.floats(count * 2ull * 67);
          if (bits == 0) {
            call.w = device.values(type, 5ull * 67 * call.w_stride);
          } else {
            call.w_stride = static_cast<int>(quant_stride(100, bits));
            quant.bits = bits;
            quant.rows = 5 * 67;
            quant.group = 64;
            quant.groups = 2;
            call.w = device.upload(std::vector<uint8_t>(5ull * 67 * call.w_stride, 3), "w");
            quant.scales = device.upload(std::vector<uint16_t>(5 * 67 * 2, 1), "scales");
            quant.zeros = device.upload(std::vector<uint8_t>(5 * 67 * 2, 1), "zeros");
          }
          EXPECT_EQ(launch_multiply_experts(nullptr, type, call, quant, choices.rows, each), 0);
          expect_cost(device.of(1), bench::multiply_experts_cost(type, call, quant, choices.rows,
                                                                 each, choices.places_of));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cuda::test
