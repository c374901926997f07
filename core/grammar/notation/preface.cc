#include "core/grammar/notation/preface.h"

#include <memory>
#include <optional>
#include <vector>

#include "core/grammar/automaton/automaton.h"
#include "core/grammar/vocabulary.h"

namespace tenon::grammar {
namespace {

// White space after the end: line ends, as models write them there, but not without end.
constexpr uint32_t kMostSpaces = 8;

// Any text up to the first `marker`: node i comes after i bytes of it (Knuth, Morris, Pratt
// 1977).
class FirstMarker {
 public:
  explicit FirstMarker(std::string_view marker) : marker_(marker), shorter_(marker.size() + 1, 0) {
    for (size_t i = 1; i < marker.size(); ++i) {
      size_t at = shorter_[i];
      while (at > 0 && marker[at] != marker[i]) at = shorter_[at];
      shorter_[i + 1] = marker[at] == marker[i] ? at + 1 : 0;
    }
  }

  std::shared_ptr<const ByteAutomaton> automaton() const {
    auto made = std::make_shared<ByteAutomaton>();
    made->nodes.resize(marker_.size() + 1);
    for (size_t i = 0; i < marker_.size(); ++i) made->nodes[i].edges = edges_of(i);
    made->nodes.back().accepts = true;
    return made;
  }

 private:
  std::vector<Edge> edges_of(size_t node) const {
    std::vector<Edge> edges;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const std::optional<uint32_t> target = behind(node, static_cast<char>(byte));
      if (!target) continue;
      const auto value = static_cast<uint8_t>(byte);
      const bool goes_on =
          !edges.empty() && edges.back().target == *target && edges.back().last + 1u == byte;
      if (goes_on) {
        edges.back().last = value;
      } else {
        edges.push_back({value, value, *target});
      }
    }
    return edges;
  }
  // Absent: no text goes on like this, as a special token is there whole or not at all.
  std::optional<uint32_t> behind(size_t node, char byte) const {
    if (byte == marker_[node]) return static_cast<uint32_t>(node + 1);
    const bool within_special = marker_.substr(0, node).find(kSpecialByte) != marker_.npos;
    if (byte == kSpecialByte || within_special) return std::nullopt;
    while (node > 0) {
      node = shorter_[node];
      if (byte == marker_[node]) return static_cast<uint32_t>(node + 1);
    }
    return 0;
  }

  std::string_view marker_;
  std::vector<size_t> shorter_;  // [i]: of what i bytes end with, the longest other beginning
};

}  // namespace

ExprId behind_preface(Expressions& expressions, const Preface& preface, ExprId form) {
  if (preface.closes.empty()) return form;
  const ExprId until_closed = expressions.automaton(FirstMarker(preface.closes).automaton());
  const ExprId space = expressions.repeat(expressions.character(" \t\r\n"), 0, kMostSpaces);
  if (preface.opens.empty()) return expressions.sequence({until_closed, space, form});
  const ExprId opened = expressions.literal(preface.opens);
  return expressions.choice({expressions.sequence({opened, until_closed, space, form}), form});
}

}  // namespace tenon::grammar
