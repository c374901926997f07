#include "plugins/linear/onednn/products.h"

#include <algorithm>
#include <new>

namespace tenon::onednn {

void Products::multiply(const Layout& layout, uint32_t rows, uint32_t panels, const std::byte* x,
                        const std::byte* weights, float* sums) {
  Product& product = find(layout, rows, panels);
  product.x.set_data_handle(const_cast<std::byte*>(x));
  product.weights.set_data_handle(const_cast<std::byte*>(weights));
  product.sums.set_data_handle(sums);
  product.scratch.set_data_handle(scratch_);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product.x.get()},
                                       {DNNL_ARG_WEIGHTS, product.weights.get()},
                                       {DNNL_ARG_DST, product.sums.get()},
                                       {DNNL_ARG_SCRATCHPAD, product.scratch.get()}};
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(product.primitive.get(), stream_.get(), 4, arguments),
      "oneDNN could not multiply");
}

Products::Product& Products::find(const Layout& layout, uint32_t rows, uint32_t panels) {
  const Key key{layout.format, layout.k_in, rows, panels};
  auto found = made_.find(key);
  if (found == made_.end()) {
    if (made_.size() >= kKeptProducts) drop_oldest();
    found = made_.emplace(key, make(layout, rows, panels)).first;
    host_.count(host_.context, "primitives_made", 1);
  }
  found->second.last_used = ++clock_;
  return found->second;
}

Products::Product Products::make(const Layout& layout, uint32_t rows, uint32_t panels) {
  const auto described = describe_product(engine_, layout, rows, panels);
  grow_scratch(described.scratchpad_desc().get_size());
  const auto memory = [&](const dnnl::memory::desc& desc) {
    return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE);
  };
  return {.primitive = dnnl::matmul(described),
          .x = memory(described.src_desc()),
          .weights = memory(described.weights_desc()),
          .sums = memory(described.dst_desc()),
          .scratch = memory(described.scratchpad_desc())};
}

void Products::drop_oldest() {
  made_.erase(std::min_element(made_.begin(), made_.end(), [](const auto& a, const auto& b) {
    return a.second.last_used < b.second.last_used;
  }));
}

void Products::grow_scratch(uint64_t bytes) {
  if (bytes <= scratch_bytes_) return;
  void* grown = host_.allocate(host_.context, Space{}, bytes, 4096);
  if (grown == nullptr) throw std::bad_alloc();
  host_.free(host_.context, Space{}, scratch_);
  scratch_ = grown;
  scratch_bytes_ = bytes;
}

}  // namespace tenon::onednn
