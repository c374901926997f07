#include "core/grammar/vocabulary.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/grammar/automaton/code_set.h"

namespace tenon::grammar {
namespace {

// Plain tokens are kept apart by their characters: of at most so many.
constexpr uint32_t kLengths[] = {2, 4, 8, 16, 32, UINT32_MAX};

bool is_lead(char byte) {
  return (static_cast<uint8_t>(byte) & 0xc0) != 0x80;
}

uint32_t characters_of(std::string_view bytes) {
  return static_cast<uint32_t>(std::count_if(bytes.begin(), bytes.end(), is_lead));
}

bool is_plain(std::string_view bytes) {
  if (!is_utf8(bytes)) return false;
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20;
  });
}

class TrieBuilder {
 public:
  TrieBuilder(const std::vector<std::string>& bytes, std::vector<TokenId> tokens)
      : bytes_(bytes), tokens_(std::move(tokens)) {
    std::sort(tokens_.begin(), tokens_.end(), [&](TokenId a, TokenId b) {
      const int order = text(a).compare(text(b));
      return order != 0 ? order < 0 : a < b;
    });
  }

  Trie run() {
    std::vector<uint32_t> path = {0};  // nodes from the root to where we are
    trie_.nodes.push_back({});
    std::string_view before;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view now = text(tokens_[i]);
      const auto split = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
      const auto common = static_cast<size_t>(split.second - now.begin());
      leave(path, common + 1);
      for (size_t at = common; at < now.size(); ++at) {
        path.push_back(static_cast<uint32_t>(trie_.nodes.size()));
        TrieNode node;
        node.first_token = static_cast<uint32_t>(i);
        node.depth = static_cast<uint16_t>(at + 1);
        node.byte = static_cast<uint8_t>(now[at]);
        node.whole = at + 1 == now.size() || is_lead(now[at + 1]);
        trie_.nodes.push_back(node);
      }
      note_length(path, now);
      trie_.depth = std::max(trie_.depth, static_cast<uint32_t>(now.size()));
      before = now;
    }
    leave(path, 0);
    TrieNode behind;
    behind.first_token = static_cast<uint32_t>(tokens_.size());
    trie_.nodes.push_back(behind);
    trie_.tokens = std::move(tokens_);
    return std::move(trie_);
  }

 private:
  std::string_view text(TokenId token) const { return bytes_[static_cast<size_t>(token)]; }

  void leave(std::vector<uint32_t>& path, size_t keep) {
    while (path.size() > keep) {
      trie_.nodes[path.back()].subtree_end = static_cast<uint32_t>(trie_.nodes.size());
      path.pop_back();
    }
  }

  // How much of this token is after each node on its way.
  void note_length(const std::vector<uint32_t>& path, std::string_view now) {
    uint32_t behind = 0;
    AsciiSet bytes;
    for (size_t i = path.size(); i-- > 0;) {
      TrieNode& node = trie_.nodes[path[i]];
      node.most_below = std::max(node.most_below, behind);
      node.bytes_below.add(bytes);
      if (i == 0) break;
      bytes.add(static_cast<uint8_t>(now[i - 1]));
      if (is_lead(now[i - 1])) ++behind;
    }
  }

  const std::vector<std::string>& bytes_;
  std::vector<TokenId> tokens_;  // sorted by their bytes
  Trie trie_;
};

}  // namespace

std::string special_bytes(std::string_view spelling) {
  return kSpecialByte + std::string(spelling);
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::make(std::vector<std::string> bytes) {
  auto made = std::make_shared<Vocabulary>();
  made->bytes_ = std::move(bytes);
  for (const bool behind_space : {false, true}) {
    made->indexes_[behind_space ? 1 : 0] =
        std::make_unique<const TokenIndex>(made->bytes_, behind_space);
  }
  constexpr size_t kPlainKinds = std::size(kLengths);
  std::vector<std::vector<TokenId>> kinds(kPlainKinds + 1);
  for (size_t id = 0; id < made->bytes_.size(); ++id) {
    const std::string& text = made->bytes_[id];
    if (text.empty()) continue;
    if (text.size() > kMostTokenBytes) {
      return unsupported("token " + std::to_string(id) + " stands for " +
                         std::to_string(text.size()) + " bytes – grammars take tokens of up to " +
                         std::to_string(kMostTokenBytes));
    }
    size_t kind = kPlainKinds;
    if (is_plain(text)) {
      const uint32_t characters = characters_of(text);
      kind = static_cast<size_t>(std::find_if(std::begin(kLengths), std::end(kLengths),
                                              [&](uint32_t most) { return characters <= most; }) -
                                 std::begin(kLengths));
    }
    kinds[kind].push_back(static_cast<TokenId>(id));
  }
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (kinds[kind].empty()) continue;
    Trie& trie = made->tries_.emplace_back(TrieBuilder(made->bytes_, std::move(kinds[kind])).run());
    made->depth_ = std::max(made->depth_, trie.depth);
    if (kind == kPlainKinds) continue;
    trie.all.assign(made->words(), 0);
    for (const TokenId token : trie.tokens) {
      const auto id = static_cast<uint32_t>(token);
      trie.all[id / 64] |= uint64_t{1} << (id % 64);
    }
  }
  return std::shared_ptr<const Vocabulary>(std::move(made));
}

}  // namespace tenon::grammar
