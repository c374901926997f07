#include "core/compare/replay/views.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "core/base/files/mapped_file.h"
#include "core/base/json/json_fault.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::compare {
namespace {

Json sequence_json(const SequenceView& s, KvLedger& ledger) {
  const CachedTokens cached = ledger.cached(s.seq);
  const HeldTokens held = ledger.held(s.seq);
  return {{"seq", s.seq},
          {"prompt", s.prompt_tokens},
          {"known", s.known_tokens},
          {"computed", s.computed_tokens},
          {"in_flight", s.in_flight_tokens},
          {"limit", s.limit_tokens},
          {"drafts", s.offered_drafts},
          {"fork_group", s.fork_group},
          {"samples", s.samples},
          {"tenant", s.tenant},
          {"priority", s.priority},
          {"whole", s.whole_tokens},
          {"adapter", s.adapter},
          {"arrival_ns", s.arrival_ns},
          {"deadline_ns", s.deadline_ns},
          {"ready", cached.ready},
          {"promised", cached.promised},
          {"held", held.tokens},
          {"exclusive", held.exclusive}};
}

Json list_json(std::span<const SequenceView> sequences, KvLedger& ledger) {
  Json out = Json::array();
  for (const SequenceView& sequence : sequences) out.push_back(sequence_json(sequence, ledger));
  return out;
}

Json view_json(const SchedulerView& view, KvLedger& ledger) {
  const StepCost& last = view.last_step;
  return {
      {"step", view.step_id},
      {"now_ns", view.now_ns},
      {"max_sequences", view.limits.max_sequences},
      {"max_batch_tokens", view.limits.max_batch_tokens},
      {"context_tokens", view.limits.context_tokens},
      {"kv_tokens", view.kv_tokens},
      {"free_tokens", ledger.free_tokens()},
      {"last_step", {last.step_id, last.rows, last.sequences, last.logits_rows, last.duration_ns}},
      {"waiting", list_json(view.waiting, ledger)},
      {"running", list_json(view.running, ledger)}};
}

Json grants_json(const PlanOut& out) {
  Json grants = Json::array();
  for (const Grant& grant : out.grants.first(out.grant_count)) {
    grants.push_back({grant.seq, grant.tokens, grant.drafts});
  }
  return grants;
}

struct RecordedSequence {
  CachedTokens cached;
  HeldTokens held;
  bool running = false;
};

// A view that was read back, with what its ledger would have said.
struct RecordedView {
  SchedulerView view;
  std::vector<SequenceView> waiting, running;
  std::map<SeqId, RecordedSequence> memory;
  uint64_t free_tokens = 0;
  std::map<SeqId, std::pair<uint32_t, uint32_t>> grants;
};

void read_sequences(const Json& list, bool running, RecordedView& out) {
  for (const Json& json : list) {
    SequenceView s;
    json.at("seq").get_to(s.seq);
    json.at("prompt").get_to(s.prompt_tokens);
    json.at("known").get_to(s.known_tokens);
    json.at("computed").get_to(s.computed_tokens);
    json.at("in_flight").get_to(s.in_flight_tokens);
    json.at("limit").get_to(s.limit_tokens);
    json.at("drafts").get_to(s.offered_drafts);
    json.at("fork_group").get_to(s.fork_group);
    json.at("samples").get_to(s.samples);
    json.at("tenant").get_to(s.tenant);
    json.at("priority").get_to(s.priority);
    json.at("whole").get_to(s.whole_tokens);
    json.at("adapter").get_to(s.adapter);
    json.at("arrival_ns").get_to(s.arrival_ns);
    json.at("deadline_ns").get_to(s.deadline_ns);
    (running ? out.running : out.waiting).push_back(s);
    RecordedSequence& memory = out.memory[s.seq];
    memory.running = running;
    json.at("ready").get_to(memory.cached.ready);
    json.at("promised").get_to(memory.cached.promised);
    json.at("held").get_to(memory.held.tokens);
    json.at("exclusive").get_to(memory.held.exclusive);
  }
}

void read_view(const Json& json, RecordedView& out) {
  json.at("step").get_to(out.view.step_id);
  json.at("now_ns").get_to(out.view.now_ns);
  json.at("max_sequences").get_to(out.view.limits.max_sequences);
  json.at("max_batch_tokens").get_to(out.view.limits.max_batch_tokens);
  json.at("context_tokens").get_to(out.view.limits.context_tokens);
  json.at("kv_tokens").get_to(out.view.kv_tokens);
  json.at("free_tokens").get_to(out.free_tokens);
  const Json& last = json.at("last_step");
  out.view.last_step = {last.at(0), last.at(1), last.at(2), last.at(3), last.at(4)};
  read_sequences(json.at("waiting"), false, out);
  read_sequences(json.at("running"), true, out);
  out.view.waiting = out.waiting;
  out.view.running = out.running;
  for (const Json& grant : json.at("grants")) {
    out.grants[grant.at(0).get<SeqId>()] = {grant.at(1), grant.at(2)};
  }
}

// Answers as the recorded memory would have: exact in what was free, cached and held when the plan
// began; a token costs a token, which block sizes make a little more.
class RecordedLedger final : public KvLedger {
 public:
  explicit RecordedLedger(RecordedView& recorded)
      : recorded_(recorded), free_(recorded.free_tokens) {}

  CachedTokens cached(SeqId seq) noexcept override { return recorded_.memory[seq].cached; }
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override {
    const uint32_t ready = recorded_.memory[seq].cached.ready;
    return tokens > ready ? tokens - ready : 0;
  }
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override {
    RecordedSequence& sequence = recorded_.memory[seq];
    const uint32_t reused = sequence.running ? 0 : std::min(sequence.cached.ready, at_most - 1);
    const uint32_t wanted = at_most - reused;
    const uint32_t least = at_least > reused ? at_least - reused : 1;
    const auto granted = static_cast<uint32_t>(std::min<uint64_t>(wanted, free_));
    if (granted < least) return {};
    free_ -= granted;
    sequence.running = granted_[seq] = true;
    return {.granted = granted, .reused = reused};
  }
  HeldTokens held(SeqId seq) noexcept override { return recorded_.memory[seq].held; }
  bool release(SeqId seq, ReleaseHow how) noexcept override {
    RecordedSequence& sequence = recorded_.memory[seq];
    if (how == ReleaseHow::end || !sequence.running || granted_[seq]) return false;
    sequence.running = false;
    free_ += sequence.held.exclusive;
    sequence.held = {};
    return true;
  }
  uint64_t free_tokens() noexcept override { return free_; }

 private:
  RecordedView& recorded_;
  uint64_t free_;
  std::map<SeqId, bool> granted_;
};

std::string grant_text(const std::map<SeqId, std::pair<uint32_t, uint32_t>>& grants, SeqId seq) {
  const auto found = grants.find(seq);
  if (found == grants.end()) return "nothing";
  return std::to_string(found->second.first) + " tokens" +
         (found->second.second > 0 ? " and " + std::to_string(found->second.second) + " drafts"
                                   : "");
}

std::vector<std::string> difference_lines(
    const RecordedView& recorded, const std::map<SeqId, std::pair<uint32_t, uint32_t>>& grants) {
  std::vector<std::string> out = {"step " + std::to_string(recorded.view.step_id) + ": " +
                                  std::to_string(recorded.running.size()) + " of " +
                                  std::to_string(recorded.view.limits.max_sequences) +
                                  " rows run, " + std::to_string(recorded.waiting.size()) +
                                  " sequences wait, " + std::to_string(recorded.free_tokens) +
                                  " of " + std::to_string(recorded.view.kv_tokens) +
                                  " tokens of memory are free"};
  for (const auto* list : {&recorded.running, &recorded.waiting}) {
    for (const SequenceView& sequence : *list) {
      const std::string was = grant_text(recorded.grants, sequence.seq);
      const std::string is = grant_text(grants, sequence.seq);
      if (was == is) continue;
      out.push_back("  sequence " + std::to_string(sequence.seq) + " (" +
                    (list == &recorded.running ? "runs" : "waits") + ", " +
                    std::to_string(sequence.computed_tokens) + " of " +
                    std::to_string(sequence.known_tokens) + " tokens computed): recorded " + was +
                    ", here " + is);
    }
  }
  return out;
}

// One line of the record. False where the decision is another one.
Result<bool> replay_line(Scheduler& scheduler, const Json& json, ReplayedViews& out) {
  if (const auto event = json.find("event"); event != json.end()) {
    const Json& e = *event;
    TENON_RETURN_IF_ERROR(scheduler.on_event({.kind = static_cast<EventKind>(e.at(0).get<int>()),
                                              .seq = e.at(1),
                                              .step_id = e.at(2),
                                              .tenant = e.at(3),
                                              .prompt_tokens = e.at(4),
                                              .known_tokens = e.at(5),
                                              .computed_tokens = e.at(6),
                                              .accepted_drafts = e.at(7)}));
    return true;
  }
  RecordedView recorded;
  read_view(json, recorded);
  RecordedLedger ledger(recorded);
  std::vector<Grant> room(recorded.waiting.size() + recorded.running.size());
  PlanOut plan;
  plan.grants = room;
  TENON_RETURN_IF_ERROR(scheduler.plan(recorded.view, ledger, plan));
  std::map<SeqId, std::pair<uint32_t, uint32_t>> grants;
  for (const Grant& grant : plan.grants.first(plan.grant_count)) {
    grants[grant.seq] = {grant.tokens, grant.drafts};
  }
  if (grants == recorded.grants) {
    ++out.plans;
    return true;
  }
  out.differ = true;
  out.lines = difference_lines(recorded, grants);
  return false;
}

}  // namespace

Result<std::unique_ptr<ViewRecorder>> ViewRecorder::open(Scheduler& scheduler,
                                                         const std::string& path) {
  std::FILE* opened = std::fopen(path.c_str(), "w");
  if (opened == nullptr) {
    return failed(path_in_quotes(path) + " cannot be written: " + std::strerror(errno));
  }
  const std::shared_ptr<std::FILE> file(opened, &std::fclose);
  return std::make_unique<ViewRecorder>(scheduler, [file](const Json& line) -> Status {
    const std::string text = line.dump() + "\n";
    if (std::fwrite(text.data(), 1, text.size(), file.get()) == text.size()) return {};
    return failed(std::string("a scheduler's view cannot be written: ") + std::strerror(errno));
  });
}

Status ViewRecorder::on_event(const SequenceEvent& e) noexcept {
  TENON_RETURN_IF_ERROR(
      sink_({{"event",
              {static_cast<int>(e.kind), e.seq, e.step_id, e.tenant, e.prompt_tokens,
               e.known_tokens, e.computed_tokens, e.accepted_drafts}}}));
  return scheduler_.on_event(e);
}

Status ViewRecorder::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  // Before the plan, which changes the ledger.
  Json line = view_json(view, ledger);
  TENON_RETURN_IF_ERROR(scheduler_.plan(view, ledger, out));
  line["grants"] = grants_json(out);
  return sink_(line);
}

std::string place_of_line(const std::string& path, size_t number) {
  return path + ":" + std::to_string(number);
}

Status each_line(const std::string& path,
                 const std::function<Result<bool>(size_t number, Json line)>& function) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) {
    return Status::error(
        file.status().code(),
        message_of(file.status()) + " – a comparison that was recorded has it (--record)");
  }
  std::string_view rest(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    Json line = Json::parse(text, nullptr, false);
    if (line.is_discarded()) {
      return invalid_argument(place_of_line(path, number) + ": not a line of JSON");
    }
    TENON_ASSIGN_OR_RETURN(const bool goes_on, function(number, std::move(line)));
    if (!goes_on) break;
  }
  return {};
}

Result<ReplayedViews> replay_views(Scheduler& scheduler, const std::string& path) {
  ReplayedViews out;
  bool has_lines = false;
  const auto replayed = [&](size_t number, const Json& line) -> Result<bool> {
    has_lines = true;
    const std::string place = place_of_line(path, number);
    try {
      Result<bool> same = replay_line(scheduler, line, out);
      if (same.ok()) return *same;
      return with_context(place, same.status());
    } catch (const nlohmann::json::exception& error) {
      return invalid_argument(place + ": " + json_fault(error.what()));
    }
  };
  TENON_RETURN_IF_ERROR(each_line(path, replayed));
  if (!has_lines) return invalid_argument(path_in_quotes(path) + " has no views – record again");
  return out;
}

}  // namespace tenon::compare
