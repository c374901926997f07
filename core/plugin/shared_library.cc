#include "core/plugin/shared_library.h"

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/machine/floating_point_state.h"

namespace tenon {
namespace {

// Libraries are never unloaded: what is theirs may be in use until the program's very end.
void keep_loaded(std::unique_ptr<boost::dll::shared_library> library) {
  static std::mutex mutex;
  static auto* const kKept = new std::vector<std::unique_ptr<boost::dll::shared_library>>();
  const std::lock_guard lock(mutex);
  kKept->push_back(std::move(library));
}

}  // namespace

Result<const void*> load_shared_library(const std::string& file, const std::string& path,
                                        const char* symbol) {
  using boost::dll::load_mode::rtld_local;
  using boost::dll::load_mode::rtld_now;
  const KeepFloatingPointState keep;
  try {
    auto handle = std::make_unique<boost::dll::shared_library>(file, rtld_now | rtld_local);
    const void* address = handle->has(symbol) ? &handle->get<const char>(symbol) : nullptr;
    keep_loaded(std::move(handle));
    return address;
  } catch (const std::exception& error) {
    return failed(path + ": cannot be loaded: " + error.what());
  }
}

}  // namespace tenon
