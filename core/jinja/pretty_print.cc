#include "core/jinja/pretty_print.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr size_t kWidth = 80;

// By key; keys that have no order, by the names of their types.
std::vector<Dict::Item> sorted_items(const Dict& dict, Budget& budget) {
  const auto before = [&budget](const Dict::Item& a, const Dict::Item& b) {
    const Result<bool> less = is_less(a.first, b.first, budget);
    return less.ok() ? *less : type_name(a.first) < type_name(b.first);
  };
  // By insertion: no order of strangers' keys may break it, and the budget ends it.
  std::vector<Dict::Item> sorted;
  for (const Dict::Item& item : dict.items) {
    auto at = sorted.end();
    while (at != sorted.begin() && before(item, *std::prev(at))) --at;
    sorted.insert(at, item);
    if (budget.is_exceeded()) break;
  }
  return sorted;
}

// The same value with all dictionaries in order.
Value in_order(const Value& value, Budget& budget) {
  budget.spend(1);
  if (budget.is_exceeded()) return value;
  if (const Dict* dict = value.dict()) {
    std::vector<Dict::Item> items = sorted_items(*dict, budget);
    for (Dict::Item& item : items) item.second = in_order(item.second, budget);
    return make_dict(budget, std::move(items));
  }
  const List* list = value.list();
  if (list == nullptr || !list->is_sequence()) return value;
  Values items;
  for (const Value& item : list->items) items.push_back(in_order(item, budget));
  return make_list(budget, std::move(items), list->kind);
}

class PrettyPrinter {
 public:
  explicit PrettyPrinter(TextBuilder& out) : out_(out) {}

  // `allowance`: characters that follow on the last line.
  Status add(const Value& value, size_t indent, size_t allowance, size_t level) {
    TextBuilder one_line(out_.budget());
    TENON_RETURN_IF_ERROR(add_representation(value, one_line));
    const bool fits = count_characters(one_line.text().bytes()) + indent + allowance <= kWidth;
    const List* list = value.list();
    if (!fits && value.dict() != nullptr && !value.dict()->items.empty()) {
      return add_dict(*value.dict(), indent, allowance, level + 1);
    }
    if (!fits && list != nullptr && list->is_sequence() && !list->items.empty()) {
      return add_list(*list, indent, allowance, level + 1);
    }
    if (!fits && value.is_text() && !value.bytes().empty()) {
      return add_long_text(value, one_line.text(), indent, allowance, level + 1);
    }
    out_.add(one_line.text());
    return Status();
  }

 private:
  void new_line(size_t indent) {
    out_.add("\n", false);
    out_.add_repeated(" ", indent, false);
  }

  Status add_dict(const Dict& dict, size_t indent, size_t allowance, size_t level) {
    out_.add("{", false);
    for (size_t i = 0; i < dict.items.size(); ++i) {
      const auto& [key, value] = dict.items[i];
      if (i > 0) {
        out_.add(",", false);
        new_line(indent + 1);
      }
      TextBuilder name(out_.budget());
      TENON_RETURN_IF_ERROR(add_representation(key, name));
      const size_t width = count_characters(name.text().bytes());
      out_.add(name.text());
      out_.add(": ", false);
      const bool is_last = i + 1 == dict.items.size();
      TENON_RETURN_IF_ERROR(add(value, indent + 1 + width + 2, is_last ? allowance + 1 : 1, level));
    }
    out_.add("}", false);
    return Status();
  }

  Status add_list(const List& list, size_t indent, size_t allowance, size_t level) {
    const bool is_tuple = list.kind == ListKind::tuple;
    const std::string_view end = !is_tuple ? "]" : list.items.size() == 1 ? ",)" : ")";
    out_.add(is_tuple ? "(" : "[", false);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) {
        out_.add(",", false);
        new_line(indent + 1);
      }
      const bool is_last = i + 1 == list.items.size();
      TENON_RETURN_IF_ERROR(
          add(list.items[i], indent + 1, is_last ? allowance + end.size() : 1, level));
    }
    out_.add(end, false);
    return Status();
  }

  Result<MarkedText> representation(const MarkedText& text, size_t begin, size_t end) {
    TextBuilder part(out_.budget());
    TENON_RETURN_IF_ERROR(
        add_representation(make_text(out_.budget(), text.part(begin, end)), part));
    return part.take();
  }

  // As parts that Python joins again, a line or some words each.
  Status add_long_text(const Value& value, const MarkedText& one_line, size_t indent,
                       size_t allowance, size_t level) {
    const bool in_brackets = level == 1;
    if (in_brackets) {
      ++indent;
      ++allowance;
    }
    TENON_ASSIGN_OR_RETURN(const std::vector<MarkedText> parts,
                           text_parts(value.text(), indent, allowance));
    if (parts.size() == 1) {
      out_.add(one_line);
      return Status();
    }
    if (in_brackets) out_.add("(", false);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.add(parts[i]);
    }
    if (in_brackets) out_.add(")", false);
    return Status();
  }

  Result<std::vector<MarkedText>> text_parts(const MarkedText& text, size_t indent,
                                             size_t allowance) {
    const auto width = static_cast<int64_t>(kWidth) - static_cast<int64_t>(indent);
    std::vector<MarkedText> parts;
    const std::vector<ByteRange> lines = split_lines(text.bytes(), true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool is_last = i + 1 == lines.size();
      const int64_t last_width = width - (is_last ? static_cast<int64_t>(allowance) : 0);
      TENON_ASSIGN_OR_RETURN(MarkedText line, representation(text, lines[i].begin, lines[i].end));
      if (static_cast<int64_t>(count_characters(line.bytes())) <= last_width) {
        parts.push_back(std::move(line));
      } else {
        TENON_RETURN_IF_ERROR(add_words(text, lines[i], width, last_width, parts));
      }
    }
    return parts;
  }

  Status add_words(const MarkedText& text, ByteRange line, int64_t width, int64_t last_width,
                   std::vector<MarkedText>& parts) {
    std::optional<MarkedText> current;
    size_t begin = line.begin;
    for (size_t at = line.begin; at < line.end;) {
      const size_t end = word_end(text.bytes(), at, line.end);
      const int64_t room = end == line.end ? last_width : width;
      TENON_ASSIGN_OR_RETURN(MarkedText candidate, representation(text, begin, end));
      if (static_cast<int64_t>(count_characters(candidate.bytes())) > room) {
        if (current) parts.push_back(*std::move(current));
        begin = at;
        TENON_ASSIGN_OR_RETURN(candidate, representation(text, begin, end));
      }
      current = std::move(candidate);
      at = end;
      if (out_.budget().is_exceeded()) return out_.budget().status();
    }
    if (current) parts.push_back(*std::move(current));
    return Status();
  }

  // A word and the white space after it.
  static size_t word_end(std::string_view bytes, size_t at, size_t end) {
    bool in_space = false;
    while (at < end) {
      const tok::Rune rune = tok::first_rune(bytes.substr(at));
      const bool is_space = is_python_space(rune.code);
      if (in_space && !is_space) break;
      in_space = is_space;
      at += rune.bytes;
    }
    return at;
  }

  TextBuilder& out_;
};

}  // namespace

Status add_pretty(const Value& value, TextBuilder& out) {
  return PrettyPrinter(out).add(in_order(value, out.budget()), 0, 0, 0);
}

}  // namespace tenon::chat
