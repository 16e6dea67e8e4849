// What tls/openssl.h says of OpenSSL's values is what OpenSSL's own headers say, where this CPU's are installed.
#pragma once

#include "tls/openssl.h"

// The second is of one kind of CPU: a cross compiler sees the first without it.
#if __has_include(<openssl/ssl.h>) && __has_include(<openssl/opensslconf.h>)
#include <openssl/evp.h>
#include <openssl/ssl.h>
using R2 = r2cc::OpenSsl;
static_assert(R2::kNoAtExit == OPENSSL_INIT_NO_ATEXIT && R2::kTls13 == TLS1_3_VERSION);
static_assert(R2::kSetMinimum == SSL_CTRL_SET_MIN_PROTO_VERSION && R2::kSetReadAhead == SSL_CTRL_SET_READ_AHEAD);
static_assert(R2::kVerifyPeer == SSL_VERIFY_PEER && R2::kWantRead == SSL_ERROR_WANT_READ);
static_assert(R2::kUpdateOurs == SSL_KEY_UPDATE_NOT_REQUESTED && R2::kFlush == BIO_CTRL_FLUSH);
static_assert(R2::kRetryRead == (BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY));
static_assert(R2::kGetTag == EVP_CTRL_AEAD_GET_TAG && R2::kSetTag == EVP_CTRL_AEAD_SET_TAG);
#endif
