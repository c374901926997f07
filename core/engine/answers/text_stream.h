// One sample's way out: tokens to text, stop strings, and what must be held back for them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/engine/requests/request.h"

namespace tenon {

// Finds the first stop string in a text that arrives in pieces, and holds back what could still
// become one.
class StopScanner {
 public:
  // `stops` outlives the scanner; empty strings are ignored.
  // With `include`, a stop string that was found is released too.
  explicit StopScanner(std::span<const std::string> stops = {}, bool include = false)
      : stops_(stops), include_(include) {}

  // Adds a piece. Appends to `released` what cannot be part of a stop string any more. Returns the
  // stop string that was found (text before it was released, what follows is dropped), or nullptr.
  const std::string* push(std::string_view piece, std::string& released);
  // Releases what is held.
  void finish(std::string& released);

 private:
  size_t held_tail() const;
  std::span<const std::string> stops_;
  bool include_ = false;
  std::string held_;
};

// A sample's text so far and what of it may be shown.
class TextStream {
 public:
  TextStream() = default;
  // `decoder` may be null: then there is no text, and stop strings never match.
  TextStream(std::unique_ptr<TextDecoder> decoder, std::span<const std::string> stops,
             bool include_stop = false)
      : decoder_(std::move(decoder)), scanner_(stops, include_stop) {}

  // Takes a token. `look_for_stops` is false while min_tokens are not reached: its text can then
  // not end the output. Returns the stop string that was found, or nullptr.
  const std::string* push(TokenId token, bool look_for_stops);
  // The output has ended otherwise: everything held becomes ready. May still find a stop string
  // in what the decoder had inside.
  const std::string* finish();

  const std::string& ready() const { return ready_; }
  void clear_ready() { ready_.clear(); }

 private:
  std::unique_ptr<TextDecoder> decoder_;
  StopScanner scanner_;
  std::string piece_;
  std::string ready_;
};

}  // namespace tenon
