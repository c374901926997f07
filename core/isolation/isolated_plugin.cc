#include "core/isolation/isolated_plugin.h"

#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr uint32_t kMostNotesTaken = 4096;
constexpr LaneSizes kAskingLane{.lanes = 1, .call_bytes = 1 << 20, .reply_bytes = 64 << 20};

Status status_in(WireReader& in) {
  const auto code = in.get<StatusCode>();
  const std::string_view text = in.get_text();
  if (code == StatusCode::ok) return {};
  return Status::error(code, text);
}

// Asks a process that lives for this question alone.
Status ask_once(GuestMethod method, const IsolatedPlugin::Write& write,
                const IsolatedPlugin::Read& read, const std::string& path,
                const GuestProcess::Limits& limits) {
  GuestProcess process;
  TENON_RETURN_IF_ERROR(process.start(kAskingLane, limits));
  const Lane lane = process.lane(0);
  WireWriter out(lane.call_room());
  write(out);
  const auto heard = process.call(lane, static_cast<uint32_t>(method), out.bytes(), [] {});
  if (!heard.replied) {
    return failed(path + ": the process that was to load it " + heard.why +
                  "; the file's own code did that: use another plugin");
  }
  WireReader in(lane.said());
  TENON_RETURN_IF_ERROR(status_in(in));
  for (auto notes = in.get<uint32_t>(); notes > 0 && in.ok(); --notes) {
    (void)in.get<GuestNote>();
    (void)in.get_text();
  }
  read(in);
  return in.ok() ? Status() : failed(path + ": its process answered nothing that can be read");
}

}  // namespace

IsolatedPlugin::IsolatedPlugin(IsolatedOrigin origin, const LaneSizes& sizes)
    : origin_(std::move(origin)), sizes_(sizes) {}

IsolatedPlugin::~IsolatedPlugin() {
  // One that does not let go is ended all the same.
  if (runs()) (void)control(GuestMethod::destroy, {}, {});
}

Status IsolatedPlugin::start() {
  runs_.store(false, std::memory_order_release);
  TENON_RETURN_IF_ERROR(process_.start(sizes_, origin_.limits));
  runs_.store(true, std::memory_order_release);
  Status made = control(GuestMethod::create,
                        [this](WireWriter& out) {
                          out.put_text(origin_.path);
                          out.put_text(origin_.sha256);
                          out.put_text(origin_.interface);
                          out.put_text(origin_.id);
                          out.put(origin_.host);
                          write_facts(*origin_.facts, out);
                          write_settings(origin_.settings, out);
                        },
                        {});
  if (!made.ok()) runs_.store(false, std::memory_order_release);
  if (process_.sandbox() == Sandbox::impossible) {
    log(LogLevel::warning, log_name(),
        "this kernel refuses no system calls: its process is kept from faults, not from malice");
  }
  return made;
}

void IsolatedPlugin::stop(std::string why) {
  const bool ran = runs_.exchange(false, std::memory_order_acq_rel);
  process_.end();
  if (ran) note_loss(std::move(why));
}

void IsolatedPlugin::note_loss(std::string why) {
  const std::lock_guard lock(losses_mutex_);
  ++losses_.times;
  losses_.why = std::move(why);
}

void IsolatedPlugin::note_sequel(std::string then) {
  const std::lock_guard lock(losses_mutex_);
  losses_.then = std::move(then);
}

ProcessLosses IsolatedPlugin::losses() const {
  const std::lock_guard lock(losses_mutex_);
  return losses_;
}

Status IsolatedPlugin::control(GuestMethod method, const Write& more, const Read& read) {
  const Lane lane = process_.lane(0);
  WireWriter out(lane.call_room());
  if (more) more(out);
  if (!out.ok()) return failed("its options and facts are longer than there is room");
  const auto heard = process_.call(lane, static_cast<uint32_t>(method), out.bytes(), [] {});
  if (heard.replied) return hear(lane, read);
  runs_.store(false, std::memory_order_release);
  return failed("its process " + heard.why);
}

Status IsolatedPlugin::call(uint32_t index, GuestMethod method, const char* name,
                            const Write& write, const Read& read, const OnQuestion& on_question) {
  if (!runs()) return failed("its process is gone");
  const Lane lane = process_.lane(index);
  WireWriter out(lane.call_room());
  out.put(origin_.services->now_ns(origin_.services->context));
  write(out);
  if (!out.ok()) {
    return failed(std::string(name) + " takes " + std::to_string(out.bytes()) +
                  " bytes – an isolated plugin can be told " +
                  std::to_string(lane.call_room().size()) +
                  " in one call; set engine.guard = \"checks\"");
  }
  const auto heard = process_.call(lane, static_cast<uint32_t>(method), out.bytes(), [&] {
    if (on_question) on_question(lane);
  });
  if (heard.replied) return hear(lane, read);
  tell_refused();
  const std::string why = "its process " + heard.why + " in " + name;
  // Of several threads that called, one lost it.
  if (runs_.exchange(false, std::memory_order_acq_rel)) note_loss(why);
  return failed(why);
}

std::string IsolatedPlugin::log_name() const {
  return std::string(interface_word(origin_.interface)) + " " + origin_.id;
}

// Once: a plugin that tries tries again.
void IsolatedPlugin::tell_refused() {
  const std::string_view call = process_.refused();
  if (call.empty() || told_refused_.exchange(true)) return;
  {
    const std::lock_guard lock(losses_mutex_);
    losses_.refused = call;
  }
  log(LogLevel::warning, log_name(),
      "it asked the system for " + in_quotes(call) +
          ", which was refused: an isolated plugin has no sockets, writes no files and starts no "
          "processes");
}

Status IsolatedPlugin::hear(const Lane& lane, const Read& read) {
  tell_refused();
  WireReader in(lane.said());
  Status status = status_in(in);
  take_notes(in);
  if (status.ok() && read) read(in);
  if (in.ok()) return status;
  return failed("its process answered nothing that can be read");
}

void IsolatedPlugin::take_notes(WireReader& in) {
  const HostServices& host = *origin_.services;
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostNotesTaken && in.ok(); ++i) {
    const auto note = in.get<GuestNote>();
    const std::string text(in.get_text());
    if (note.is_line) {
      host.log(host.context, std::min(note.level, LogLevel::error), text);
    } else {
      host.count(host.context, text, note.amount);
    }
  }
}

Result<std::unique_ptr<DescribedLibrary>> describe_in_process(const std::string& path,
                                                              const std::string& sha256,
                                                              const GuestProcess::Limits& limits) {
  std::unique_ptr<DescribedLibrary> described;
  Status problem;
  const Status asked = ask_once(
      GuestMethod::describe,
      [&](WireWriter& out) {
        out.put_text(path);
        out.put_text(sha256);
      },
      [&](WireReader& in) {
        auto read = DescribedLibrary::read(in, path);
        if (!read.ok()) {
          problem = read.take_status();
        } else {
          described = *std::move(read);
        }
      },
      path, limits);
  if (!asked.ok()) return copy(asked);
  if (!problem.ok()) return problem;
  return described;
}

Result<DescribedWithScores> examine_in_process(const std::string& path, const HostFacts& host,
                                               const GuestProcess::Limits& limits) {
  DescribedWithScores described;
  Status problem;
  const Status asked = ask_once(
      GuestMethod::examine,
      [&](WireWriter& out) {
        out.put_text(path);
        out.put_text({});
        out.put(host);
      },
      [&](WireReader& in) {
        auto read = DescribedLibrary::read(in, path);
        if (!read.ok()) {
          problem = read.take_status();
          return;
        }
        described.library = *std::move(read);
        described.scores.resize(described.library->library.descriptors.size());
        in.get_into(std::span(described.scores));
      },
      path, limits);
  if (!asked.ok()) return copy(asked);
  if (!problem.ok()) return problem;
  return described;
}

Result<uint32_t> score_in_process(const std::string& path, const std::string& sha256,
                                  const PluginDescriptor& descriptor, const HostFacts& host,
                                  const GuestProcess::Limits& limits) {
  uint32_t score = 0;
  const Status asked = ask_once(
      GuestMethod::score,
      [&](WireWriter& out) {
        out.put_text(path);
        out.put_text(sha256);
        out.put_text(descriptor.interface);
        out.put_text(descriptor.id);
        out.put(host);
      },
      [&](WireReader& in) { score = in.get<uint32_t>(); }, path, limits);
  if (!asked.ok()) return copy(asked);
  return score;
}

}  // namespace tenon
