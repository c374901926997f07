#include "core/hub/pull/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/base/digest/hex.h"
#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"

namespace tenon::hub {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

}  // namespace

Result<std::string> digest_of(const std::string& path, const std::string& expected) {
  const bool is_sha256 = expected.size() == 64, is_git = expected.size() == 40;
  if (!is_sha256 && !is_git) {
    return unsupported("the hub names the file " + in_quotes(expected) +
                       "; expected a SHA-256 or the name of a git blob");
  }
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  bool good =
      context && EVP_DigestInit_ex(context.get(), is_git ? EVP_sha1() : EVP_sha256(), nullptr) == 1;
  if (good && is_git) {
    const std::string head = "blob " + std::to_string(bytes.size());
    good = EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1) == 1;
  }
  // In pieces whose pages are let go: a model may be larger than memory.
  for (size_t at = 0; good && at < bytes.size(); at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    good = EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
    file.release(piece);
  }
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!good) return failed("libcrypto has no " + std::string(is_git ? "SHA-1" : "SHA-256"));
  return hex_text(std::span(digest).first(size));
}

}  // namespace tenon::hub
