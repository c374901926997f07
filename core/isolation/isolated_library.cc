#include "core/isolation/isolated_library.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/isolation/description.h"
#include "core/isolation/isolated_drafter.h"
#include "core/isolation/isolated_sampler.h"
#include "core/isolation/isolated_scheduler.h"
#include "core/plugin/facts/fact_words.h"
#include "core/plugin/instance.h"

namespace tenon {
namespace {

// The pointer that a plugin of this interface is asked for as.
template <typename Interface, typename Isolated>
Result<void*> made_in_process(IsolatedOrigin origin) {
  auto made = Isolated::create(std::move(origin));
  if (!made.ok()) return made.take_status();
  return static_cast<void*>(static_cast<Interface*>((*made).release()));
}
template <typename Interface, typename Isolated>
void end_process_of(void* instance) {
  delete static_cast<Isolated*>(static_cast<Interface*>(instance));
}

template <typename Interface, typename Isolated>
ProcessLosses losses_of(void* instance) {
  return static_cast<const Isolated*>(static_cast<Interface*>(instance))->losses();
}

bool runs_second_model(const PluginDescriptor& descriptor) {
  return requires_word(descriptor, "draft.needs", "model") ||
         requires_word(descriptor, "draft.needs", "layers");
}

class IsolatedLibrary final : public ForeignLibrary {
 public:
  IsolatedLibrary(std::unique_ptr<DescribedLibrary> described, std::string sha256,
                  GuestProcess::Limits limits)
      : described_(std::move(described)), sha256_(std::move(sha256)), limits_(limits) {
    described_->library.foreign = this;
  }
  const LoadedLibrary* library() const { return &described_->library; }

  uint32_t score(const PluginDescriptor& descriptor, const HostFacts& host) const override {
    const auto score = score_in_process(library()->path, sha256_, descriptor, host, limits_);
    if (score.ok()) return *score;
    log(LogLevel::warning, "plugins", message_of(score.status()));
    return 0;
  }

  Result<void*> create(const PluginDescriptor& descriptor, const FilledOptions& options,
                       const PluginSurroundings& surroundings,
                       const HostServices& services) const override {
    IsolatedOrigin origin;
    origin.path = library()->path;
    origin.sha256 = sha256_;
    origin.interface = descriptor.interface;
    origin.id = descriptor.id;
    origin.settings.assign(options.settings().begin(), options.settings().end());
    origin.host = *surroundings.host;
    origin.facts = surroundings.facts;
    origin.services = &services;
    origin.limits = limits_;
    if (descriptor.interface == kSchedulerInterface) {
      return made_in_process<Scheduler, IsolatedScheduler>(std::move(origin));
    }
    if (descriptor.interface == kSamplerInterface) {
      return made_in_process<Sampler, IsolatedSampler>(std::move(origin));
    }
    if (runs_second_model(descriptor)) {
      return unsupported(
          "it runs a second model of the program's, which cannot be had in a process of its own; "
          "install the file where the program's own plugins are if you trust it, or set "
          "engine.guard = \"checks\"");
    }
    return made_in_process<Drafter, IsolatedDrafter>(std::move(origin));
  }

  void destroy(const PluginDescriptor& descriptor, void* instance) const override {
    if (descriptor.interface == kSchedulerInterface) {
      end_process_of<Scheduler, IsolatedScheduler>(instance);
    } else if (descriptor.interface == kSamplerInterface) {
      end_process_of<Sampler, IsolatedSampler>(instance);
    } else {
      end_process_of<Drafter, IsolatedDrafter>(instance);
    }
  }

  ProcessLosses losses(const PluginDescriptor& descriptor, void* instance) const override {
    if (descriptor.interface == kSchedulerInterface) {
      return losses_of<Scheduler, IsolatedScheduler>(instance);
    }
    if (descriptor.interface == kSamplerInterface) {
      return losses_of<Sampler, IsolatedSampler>(instance);
    }
    return losses_of<Drafter, IsolatedDrafter>(instance);
  }

 private:
  const std::unique_ptr<DescribedLibrary> described_;
  const std::string sha256_;
  const GuestProcess::Limits limits_;
};

// Never destroyed, as loaded libraries are not.
struct IsolatedParking {
  using Key = std::tuple<std::string, std::string, uint64_t, int64_t>;
  std::mutex mutex;
  std::map<Key, std::unique_ptr<IsolatedLibrary>> libraries;
};
IsolatedParking& isolated_parking() {
  static IsolatedParking* instance = new IsolatedParking;
  return *instance;
}

}  // namespace

Result<const LoadedLibrary*> isolate_library(const std::string& path, const std::string& sha256,
                                             const GuestProcess::Limits& limits) {
  const std::lock_guard lock(isolated_parking().mutex);
  std::unique_ptr<IsolatedLibrary>& place =
      isolated_parking().libraries[{path, sha256, limits.memory_bytes, limits.call_ns}];
  if (place == nullptr) {
    TENON_ASSIGN_OR_RETURN(const PluginStamp stamp, read_stamp(path));
    auto described = describe_in_process(path, sha256, limits);
    if (!described.ok()) return described.take_status();
    (*described)->library.stamp = stamp;
    place = std::make_unique<IsolatedLibrary>(*std::move(described), sha256, limits);
  }
  return place->library();
}

PluginRegistry::Isolate isolating(const GuestProcess::Limits& limits) {
  return [limits](const std::string& path, const std::string& sha256) {
    return isolate_library(path, sha256, limits);
  };
}

}  // namespace tenon
