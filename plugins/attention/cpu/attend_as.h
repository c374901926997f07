// Attention of one work item, for a type of the cache's elements (E) and a kind of rows (S).
#pragma once

#include "plugins/attention/cpu/attend.h"

namespace tenon::attention_cpu {
namespace {

template <class E, class S>
void attend_as(const LayerTask& task, const WorkItem& item, float* scratch, float* partials) {
  const uint32_t group = task.query_heads / task.kv_heads;
  const uint32_t rows = item.last_row - item.first_row;
  const uint32_t at_once = smaller(group, S::kQueries / rows);
  for (uint32_t head = 0; head < group; head += at_once) {
    Attention<E, S>(task, item, head, smaller(at_once, group - head), scratch).run(partials);
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
