// A checkpoint whose tensors lie in memory.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/base/quote.h"
#include "core/model/checkpoint/checkpoint.h"

namespace tenon {

class MemoryCheckpoint final : public Checkpoint {
 public:
  // A tensor of the caller's bytes, which outlive this.
  void view(const std::string& name, DType dtype, const std::vector<uint64_t>& shape,
            const void* data) {
    TensorView& view = views_[name];
    view = {};
    view.data = data;
    view.dtype = dtype;
    view.rank = static_cast<uint8_t>(shape.size());
    uint64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
      view.shape[i] = shape[i];
      view.stride[i] = stride;
    }
  }
  // … or of bytes that are all the same.
  void add(const std::string& name, DType dtype, const std::vector<uint64_t>& shape, int byte = 0) {
    uint64_t bytes = dtype_bits(dtype) / 8;
    for (const uint64_t extent : shape) bytes *= extent;
    std::string& data = data_[name];
    data.assign(bytes, static_cast<char>(byte));
    view(name, dtype, shape, data.data());
  }
  void erase(const std::string& name) { views_.erase(name); }
  // The bytes of a tensor that was added.
  std::string& bytes(const std::string& name) { return data_[name]; }

  const TensorView* find(std::string_view name) const override {
    const auto found = views_.find(name);
    return found == views_.end() ? nullptr : &found->second;
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const TensorView* found = find(name);
    if (found == nullptr) return not_found("tensor " + in_quotes(name) + " is missing");
    return found;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, view] : views_) names.push_back(name);
    return names;
  }
  void release(const TensorView&) const override {}

 private:
  std::map<std::string, TensorView, std::less<>> views_;
  std::map<std::string, std::string> data_;
};

}  // namespace tenon
