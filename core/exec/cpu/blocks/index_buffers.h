// What an index of positions makes in a step (IndexPlan); nothing for models without one.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "core/exec/host_memory.h"
#include "core/exec/index_rows.h"
#include "core/model/model.h"

namespace tenon {

struct IndexBuffers {
  HostMemory q;        // [rows, heads, dim]
  HostMemory k;        // [rows, dim]
  HostMemory weights;  // [rows, heads]
  HostMemory scores;   // [workers, context], of a row
  HostMemory order;    // [workers, context], its places
  HostMemory stored;   // [workers, dim], a key as f32
  uint32_t context = 0;
  KeyRows keys;      // of the index
  KeyRows attended;  // of attention

  // All arguments outlive this.
  Status allocate(const Model& model, const ModelShape& shape,
                  std::span<const KvGroupStorage> storage, const IndexedLayers& indexed,
                  uint32_t max_rows, uint32_t workers);
};

}  // namespace tenon
