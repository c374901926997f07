#include "plugins/linear/onednn/worker.h"

#include <algorithm>
#include <cstring>

namespace tenon::onednn {
namespace {

// Rows of a tile. Those that must be brought together first are fewer; a single one never must.
uint32_t tile_rows(const LinearJob& job, uint64_t bytes_each) {
  uint64_t most = kTileRows;
  if (!job.rows.empty()) most = std::clamp<uint64_t>(kGatherBytes / bytes_each, 1, most);
  return static_cast<uint32_t>(std::min<uint64_t>(most, sdk::used_rows(job)));
}

uint32_t tile_panels(const LinearJob& job, uint32_t rows) {
  const uint64_t matrices = job.epilogue == Epilogue::silu_mul ? 2 : 1;
  const uint64_t most = kTileSums / matrices / rows / kPanelColumns;
  return static_cast<uint32_t>(std::clamp<uint64_t>(most, 1, kTilePanels));
}

}  // namespace

void Worker::run(const LinearJob& job, sdk::PanelRange panels) {
  const uint32_t rows = sdk::used_rows(job);
  if (rows == 0) return;
  const uint32_t rows_each = tile_rows(job, row_bytes(layout_of(job.packed).format, job.k_in));
  const uint32_t panels_each = tile_panels(job, rows_each);
  for (uint32_t panel = panels.first; panel < panels.last; panel += panels_each) {
    for (uint32_t row = 0; row < rows; row += rows_each) {
      run_tile(job, {row, std::min(rows_each, rows - row), panel,
                     std::min(panels_each, panels.last - panel)});
    }
  }
}

void Worker::run_tile(const LinearJob& job, const Tile& tile) {
  const Layout& layout = layout_of(job.packed);
  const std::byte* x = rows_of(job, tile);
  const uint32_t width = tile.panels * kPanelColumns;
  const uint32_t column = tile.first_panel * kPanelColumns;
  auto* sums = reinterpret_cast<float*>(scratch_);
  const bool in_order = job.y_rows.empty();
  auto* y = static_cast<float*>(job.y) + (in_order ? tile.first_row * job.y_stride : 0);
  FinishTask task{.sums = sums,
                  .rows = tile.rows,
                  .width = width,
                  .columns = std::min(width, job.n_out - column),
                  .y = y + column,
                  .y_stride = job.y_stride,
                  .y_rows = in_order ? nullptr : job.y_rows.data() + tile.first_row,
                  .row_scale = job.row_scale == nullptr ? nullptr : job.row_scale + tile.first_row,
                  .bias = job.bias == nullptr ? nullptr : job.bias + column,
                  .epilogue = job.epilogue};
  products_.multiply(layout, tile.rows, tile.panels, x, panel_of(job.packed, tile.first_panel),
                     sums);
  if (job.epilogue == Epilogue::silu_mul) {
    float* second = sums + uint64_t{tile.rows} * width;
    products_.multiply(layout, tile.rows, tile.panels, x,
                       panel_of(job.packed_second, tile.first_panel), second);
    task.second = second;
  }
  row_ops_.finish(task);
}

// The prepared rows of a tile, one behind the other.
const std::byte* Worker::rows_of(const LinearJob& job, const Tile& tile) {
  const Format format = layout_of(job.packed).format;
  const uint64_t bytes = row_bytes(format, job.k_in);
  const auto row = [&](uint64_t index) {
    return static_cast<const std::byte*>(job.prepared) + index * bytes;
  };
  if (job.rows.empty()) return row(tile.first_row);
  if (tile.rows == 1) return row(job.rows[tile.first_row]);
  std::byte* gathered = scratch_ + kTileSums * sizeof(float);
  for (uint32_t r = 0; r < tile.rows; ++r) {
    std::memcpy(gathered + r * bytes, row(job.rows[tile.first_row + r]), bytes);
  }
  return gathered;
}

}  // namespace tenon::onednn
