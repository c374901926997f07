// Certificates that a test makes for itself, each signed by its own key.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tenon::http {

class TestCertificate {
 public:
  // Valid from `first_day` to `last_day`, counted from today.
  explicit TestCertificate(long first_day = -1, long last_day = 30,
                           const char* hosts = "IP:127.0.0.1,DNS:localhost")
      : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(X509_new(), X509_free) {
    X509* x = certificate_.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), first_day * kDay);
    X509_gmtime_adj(X509_getm_notAfter(x), last_day * kDay);
    X509_set_pubkey(x, key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("tenon test"), -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, hosts);
    X509_add_ext(x, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(x, key_.get(), EVP_sha256());
    write("certificate", [x](BIO* file) { PEM_write_bio_X509(file, x); });
    write("key", [this](BIO* file) {
      PEM_write_bio_PrivateKey(file, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    write("locked", [this](BIO* file) {
      char passphrase[] = "secret";
      PEM_write_bio_PrivateKey(file, key_.get(), EVP_aes_128_cbc(), nullptr, 0, nullptr,
                               passphrase);
    });
  }

  // "certificate", "key", or "locked": the key with a passphrase.
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string certificate() const { return path("certificate"); }
  std::string key() const { return path("key"); }

 private:
  static constexpr long kDay = 86400;

  template <typename Write>
  void write(const std::string& name, Write&& write) {
    BIO* file = BIO_new_file(path(name).c_str(), "w");
    write(file);
    BIO_free_all(file);
  }

  TemporaryFolder folder_;
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> certificate_;
};

}  // namespace tenon::http
