// One worker's share of a job, tile by tile: oneDNN's product, then our epilogue.
#pragma once

#include <tenon/host.h>
#include <tenon/linear.h>
#include <tenon/sdk/linear/panels.h>

#include <cstddef>
#include <cstdint>

#include "plugins/linear/onednn/products.h"
#include "plugins/linear/onednn/row_ops.h"

namespace tenon::onednn {

// A tile's sums stay in the second cache beside some of the weights. Few rows take more columns, so
// that calls are few as well.
inline constexpr uint64_t kTileSums = uint64_t{1} << 18;
inline constexpr uint32_t kTileRows = 512;
inline constexpr uint32_t kTilePanels = 64;
inline constexpr uint64_t kGatherBytes = uint64_t{1} << 20;  // rows that are not side by side
inline constexpr uint64_t kScratchBytes = kTileSums * sizeof(float) + kGatherBytes;

class Worker {
 public:
  // scratch: kScratchBytes.
  Worker(const HostServices& host, const dnnl::engine& engine, const RowOps& row_ops,
         std::byte* scratch)
      : products_(host, engine), row_ops_(row_ops), scratch_(scratch) {}

  // Throws dnnl::error, std::bad_alloc. The caller holds a OneThread.
  void run(const LinearJob& job, sdk::PanelRange panels);

 private:
  struct Tile {
    uint32_t first_row, rows;
    uint32_t first_panel, panels;
  };
  void run_tile(const LinearJob& job, const Tile& tile);
  const std::byte* rows_of(const LinearJob& job, const Tile& tile);

  Products products_;
  const RowOps& row_ops_;
  std::byte* const scratch_;
};

}  // namespace tenon::onednn
