#include "tools/tenon/chat/slash.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

struct Slash {
  const char* name;
  const char* takes;  // after it, for people; empty: nothing
  const char* does;
  Result<SlashDoes> (*run)(const std::string& rest, ChatSession& session);
};
std::span<const Slash> slashes();

Result<SlashDoes> set_system(const std::string& text, ChatSession& session) {
  session.history().set_system(text);
  say(text.empty() ? "no system message" : "the system message is set");
  return SlashDoes::nothing;
}

Result<SlashDoes> save(const std::string& path, ChatSession& session) {
  if (path.empty()) return invalid_argument("/save needs the name of a file");
  TENON_RETURN_IF_ERROR(session.history().save(path));
  say("saved to " + path_in_quotes(path));
  return SlashDoes::nothing;
}

Result<SlashDoes> load(const std::string& path, ChatSession& session) {
  if (path.empty()) return invalid_argument("/load needs the name of a file");
  TENON_RETURN_IF_ERROR(session.history().load(path));
  say("loaded " + std::to_string(session.history().spoken()) + " messages");
  return SlashDoes::nothing;
}

Result<SlashDoes> set(const std::string& text, ChatSession& session) {
  if (text.empty()) {
    if (session.settings().empty()) say("nothing is set – /set temperature=0.7");
    for (const auto& [name, value] : session.settings()) say(name + " = " + value);
    return SlashDoes::nothing;
  }
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return invalid_argument(in_quotes(text) +
                            " has no '=' – write, for example, /set temperature=0.7");
  }
  const std::string name(trim(std::string_view(text).substr(0, equals)));
  TENON_RETURN_IF_ERROR(
      session.set(name, std::string(trim(std::string_view(text).substr(equals + 1)))));
  return SlashDoes::nothing;
}

Result<SlashDoes> stats(const std::string&, ChatSession& session) {
  const auto& figures = session.figures();
  if (!figures) {
    say("no answer yet");
    return SlashDoes::nothing;
  }
  const RequestRecord& record = figures->record;
  const double gap_ns = record.time_per_output_token_ns();
  char text[400];
  std::snprintf(text, sizeof(text),
                "%u tokens generated (%s), %.1f tokens/s; first token after %.0f ms; prompt %u "
                "tokens, %u of them cached; context %u of %u tokens",
                record.generated_tokens, std::string(finish_reason_name(figures->reason)).c_str(),
                gap_ns > 0.0 ? 1e9 / gap_ns : 0.0,
                static_cast<double>(record.time_to_first_token_ns()) * 1e-6, record.prompt_tokens,
                record.reused_tokens, session.context_used(), session.context_limit());
  say(text);
  return SlashDoes::nothing;
}

Result<SlashDoes> reset(const std::string&, ChatSession& session) {
  session.history().reset();
  say("the conversation begins anew");
  return SlashDoes::nothing;
}

Result<SlashDoes> undo(const std::string&, ChatSession& session) {
  if (!session.history().undo()) return invalid_argument("there is nothing to take back");
  say("taken back: " + std::to_string(session.history().spoken()) + " messages are left");
  return SlashDoes::nothing;
}

Result<SlashDoes> regenerate(const std::string&, ChatSession& session) {
  if (!session.history().drop_answer()) return invalid_argument("there is no answer yet");
  session.draw_anew();
  return SlashDoes::answers;
}

Result<SlashDoes> tool(const std::string& text, ChatSession& session) {
  TENON_RETURN_IF_ERROR(session.history().add_tool_result(text));
  return session.history().open_calls() == 0 ? SlashDoes::answers : SlashDoes::nothing;
}

Result<SlashDoes> help(const std::string&, ChatSession&) {
  for (const Slash& slash : slashes()) {
    char line[200];
    std::snprintf(line, sizeof(line), "/%-11s %-13s %s", slash.name, slash.takes, slash.does);
    say(line);
  }
  say("a line that ends in \\ goes on in the next; // begins a message with a slash");
  return SlashDoes::nothing;
}

Result<SlashDoes> quit(const std::string&, ChatSession&) {
  return SlashDoes::quits;
}

std::span<const Slash> slashes() {
  static const Slash kSlashes[] = {
      {"system", "TEXT", "what the model is told first; without a text: nothing", set_system},
      {"set", "NAME=VALUE", "a parameter by its name, as temperature; without a value: as before",
       set},
      {"stats", "", "speed, time to the first token, cached tokens, context used", stats},
      {"undo", "", "takes back what you said last, and the answer", undo},
      {"regenerate", "", "another answer to what you said last", regenerate},
      {"tool", "RESULT", "the result of a call that the model made", tool},
      {"save", "FILE", "writes the conversation as JSON", save},
      {"load", "FILE", "goes on with one that was saved", load},
      {"reset", "", "begins anew; the system message stays", reset},
      {"help", "", "this list", help},
      {"quit", "", "ends the program, as Ctrl-D does", quit},
  };
  return kSlashes;
}

}  // namespace

Result<SlashDoes> run_slash(std::string_view line, ChatSession& session) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view name = line.substr(1, end - 1);
  const std::string rest(trim(line.substr(end)));
  std::vector<std::string> names;
  for (const Slash& slash : slashes()) {
    if (name == slash.name) {
      if (slash.takes[0] == '\0' && !rest.empty()) {
        return invalid_argument("/" + std::string(name) + " takes nothing behind it");
      }
      return slash.run(rest, session);
    }
    names.emplace_back(slash.name);
  }
  return invalid_argument("there is no command " + in_quotes(line.substr(0, end)) +
                          " – /help lists them" + did_you_mean(name, names));
}

}  // namespace tenon
