// The blocks' tables: what names, loading and writing follow from.
#include <gtest/gtest.h>

#include <algorithm>
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
                         (tensor.in_model ? 1 : 0) + (tensor.places != nullptr ? 1 : 0) +
                         (tensor.parts.empty() ? 0 : 1) + (tensor.in_heads != nullptr ? 1 : 0);
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
  layer.experts.shared_width = 24;
  layer.recurrent.heads = 10;
  layer.recurrent.head_dim = 4;
  layer.recurrent.state = 6;
  layer.recurrent.groups = 2;
  layer.recurrent.width = 4;
  layer.recurrent.step_rank = 3;
  size_t seen = 0;
  for (const Recurrence kind : {Recurrence::mamba, Recurrence::mamba2}) {
    layer.recurrent.kind = kind;
    for (const Block* block : layer_blocks()) {
      const bool other = (block == &kMambaMixer) != (kind == Recurrence::mamba);
      if (other && (block == &kMambaMixer || block == &kMamba2Mixer)) continue;
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
  EXPECT_EQ(seen, 2u * 3u + 3u);  // qkv, gate_up and shared_gate_up twice; ssm_in twice, ssm_x
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
