#include "tools/tenon/shell/command_line.h"

#include <CLI/CLI.hpp>

namespace tenon {

using Texts = std::vector<std::string>;

Option Option::required() const {
  return Option(*option_->required());
}
Option Option::group(const std::string& heading) const {
  return Option(*option_->group(heading));
}
Option Option::type_name(const std::string& name) const {
  return Option(*option_->type_name(name));
}
Option Option::description(const std::string& sentence) const {
  return Option(*option_->description(sentence));
}
Option Option::one_of(const Texts& words) const {
  return Option(*option_->check(CLI::IsMember(words)));
}
Option Option::without_value() const {
  return Option(*option_->disable_flag_override());
}
Option Option::excludes(Option other) const {
  return Option(*option_->excludes(other.option_));
}
Option Option::excludes(const std::string& other) const {
  return Option(*option_->excludes(other));
}
Option Option::needs(Option other) const {
  return Option(*option_->needs(other.option_));
}
bool Option::given() const {
  return option_->count() > 0;
}

Command Command::add_subcommand(const std::string& name, const std::string& sentence) const {
  return Command(*app_->add_subcommand(name, sentence));
}
void Command::require_subcommand() const {
  app_->require_subcommand(1);
}
void Command::hide() const {
  app_->group("");
}
void Command::callback(std::function<void()> chosen) const {
  app_->callback(std::move(chosen));
}

Option Command::add_flag(const std::string& name, bool& out, const std::string& sentence) const {
  return Option(*app_->add_flag(name, out, sentence));
}
Option Command::add_flag(const std::string& name, std::function<void(bool)> take,
                         const std::string& sentence) const {
  return Option(*app_->add_flag_function(
      name, [take = std::move(take)](int64_t count) { take(count > 0); }, sentence));
}
Option Command::add_option(const std::string& name, std::string& out,
                           const std::string& sentence) const {
  return Option(*app_->add_option(name, out, sentence));
}
Option Command::add_option(const std::string& name, std::optional<std::string>& out,
                           const std::string& sentence) const {
  return Option(*app_->add_option(name, out, sentence));
}
Option Command::add_option(const std::string& name, Texts& out, const std::string& sentence) const {
  return Option(*app_->add_option(name, out, sentence));
}
Option Command::add_option(const std::string& name, std::function<void(const std::string&)> take,
                           const std::string& sentence) const {
  return Option(*app_->add_option_function<std::string>(name, take, sentence));
}
Option Command::add_list(const std::string& name, std::function<void(const Texts&)> take,
                         const std::string& sentence) const {
  return Option(*app_->add_option_function<Texts>(name, take, sentence)->allow_extra_args(false));
}
Option Command::get_option(const std::string& name) const {
  return Option(*app_->get_option(name));
}
void Command::remove_option(const std::string& name) const {
  app_->remove_option(app_->get_option(name));
}
bool Command::given(const std::string& option) const {
  return app_->count(option) > 0;
}
bool Command::subcommand_chosen() const {
  return !app_->get_subcommands().empty();
}

void refuse(const std::string& option, const std::string& fault) {
  if (fault.empty()) return;
  throw CLI::ValidationError(fault.starts_with(option) ? fault : option + ": " + fault);
}

void refuse_without(bool given, const std::string& what) {
  if (!given) throw CLI::RequiredError(what);
}

}  // namespace tenon
