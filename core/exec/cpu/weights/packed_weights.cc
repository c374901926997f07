#include "core/exec/cpu/weights/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "core/base/digest/sha256.h"
#include "core/base/machine/canary.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/blocks/block.h"
#include "core/model/strange_values.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

// Two huge pages: large enough that a worker's pages are mostly its own, small enough that workers
// get done together.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// The pieces of a matrix that are not packed yet.
struct PackQueue {
  uint64_t bytes = 0;
  uint32_t pieces = 0;
  std::atomic<uint32_t> next = 0;
  std::atomic<uint32_t> packed = 0;
  std::atomic<bool> finite = true;  // what is read so far
};

// A product's columns are cut at multiples of a cache line of its floats.
constexpr uint32_t kCutColumns = 16;
// Decides who is chosen, and is small.
constexpr Weight LayerWeights::*kWhole[] = {&LayerWeights::router, &LayerWeights::shared_router};
// Cut with the heads of attention, where these are; a latent layer has no k and v.
constexpr Weight LayerWeights::*kOfHeads[] = {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v,
                                              &LayerWeights::output_gate};

// Of a layer's matrices, how they come from the cut of the model.
struct MatrixCut {
  bool is_own = false;   // the rank's part already
  bool is_part = false;  // … of K
};

MatrixCut cut_of(Weight LayerWeights::*which, const HeadsCut& cut) {
  const auto is_among = [&](const auto& list) {
    return std::ranges::find(list, which) != std::end(list);
  };
  const bool ends_attention = cut.adds_attention && which == &LayerWeights::output;
  const bool ends_mlp = cut.adds_mlp() && which == &LayerWeights::down;
  const bool enters_mlp =
      cut.adds_mlp() && (which == &LayerWeights::gate || which == &LayerWeights::up);
  const bool of_heads = !cut.attended.empty() && is_among(kOfHeads);
  return {.is_own = is_among(kWhole) || of_heads || enters_mlp || ends_attention || ends_mlp,
          .is_part = ends_attention || ends_mlp};
}

// What went wrong first on one worker, and with which matrix.
struct PackFault {
  Status status;
  size_t matrix = 0;
};

// Packs pieces until none is left; true for the one caller that packed the last.
bool pack_pieces(const PackedMatrix& matrix, PackQueue& queue, Status& status) {
  const WeightView view = matrix.source->view();
  bool last = false;
  for (uint32_t piece = queue.next++; piece < queue.pieces; piece = queue.next++) {
    // The kernel reads about the same next, out of the cache.
    if (!is_finite(*matrix.source, {piece, queue.pieces})) queue.finite = false;
    status = matrix.kernel->pack(view, matrix.data, {piece, queue.pieces});
    if (!status.ok()) return false;
    last = ++queue.packed == queue.pieces;
  }
  return last;
}

void release_pages(const Model& model, const Weight& weight) {
  if (model.checkpoint == nullptr) return;
  for (const TensorView& part : weight.parts) model.checkpoint->release(part);
}

}  // namespace

const PackedMatrix& PackedLayer::operator[](Weight LayerWeights::*which) const {
  static const PackedMatrix kNone;
  for (const auto& [member, matrix] : matrices_) {
    if (member == which) return matrix;
  }
  return kNone;
}

Status PackedWeights::load(const Model& model, std::span<const Adapter* const> adapters,
                           const LinearResolver& resolve, WorkerPool& pool,
                           const LoadProgress& progress, const WeightSharing& sharing,
                           const Weight* front, const ModelCut& cut) {
  *this = PackedWeights();
  rank_ = cut.rank;
  ranks_ = cut.ranks;
  places_ = static_cast<uint32_t>(adapters.size());
  for (const Adapter* adapter : adapters) {
    for (const AdapterMatrix& matrix : adapter->matrices) {
      adapted_[matrix.target].pairs.resize(adapters.size());
    }
  }
  TENON_RETURN_IF_ERROR(add_all(model, resolve, cut));
  if (front != nullptr) TENON_RETURN_IF_ERROR(add(*front, resolve, front_));
  TENON_RETURN_IF_ERROR(add_adapters(adapters, resolve));
  TENON_RETURN_IF_ERROR(place_and_pack(model, pool, progress, sharing));
  placements_.clear();
  if (model.plan.tied_embeddings) embedding_ = head_;
  return {};
}

// Empty where a kernel does not say how it packs.
std::string PackedWeights::name_of_layout(const WeightSharing& sharing) const {
  std::string text = sharing.files;
  for (const Placement& placement : placements_) {
    if (placement.packs_as.empty()) return {};
    const Weight& source = *placement.matrix->source;
    for (const std::string& part :
         {source.name, source.format, placement.packs_as, std::to_string(source.n_out),
          std::to_string(source.k_in), std::to_string(placement.matrix->first),
          std::to_string(placement.offset)}) {
      text += part;
      text += '\n';
    }
  }
  return sha256_hex(text);
}

Status PackedWeights::place_and_pack(const Model& model, WorkerPool& pool,
                                     const LoadProgress& progress, const WeightSharing& sharing) {
  const std::string name = sharing.with == nullptr ? "" : name_of_layout(sharing);
  if (!name.empty()) memory_ = sharing.with->find(name);
  if (memory_ != nullptr) {
    shared_ = true;
    for (const Placement& placement : placements_) {
      placement.matrix->data = memory_->data() + placement.offset;
      release_pages(model, *placement.matrix->source);
    }
    if (progress) progress(bytes(), bytes());
    return {};
  }
  TENON_ASSIGN_OR_RETURN(
      HostMemory memory,
      HostMemory::allocate(total_bytes_, HostMemory::Backing::eager, "the packed model"));
  TENON_RETURN_IF_ERROR(pack_all(model, pool, progress, memory));
  memory_ = std::make_shared<const HostMemory>(std::move(memory));
  if (!name.empty()) sharing.with->keep(name, sharing.files, memory_);
  return {};
}

// Blocks share members, such as the output of attention: those are added once.
Status PackedWeights::add_layer(const LayerWeights& from, const LinearResolver& resolve,
                                const HeadsCut& cut, bool is_here, PackedLayer& to) {
  const Cut of_heads = is_here ? Cut::none : Cut::absent;
  TENON_RETURN_IF_ERROR(add_heads(from.k_absorb, resolve, to.k_absorb, of_heads));
  TENON_RETURN_IF_ERROR(add_heads(from.v_expand, resolve, to.v_expand, of_heads));
  for (const Block* block : layer_blocks()) {
    for (const BlockTensor& tensor : block->tensors) {
      Weight LayerWeights::*const which = tensor.in_layer.matrix;
      if (which == nullptr || (from.*which).n_out == 0) continue;
      const auto known =
          std::ranges::find(to.matrices_, which, &decltype(to.matrices_)::value_type::first);
      if (known == to.matrices_.end()) to.matrices_.emplace_back(which, PackedMatrix());
    }
  }
  // Placements point to them from here on.
  for (auto& [which, matrix] : to.matrices_) {
    const MatrixCut made = cut_of(which, cut);
    const Cut as = !is_here ? Cut::absent : made.is_own ? Cut::none : Cut::columns;
    TENON_RETURN_IF_ERROR(add(from.*which, resolve, matrix, as));
    matrix.is_part = made.is_part;
  }
  return add_experts(from.experts, resolve, cut, is_here, to);
}

Status PackedWeights::add_all(const Model& model, const LinearResolver& resolve,
                              const ModelCut& cut) {
  layers_.resize(model.layers.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const HeadsCut of_layer = i < cut.layers.size() ? cut.layers[i] : HeadsCut();
    TENON_RETURN_IF_ERROR(
        add_layer(model.layers[i], resolve, of_layer, cut.range.contains(i), layers_[i]));
  }
  const bool enters = cut.range.has_first(), ends = cut.range.has_last(model.plan);
  if (model.layer_table.n_out > 0) {
    TENON_RETURN_IF_ERROR(readable_by_rows(model.layer_table));
    TENON_RETURN_IF_ERROR(add(model.layer_projection, resolve, layer_projection_, Cut::columns));
  }
  TENON_RETURN_IF_ERROR(add_heads(model.stream_in, resolve, stream_in_));
  TENON_RETURN_IF_ERROR(add_heads(model.stream_out, resolve, stream_out_));
  embedding_source_ = &model.embedding;
  const bool has_head = ends || (enters && model.plan.tied_embeddings);
  TENON_RETURN_IF_ERROR(add(model.head, resolve, head_, has_head ? Cut::columns : Cut::absent));
  if (model.plan.tied_embeddings || readable_by_rows(model.embedding).ok()) return {};
  return add(model.embedding, resolve, embedding_, enters ? Cut::columns : Cut::absent);
}

// Behind the model, whose kernels come first in every list.
Status PackedWeights::add_adapters(std::span<const Adapter* const> adapters,
                                   const LinearResolver& resolve) {
  for (size_t i = 0; i < adapters.size(); ++i) {
    for (const AdapterMatrix& from : adapters[i]->matrices) {
      TENON_RETURN_IF_ERROR(add_pair(from, resolve, adapted_[from.target].pairs[i]));
    }
  }
  return {};
}

Status PackedWeights::add_pair(const AdapterMatrix& from, const LinearResolver& resolve,
                               PackedPair& to) {
  to.scale = from.scale;
  TENON_RETURN_IF_ERROR(add(from.a, resolve, to.a));
  TENON_RETURN_IF_ERROR(add(from.b, resolve, to.b));
  measure(to);
  return {};
}

void PackedWeights::measure(const PackedPair& pair) {
  if (pair.b.kernel == nullptr) return;
  highest_rank_ = std::max(highest_rank_, pair.a.n_out);
  if ((pair.b.kernel->epilogues() & epilogue_bit(Epilogue::add)) != 0) return;
  widest_beside_ = std::max(widest_beside_, pair.b.n_out);
}

Status PackedWeights::add_heads(const std::vector<Weight>& heads, const LinearResolver& resolve,
                                std::vector<PackedMatrix>& packed, Cut cut) {
  packed.resize(heads.size());
  for (size_t head = 0; head < heads.size(); ++head) {
    TENON_RETURN_IF_ERROR(add(heads[head], resolve, packed[head], cut));
  }
  return {};
}

Status PackedWeights::add_experts(const std::vector<ExpertWeights>& from,
                                  const LinearResolver& resolve, const HeadsCut& cut, bool is_here,
                                  PackedLayer& to) {
  to.experts.resize(from.size());
  to.experts_alike = true;
  for (size_t i = 0; i < from.size(); ++i) {
    PackedExpert& expert = to.experts[i];
    Cut as = Cut::columns;
    if (!cut.experts.empty()) {
      const bool is_own = i >= cut.experts[rank_] && i < cut.experts[rank_ + 1];
      as = is_own ? Cut::none : Cut::absent;
    }
    if (!is_here) as = Cut::absent;
    for (const auto& [weight, matrix] :
         {std::pair(&from[i].gate, &expert.gate), std::pair(&from[i].up, &expert.up),
          std::pair(&from[i].down, &expert.down)}) {
      if (weight->n_out == 0) continue;
      TENON_RETURN_IF_ERROR(add(*weight, resolve, *matrix, as));
      for (const TensorView& part : weight->parts) expert.stored_bytes += bytes_of(part).size();
      if (weight == &from[i].down) continue;
      to.experts_alike = to.experts_alike && matrix->prepared_like(to.experts[0].gate) &&
                         weight->format == from[0].gate.format;
    }
  }
  return {};
}

// Who has which columns follows from their number alone, so that matrices which are multiplied
// together, such as gate and up, are cut alike. Rows that are stored in an order across the cut
// stay together.
const Weight& PackedWeights::cut_columns_of(const Weight& weight, PackedMatrix& matrix) {
  auto& starts = starts_[weight.n_out];
  if (starts.empty()) starts = cut_columns(weight.n_out, kCutColumns, ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!are_together(weight, starts[rank], starts[rank + 1] - starts[rank])) return weight;
  }
  matrix.starts = &starts;
  matrix.first = starts[rank_];
  matrix.columns = starts[rank_ + 1] - starts[rank_];
  Weight& slice = slices_.emplace_back(rows_of(weight, matrix.first, matrix.columns, orders_));
  // It begins where the whole may begin, and is another matrix all the same.
  slice.name += ", columns " + std::to_string(matrix.first) + " to " +
                std::to_string(matrix.first + matrix.columns);
  return slice;
}

// Kernels are chosen for the whole matrix, so that all ranks, and one alone, have the same.
Status PackedWeights::add(const Weight& weight, const LinearResolver& resolve, PackedMatrix& matrix,
                          Cut cut) {
  TENON_ASSIGN_OR_RETURN(const ChosenLinear chosen, resolve(weight.view()));
  LinearKernel* kernel = chosen.kernel;
  if (kernel == nullptr)
    return internal("no linear kernel was chosen for " + in_quotes(weight.name));
  if (Status status = kernel->accepts(weight.view()); !status.ok()) {
    return with_context(weight.name, status);
  }
  matrix = {.kernel = kernel,
            .n_out = weight.n_out,
            .k_in = weight.k_in,
            .preparation = kernel->preparation(weight.view()),
            .gate_finish = chosen.gate_finish,
            .source = &weight,
            .columns = weight.n_out};
  const auto adapted = adapted_.find(&weight);
  if (adapted != adapted_.end()) matrix.adapted = &adapted->second;
  matrix.reads_x = kernel->prepared_bytes(matrix.preparation, 1) == 0;
  if (ranks_ > 1 && cut == Cut::columns) matrix.source = &cut_columns_of(weight, matrix);
  if (cut == Cut::absent) matrix.columns = 0;
  if (matrix.columns > 0) {
    const WeightView own = matrix.source->view();
    if (Status status = kernel->accepts(own); !status.ok()) return with_context(own.name, status);
    placements_.push_back({&matrix, total_bytes_, chosen.packs_as});
    guard_bytes_ += kCanaryBytes;
    total_bytes_ = saturating_add(
        total_bytes_, saturating_add(round_up_to_line(kernel->packed_bytes(own)), kCanaryBytes));
  }
  if (std::ranges::find(kernels_, kernel) == kernels_.end()) kernels_.push_back(kernel);
  const std::pair preparation(kernel, matrix.preparation);
  if (std::ranges::find(preparations_, preparation) == preparations_.end()) {
    preparations_.push_back(preparation);
  }
  return {};
}

// Workers take pieces as they get done, matrix after matrix and without a barrier in between: how
// long a piece takes depends on the pages that it meets first.
Status PackedWeights::pack_all(const Model& model, WorkerPool& pool, const LoadProgress& progress,
                               HostMemory& memory) {
  std::vector<PackQueue> queues(placements_.size());
  for (size_t i = 0; i < placements_.size(); ++i) {
    PackedMatrix& matrix = *placements_[i].matrix;
    matrix.data = memory.data() + placements_[i].offset;
    const uint64_t end = i + 1 < placements_.size() ? placements_[i + 1].offset : total_bytes_;
    queues[i].bytes = end - placements_[i].offset - kCanaryBytes;
    set_canary(memory.data() + end - kCanaryBytes);
    queues[i].pieces = static_cast<uint32_t>(queues[i].bytes / kPieceBytes + 1);
  }
  std::vector<PackFault> faults(pool.size());
  std::atomic<uint64_t> done = 0;
  pool.run([&](uint32_t worker) {
    for (size_t i = 0; i < queues.size() && faults[worker].status.ok(); ++i) {
      const PackedMatrix& matrix = *placements_[i].matrix;
      if (pack_pieces(matrix, queues[i], faults[worker].status)) {
        release_pages(model, *matrix.source);
        done += queues[i].bytes;
      }
      faults[worker].matrix = i;
      if (worker == 0 && progress) progress(done, total_bytes_ - guard_bytes_);
    }
  });
  const auto first = std::ranges::min_element(faults, {}, [](const PackFault& fault) {
    return fault.status.ok() ? SIZE_MAX : fault.matrix;
  });
  if (!first->status.ok()) {
    return with_context(placements_[first->matrix].matrix->source->name, first->status);
  }
  for (size_t i = 0; i < placements_.size(); ++i) {
    const PackedMatrix& matrix = *placements_[i].matrix;
    if (canary_lives(static_cast<const std::byte*>(matrix.data) + queues[i].bytes)) continue;
    return internal(matrix.source->name + ": pack of the linear kernel '" +
                    std::string(matrix.kernel->numerics()) +
                    "' wrote behind the packed_bytes that it had asked for");
  }
  std::vector<std::string> strange;
  for (size_t i = 0; i < placements_.size(); ++i) {
    if (!queues[i].finite) strange.push_back(placements_[i].matrix->source->name);
  }
  warn_of_strange_values(strange);
  if (progress) progress(total_bytes_ - guard_bytes_, total_bytes_ - guard_bytes_);
  return {};
}

Status PackedWeights::embed(std::span<const TokenId> tokens, float* out, Slice slice) const {
  const uint32_t width = embedding_source_->k_in;
  if (embedding_.kernel != nullptr) {
    // The same numbers without a sign, which no token here has.
    std::span<const uint32_t> rows(reinterpret_cast<const uint32_t*>(tokens.data()), tokens.size());
    // Of several ranks a token comes alone.
    const uint32_t own_row = rows.empty() ? 0 : rows.front() - embedding_.first;
    if (embedding_.starts != nullptr) rows = {&own_row, 1};
    return embedding_.kernel->gather({.packed = embedding_.data,
                                      .n_out = embedding_.columns,
                                      .k_in = width,
                                      .rows = rows,
                                      .out = out,
                                      .out_stride = width},
                                     slice);
  }
  const uint64_t last = tokens.size() * (slice.index + 1) / slice.count;
  for (uint64_t i = tokens.size() * slice.index / slice.count; i < last; ++i) {
    read_row(*embedding_source_, static_cast<uint32_t>(tokens[i]), out + i * width);
  }
  return {};
}

Status PackedWeights::wrote_behind(std::string_view room) const {
  std::vector<std::string> names;
  for (const LinearKernel* kernel : kernels_) names.push_back(in_quotes(kernel->numerics()));
  return internal("linear kernel " + join(names, " or ") +
                  ": prepare, gather or run wrote behind " + std::string(room) +
                  " – use another kernel");
}

uint64_t PackedWeights::prepared_bytes(uint32_t rows) const {
  uint64_t most = 0;
  for (const auto& [kernel, preparation] : preparations_) {
    most = std::max(most, kernel->prepared_bytes(preparation, rows));
  }
  const auto together = [rows](const std::vector<PackedMatrix>& heads) {
    uint64_t sum = 0;
    for (const PackedMatrix& head : heads) sum += head.prepared_bytes(rows);
    return sum;
  };
  for (const PackedLayer& layer : layers_) {
    most = std::max({most, together(layer.k_absorb), together(layer.v_expand)});
  }
  most = std::max({most, together(stream_in_), together(stream_out_)});
  return round_up_to_line(most);
}

uint64_t PackedWeights::prepared_low_bytes(uint32_t rows) const {
  uint64_t most = 0;
  for (const auto& [target, adapted] : adapted_) {
    for (const PackedPair& pair : adapted.pairs) {
      if (pair.b.kernel != nullptr) most = std::max(most, pair.b.prepared_bytes(rows));
    }
  }
  return most;
}

}  // namespace tenon
