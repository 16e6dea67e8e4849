#include "faults/rules/words.h"

#include <arpa/inet.h>

#include <cstring>

namespace r2cc::faults {

Ip ipOf(const std::string& text) {
  Ip ip{};
  if (inet_pton(AF_INET6, text.c_str(), ip.data()) == 1) return ip;
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) != 1) throw BadRules("no address");
  ip[10] = ip[11] = 0xff;
  std::memcpy(ip.data() + 12, &four, sizeof(four));
  return ip;
}

uint64_t numberOf(const std::string& text, uint64_t least, uint64_t most, const std::string& what) {
  const bool digits = !text.empty() && text.size() <= 13 && text.find_first_not_of("0123456789") == std::string::npos;
  const uint64_t value = digits ? std::stoull(text) : 0;
  if (!digits || value < least || value > most) throw BadRules(what + " is no number from " + std::to_string(least));
  return value;
}

std::pair<std::string, std::string> settingOf(const std::string& word) {
  const size_t equals = word.find('=');
  return {word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1)};
}

}  // namespace r2cc::faults
