#include "core/plugin/signature.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

constexpr size_t kKeyBytes = 32, kKeyIdBytes = 8, kSignatureBytes = 64, kHashBytes = 64;
constexpr size_t kSecretKeyCharacters = 212;
constexpr size_t kLargestSignatureFile = 16 << 10;
constexpr std::string_view kTrusted = "trusted comment: ";

// "Ed" signs the bytes themselves, "ED" their BLAKE2b hash of 512 bits.
struct SigningKey {
  std::array<unsigned char, kKeyIdBytes> id{};
  std::array<unsigned char, kKeyBytes> point{};
};
struct FileSignature {
  bool hashed = false;
  std::array<unsigned char, kKeyIdBytes> key_id{};
  std::array<unsigned char, kSignatureBytes> signature{};
  std::string trusted_comment;
  std::array<unsigned char, kSignatureBytes> comment_signature{};
};

// Exactly `size` bytes; empty when the text is no base64 of so many.
std::vector<unsigned char> base64(std::string_view text, size_t size) {
  const size_t padded = (size + 2) / 3 * 3;
  if (text.size() != padded / 3 * 4) return {};
  std::vector<unsigned char> bytes(padded);
  const int count =
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size()));
  if (count != static_cast<int>(padded)) return {};
  bytes.resize(size);
  return bytes;
}

Result<SigningKey> parse_key(std::string_view text) {
  constexpr std::string_view kExpected =
      "; expected the line of 56 characters that begins with RW, as `minisign -G` prints it";
  const std::string_view line = trim(text);
  if (line.empty()) return invalid_argument("plugins.key is not set" + std::string(kExpected));
  // Not shown: what is printed may be kept, or read by others.
  if (line.size() == kSecretKeyCharacters && line.starts_with("RW")) {
    return invalid_argument("plugins.key is a secret key, which belongs to nobody but who signs" +
                            std::string(kExpected));
  }
  const std::vector<unsigned char> bytes = base64(line, 2 + kKeyIdBytes + kKeyBytes);
  if (bytes.empty() || bytes[0] != 'E' || bytes[1] != 'd') {
    return invalid_argument("plugins.key is " + shown_text(text) + std::string(kExpected));
  }
  SigningKey key;
  std::memcpy(key.id.data(), bytes.data() + 2, kKeyIdBytes);
  std::memcpy(key.point.data(), bytes.data() + 2 + kKeyIdBytes, kKeyBytes);
  return key;
}

Result<FileSignature> parse_signature(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  const bool whole = lines.size() >= 4 && lines[2].starts_with(kTrusted);
  const auto signature =
      whole ? base64(lines[1], 2 + kKeyIdBytes + kSignatureBytes) : std::vector<unsigned char>();
  const auto comment = whole ? base64(lines[3], kSignatureBytes) : std::vector<unsigned char>();
  const bool known = !signature.empty() && !comment.empty() && signature[0] == 'E' &&
                     (signature[1] == 'd' || signature[1] == 'D');
  if (!known) {
    return invalid_argument(
        "it is no signature of minisign's; expected the four lines that `minisign -S` writes");
  }
  FileSignature parsed;
  parsed.hashed = signature[1] == 'D';
  std::memcpy(parsed.key_id.data(), signature.data() + 2, kKeyIdBytes);
  std::memcpy(parsed.signature.data(), signature.data() + 2 + kKeyIdBytes, kSignatureBytes);
  parsed.trusted_comment = lines[2].substr(kTrusted.size());
  std::memcpy(parsed.comment_signature.data(), comment.data(), kSignatureBytes);
  return parsed;
}

bool signed_by(const SigningKey& key, std::string_view message,
               const std::array<unsigned char, kSignatureBytes>& signature) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> raw(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.point.data(), kKeyBytes),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  return raw != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, raw.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), kSignatureBytes,
                          reinterpret_cast<const unsigned char*>(message.data()),
                          message.size()) == 1;
}

// As minisign prints it.
std::string shown_id(const std::array<unsigned char, kKeyIdBytes>& id) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (size_t i = kKeyIdBytes; i-- > 0;) {
    text += kDigits[id[i] / 16];
    text += kDigits[id[i] % 16];
  }
  return text;
}

std::string_view text_of(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Status verify_signature(std::string_view bytes, std::string_view signature,
                        std::string_view public_key) {
  TENON_ASSIGN_OR_RETURN(const SigningKey key, parse_key(public_key));
  TENON_ASSIGN_OR_RETURN(const FileSignature found, parse_signature(signature));
  if (found.key_id != key.id) {
    return failed("it is signed with key " + shown_id(found.key_id) + ", and plugins.key is " +
                  shown_id(key.id) +
                  "; sign it with that one, or set plugins.key to the other if you trust it");
  }
  std::array<unsigned char, kHashBytes> hash{};
  std::string_view message = bytes;
  if (found.hashed) {
    unsigned int size = kHashBytes;
    if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_blake2b512(), nullptr) !=
        1) {
      return failed("its hash cannot be computed here: the library of OpenSSL has no BLAKE2b");
    }
    message = text_of(hash);
  }
  if (!signed_by(key, message, found.signature)) {
    return failed(
        "its bytes are not those that were signed; restore the file, or sign it anew if "
        "you trust the change");
  }
  const std::string comment(std::string(text_of(found.signature)) + found.trusted_comment);
  if (signed_by(key, comment, found.comment_signature)) return {};
  return failed("the trusted comment of its signature was changed; sign the file anew");
}

Result<std::string> verify_signed_file(const std::string& path, std::string_view public_key) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, read_text_file(path));
  const auto signature = read_text_file(path + ".minisig", kLargestSignatureFile);
  if (!signature.ok()) {
    const bool missing = signature.status().code() == StatusCode::not_found;
    return failed(path + ": plugins.policy is \"signed\", but " +
                  (missing ? "there is no signature beside it" : "its signature cannot be read") +
                  " (" + message_of(signature.status()) + "); sign it: minisign -S -m " + path);
  }
  if (Status status = verify_signature(bytes, *signature, public_key); !status.ok()) {
    return with_context(path, status);
  }
  return sha256_hex(bytes);
}

}  // namespace tenon
