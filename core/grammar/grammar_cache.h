// Compiled grammars by what they were compiled from, so that requests with the same one share it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/grammar/grammar.h"

namespace tenon::grammar {

class GrammarCache {
 public:
  // Keeps so many; the one that was not asked for longest makes room.
  explicit GrammarCache(size_t most = 64) : most_(most) {}

  // As compile(). [any thread]
  Result<std::shared_ptr<const Grammar>> get(const GrammarSpec& spec);

 private:
  size_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Grammar>> kept_;  // the latest last
};

}  // namespace tenon::grammar
