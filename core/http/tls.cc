#include "core/http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <cstdio>

#include "core/base/quote.h"

namespace tenon::http {
namespace {

namespace ssl = boost::asio::ssl;

template <auto free>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using File = std::unique_ptr<BIO, FreedBy<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;

// The newest of OpenSSL's complaints, all of which are forgotten.
std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "no reason is known" : reason;
}

Result<File> open_file(const char* what, const std::string& path) {
  ERR_clear_error();
  File file(BIO_new_file(path.c_str(), "r"));
  if (file != nullptr) return file;
  return invalid_argument("cannot read the " + std::string(what) + " " + path_in_quotes(path) +
                          ": " + openssl_reason() + " – check the path, and who may read it");
}

// OpenSSL would ask the terminal.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Result<PrivateKey> read_key(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const File file, open_file("key", path));
  bool has_passphrase = false;
  PrivateKey key(PEM_read_bio_PrivateKey(file.get(), nullptr, no_passphrase, &has_passphrase));
  ERR_clear_error();
  if (key != nullptr) return key;
  if (has_passphrase) {
    return invalid_argument("the key " + path_in_quotes(path) +
                            " has a passphrase, and nobody is there to say it – take it away with "
                            "openssl pkey -in KEY -out FILE");
  }
  return invalid_argument("the file " + path_in_quotes(path) +
                          " has no private key in PEM – expected -----BEGIN PRIVATE KEY-----");
}

std::string day_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown day";
  char text[40];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d UTC", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min);
  return text;
}

Status check_time(const X509& certificate, const std::string& path) {
  const ASN1_TIME* end = X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(end) < 0) {
    return invalid_argument("the certificate " + path_in_quotes(path) + " expired on " +
                            day_of(end) + " – renew it");
  }
  const ASN1_TIME* begin = X509_get0_notBefore(&certificate);
  if (X509_cmp_current_time(begin) > 0) {
    return invalid_argument("the certificate " + path_in_quotes(path) + " begins to be valid on " +
                            day_of(begin) + " – check this machine's clock, or wait");
  }
  return {};
}

// The first of the file, which is the server's own; those that signed it come after it.
Status check_certificate(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const File file, open_file("certificate", path));
  const Certificate first(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (first != nullptr) return check_time(*first, path);
  return invalid_argument("the file " + path_in_quotes(path) +
                          " has no certificate in PEM – expected -----BEGIN CERTIFICATE-----");
}

TlsContext context_for(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  return context;
}

// Addresses are compared as addresses, names as names.
bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

}  // namespace

Result<TlsContext> server_tls(const std::string& certificate_path, const std::string& key_path) {
  TENON_RETURN_IF_ERROR(check_certificate(certificate_path));
  TENON_ASSIGN_OR_RETURN(const PrivateKey key, read_key(key_path));
  TlsContext context = context_for(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  // Tickets let clients resume; sessions kept here would be memory that strangers control.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_use_certificate_chain_file(native, certificate_path.c_str()) != 1) {
    return invalid_argument("the certificate " + path_in_quotes(certificate_path) +
                            " cannot be used: " + openssl_reason() + " – make another one");
  }
  if (X509_check_private_key(SSL_CTX_get0_certificate(native), key.get()) != 1) {
    ERR_clear_error();
    return invalid_argument("the key " + path_in_quotes(key_path) +
                            " is not that of the certificate " + path_in_quotes(certificate_path) +
                            " – give the two that were made together");
  }
  if (SSL_CTX_use_PrivateKey(native, key.get()) != 1) {
    return invalid_argument("the key " + path_in_quotes(key_path) +
                            " cannot be used: " + openssl_reason() + " – make another one");
  }
  return context;
}

Result<TlsContext> client_tls(const std::string& authorities) {
  TlsContext context = context_for(ssl::context::tls_client);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  if (authorities.empty()) {
    SSL_CTX_set_default_verify_paths(native);
    ERR_clear_error();
    return context;
  }
  TENON_ASSIGN_OR_RETURN(const File file, open_file("file of authorities", authorities));
  if (SSL_CTX_load_verify_locations(native, authorities.c_str(), nullptr) != 1) {
    ERR_clear_error();
    return invalid_argument("the file of authorities " + path_in_quotes(authorities) +
                            " has no certificate in PEM – expected -----BEGIN CERTIFICATE-----");
  }
  return context;
}

Status expect_host(SSL* connection, const std::string& host) {
  X509_VERIFY_PARAM* expected = SSL_get0_param(connection);
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool is_set = is_address(host)
                          ? X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1
                          : SSL_set1_host(connection, host.c_str()) == 1 &&
                                SSL_set_tlsext_host_name(connection, host.c_str()) == 1;
  if (is_set) return {};
  ERR_clear_error();
  return invalid_argument("no certificate can be for the host " + in_quotes(host) +
                          " – check its name");
}

std::string handshake_fault(const SSL* connection, const boost::system::error_code& error) {
  const long verdict = SSL_get_verify_result(connection);
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return "the server's certificate is for another host – write the name that it is for";
  }
  if (verdict != X509_V_OK) {
    return std::string("the server's certificate is not trusted: ") +
           X509_verify_cert_error_string(verdict) +
           " – name who signed it with --authorities FILE, or renew it";
  }
  const bool is_of_tls = error.category() == boost::asio::error::get_ssl_category();
  if (is_of_tls &&
      ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_WRONG_VERSION_NUMBER) {
    return "the server does not speak TLS – write http:// in place of https://";
  }
  return "the handshake of TLS failed: " + error.message();
}

}  // namespace tenon::http
