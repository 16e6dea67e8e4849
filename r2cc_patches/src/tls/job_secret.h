// What R2CC_TLS=1 and R2CC_TLS_SECRET_FILE make a process encrypt with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tls/tls_key.h"

namespace r2cc {

/// What a process encrypts with, beside the keys that handles bring.
struct Encryption {
  TlsKey secret{};     // made of R2CC_TLS_SECRET_FILE; zeros: there is none
  uint32_t check = 0;  // tells secrets apart and says nothing of them; 0: there is none
};

/// Reads the file and finds OpenSSL. `wanted`, `secretFile`: what R2CC_TLS and R2CC_TLS_SECRET_FILE are. Null: nothing
/// is to be encrypted. Throws std::invalid_argument, with what to do: nothing may go on unencrypted then.
std::shared_ptr<const Encryption> encryptionOf(const std::string& wanted, const std::string& secretFile);

}  // namespace r2cc
