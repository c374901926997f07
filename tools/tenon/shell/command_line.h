// Commands and options of the command line. CLI11 parses it, whose header costs a source that
// includes it five seconds to compile, so commands see these two handles instead. They name what
// the program's parser owns, and live as long as it does; copies name the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tenon {

// An option ("--model") or a positional argument ("folder"). What changes it returns it again.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  Option group(const std::string& heading) const;   // of --help; an empty one hides the option
  Option type_name(const std::string& name) const;  // what stands for its value: "FILE"
  Option description(const std::string& sentence) const;
  Option one_of(const std::vector<std::string>& words) const;  // all others are wrong usage
  Option without_value() const;                                // "--flag=false" is wrong usage
  // Given together with the other, or without it, is wrong usage.
  Option excludes(Option other) const;
  Option excludes(const std::string& other) const;
  Option needs(Option other) const;

  bool given() const;  // once the command line is parsed
  bool operator==(const Option&) const = default;

 private:
  CLI::Option* option_;
};

// The program, or a command of it. Options that are named twice ("--output,-o") are one.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const std::string& name, const std::string& sentence) const;
  void require_subcommand() const;  // nothing runs without one
  void hide() const;                // from --help
  // Called once the command was chosen and its options are set.
  void callback(std::function<void()> chosen) const;

  // "!--no-echo" sets false.
  Option add_flag(const std::string& name, bool& out, const std::string& sentence) const;
  Option add_flag(const std::string& name, std::function<void(bool)> take,
                  const std::string& sentence) const;
  Option add_option(const std::string& name, std::string& out, const std::string& sentence) const;
  Option add_option(const std::string& name, std::optional<std::string>& out,
                    const std::string& sentence) const;
  Option add_option(const std::string& name, std::vector<std::string>& out,
                    const std::string& sentence) const;
  // `take` may refuse what it gets.
  Option add_option(const std::string& name, std::function<void(const std::string&)> take,
                    const std::string& sentence) const;
  // May be repeated, with one text at a time; `take` gets all of them.
  Option add_list(const std::string& name,
                  std::function<void(const std::vector<std::string>&)> take,
                  const std::string& sentence) const;
  // The option must be there.
  Option get_option(const std::string& name) const;
  void remove_option(const std::string& name) const;

  // Once the command line is parsed.
  bool given(const std::string& option) const;
  bool subcommand_chosen() const;

  CLI::App& parser() const { return *app_; }

 private:
  CLI::App* app_;
};

// Both end the parsing of a command line that is wrong usage, and return if it is not.
// Refuses what was given to `option` if `fault` says anything.
void refuse(const std::string& option, const std::string& fault);
// Refuses a command line that lacks `what`.
void refuse_without(bool given, const std::string& what);

}  // namespace tenon
