// Tokens that are found in the text as they are spelled, before the model sees the rest.
//
// As in Hugging Face tokenizers: those that are not `normalized` are cut out of the raw text
// first; what remains is normalised, and the `normalized` ones are looked for in it, spelled as the
// normalizer leaves them.
#pragma once

#include <tenon/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/tokenizer/models/text_trie.h"
#include "core/tokenizer/text_span.h"

namespace tenon::tok {

struct AddedToken {
  TokenId id = kNoToken;
  std::string content;
  std::string spelling;  // what is looked for; differs from the content where that is normalised
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the whitespace on its left with it
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
  // What it decodes to, as it is; none: its content or spelling.
  std::optional<std::string> surface;
};

// A stretch of text, or a token found in it.
struct Segment {
  std::string_view text;  // empty for a token
  TokenId id = kNoToken;
};

// Where in a text a special token's spelling is that token.
struct SpecialPlaces {
  bool everywhere = true;
  std::span<const TextSpan> trusted;  // else inside of one of these, sorted; of the whole input
  size_t offset = 0;                  // at which the text begins in it

  // How many bytes from here on are trusted: 0 where this one is not.
  size_t trusted_after(size_t begin) const;
  bool allow(size_t begin, size_t end) const {
    return everywhere || end - begin <= trusted_after(begin);
  }
};

// Filled and built once, then immutable: any number of threads may use one at the same time.
class AddedTokens {
 public:
  // The id is not negative and no larger than a vocabulary may have. An empty spelling is never
  // found.
  // Errors: unsupported (longer than 1024 bytes, or 8 MiB with all others), invalid_argument
  // (empty; the id or the content is taken).
  Status add(AddedToken token);
  // After the last `add`.
  void build();

  // The token with this id, or this content; null when it is none of these. Borrowed.
  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view content) const;
  // Highest id + 1.
  uint32_t size() const { return static_cast<uint32_t>(index_of_id_.size()); }

  // Appends the segments of `text`, in order, looking for the tokens that are (not) `normalized`.
  // Elsewhere than at `places` a special token's spelling is text like any other.
  void split(std::string_view text, bool normalized, const SpecialPlaces& places,
             std::vector<Segment>& segments) const;
  // Whether a special token is looked for in normalised text.
  bool has_normalized_special() const { return has_normalized_special_; }

 private:
  std::vector<AddedToken> tokens_;
  std::vector<uint32_t> index_of_id_;  // into tokens_, +1; 0: none
  std::map<std::string, TokenId, std::less<>> id_of_content_;
  size_t spelled_bytes_ = 0;  // of all
  TextTrie raw_;
  TextTrie normalized_;
  bool has_normalized_special_ = false;
};

}  // namespace tenon::tok
