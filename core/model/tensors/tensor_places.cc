#include "core/model/tensors/tensor_places.h"

namespace tenon {
namespace {

template <typename Owner>
TensorPlace place_in(Owner& owner, const Members<Owner>& members, bool bias, const Extent& extent) {
  if (bias) return {extent.bias_rows(), nullptr, &(owner.*members.bias)};
  if (members.vector != nullptr) return {extent.rows, nullptr, &(owner.*members.vector)};
  return {extent.rows, &(owner.*members.matrix), nullptr};
}

std::vector<TensorPlace> in_pieces(const std::vector<TensorPlace>& parts, const BlockTensor& tensor,
                                   const LayerPlan& layer) {
  std::vector<PartRows> pieces;
  tensor.pieces(layer, pieces);
  std::vector<TensorPlace> places;
  for (const PartRows& piece : pieces) {
    places.push_back(parts[piece.part]);
    places.back().first = piece.first;
    places.back().rows = piece.rows;
  }
  return places;
}

}  // namespace

std::vector<TensorPlace> places_of(Model& model, const BlockTensor& tensor, int32_t layer,
                                   bool bias) {
  if (tensor.in_model) {
    return {place_in(model, tensor.in_model, bias, tensor.extent(model.plan, {}))};
  }
  if (tensor.in_model_list != nullptr) {
    const uint64_t rows = tensor.extent(model.plan, {}).rows;
    std::vector<TensorPlace> all;
    for (Weight& matrix : model.*tensor.in_model_list) all.push_back({rows, &matrix});
    return all;
  }
  const auto index = static_cast<size_t>(layer);
  const LayerPlan& plan = model.plan.layers[index];
  LayerWeights& weights = model.layers[index];
  std::vector<TensorPlace> found;
  if (tensor.places != nullptr) {
    tensor.places(model, static_cast<uint32_t>(layer), found);
    return found;
  }
  for (const Role part : tensor.parts) {
    found.push_back(places_of(model, *find_tensor(part, plan), layer, bias).front());
  }
  if (tensor.pieces != nullptr) return in_pieces(found, tensor, plan);
  if (!tensor.parts.empty()) return found;
  const Extent extent = tensor.extent(model.plan, plan);
  if (tensor.in_layer) return {place_in(weights, tensor.in_layer, bias, extent)};
  for (ExpertWeights& expert : weights.experts) {
    found.push_back(place_in(expert, tensor.in_experts, bias, extent));
  }
  return found;
}

std::vector<TensorPlace> places_of(Model& model, const TensorSpec& spec) {
  return places_of(model, *spec.tensor, spec.layer, spec.bias);
}

// Nothing is written through the pointers on their way.
std::vector<ConstTensorPlace> places_of(const Model& model, const TensorSpec& spec) {
  std::vector<ConstTensorPlace> found;
  for (const TensorPlace& place : places_of(const_cast<Model&>(model), spec)) {
    found.push_back({place.rows, place.matrix, place.vector, place.transposed, place.first});
  }
  return found;
}

}  // namespace tenon
