#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/quote.h"
#include "core/grammar/automaton/automaton.h"
#include "core/grammar/automaton/automaton_check.h"
#include "core/grammar/automaton/utf8_ranges.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostStates = 600'000;
constexpr uint32_t kMostUnrolled = 4;  // times that a small part is written out instead of counted

// Builds from the end: every part is built before the state that it goes on to, once for each
// such state, so what expressions share is shared by their states.
class Builder {
 public:
  explicit Builder(const Expressions& expressions)
      : expressions_(expressions), rule_starts_(expressions.rules(), kNoState) {}

  Result<std::unique_ptr<Automaton>> run(ExprId root) {
    end_ = add({StateKind::end});
    out_->start = build(root, end_);
    while (!open_rules_.empty()) {
      const RuleId rule = open_rules_.back();
      open_rules_.pop_back();
      const Rule& defined = expressions_.rule_at(rule);
      set_targets(rule_starts_[rule], {build(defined.body, end_)});
      if (is_full()) break;
    }
    if (is_full()) {
      return unsupported("the grammar needs more than " + std::to_string(kMostStates) +
                         " states – that is the limit – make it simpler");
    }
    return std::move(out_);
  }

  std::string name_of(uint32_t start) const {
    const auto found = std::find(rule_starts_.begin(), rule_starts_.end(), start);
    if (found == rule_starts_.end()) return "of a repetition";
    return in_quotes(expressions_.rule_at(static_cast<RuleId>(found - rule_starts_.begin())).name);
  }

 private:
  bool is_full() const { return out_->states.size() >= kMostStates; }

  uint32_t add(State state) {
    if (is_full()) return end_;
    out_->states.push_back(state);
    return static_cast<uint32_t>(out_->states.size() - 1);
  }

  void set_targets(uint32_t state, const std::vector<uint32_t>& targets) {
    State& split = out_->states[state];
    if (split.kind != StateKind::split) return;  // only where the automaton is full
    split.a = static_cast<uint32_t>(out_->targets.size());
    split.b = static_cast<uint32_t>(targets.size());
    out_->targets.insert(out_->targets.end(), targets.begin(), targets.end());
  }

  uint32_t add_split(const std::vector<uint32_t>& targets) {
    const uint32_t state = add({StateKind::split});
    set_targets(state, targets);
    return state;
  }

  uint32_t add_read(const std::vector<Edge>& edges) {
    const uint32_t state =
        add({StateKind::read, FreeText::none, static_cast<uint32_t>(out_->edges.size()),
             static_cast<uint32_t>(edges.size())});
    if (state != end_) out_->edges.insert(out_->edges.end(), edges.begin(), edges.end());
    return state;
  }

  uint32_t build(ExprId id, uint32_t next) {
    if (is_full()) return end_;
    const uint64_t key = uint64_t{id} << 32 | next;
    if (const auto found = built_.find(key); found != built_.end()) return found->second;
    const uint32_t state = build_new(expressions_[id], next);
    built_.emplace(key, state);
    return state;
  }

  uint32_t build_new(const Expr& expr, uint32_t next) {
    switch (expr.op) {
      case Op::nothing:
        return add_read({});
      case Op::literal:
        return build_literal(expr.bytes, next);
      case Op::character:
        return build_character(expr.codes, next);
      case Op::sequence: {
        for (auto part = expr.parts.rbegin(); part != expr.parts.rend(); ++part) {
          next = build(*part, next);
        }
        return next;
      }
      case Op::choice: {
        std::vector<uint32_t> targets;
        for (const ExprId part : expr.parts) targets.push_back(build(part, next));
        return add_split(targets);
      }
      case Op::repeat:
        return build_repeat(expr, next);
      case Op::rule:
        return build_call(expr.rule, next);
      case Op::automaton:
        return build_embedded(*expr.automaton, next);
      case Op::counted:
        return expr.counted->counts() ? build_counter(expr.counted, next)
                                      : build_nodes(*expr.counted, next);
    }
    return next;
  }

  uint32_t build_literal(std::string_view bytes, uint32_t next) {
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
      const auto value = static_cast<uint8_t>(*byte);
      next = add_read({{value, value, next}});
    }
    return next;
  }

  uint32_t build_character(const CodeSet& codes, uint32_t next) {
    std::vector<Edge> edges;
    for (const Utf8Range& range : utf8_ranges(codes)) {
      const uint32_t target = behind_first(range, 1, next);
      edges.push_back({range.bytes[0].first, range.bytes[0].last, target});
    }
    return add_read(edges);
  }

  // The state before the bytes `from` and on of a character.
  uint32_t behind_first(const Utf8Range& range, uint32_t from, uint32_t next) {
    if (from == range.length) return next;
    uint64_t rest = 0;
    for (uint32_t i = from; i < range.length; ++i) {
      rest = rest << 16 | uint64_t{range.bytes[i].first} << 8 | range.bytes[i].last;
    }
    const auto key = std::make_tuple(rest, range.length - from, next);
    if (const auto found = rests_.find(key); found != rests_.end()) return found->second;
    const uint32_t target = behind_first(range, from + 1, next);
    const uint32_t state = add_read({{range.bytes[from].first, range.bytes[from].last, target}});
    rests_.emplace(key, state);
    return state;
  }

  uint32_t build_call(RuleId rule, uint32_t next) {
    if (rule_starts_[rule] == kNoState) {
      rule_starts_[rule] = add({StateKind::split});
      open_rules_.push_back(rule);
    }
    const uint32_t returns_to = next == end_ ? kNoState : next;
    return add({StateKind::call, FreeText::none, rule_starts_[rule], returns_to});
  }

  uint32_t build_repeat(const Expr& expr, uint32_t next) {
    const ExprId part = expr.parts.front();
    if (expr.most == kUnbounded)
      return build_counted(part, expr.least, expr.least, star(part, next));
    return build_counted(part, expr.least, expr.most, next);
  }

  uint32_t star(ExprId part, uint32_t next) {
    const uint64_t key = uint64_t{part} << 32 | next;
    if (const auto found = stars_.find(key); found != stars_.end()) return found->second;
    const uint32_t head = add({StateKind::split});
    stars_.emplace(key, head);
    const uint32_t body = build(part, head);
    set_targets(head, {body, next});
    mark_free_text(part, head, FreeText::unbounded);
    return head;
  }

  bool is_small(ExprId part) const {
    const Op op = expressions_[part].op;
    return op == Op::literal || op == Op::character || op == Op::rule;
  }

  uint32_t build_counted(ExprId part, uint32_t least, uint32_t most, uint32_t next) {
    if (most == 0) return next;
    if (most <= 1 || (most <= kMostUnrolled && is_small(part))) {
      const uint32_t after = next;
      for (uint32_t i = most; i > 0; --i) {
        next = build(part, next);
        if (i > least) next = add_split({next, after});
      }
      return next;
    }
    // An end of its own: what is built before it belongs to this loop alone.
    const uint32_t body_end = add({StateKind::end});
    const auto loop = static_cast<uint32_t>(out_->loops.size());
    out_->loops.push_back({body_end, next, least, most});
    const uint32_t body = build(part, body_end);
    out_->loops[loop].body = body;
    mark_free_text(part, body_end, FreeText::counted);
    return add({StateKind::loop, FreeText::none, loop});
  }

  // Where each repetition may be any plain character, whatever else it may be.
  void mark_free_text(ExprId part, uint32_t next, FreeText kind) {
    const auto mark = [&](ExprId id) {
      const Expr& expr = expressions_[id];
      if (expr.op != Op::character || !expr.codes.contains(plain_characters())) return;
      State& state = out_->states[build(id, next)];
      if (state.kind == StateKind::read) state.free_text = kind;
    };
    mark(part);
    if (expressions_[part].op != Op::choice) return;
    for (const ExprId alternative : expressions_[part].parts) mark(alternative);
  }

  uint32_t build_embedded(const ByteAutomaton& embedded, uint32_t next) {
    if (embedded.nodes.empty()) return add_read({});
    const size_t room = kMostStates - out_->states.size();
    if (embedded.nodes.size() * 2 >= room) {
      out_->states.resize(kMostStates);
      return end_;
    }
    // A node that accepts is a split between reading on and `next`.
    std::vector<uint32_t> entries;
    for (const ByteAutomaton::Node& node : embedded.nodes) {
      entries.push_back(add({node.accepts ? StateKind::split : StateKind::read}));
    }
    for (size_t i = 0; i < embedded.nodes.size(); ++i) {
      const ByteAutomaton::Node& node = embedded.nodes[i];
      std::vector<Edge> edges = node.edges;
      for (Edge& edge : edges) edge.target = entries[edge.target];
      if (node.accepts) {
        set_targets(entries[i], {add_read(edges), next});
        continue;
      }
      State& state = out_->states[entries[i]];
      state.a = static_cast<uint32_t>(out_->edges.size());
      state.b = static_cast<uint32_t>(edges.size());
      out_->edges.insert(out_->edges.end(), edges.begin(), edges.end());
    }
    return entries.front();
  }

  // Without a count, the nodes are states of their own.
  uint32_t build_nodes(const CountedAutomaton& counted, uint32_t next) {
    const auto& nodes = counted.nodes();
    if (nodes.empty()) return add_read({});
    std::vector<uint32_t> entries;
    for (size_t i = 0; i < nodes.size(); ++i) entries.push_back(add({StateKind::split}));
    for (uint32_t id = 0; id < nodes.size() && !is_full(); ++id) {
      std::vector<uint32_t> targets;
      for (const auto& edge : nodes[id].edges)
        targets.push_back(build(edge.text, entries[edge.target]));
      if (nodes[id].accepts) targets.push_back(next);
      set_targets(entries[id], targets);
      mark_idle_text(nodes, id, entries[id], FreeText::unbounded);
    }
    return entries.front();
  }

  uint32_t build_counter(const std::shared_ptr<const CountedAutomaton>& counted, uint32_t next) {
    const auto& nodes = counted->nodes();
    if (nodes.empty()) return add_read({});
    const auto counter = static_cast<uint32_t>(out_->counters.size());
    const auto first = static_cast<uint32_t>(out_->counter_nodes.size());
    out_->counters.push_back({counted, first, next});
    std::vector<uint32_t> arrivals;
    for (uint32_t id = 0; id < nodes.size(); ++id) {
      out_->counter_nodes.push_back({counter, id, add({StateKind::split})});
      arrivals.push_back(add({StateKind::arrive, FreeText::none, first + id}));
    }
    for (uint32_t id = 0; id < nodes.size() && !is_full(); ++id) {
      std::vector<uint32_t> targets;
      for (const auto& edge : nodes[id].edges) {
        const uint32_t text = build(edge.text, arrivals[edge.target]);
        targets.push_back(add({StateKind::may_arrive, FreeText::none, first + edge.target, text}));
      }
      set_targets(out_->counter_nodes[first + id].entry, targets);
      mark_idle_text(nodes, id, arrivals[id], FreeText::limited);
    }
    return add({StateKind::begin_count, FreeText::none, counter});
  }

  // Where an edge leads from a node that accepts back to it.
  void mark_idle_text(const std::vector<CountedNodes::Node>& nodes, uint32_t id, uint32_t arrival,
                      FreeText kind) {
    if (!nodes[id].accepts) return;
    for (const auto& edge : nodes[id].edges) {
      if (edge.target == id) mark_free_text(edge.text, arrival, kind);
    }
  }

  const Expressions& expressions_;
  std::unique_ptr<Automaton> out_ = std::make_unique<Automaton>();
  uint32_t end_ = 0;
  std::vector<uint32_t> rule_starts_;                     // [rules]
  std::vector<RuleId> open_rules_;                        // called, and not built yet
  std::unordered_map<uint64_t, uint32_t> built_, stars_;  // (expression, next state) → state
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint32_t> rests_;
};

void classify_bytes(Automaton& automaton) {
  std::array<bool, 257> begins{};
  for (const Edge& edge : automaton.edges) {
    begins[edge.first] = true;
    begins[size_t{edge.last} + 1] = true;
  }
  uint32_t classes = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (byte == 0 || begins[byte]) {
      automaton.byte_of_class[classes++] = static_cast<uint8_t>(byte);
    }
    automaton.class_of[byte] = static_cast<uint8_t>(classes - 1);
  }
  automaton.classes = classes;
}

}  // namespace

Result<std::unique_ptr<Automaton>> build_automaton(const Expressions& expressions, ExprId root) {
  if (expressions.is_full()) {
    return unsupported("the grammar has more than " + std::to_string(Expressions::kMost) +
                       " parts – that is the limit – make it simpler");
  }
  Builder builder(expressions);
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Automaton> automaton, builder.run(root));
  TENON_RETURN_IF_ERROR(drop_dead_ends(*automaton));
  TENON_RETURN_IF_ERROR(
      check_recursion(*automaton, [&](uint32_t state) { return builder.name_of(state); }));
  classify_bytes(*automaton);
  return automaton;
}

}  // namespace tenon::grammar
