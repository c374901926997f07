// From characters to symbols: a two-level array, so that text of any script is one lookup.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/tokenizer/models/pair_table.h"

namespace tenon::tok {

class RuneTable {
 public:
  static constexpr Symbol kNone = -1;

  RuneTable() : page_of_(kPages, 0), pages_(1) { pages_[0].fill(kNone); }

  void set(char32_t code, Symbol symbol) {
    uint16_t& page = page_of_[code >> 8];
    if (page == 0) {
      page = static_cast<uint16_t>(pages_.size());
      pages_.emplace_back().fill(kNone);
    }
    pages_[page][code & 255] = symbol;
  }
  Symbol find(char32_t code) const { return pages_[page_of_[code >> 8]][code & 255]; }

 private:
  static constexpr size_t kPages = 0x110000 >> 8;
  std::vector<uint16_t> page_of_;  // 0: the page without symbols
  std::vector<std::array<Symbol, 256>> pages_;
};

}  // namespace tenon::tok
