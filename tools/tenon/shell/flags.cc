#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

std::string empty_fault(const std::string& name, const std::string& text) {
  if (!text.empty()) return "";
  return name + " is empty – it must have a character at least – write it or leave it out";
}

}  // namespace

void refuse(const std::string& option, const std::string& fault) {
  if (fault.empty()) return;
  throw CLI::ValidationError(fault.starts_with(option) ? fault : option + ": " + fault);
}

CLI::Option* add_number_option(CLI::App& command, const NumberSpec& spec,
                               const std::string& sentence,
                               std::function<void(const WrittenNumber&)> set) {
  const std::string name(spec.name);
  return command
      .add_option_function<std::string>(
          name,
          [name, spec, set = std::move(set)](const std::string& text) {
            const WrittenNumber written = written_number(text);
            NumberSpec named = spec;
            named.name = name;
            refuse(name, number_fault(named, written));
            set(written);
          },
          sentence + "; " + range_text(spec))
      ->type_name(spec.whole ? "N" : "X");
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& out,
                      const std::string& sentence) {
  return command.add_option_function<std::string>(
      name,
      [name, &out](const std::string& text) {
        refuse(name, empty_fault(name, text));
        out = text;
      },
      sentence);
}

CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& out,
                       const std::string& sentence) {
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [name, &out](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) refuse(name, empty_fault(name, text));
            out = texts;
          },
          sentence)
      ->allow_extra_args(false);
}

}  // namespace tenon
