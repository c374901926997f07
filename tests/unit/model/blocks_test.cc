// The blocks' tables: what names, loading and writing follow from.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

std::vector<std::span<const BlockTensor>> all_tables() {
  std::vector<std::span<const BlockTensor>> tables = {tensors_before_layers(),
                                                      tensors_after_layers()};
  for (const Block* block : layer_blocks()) tables.push_back(block->tensors);
  return tables;
}

TEST(Blocks, each_role_has_a_tensor) {
  for (int role = 0; role <= static_cast<int>(Role::ssm_out); ++role) {
    EXPECT_NE(find_tensor(static_cast<Role>(role)), nullptr) << role;
  }
}

TEST(Blocks, a_tensor_goes_to_one_place) {
  for (const std::span<const BlockTensor> table : all_tables()) {
    for (const BlockTensor& tensor : table) {
      const int places = (tensor.in_layer ? 1 : 0) + (tensor.in_experts ? 1 : 0) +
                         (tensor.in_model ? 1 : 0) + (tensor.in_model_list != nullptr ? 1 : 0) +
                         (tensor.places != nullptr ? 1 : 0) + (tensor.parts.empty() ? 0 : 1) +
                         (tensor.in_heads != nullptr ? 1 : 0);
      EXPECT_EQ(places, 1) << static_cast<int>(tensor.role);
    }
  }
}

TEST(Blocks, what_a_tensor_holds_follows_it_in_the_table) {
  for (const std::span<const BlockTensor> table : all_tables()) {
    for (size_t i = 0; i < table.size(); ++i) {
      for (size_t part = 0; part < table[i].parts.size(); ++part) {
        const Role role = table[i].parts[part];
        const auto rest = table.subspan(i + 1);
        EXPECT_NE(std::ranges::find(rest, role, &BlockTensor::role), rest.end())
            << static_cast<int>(role);
      }
    }
  }
}

TEST(Blocks, the_rows_of_its_parts_are_those_of_a_tensor) {
  ModelPlan model;
  model.hidden = 48;
  LayerPlan layer;
  layer.attention.heads = 6;
  layer.attention.kv_heads = 2;
  layer.attention.head_dim = 8;
  layer.mlp.width = 40;
  layer.shared.mlp_rank = 3;
  layer.experts.shared_width = 24;
  layer.recurrent.heads = 10;
  layer.recurrent.head_dim = 4;
  layer.recurrent.state = 6;
  layer.recurrent.groups = 2;
  layer.recurrent.width = 4;
  size_t seen = 0;
  const std::pair<Recurrence, const Block*> mixers[] = {{Recurrence::mamba, &kMambaMixer},
                                                        {Recurrence::mamba2, &kMamba2Mixer},
                                                        {Recurrence::gated_delta, &kGatedDelta},
                                                        {Recurrence::lightning, &kLightning}};
  for (const auto& [kind, mixer] : mixers) {
    layer.recurrent.kind = kind;
    layer.recurrent.step_rank = kind == Recurrence::mamba ? 3 : 0;
    layer.attention.output_gate = kind == Recurrence::gated_delta;
    for (const Block* block : layer_blocks()) {
      const bool of_others = std::ranges::find(mixers, block, [](const auto& each) {
                               return each.second;
                             }) != std::end(mixers);
      if (of_others && block != mixer) continue;
      for (const BlockTensor& tensor : block->tensors) {
        if (tensor.parts.empty()) continue;
        uint64_t rows = 0;
        for (const Role part : tensor.parts) {
          const auto row = std::ranges::find(block->tensors, part, &BlockTensor::role);
          const Extent extent = row->extent(model, layer);
          EXPECT_EQ(extent.columns, tensor.extent(model, layer).columns);
          rows += extent.rows;
        }
        EXPECT_EQ(rows, tensor.extent(model, layer).rows) << static_cast<int>(tensor.role);
        ++seen;
      }
    }
  }
  // qkv, q_and_gate, gate_up, shared_gate_up and own_mlp_high for each; ssm_in thrice, ssm_x, two
  // by key heads
  EXPECT_EQ(seen, 4u * 5u + 6u);
}

TEST(Blocks, convolutions_that_are_apart_are_one_vector) {
  Model model;
  LayerPlan& layer = model.plan.layers.emplace_back();
  layer.recurrent = {.kind = Recurrence::gated_delta, .gate_norm = {}};
  layer.recurrent.heads = 6;
  layer.recurrent.head_dim = 5;
  layer.recurrent.state = 7;
  layer.recurrent.groups = 2;
  layer.recurrent.width = 3;
  layer.recurrent.inputs_apart = true;
  model.layers.resize(1);
  uint64_t numbers = 0;
  for (const Role role : {Role::ssm_conv_q, Role::ssm_conv_k, Role::ssm_conv_v}) {
    const BlockTensor& tensor = *find_tensor(role, layer);
    std::vector<TensorPlace> places;
    tensor.places(model, 0, places);
    ASSERT_EQ(places.size(), 1u);
    EXPECT_EQ(places[0].first, numbers);
    EXPECT_EQ(places[0].rows, tensor.extent(model.plan, layer).rows);
    numbers += places[0].rows;
  }
  EXPECT_EQ(numbers, uint64_t{layer.recurrent.channels()} * layer.recurrent.width);
  EXPECT_EQ(find_tensor(Role::ssm_conv, layer)->extent(model.plan, layer).rows, 0u);
}

TEST(Blocks, pieces_of_a_tensor_are_its_parts_rows_once_each) {
  ModelPlan model;
  model.hidden = 48;
  LayerPlan layer;
  layer.attention.heads = 6;
  layer.attention.kv_heads = 2;
  layer.attention.head_dim = 8;
  layer.attention.output_gate = true;
  layer.recurrent.kind = Recurrence::gated_delta;
  layer.recurrent.heads = 6;
  layer.recurrent.head_dim = 5;
  layer.recurrent.state = 7;
  layer.recurrent.groups = 2;
  layer.recurrent.width = 4;
  size_t seen = 0;
  for (const Block* block : layer_blocks()) {
    if (!block->is_in(layer)) continue;
    for (const BlockTensor& tensor : block->tensors) {
      if (tensor.pieces == nullptr) continue;
      std::vector<PartRows> pieces;
      tensor.pieces(layer, pieces);
      std::set<std::pair<uint32_t, uint64_t>> rows;
      for (const PartRows& piece : pieces) {
        for (uint64_t row = piece.first; row < piece.first + piece.rows; ++row) {
          EXPECT_TRUE(rows.emplace(piece.part, row).second);
        }
      }
      EXPECT_EQ(rows.size(), tensor.extent(model, layer).rows);
      for (const auto& [part, row] : rows) {
        const BlockTensor& own = *find_tensor(tensor.parts[part], layer);
        EXPECT_LT(row, own.extent(model, layer).rows);
      }
      ++seen;
    }
  }
  EXPECT_EQ(seen, 3u);
}

TEST(Blocks, recurrences_have_inputs_that_their_tables_list) {
  std::set<std::string_view> seen;
  for (const Block* block : layer_blocks()) {
    if (block->recurrence == nullptr) continue;
    const RecurrenceKind& kind = *block->recurrence;
    EXPECT_EQ(&recurrence_kind(kind.kind), &kind);
    EXPECT_EQ(recurrence_name(kind.kind), kind.name);
    EXPECT_GE(kind.inputs.size(), 1u) << kind.name;
    EXPECT_LE(kind.inputs.size() + kind.later_inputs.size(), kMostRecurrentInputs) << kind.name;
    const auto is_listed = [&](Weight LayerWeights::*matrix) {
      return std::ranges::any_of(block->tensors, [&](const BlockTensor& tensor) {
        return tensor.in_layer.matrix == matrix;
      });
    };
    for (const auto& products : {kind.inputs, kind.later_inputs}) {
      for (const RecurrentProduct& product : products) {
        EXPECT_TRUE(product.zeros != nullptr || !product.apart.empty() || is_listed(product.matrix))
            << kind.name;
        EXPECT_TRUE(product.low == nullptr || is_listed(product.low)) << kind.name;
        EXPECT_TRUE(std::ranges::all_of(product.apart, is_listed)) << kind.name;
      }
    }
    EXPECT_EQ(is_listed(&LayerWeights::ssm_gate), kind.gated) << kind.name;
    seen.insert(kind.name);
  }
  // Lightning attention is run by the kernel of Mamba-2.
  EXPECT_EQ(seen.size(), recurrence_names().size());
  EXPECT_EQ(recurrence_name(Recurrence::none), "");
}

// Matrices that read the same are calibrated together: the second of two products does not.
TEST(Blocks, what_is_made_of_low_ranks_reads_something_else_than_the_layer_does) {
  LayerPlan layer;
  ModelPlan model;
  model.hidden = 48;
  layer.recurrent = {.kind = Recurrence::gated_delta, .gate_norm = {}};
  layer.recurrent.heads = layer.recurrent.groups = 2;
  layer.recurrent.head_dim = layer.recurrent.state = layer.recurrent.decays = 6;
  layer.recurrent.width = 4;
  layer.recurrent.step_rank = 5;
  layer.recurrent.gate_rank = 7;
  std::map<Reads, std::set<uint64_t>> columns;
  for (const BlockTensor& tensor : kGatedDelta.tensors) {
    const Extent extent = tensor.extent(model, layer);
    if (extent.rows == 0 || tensor.reads == Reads::other) continue;
    EXPECT_NE(tensor.in_layer.matrix, nullptr);
    columns[tensor.reads].insert(extent.columns);
  }
  EXPECT_EQ(columns, (std::map<Reads, std::set<uint64_t>>{{Reads::mixer_input, {48}},
                                                          {Reads::gate_low, {7}},
                                                          {Reads::step_low, {5}},
                                                          {Reads::mixed, {12}}}));
}

TEST(Blocks, members_of_the_weights_are_their_own) {
  LayerWeights layer;
  std::set<const void*> seen;
  for (const Block* block : layer_blocks()) {
    for (const BlockTensor& tensor : block->tensors) {
      if (tensor.in_layer.matrix != nullptr) (layer.*tensor.in_layer.matrix).n_out = 1;
    }
  }
  for (const Weight* matrix : layer.matrices()) EXPECT_TRUE(seen.insert(matrix).second);
  EXPECT_TRUE(seen.contains(&layer.q));
  EXPECT_TRUE(seen.contains(&layer.down));
  EXPECT_TRUE(seen.contains(&layer.ssm_out));
  EXPECT_TRUE(seen.contains(&layer.shared_router));
  layer.k_absorb.resize(2);
  layer.k_absorb[1].n_out = 4;
  EXPECT_EQ(layer.matrices().size(), seen.size() + 1);
}

}  // namespace
}  // namespace tenon
