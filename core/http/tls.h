// What TLS needs of OpenSSL: what a server shows of itself, what a client believes, and in words
// what was wrong. TLS 1.2 and later.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace tenon::http {

// Connections that began with one keep it alive.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Reads both files, of PEM; after the server's own certificate may stand those that signed it.
// Errors: invalid_argument (not to be read, no PEM, a key with a passphrase or of another
// certificate, a certificate whose time is not now).
Result<TlsContext> server_tls(const std::string& certificate_path, const std::string& key_path);

// Believes who signed the certificates of the file `authorities`, or, where it is empty, those that
// the system trusts. Errors: invalid_argument.
Result<TlsContext> client_tls(const std::string& authorities);

// Lets a connection go on only with a certificate for `host`, a name or an address.
Status expect_host(SSL* connection, const std::string& host);

// Why a client's handshake failed.
std::string handshake_fault(const SSL* connection, const boost::system::error_code& error);

}  // namespace tenon::http
