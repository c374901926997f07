// The hub as a server: what is asked, with whose token, and what its refusals mean.
//
//   GET /api/models/NAME/revision/REVISION               {"sha": commit, …}
//   GET /api/models/NAME/tree/COMMIT?recursive=true      files, with sizes and hashes; pages by
//   Link GET /NAME/resolve/COMMIT/FILE                        its bytes, most often after a
//   redirect
#pragma once

#include <string>
#include <vector>

#include "core/hub/model_name.h"
#include "core/hub/pull/curl.h"
#include "core/hub/pull/listing.h"

namespace tenon::hub {

// HF_ENDPOINT, or the hub itself; without a slash at its end.
std::string endpoint();

class Endpoint {
 public:
  // The token is HF_TOKEN, else HUGGING_FACE_HUB_TOKEN, else what `hf auth login` left in
  // HF_TOKEN_PATH or the home folder; HF_HUB_DISABLE_IMPLICIT_TOKEN=1 keeps it back. Errors: those
  // of HttpSession::open; unsupported, where HF_HUB_OFFLINE forbids to ask anybody.
  static Result<Endpoint> open();

  // Errors: not_found (no such model or revision, or one that the token may not see), unsupported
  // (gated), failed (the server, the way to it), invalid_argument (no hub).
  Result<std::string> commit_of(const ModelName& name);
  Result<std::vector<RemoteFile>> files_of(const ModelName& name, const std::string& commit);
  // The bytes of a file from `from_byte` on. `sink` sees the bytes of an answer with status 200
  // (all of the file) or 206 (the part). True: all of them came; false: the connection was lost, or
  // the server asks for patience, so that it is worth to ask again.
  Result<bool> read_file(const ModelName& name, const std::string& commit, const RemoteFile& file,
                         uint64_t from_byte, const HttpSink& sink);
  // What happened last where read_file said false.
  const std::string& trouble() const { return trouble_; }

 private:
  Endpoint(HttpSession session, std::string token)
      : session_(std::move(session)), token_(std::move(token)) {}
  struct Text {
    HttpAnswer head;
    std::string body;
  };
  // Asked again a few times where the server is busy. Errors as above.
  Result<Text> ask(const ModelName& name, const std::string& url);
  std::vector<std::string> headers() const;
  Status refusal(const ModelName& name, const HttpAnswer& answer) const;

  HttpSession session_;
  std::string token_, trouble_;
};

// Seconds to wait before the try `n`, from 0 on; negative: no further one.
int patience_seconds(int n);

}  // namespace tenon::hub
