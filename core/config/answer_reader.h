// AnswerSettings from a TOML table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/config/answer_settings.h"
#include "core/config/table_reader.h"

namespace tenon {

// The keys that `read_answer` knows.
void add_answer_keys(std::vector<std::string_view>& keys);
// All but those of `others`, which the caller reads.
void read_answer(TableReader& reader, const toml::table& table,
                 std::span<const std::string_view> others, AnswerSettings& out);

}  // namespace tenon
