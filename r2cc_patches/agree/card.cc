#include <stdexcept>

#include "bytes.h"
#include "transport.h"

namespace r2cc::agree {
namespace {

constexpr uint32_t kCard = 0x44433252;  // "R2CD"

/// What comes before the texts.
struct Head {
  uint32_t magic = 0;
  uint16_t port = 0;
  uint64_t agreement = 0;
  Key key{};
  uint8_t hostBytes = 0;
  template <class A>
  void visit(A& a) {
    a(magic), a(port), a(agreement), a(key), a(hostBytes);
  }
};

}  // namespace

std::string encode(const Card& card) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(Head{kCard, card.port, card.agreement, card.key, static_cast<uint8_t>(card.host.size())});
  return std::string(bytes.begin(), bytes.end()) + card.host + card.where;
}

Card decodeCard(const std::string& text) {
  Head head;
  Reader r(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  r(head);
  if (!r.ok() || head.magic != kCard || r.left() < head.hostBytes) {
    throw std::runtime_error("a rank's address for the agreement is none; do all ranks run the same version?");
  }
  const size_t host = text.size() - r.left();
  return {text.substr(host, head.hostBytes), head.port, text.substr(host + head.hostBytes), head.agreement, head.key};
}

}  // namespace r2cc::agree
