#include "tools/tenon/shell/flags.h"

#include "core/hub/cache.h"

namespace tenon {
namespace {

std::string empty_fault(const std::string& name, const std::string& text) {
  if (!text.empty()) return "";
  return name + " is empty – it must have a character at least – write it or leave it out";
}

}  // namespace

Option add_number_option(Command command, const NumberSpec& spec, const std::string& sentence,
                         std::function<void(const WrittenNumber&)> set) {
  const std::string name(spec.name);
  return command
      .add_option(
          name,
          [name, spec, set = std::move(set)](const std::string& text) {
            const WrittenNumber written = written_number(text);
            NumberSpec named = spec;
            named.name = name;
            refuse(name, number_fault(named, written));
            set(written);
          },
          sentence + "; " + range_text(spec))
      .type_name(spec.whole ? "N" : "X");
}

Option add_text(Command command, const std::string& name, std::string& out,
                const std::string& sentence) {
  return command.add_option(
      name,
      [name, &out](const std::string& text) {
        refuse(name, empty_fault(name, text));
        out = text;
      },
      sentence);
}

Option add_model(Command command, const std::string& name, std::string& out,
                 const std::string& sentence) {
  return command.add_option(
      name,
      [name, &out](const std::string& text) {
        refuse(name, empty_fault(name, text));
        out = hub::find_model(text);
      },
      sentence);
}

Option add_texts(Command command, const std::string& name, std::vector<std::string>& out,
                 const std::string& sentence) {
  return command.add_list(
      name,
      [name, &out](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) refuse(name, empty_fault(name, text));
        out = texts;
      },
      sentence);
}

}  // namespace tenon
