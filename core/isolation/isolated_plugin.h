// The program's end of a plugin in a process of its own: how it is made, called and replaced.
#pragma once

#include <tenon/host.h>
#include <tenon/plugin.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/isolation/description.h"
#include "core/isolation/messages.h"
#include "core/isolation/process.h"
#include "core/plugin/library.h"
#include "core/plugin/settings.h"

namespace tenon {

// What an instance is made of, each time that a process for it is started.
struct IsolatedOrigin {
  std::string path, sha256;
  std::string interface, id;
  std::vector<Setting> settings;
  HostFacts host;
  const PipelineFacts* facts = nullptr;    // outlives the instance
  const HostServices* services = nullptr;  // likewise: lines and counts go there
  GuestProcess::Limits limits;
};

class IsolatedPlugin {
 public:
  // The values of `method` for messages: "plan".
  IsolatedPlugin(IsolatedOrigin origin, const LaneSizes& sizes);
  ~IsolatedPlugin();

  // A new process, and the instance in it. Error: it cannot be made, or the plugin's own.
  Status start();
  // Whether calls make sense: false once a call ended with the process, until `start`.
  bool runs() const { return runs_.load(std::memory_order_acquire); }

  // Ends the process, for a reason in words.
  void stop(std::string why);

  // What became of its processes. [any]
  ProcessLosses losses() const;
  // Who goes on now that one was lost.
  void note_sequel(std::string then);

  // One call on a lane: `write` puts the message, `read` takes the payload of a reply that says ok,
  // `on_question` answers. An error that is not the plugin's own is that of its process, and ends
  // it: "its process was ended by signal 9 (Killed) in plan".
  using Write = std::function<void(WireWriter&)>;
  using Read = std::function<void(WireReader&)>;
  using OnQuestion = std::function<void(const Lane&)>;
  Status call(uint32_t lane, GuestMethod method, const char* name, const Write& write,
              const Read& read = {}, const OnQuestion& on_question = {});

  const std::string& id() const { return origin_.id; }
  const IsolatedOrigin& origin() const { return origin_; }
  pid_t process() const { return process_.id(); }

 private:
  Status control(GuestMethod method, const Write& more, const Read& read);
  Status hear(const Lane& lane, const Read& read);
  void take_notes(WireReader& in);
  void note_loss(std::string why);
  void tell_refused();
  std::string log_name() const;  // "scheduler acme.mine": leads its log lines

  const IsolatedOrigin origin_;
  const LaneSizes sizes_;
  GuestProcess process_;
  std::atomic<bool> runs_{false};
  std::atomic<bool> told_refused_{false};
  mutable std::mutex losses_mutex_;
  ProcessLosses losses_;
};

// What a process is asked before an instance is made. [control]
Result<std::unique_ptr<DescribedLibrary>> describe_in_process(const std::string& path,
                                                              const std::string& sha256,
                                                              const GuestProcess::Limits& limits);
struct DescribedWithScores {
  std::unique_ptr<DescribedLibrary> library;
  std::vector<uint32_t> scores;  // of its descriptors
};
Result<DescribedWithScores> examine_in_process(const std::string& path, const HostFacts& host,
                                               const GuestProcess::Limits& limits);
Result<uint32_t> score_in_process(const std::string& path, const std::string& sha256,
                                  const PluginDescriptor& descriptor, const HostFacts& host,
                                  const GuestProcess::Limits& limits);

}  // namespace tenon
