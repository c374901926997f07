#include "core/exec/cpu/step/step_attention.h"

#include <algorithm>

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr uint32_t kMaxPhases = 16;

std::string name_of(const NamedAttention& attention) {
  return attention.name.empty() ? "attention" : "attention " + in_quotes(attention.name);
}
Status led_by(const NamedAttention& attention, const Status& status) {
  if (status.ok()) return {};
  return with_context(name_of(attention), status);
}

// A kernel that wants nothing gets a byte: whoever writes there is found out.
Result<HostMemory> room(uint64_t bytes, const std::string& what) {
  return HostMemory::allocate(std::max<uint64_t>(bytes, 1), HostMemory::Backing::lazy,
                              what + " of the attention kernel");
}

}  // namespace

std::vector<GroupId> chunked_groups(const ModelPlan& plan, const ModelShape& shape) {
  std::vector<GroupId> groups;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const GroupId group = shape.layers[i].group;
    if (!plan.layers[i].attention.window_chunks || group == kNoGroup) continue;
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

Status StepAttention::load(const AttentionKernels& kernels, const ModelShape& shape,
                           std::span<const KvGroupStorage> storage, const IndexedLayers& indexed,
                           const Limits& limits) {
  shape_ = &shape;
  indexed_ = &indexed;
  groups_.clear();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroup& kept = shape.groups[group];
    if (kept.kind != KvKind::recurrent && !keeps_index_keys(kept)) groups_.push_back(group);
  }
  if (indexed.most > 0) {
    chosen_.load(shape, storage, indexed.attended);
    groups_.push_back(chosen_.group());
    storage = chosen_.storage();
  }
  phases_.assign(storage.size(), 0);
  serving_.clear();
  if (groups_.empty()) return {};
  if (kernels.prefill.kernel == nullptr || kernels.decode.kernel == nullptr) {
    return internal("the executor 'cpu' was loaded without a kernel for layers that attend");
  }
  serving_.emplace_back().attention = kernels.prefill;
  if (kernels.decode.kernel != kernels.prefill.kernel) {
    serving_.emplace_back().attention = kernels.decode;
  }
  for (Serving& serving : serving_) {
    TENON_RETURN_IF_ERROR(led_by(serving.attention, set_chunks(serving, limits.chunked)));
    TENON_RETURN_IF_ERROR(led_by(serving.attention, bind(serving, storage, limits)));
  }
  return {};
}

Status StepAttention::set_chunks(const Serving& serving, std::span<const GroupId> groups) const {
  const AttentionChunks* chunks = serving.attention.chunks;
  if (chunks != nullptr) chunks->set(chunks->self, groups);
  if (chunks != nullptr || groups.empty()) return {};
  return unsupported(
      "this model attends within chunks of the text, which the kernel has not (extension " +
      std::string(kAttentionChunks) +
      "); use attention.plugin = \"cpu\", or executor.plugin = "
      "\"ref\"");
}

Status StepAttention::bind(Serving& serving, std::span<const KvGroupStorage> storage,
                           const Limits& limits) {
  AttentionKernel& kernel = *serving.attention.kernel;
  AttentionBinding binding;
  const bool chooses = indexed_->most > 0;
  binding.model = chooses ? &chosen_.shape() : shape_;
  binding.groups = groups_;
  binding.storage = storage;
  binding.max_rows = limits.max_rows;
  binding.max_sequences =
      chooses ? std::max(limits.max_sequences, limits.max_rows) : limits.max_sequences;
  binding.slices = limits.slices;
  TENON_RETURN_IF_ERROR(kernel.bind(binding));
  serving.sequences.reserve(limits.max_sequences);
  serving.groups.resize(storage.size());
  for (const GroupId group : groups_) {
    GroupMemory& memory = serving.groups[group];
    TENON_ASSIGN_OR_RETURN(memory.plan, room(kernel.plan_bytes(group), "the plan"));
    TENON_ASSIGN_OR_RETURN(memory.workspace, room(kernel.workspace_bytes(group), "the workspace"));
  }
  return {};
}

// A single row, with or without drafts to verify, is decoding; everything else is a prompt.
void StepAttention::share_out(const BatchView& batch) {
  for (Serving& serving : serving_) {
    serving.sequences.clear();
    serving.rows.clear();
  }
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const bool decodes = sequence.rows <= sequence.drafts + 1;
    Serving& serving = decodes ? serving_.back() : serving_.front();
    if (indexed_->most == 0 || !to_choose_.has_sequence(i)) {
      serving.sequences.push_back(i);
      continue;
    }
    for (uint32_t row = 0; row < sequence.rows; ++row) {
      serving.rows.push_back(sequence.first_row + row);
    }
  }
}

Status StepAttention::plan(const BatchView& batch) {
  batch_ = &batch;
  if (serving_.empty()) return {};
  if (indexed_->most > 0) {
    to_choose_.begin(batch, indexed_->attended, indexed_->most);
    chosen_.begin(batch, to_choose_.rows(), indexed_->most);
  }
  share_out(batch);
  std::fill(phases_.begin(), phases_.end(), 0);
  for (Serving& serving : serving_) {
    for (const GroupId group : groups_) {
      const bool chosen = group >= shape_->group_count;
      TENON_RETURN_IF_ERROR(plan(serving, group, chosen ? chosen_.batch() : batch,
                                 chosen ? serving.rows : serving.sequences));
    }
  }
  return {};
}

Status StepAttention::plan(Serving& serving, GroupId group, const BatchView& batch,
                           std::span<const uint32_t> sequences) {
  GroupMemory& memory = serving.groups[group];
  memory.phases = 0;
  if (sequences.empty()) return {};
  KernelPlanOut out;
  TENON_RETURN_IF_ERROR(
      led_by(serving.attention,
             serving.attention.kernel->plan({group, &batch, sequences, memory.plan.data()}, out)));
  if (out.phases < 1 || out.phases > kMaxPhases) {
    return led_by(serving.attention, internal("a step of " + std::to_string(out.phases) +
                                              " phases was planned; expected 1 to 16"));
  }
  memory.phases = out.phases;
  phases_[group] = std::max(phases_[group], out.phases);
  return {};
}

Status StepAttention::run(AttentionCall call, uint32_t phase, Slice slice) const {
  call.padded_rows = batch_->padded_rows;
  call.padded_sequences = batch_->padded_sequences;
  AttentionCall of_chosen = call;
  if (indexed_->most > 0) {
    of_chosen.layer = chosen_.layer(call.layer);
    of_chosen.k = of_chosen.v = nullptr;
    of_chosen.padded_sequences = chosen_.batch().padded_sequences;
  }
  for (const Serving& serving : serving_) {
    TENON_RETURN_IF_ERROR(run(serving, shape_->layers[call.layer].group, call, phase, slice));
    if (indexed_->most == 0) continue;
    TENON_RETURN_IF_ERROR(run(serving, chosen_.group(), of_chosen, phase, slice));
  }
  return {};
}

Status StepAttention::run(const Serving& serving, GroupId group, AttentionCall call, uint32_t phase,
                          Slice slice) const {
  const GroupMemory& memory = serving.groups[group];
  if (phase >= memory.phases) return {};
  call.plan = memory.plan.data();
  call.workspace = memory.workspace.data();
  return led_by(serving.attention, serving.attention.kernel->run(call, phase, slice));
}

Status StepAttention::score(AttentionCall call, std::span<uint64_t* const> sums,
                            Slice slice) const {
  const GroupId group = shape_->layers[call.layer].group;
  call.padded_rows = batch_->padded_rows;
  call.padded_sequences = batch_->padded_sequences;
  for (const Serving& serving : serving_) {
    const GroupMemory& memory = serving.groups[group];
    if (memory.phases == 0) continue;
    const AttentionScores* scores = serving.attention.scores;
    if (scores == nullptr) {
      return led_by(serving.attention,
                    internal("the weights of entries are wanted, and it has none to tell"));
    }
    call.plan = memory.plan.data();
    call.workspace = memory.workspace.data();
    TENON_RETURN_IF_ERROR(led_by(serving.attention, scores->add(scores->self, call, sums, slice)));
  }
  return {};
}

Status StepAttention::named(const Status& status) const {
  if (status.ok()) return {};
  return with_context(names(), status);
}

std::string StepAttention::names() const {
  std::string who = name_of(serving_.front().attention);
  if (serving_.size() > 1) who += " or " + name_of(serving_.back().attention);
  return who;
}

Status StepAttention::check_rooms() const {
  for (const Serving& serving : serving_) {
    for (const GroupMemory& memory : serving.groups) {
      if (memory.plan.intact() && memory.workspace.intact()) continue;
      return led_by(serving.attention, internal("plan or run wrote behind the memory that it had "
                                                "asked for – use another kernel"));
    }
  }
  return {};
}

Status StepAttention::wrote_behind(std::string_view room) const {
  return internal(names() + ": run wrote behind " + std::string(room) + " – use another kernel");
}

std::string StepAttention::numerics() const {
  if (serving_.empty()) return "?";
  const std::string first(serving_.front().attention.kernel->numerics());
  const std::string last(serving_.back().attention.kernel->numerics());
  return first == last ? first : "prefill=" + first + "+decode=" + last;
}

std::vector<MemoryPart> StepAttention::workspaces() const {
  std::vector<MemoryPart> parts;
  for (const Serving& serving : serving_) {
    for (const GroupMemory& memory : serving.groups) {
      parts.push_back({memory.workspace.data(), memory.workspace.bytes()});
      parts.push_back({memory.plan.data(), memory.plan.bytes()});
    }
  }
  return parts;
}

}  // namespace tenon
