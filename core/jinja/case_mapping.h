// Cases of texts, as Python maps them, character by character: what was not trusted stays so.
#pragma once

#include "core/jinja/marked_text.h"

namespace tenon::chat {

void add_upper(const MarkedText& text, size_t begin, size_t end, TextBuilder& out);
void add_lower(const MarkedText& text, size_t begin, size_t end, TextBuilder& out);
// "hello World" → "Hello world"
void add_capitalized(const MarkedText& text, size_t begin, size_t end, TextBuilder& out);
// "they're here" → "They'Re Here": a word begins after everything that is no letter.
void add_title(const MarkedText& text, TextBuilder& out);
void add_swapped(const MarkedText& text, TextBuilder& out);

}  // namespace tenon::chat
