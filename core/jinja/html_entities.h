// Characters as HTML writes them.
#pragma once

#include "core/jinja/marked_text.h"

namespace tenon::chat {

// & < > ' " as entities.
void add_html_escaped(const MarkedText& text, TextBuilder& out);
// Entities as characters, as Python's html.unescape has them: by number, and by the names of
// HTML 4. The further names of HTML 5 stay as they are.
void add_html_unescaped(const MarkedText& text, TextBuilder& out);

}  // namespace tenon::chat
