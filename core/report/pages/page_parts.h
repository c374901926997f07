// What pages of reports are put together from: one style, no network, no scripts.
#pragma once

#include <string>
#include <vector>

#include "core/report/pages/picture.h"

namespace tenon::page {

// From the doctype to the heading, and what ends it. Both as HTML; `title` is text.
std::string begin(const std::string& title);
std::string end();

std::string element(const char* tag, const std::string& text);  // the text is escaped
std::string card(const std::string& inside);                    // HTML
std::string list(const std::vector<std::string>& sentences);    // empty of none
std::string legend(const Picture& picture);

}  // namespace tenon::page
