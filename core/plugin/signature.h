// Signatures of plugin files: Ed25519 in the format of minisign (docs/formats/plugin-stamp.md).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// Whether `signature`, the text of a .minisig file, is that of `bytes` by `public_key`, the line of
// base64 that minisign prints. Error: what is wrong with the key, the file, or the signature.
Status verify_signature(std::string_view bytes, std::string_view signature,
                        std::string_view public_key);

// The same for the file at `path` and `path`.minisig next to it; returns the SHA-256 of the bytes
// that were verified, so that no others are loaded.
Result<std::string> verify_signed_file(const std::string& path, std::string_view public_key);

}  // namespace tenon
