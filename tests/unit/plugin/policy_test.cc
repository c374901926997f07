// Which plugin files a policy lets in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>

#include "core/base/digest/sha256.h"
#include "core/plugin/registry.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::string base64_of(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

// Signs as minisign does where it is told not to hash (-l).
class Signer {
 public:
  Signer() : key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free) {}

  std::string public_key() const {
    std::string point(32, '\0');
    size_t size = point.size();
    EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(point.data()), &size);
    return base64_of("Ed" + id() + point);
  }
  std::string sign(const std::string& bytes) const {
    const std::string signature = raw(bytes), comment = "of a test";
    return "untrusted comment: x\n" + base64_of("Ed" + id() + signature) +
           "\ntrusted comment: " + comment + "\n" + base64_of(raw(signature + comment)) + "\n";
  }

 private:
  static std::string id() { return "12345678"; }
  std::string raw(const std::string& message) const {
    const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                     EVP_MD_CTX_free);
    std::string signature(64, '\0');
    size_t size = signature.size();
    EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get());
    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                   reinterpret_cast<const unsigned char*>(message.data()), message.size());
    return signature;
  }
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
};

std::string refusal(const PluginSearch& search) {
  auto registry = PluginRegistry::open(search);
  if (!registry.ok()) return std::string(registry.status().message());
  const auto found = registry->find("scheduler/2", "sound");
  return found.ok() ? "none" : std::string(found.status().message());
}

TEST(Policy, locked_wants_a_lock) {
  PluginSearch search;
  search.files.push_back({bad_plugin("sound"), {"p.toml", 1, 1}});
  EXPECT_EQ(refusal(search), "none");
  search.policy = PluginPolicy::locked;
  EXPECT_THAT(refusal(search), HasSubstr("plugins.policy is \"locked\", but there is no "
                                         "plugins.lock"));
  const TemporaryFolder folder;
  const std::string digest = sha256_hex(read_bytes(bad_plugin("sound")));
  search.lock_file = folder.write_file("plugins.lock", digest + "  libtenon-sound.so\n");
  EXPECT_EQ(refusal(search), "none");
}

TEST(Policy, signed_wants_a_signature_of_strangers_files) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-sound.so");
  const Signer signer;
  PluginSearch search;
  search.folders.push_back({folder.path(), "--plugin-path", true});
  search.policy = PluginPolicy::is_signed;
  search.public_key = signer.public_key();
  EXPECT_THAT(refusal(search), HasSubstr("there is no signature beside it"));
  folder.write_file("libtenon-sound.so.minisig", signer.sign(read_bytes(path)));
  EXPECT_EQ(refusal(search), "none");
  folder.write_file("libtenon-sound.so.minisig", signer.sign(read_bytes(path) + "x"));
  EXPECT_THAT(refusal(search), HasSubstr("its bytes are not those that were signed"));
  search.public_key = "";
  EXPECT_THAT(refusal(search), HasSubstr("plugins.key is not set; expected"));
}

TEST(Policy, signed_asks_nothing_of_the_installation) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  PluginSearch search;
  search.folders.push_back({folder.path(), "install", false});
  search.policy = PluginPolicy::is_signed;
  EXPECT_EQ(refusal(search), "none");
}

}  // namespace
}  // namespace tenon
