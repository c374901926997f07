#include "core/isolation/library_examiner.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/isolation/isolated_plugin.h"

namespace tenon {
namespace {

// A library that hangs occupies one of these; the others go on.
constexpr size_t kMostAtOnce = 8;

// Much more than a constructor takes, on a machine that does other things as well.
GuestProcess::Limits limits_of_looking() {
  GuestProcess::Limits limits;
  limits.call_named = "";
  return limits;
}

}  // namespace

// Descriptors that another process described, with the scores that it gave them.
class ExaminedLibrary final : public ForeignLibrary {
 public:
  explicit ExaminedLibrary(DescribedWithScores described) : described_(std::move(described)) {
    described_.library->library.foreign = this;
  }
  const LoadedLibrary* library() const { return &described_.library->library; }

  uint32_t score(const PluginDescriptor& descriptor, const HostFacts&) const override {
    const auto& all = library()->descriptors;
    for (size_t i = 0; i < all.size(); ++i) {
      if (&all[i] == &descriptor) return described_.scores[i];
    }
    return 0;
  }
  Result<void*> create(const PluginDescriptor&, const FilledOptions&, const PluginSurroundings&,
                       const HostServices&) const override {
    return internal("a library that was only looked at makes no instances");
  }
  void destroy(const PluginDescriptor&, void*) const override {}
  ProcessLosses losses(const PluginDescriptor&, void*) const override { return {}; }

 private:
  DescribedWithScores described_;
};

LibraryExaminer::LibraryExaminer(const HostFacts& host)
    : host_(host), has_guest_(find_guest_program().ok()) {}
LibraryExaminer::~LibraryExaminer() = default;

void LibraryExaminer::look_at(std::span<const std::string> paths) {
  std::vector<std::pair<const std::string*, Seen*>> fresh;
  for (const std::string& path : paths) {
    const auto [place, is_new] = seen_.try_emplace(path);
    if (is_new) fresh.emplace_back(&place->first, &place->second);
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < fresh.size(); i = next++) {
      look_at_one(*fresh[i].first, *fresh[i].second);
    }
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < std::min(fresh.size(), has_guest_ ? kMostAtOnce : 1)) {
      threads.emplace_back(work);
    }
  } catch (const std::system_error&) {  // no further thread: it takes longer
  }
  work();
}

void LibraryExaminer::look_at_one(const std::string& path, Seen& seen) const {
  if (!has_guest_) {
    auto loaded = load_library(path);
    seen.library = loaded.ok() ? *loaded : nullptr;
    if (!loaded.ok()) seen.problem = loaded.take_status();
    return;
  }
  auto described = examine_in_process(path, host_, limits_of_looking());
  if (!described.ok()) {
    seen.problem = described.take_status();
    return;
  }
  seen.examined = std::make_unique<ExaminedLibrary>(*std::move(described));
  seen.library = seen.examined->library();
}

Result<const LoadedLibrary*> LibraryExaminer::library(const std::string& path) const {
  const auto found = seen_.find(path);
  if (found == seen_.end()) return internal(path + ": nobody has looked at it");
  if (found->second.library == nullptr) return copy(found->second.problem);
  return found->second.library;
}

}  // namespace tenon
