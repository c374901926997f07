// The products of one worker: oneDNN's primitives, made when a shape is seen first, and kept.
#pragma once

#include <tenon/host.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "plugins/linear/onednn/layout.h"

namespace tenon::onednn {

// Numbers of rows differ from step to step, and oneDNN compiles a primitive for each (about 0.2 ms
// once). Beyond this many the one that was not used for longest goes.
inline constexpr size_t kKeptProducts = 512;

class Products {
 public:
  Products(const HostServices& host, const dnnl::engine& engine)
      : host_(host), engine_(engine), stream_(engine) {}
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() { host_.free(host_.context, Space{}, scratch_); }

  // sums [rows, panels · kPanelColumns] = x · Wᵀ for `panels` panels that begin at `weights`. x:
  // prepared rows. Throws dnnl::error, std::bad_alloc. The caller holds a OneThread.
  void multiply(const Layout& layout, uint32_t rows, uint32_t panels, const std::byte* x,
                const std::byte* weights, float* sums);

 private:
  struct Key {
    Format format;
    uint32_t k_in, rows, panels;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory x, weights, sums, scratch;
    uint64_t last_used = 0;
  };

  Product& find(const Layout& layout, uint32_t rows, uint32_t panels);
  Product make(const Layout& layout, uint32_t rows, uint32_t panels);
  void drop_oldest();
  void grow_scratch(uint64_t bytes);

  const HostServices& host_;
  const dnnl::engine& engine_;
  dnnl::stream stream_;
  std::map<Key, Product> made_;
  uint64_t clock_ = 0;
  void* scratch_ = nullptr;
  uint64_t scratch_bytes_ = 0;
};

}  // namespace tenon::onednn
