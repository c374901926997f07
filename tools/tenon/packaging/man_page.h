// Manual pages of the program and its commands, as roff for section 1.
#pragma once

#include "tools/tenon/shell/command_table.h"

namespace tenon {

// "tenon-model-info": the page's name.
std::string man_page_name(const CommandEntry& command);
std::string man_page(const CommandEntry& root, const CommandEntry& command);

}  // namespace tenon
