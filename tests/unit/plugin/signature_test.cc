#include "core/plugin/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// Made by minisign: the text "test", hashed first, as it does by default.
constexpr std::string_view kKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const std::string kSignature =
    "untrusted comment: signature from minisign secret key\n"
    "RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8"
    "KLzZwo=\n"
    "trusted comment: timestamp:1633700835\tfile:test\tprehashed\n"
    "wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";

std::string error_of(std::string_view bytes, const std::string& signature, std::string_view key) {
  return std::string(verify_signature(bytes, signature, key).message());
}
std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Signature, takes_what_minisign_signed) {
  EXPECT_EQ(error_of("test", kSignature, kKey), "");
}

TEST(Signature, refuses_other_bytes) {
  EXPECT_THAT(error_of("Test", kSignature, kKey), HasSubstr("not those that were signed"));
}

TEST(Signature, refuses_a_trusted_comment_that_was_changed) {
  EXPECT_THAT(error_of("test", with(kSignature, "file:test", "file:best"), kKey),
              HasSubstr("the trusted comment of its signature was changed"));
}

TEST(Signature, refuses_another_key_and_names_both_as_minisign_does) {
  const std::string other = "RWQf6LRCGA9i6HmlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
  EXPECT_THAT(error_of("test", kSignature, other),
              HasSubstr("it is signed with key E7620F1842B4E81F, and plugins.key is "
                        "E8620F1842B4E81F; sign it with that one"));
}

TEST(Signature, shows_no_secret_key_that_was_given_by_mistake) {
  const std::string secret = "RWRTY0Iy" + std::string(204, 'q');
  const std::string message = error_of("test", kSignature, secret);
  EXPECT_THAT(message, HasSubstr("plugins.key is a secret key"));
  EXPECT_THAT(message, testing::Not(HasSubstr("qq")));
}

TEST(Signature, says_what_is_no_key_and_no_signature) {
  EXPECT_THAT(error_of("test", kSignature, "RWQ"), HasSubstr("plugins.key is \"RWQ\"; expected"));
  EXPECT_THAT(error_of("test", kSignature, " "), HasSubstr("plugins.key is not set; expected"));
  for (const std::string& damaged :
       {std::string(), with(kSignature, "RUQf", "AAQf"), with(kSignature, "\nwLMD", "\nw-MD"),
        kSignature.substr(0, 200)}) {
    EXPECT_THAT(error_of("test", damaged, kKey), HasSubstr("it is no signature of minisign's"));
  }
}

TEST(Signature, of_a_file_lies_beside_it) {
  const TemporaryFolder folder;
  const std::string path = folder.write_file("libtenon-x.so", "test");
  EXPECT_THAT(std::string(verify_signed_file(path, kKey).status().message()),
              HasSubstr("there is no signature beside it"));
  folder.write_file("libtenon-x.so.minisig", std::string(100'000, 'x'));
  EXPECT_THAT(std::string(verify_signed_file(path, kKey).status().message()),
              HasSubstr("its signature cannot be read ("));
  folder.write_file("libtenon-x.so.minisig", kSignature);
  const auto verified = verify_signed_file(path, kKey);
  ASSERT_TRUE(verified.ok()) << verified.status().message();
  EXPECT_EQ(*verified, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
}

}  // namespace
}  // namespace tenon
