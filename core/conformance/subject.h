// A plugin under test: its descriptor, the options it is made with, and instances of it as a host
// makes them, with a host that counts and that can be told to have no memory.
#pragma once

#include <tenon/plugin.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/result.h"
#include "core/conformance/worlds/random.h"
#include "core/contract/contract.h"
#include "core/plugin/facts/negotiation.h"
#include "core/plugin/instance.h"
#include "core/plugin/settings.h"

namespace tenon {

class Subject {
 public:
  // `library` and the plugin of it; `settings` are options that instances get. `effort` says how
  // much random traffic a case makes: 1 the least, 4 usual. `scene` is one of those that an
  // interface's cases know (cases/acting.h), the usual one first.
  Subject(const LoadedLibrary& library, const PluginDescriptor& descriptor, const HostFacts& host,
          std::vector<Setting> settings, uint64_t seed, uint32_t effort, uint32_t scene = 0);
  Subject(const Subject&) = delete;  // plugins hold on to parts of it
  Subject& operator=(const Subject&) = delete;

  // The same plugin made with `more` in place of, or in addition to, its settings.
  Subject with(const std::vector<Setting>& more, uint32_t scene = 0) const {
    return {library_, descriptor_, host_, merged(more), seed_, effort_, scene};
  }
  // Whether its user gave it this option.
  bool has_setting(std::string_view key) const;

  const PluginDescriptor& descriptor() const { return descriptor_; }
  const LoadedLibrary& library() const { return library_; }
  const HostFacts& host() const { return host_; }
  uint64_t seed() const { return seed_; }
  uint32_t effort() const { return effort_; }
  uint32_t scene() const { return scene_; }
  std::string name() const { return std::string(descriptor_.id); }
  bool has_settings() const { return !settings_.empty(); }
  // How closely the contract looks at its calls.
  CallChecks checks() const { return checks_; }
  void look_closely() { checks_ = CallChecks::more; }

  // What its facts say.
  bool provides(std::string_view key, std::string_view word) const;
  bool speaks_of(std::string_view key) const;
  uint64_t provides_at_most(std::string_view key) const;  // 0 = it does not say
  // What it needs of a pipeline and these cases have not, in words: a second model, hidden states.
  // Empty: nothing.
  std::string needs() const;

  // An instance with `settings`, in a pipeline of which it is the only part.
  template <typename T>
  Result<PluginInstance<T>> make(const std::vector<Setting>& settings = {}) {
    TENON_ASSIGN_OR_RETURN(FilledOptions options, fill(settings));
    return PluginInstance<T>::create({&library_, &descriptor_}, std::move(options), surroundings_);
  }
  Result<PluginObject> make_object(const std::vector<Setting>& settings = {}) {
    TENON_ASSIGN_OR_RETURN(FilledOptions options, fill(settings));
    return PluginObject::create({&library_, &descriptor_}, std::move(options), surroundings_);
  }
  // Options, checked as a host checks them: those of the subject, and `more` in their place.
  Result<FilledOptions> fill(const std::vector<Setting>& more = {}) const;

  const PipelineFacts& facts() const { return facts_; }
  const Clock& clock() const { return clock_; }
  const ExtensionTable& extensions() const { return extensions_; }

 private:
  std::vector<Setting> merged(const std::vector<Setting>& more) const;

  const LoadedLibrary& library_;
  const PluginDescriptor& descriptor_;
  const HostFacts host_;
  const std::vector<Setting> settings_;
  const uint64_t seed_;
  const uint32_t effort_, scene_;
  CallChecks checks_ = CallChecks::usual;
  VirtualClock clock_;
  ResolvedFacts resolved_;
  PipelineFacts facts_;
  std::vector<TokenId> text_;  // for drafters that look in one
  std::span<const TokenId> text_view_;
  ExtensionTable extensions_;
  PluginSurroundings surroundings_;
};

}  // namespace tenon
