#include "tests/scenario/scenario.h"

#include <charconv>
#include <sstream>

namespace tenon {
namespace {

std::vector<std::string> split_words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words, size_t from = 0) {
  std::string out;
  for (size_t i = from; i < words.size(); ++i) out += (out.empty() ? "" : " ") + words[i];
  return out;
}

bool number(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// "48+9x3": 48 tokens 7, then 9 tokens 3.
bool prompt(const std::string& text, std::vector<TokenId>& out) {
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, '+');) {
    const size_t times = part.find('x');
    uint64_t count = 0, token = 7;
    if (!number(std::string_view(part).substr(0, times), count)) return false;
    if (times != part.npos && !number(std::string_view(part).substr(times + 1), token))
      return false;
    out.insert(out.end(), count, static_cast<TokenId>(token));
  }
  return true;
}

std::string differs(const std::string& what, const std::string& found,
                    const std::string& expected) {
  return found == expected ? "" : what + " is '" + found + "', expected '" + expected + "'";
}

}  // namespace

Status PlanRecorder::plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept {
  waiting.assign(view.waiting.begin(), view.waiting.end());
  running.assign(view.running.begin(), view.running.end());
  for (const auto& list : {view.waiting, view.running}) {
    for (const SequenceView& sequence : list) request_of[sequence.seq] = sequence.fork_group;
  }
  Status status = scheduler_.plan(view, ledger, out);
  grants.assign(out.grants.begin(), out.grants.begin() + out.grant_count);
  idle_rows = out.idle_rows;
  int64_t rows = 0;
  for (const Grant& grant : grants) rows += grant.tokens + grant.drafts;
  clock->advance(step_ns + row_ns * rows);
  return status;
}

Status ScenarioDrafter::offer(std::span<const DraftRequest> requests,
                              std::span<uint32_t> out) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) out[i] = std::min(offered, requests[i].max_tokens);
  return {};
}

Status ScenarioDrafter::draft(std::span<const DraftRequest> requests,
                              std::span<DraftOut> out) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    out[i].count = requests[i].max_tokens;
    for (uint32_t d = 0; d < out[i].count; ++d) {
      out[i].tokens[d] = d < right ? right_token : right_token + 1;
    }
  }
  return {};
}

std::string Scenario::run(std::string_view text, const std::string& name) {
  Scenario scenario;
  scenario.options_.sampler = "replay";
  scenario.options_.sampler_options = "tokens=1";
  scenario.options_.kv_tokens = 0;
  std::istringstream in{std::string(text)};
  uint32_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string problem = scenario.line(line.substr(0, line.find('#')));
    if (!problem.empty()) return name + ":" + std::to_string(number) + ": " + problem;
  }
  return scenario.rig_ == nullptr ? name + ": nothing was run" : "";
}

std::string Scenario::line(const std::string& text) {
  // The text after a colon with a space is free.
  const size_t colon = text.find(": ");
  const std::string tail = colon == text.npos ? "" : joined(split_words(text.substr(colon + 2)));
  const Words words = split_words(text.substr(0, colon));
  if (words.empty()) return "";
  const std::string& verb = words[0];
  const bool acts = verb == "request" || verb == "refused" || verb == "cancel" || verb == "step" ||
                    verb == "steps" || verb == "expect" || verb == "end" || verb == "drain";
  if (!acts) return rig_ == nullptr ? setting(words) : "'" + verb + "' is no verb";
  if (rig_ == nullptr) {
    if (std::string problem = begin(); !problem.empty()) return problem;
  }
  if (verb == "request") return request(words, "");
  if (verb == "refused") return request(words, tail);
  if (verb == "step") return step(joined(words, 1));
  if (verb == "steps") return steps(words);
  if (verb == "expect") return expect(words);
  if (verb == "end") return end(words, tail);
  if (verb == "cancel" && words.size() == 2 && ids_.contains(words[1])) {
    rig_->engine().cancel(ids_[words[1]]);
    return "";
  }
  if (verb == "drain") {
    if (Status done = rig_->engine().run_until_idle(10000); !done.ok()) {
      return std::string(done.message());
    }
    KvUsage usage;
    if (Status counted = rig_->kv_cache().usage(0, usage); !counted.ok()) {
      return std::string(counted.message());
    }
    return usage.free_tokens == usage.total_tokens ? "" : "memory was left behind";
  }
  return "'" + joined(words) + "' cannot be read";
}

std::string Scenario::setting(const Words& words) {
  const std::string& key = words[0];
  if (words.size() < 2) return "'" + key + "' needs a value";
  if (key == "scheduler") {
    options_.scheduler = words[1];
    options_.scheduler_options = joined(words, 2);
    return "";
  }
  if (key == "sampler") {
    options_.sampler = words[1];
    options_.sampler_options.clear();
    return "";
  }
  if (key == "drafter") {
    options_.drafter_plugin = words[1];
    options_.drafter_options = joined(words, 2);
    return "";
  }
  if (key == "second_model") {
    // The model itself, but for one row in so many.
    uint64_t every = 0;
    if (!number(words[1], every)) return "'second_model' needs a number";
    second_model_every_ = static_cast<uint32_t>(every);
    return "";
  }
  if (key == "kv_cache") {
    options_.kv_cache = words[1];
    options_.kv_cache_options = joined(words, 2);
    return "";
  }
  if (key == "answer") return options_.sampler_options = "tokens=" + joined(words, 1), "";
  uint64_t value = 0;
  const bool counts = number(words[1], value);
  const auto small = static_cast<uint32_t>(value);
  if (!counts) return "'" + key + " " + words[1] + "' is no setting";
  if (key == "block_tokens") return options_.block_tokens = small, "";
  if (key == "blocks") return blocks_ = value, "";
  if (key == "swap_blocks") return swap_blocks_ = value, "";
  if (key == "step_cost") return step_ns_ = static_cast<int64_t>(value), "";
  if (key == "row_cost") return row_ns_ = static_cast<int64_t>(value), "";
  if (key == "max_sequences") return options_.max_sequences = small, "";
  if (key == "max_batch_tokens") return options_.max_batch_tokens = small, "";
  if (key == "context_tokens") return options_.context_tokens = small, "";
  if (key == "window_tokens") return options_.window_tokens = small, "";
  if (key == "eos") return options_.eos_tokens.push_back(static_cast<TokenId>(value)), "";
  if (key == "drafts" || key == "right_drafts") {
    options_.drafter = &drafter_;
    (key == "drafts" ? drafter_.offered : drafter_.right) = small;
    return "";
  }
  return "'" + key + "' is no setting";
}

std::string Scenario::begin() {
  const bool naive = options_.kv_cache == "naive";
  const uint32_t block = naive ? options_.context_tokens : options_.block_tokens;
  options_.kv_tokens = static_cast<uint32_t>(blocks_ * block);
  options_.swap_tokens = static_cast<uint32_t>(swap_blocks_ * block);
  plugin_ = std::make_unique<LoadedPlugin<Scheduler>>("scheduler", options_.scheduler,
                                                      options_.scheduler_options);
  if (!plugin_->error().empty()) return plugin_->error();
  recorder_ = std::make_unique<PlanRecorder>(**plugin_);
  options_.own_scheduler = recorder_.get();
  if (second_model_every_) {
    options_.second_model =
        ToyModel{options_.vocabulary, options_.window_tokens, *second_model_every_};
  }
  options_.engine.on_step = [this](const StepRecord& record) { last_ = record; };
  try {
    rig_ = std::make_unique<Rig>(options_);
  } catch (const std::exception& error) {
    return error.what();
  }
  recorder_->clock = &rig_->clock();
  recorder_->step_ns = step_ns_;
  recorder_->row_ns = row_ns_;
  return "";
}

std::string Scenario::request(const Words& words, std::string_view expected_refusal) {
  if (words.size() < 2) return "a request needs a name";
  Request made;
  made.sampling.temperature = 0.0f;
  made.max_tokens = 4;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    uint64_t value = 0;
    if (equals != std::string::npos && key == "prompt") {
      if (!prompt(words[i].substr(equals + 1), made.prompt)) {
        return "'" + words[i] + "' must be prompt=N+N+NxID…";
      }
      continue;
    }
    if (equals == std::string::npos ||
        !number(std::string_view(words[i]).substr(equals + 1), value)) {
      return "'" + words[i] + "' must be key=number";
    }
    const auto small = static_cast<uint32_t>(value);
    if (key == "salt") {
      made.cache_salt = value;
    } else if (key == "common") {
      // After them, tokens that no other request has at this place.
      for (size_t at = value; at < made.prompt.size(); ++at) {
        made.prompt[at] = static_cast<TokenId>((at * 7 + ids_.size() * 13) % options_.vocabulary);
      }
    } else if (key == "max") {
      made.max_tokens = small;
    } else if (key == "min") {
      made.min_tokens = small;
    } else if (key == "samples") {
      made.samples = small;
    } else if (key == "stop") {
      made.stop_tokens.push_back(static_cast<TokenId>(value));
    } else if (key == "ignore_eos") {
      made.ignore_eos = value != 0;
    } else if (key == "priority") {
      made.priority = static_cast<int32_t>(value);
    } else if (key == "tenant") {
      made.tenant = small;
    } else {
      return "'" + key + "' is nothing that a request has";
    }
  }
  if (!expected_refusal.empty()) {
    Result<RequestId> id = rig_->engine().submit(std::move(made));
    if (id.ok()) return "the request was taken, expected '" + std::string(expected_refusal) + "'";
    return differs("the refusal", std::string(id.status().message()),
                   std::string(expected_refusal));
  }
  const RequestId id = rig_->submit(std::move(made));
  if (id == 0) return "the request was refused";
  ids_[words[1]] = id;
  names_[id] = words[1];
  return "";
}

std::string Scenario::name_of(SeqId seq) const {
  const auto found = recorder_->request_of.find(seq);
  if (found == recorder_->request_of.end()) return "?";
  // Samples get rising sequence ids.
  uint32_t sample = 0;
  for (const auto& [other, request] : recorder_->request_of) {
    sample += request == found->second && other < seq;
  }
  const std::string name = names_.at(found->second);
  return sample == 0 ? name : name + "." + std::to_string(sample);
}

std::string Scenario::planned() const {
  std::string text;
  for (const Grant& grant : recorder_->grants) {
    text += (text.empty() ? "" : " ") + name_of(grant.seq) + "=" + std::to_string(grant.tokens);
    if (grant.drafts > 0) text += "+" + std::to_string(grant.drafts);
  }
  return text.empty() ? "nothing" : text;
}

// steps COUNT [PLAN]
std::string Scenario::steps(const Words& words) {
  uint64_t count = 0;
  if (words.size() < 2 || !number(words[1], count))
    return "write: steps COUNT, or steps COUNT PLAN";
  for (uint64_t i = 1; i <= count; ++i) {
    const std::string problem = step(joined(words, 2));
    if (!problem.empty()) return "step " + std::to_string(i) + ": " + problem;
  }
  return "";
}

std::string Scenario::step(const std::string& plan) {
  recorder_->grants.clear();
  recorder_->idle_rows = 0;
  Status status = rig_->engine().step();
  if (!status.ok()) return std::string(status.message());
  if (!rig_->engine().last_fault().empty()) return rig_->engine().last_fault();
  return plan.empty() ? "" : differs("the plan", planned(), plan);
}

std::string Scenario::expect(const Words& words) {
  if (words.size() < 2) return "expect what?";
  const std::string& what = words[1];
  const auto views = [this](const std::vector<SequenceView>& list) {
    std::string text;
    for (const SequenceView& view : list) {
      text += (text.empty() ? "" : " ") + name_of(view.seq);
    }
    return text.empty() ? "nobody" : text;
  };
  KvUsage usage;
  if (Status status = rig_->kv_cache().usage(0, usage); !status.ok())
    return std::string(status.message());
  const uint64_t block =
      options_.kv_cache == "naive" ? options_.context_tokens : options_.block_tokens;
  std::string found;
  if (what == "waited") {
    found = views(recorder_->waiting);
  } else if (what == "ran") {
    found = views(recorder_->running);
  } else if (what == "free_blocks") {
    found = std::to_string(usage.free_tokens / block);
  } else if (what == "used_tokens") {
    found = std::to_string(usage.used_tokens);
  } else if (what == "cached_blocks") {
    found = std::to_string(usage.cached_tokens / block);
  } else if (what == "swapped_tokens") {
    found = std::to_string(usage.swapped_tokens);
  } else if (what == "reused") {
    found = std::to_string(last_.reused_tokens);
  } else if (what == "swapped_out") {
    found = std::to_string(last_.swapped_out_tokens);
  } else if (what == "swapped_in") {
    found = std::to_string(last_.swapped_in_tokens);
  } else if (what == "preemptions") {
    found = std::to_string(last_.preemptions);
  } else if (what == "moves") {
    found = std::to_string(last_.moves);
  } else if (what == "idle_rows") {
    found = std::to_string(last_.idle_rows);
  } else if (what == "drafts") {
    const DraftStatistics& drafts = rig_->engine().totals().drafts;
    found = std::to_string(drafts.drafts) + " " + std::to_string(drafts.tokens) + " " +
            std::to_string(drafts.accepted);
    for (const uint64_t kept : drafts.accepted_at) found += " " + std::to_string(kept);
  } else if (what == "accepted") {
    found = std::to_string(last_.accepted_drafts);
  } else if (what == "row_steps") {
    found = std::to_string(rig_->engine().totals().row_steps);
  } else if (what == "counter" && words.size() == 4) {
    found = words[2] + " " + std::to_string(plugin_->handle().counter(words[2]));
  } else {
    return "'" + what + "' cannot be expected";
  }
  return differs(what, found, joined(words, 2));
}

// end NAME[.sample] REASON TOKENS
std::string Scenario::end(const Words& words, std::string_view message) {
  if (words.size() != 4) return "write: end NAME REASON TOKENS";
  const size_t dot = words[1].find('.');
  const std::string name = words[1].substr(0, dot);
  uint64_t sample = 0;
  if (dot != std::string::npos) number(std::string_view(words[1]).substr(dot + 1), sample);
  if (!ids_.contains(name)) return "there is no request '" + name + "'";
  const auto& samples = rig_->sink(ids_[name])->samples();
  if (sample >= samples.size() || !samples[sample].ended) return words[1] + " has not ended";
  const ResultSink::Sample& result = samples[sample];
  const std::string found =
      std::string(finish_reason_name(result.reason)) + " " + std::to_string(result.tokens.size());
  std::string problem = differs("the end", found, words[2] + " " + words[3]);
  if (problem.empty() && !message.empty()) {
    problem = differs("the message", result.message, std::string(message));
  }
  return problem;
}

}  // namespace tenon
