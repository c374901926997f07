#include "core/exec/entry_scores.h"

#include <algorithm>
#include <string>

#include "core/base/result.h"

namespace tenon {
namespace {

constexpr uint64_t kWhole = uint64_t{1} << 24;  // what a row and head give in all

}  // namespace

void EntryScores::load(const ModelShape& shape, std::span<const GroupId> groups) {
  shape_ = &shape;
  ids_.assign(groups.begin(), groups.end());
  groups_.assign(ids_.size(), {});
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    Group* group = group_of(shape.layers[layer].group);
    if (group != nullptr) group->heads += shape.layers[layer].query_heads;
  }
}

EntryScores::Group* EntryScores::group_of(GroupId id) {
  const auto found = std::ranges::find(ids_, id);
  return found == ids_.end() ? nullptr : &groups_[static_cast<size_t>(found - ids_.begin())];
}
const EntryScores::Group* EntryScores::group_of(GroupId id) const {
  const auto found = std::ranges::find(ids_, id);
  return found == ids_.end() ? nullptr : &groups_[static_cast<size_t>(found - ids_.begin())];
}

void EntryScores::begin(const BatchView& batch) {
  if (ids_.empty()) return;
  sequences_.assign(batch.sequences.begin(), batch.sequences.end());
  for (size_t g = 0; g < ids_.size(); ++g) {
    Group& group = groups_[g];
    const BatchGroup& of = batch.groups[ids_[g]];
    group.kv_tokens.assign(of.kv_tokens.begin(), of.kv_tokens.end());
    group.first.clear();
    size_t size = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      group.first.push_back(size);
      size += size_t{line_of(sequences_[i].drafts)} * group.kv_tokens[i];
    }
    group.sums.assign(size, 0);
    group.rows.assign(batch.rows, nullptr);
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const BatchSequence& sequence = sequences_[i];
      const uint32_t known = sequence.rows - sequence.drafts;
      for (uint32_t row = 0; row < sequence.rows; ++row) {
        const uint32_t line = row < known ? kKnownRows : line_of(row - known);
        group.rows[sequence.first_row + row] =
            group.sums.data() + group.first[i] + size_t{line} * group.kv_tokens[i];
      }
    }
  }
}

std::span<uint64_t* const> EntryScores::rows(LayerId layer) const {
  const Group* group = ids_.empty() ? nullptr : group_of(shape_->layers[layer].group);
  return group == nullptr ? std::span<uint64_t* const>() : group->rows;
}

std::span<const uint64_t> EntryScores::line(GroupId id, uint32_t index, uint32_t line) const {
  const Group& group = *group_of(id);
  const uint32_t length = group.kv_tokens[index];
  return std::span(group.sums).subspan(group.first[index] + size_t{line} * length, length);
}

// A row gives each head's weight once; each entry may be rounded up by half.
Status EntryScores::check_line(const Group& group, std::span<const uint64_t> sums,
                               uint32_t rows) const {
  const uint64_t most = uint64_t{group.heads} * rows * (kWhole + sums.size());
  uint64_t sum = 0;
  for (const uint64_t given : sums) {
    if (given <= most) sum += given;
    if (given <= most && sum <= most) continue;
    return internal("entries got more weight than " + std::to_string(rows) + " rows and " +
                    std::to_string(group.heads) +
                    " heads have – expected each head's to be 1 in all (attention_scores/1)");
  }
  return {};
}

Status EntryScores::check() const {
  for (size_t g = 0; g < ids_.size(); ++g) {
    for (uint32_t i = 0; i < sequences_.size(); ++i) {
      const uint32_t drafts = sequences_[i].drafts;
      TENON_RETURN_IF_ERROR(
          check_line(groups_[g], line(ids_[g], i, kKnownRows), sequences_[i].rows - drafts));
      for (uint32_t draft = 0; draft < drafts; ++draft) {
        TENON_RETURN_IF_ERROR(check_line(groups_[g], line(ids_[g], i, line_of(draft)), 1));
      }
    }
  }
  return {};
}

}  // namespace tenon
