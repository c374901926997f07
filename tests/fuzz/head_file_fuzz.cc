// A head in a GGUF file that is accepted names tokens of its target, each once, and reads states
// that its target has.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/model/heads/head.h"
#include "tests/fuzz/target.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// The bytes as a file, for as long as it lives.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("head", 0)) {
    require(descriptor_ >= 0 && ::write(descriptor_, data, size) == static_cast<ssize_t>(size));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

TENON_FUZZ_TARGET(head_file, const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  if (!tenon::is_head(file.path())) return 0;
  tenon::Model target;
  target.plan.vocabulary = 40;
  target.plan.hidden = 16;
  target.plan.layers.resize(4);
  const auto opened = tenon::open_head(file.path(), target);
  if (!opened.ok()) return 0;
  const tenon::Head& head = *opened->head;
  std::vector<bool> named(target.plan.vocabulary);
  for (const tenon::TokenId id : head.token_ids) {
    require(id >= 0 && static_cast<uint32_t>(id) < target.plan.vocabulary);
    require(!named[static_cast<size_t>(id)]);
    named[static_cast<size_t>(id)] = true;
  }
  require(head.token_ids.empty() || head.token_ids.size() == opened->model->head.n_out);
  for (size_t i = 0; i < head.state_layers.size(); ++i) {
    require(head.state_layers[i] <= target.plan.layers.size());
    require(i == 0 || head.state_layers[i] > head.state_layers[i - 1]);
  }
  return 0;
}
