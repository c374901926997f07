#include "tools/tenon/process/typed_command.h"

#include <fstream>

#include "core/base/quote.h"

namespace tenon {

std::string typed_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string out;
  for (std::string word; std::getline(file, word, '\0');) {
    out += (out.empty() ? "" : " ") + shell_word(word);
  }
  return out;
}

}  // namespace tenon
