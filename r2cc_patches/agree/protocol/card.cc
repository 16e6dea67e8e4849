#include <stdexcept>

#include "agree/net/transport.h"
#include "base/bytes.h"

namespace r2cc::agree {
namespace {

constexpr uint32_t kCard = 0x45433252;  // "R2CE"; another for another form

/// What comes before the texts.
struct Head {
  uint32_t magic = 0;
  uint16_t port = 0;
  uint64_t agreement = 0;
  Key key{};
  uint64_t termsHash = 0;
  uint8_t hostBytes = 0;
  uint16_t whereBytes = 0;
  auto fields() { return inOrder(magic, port, agreement, key, termsHash, hostBytes, whereBytes); }
};

}  // namespace

std::string encode(const Card& card) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  const std::string where = card.where.substr(0, UINT16_MAX);
  w(Head{kCard, card.port, card.agreement, card.key, card.termsHash, static_cast<uint8_t>(card.host.size()),
         static_cast<uint16_t>(where.size())});
  return std::string(bytes.begin(), bytes.end()) + card.host + where + card.terms;
}

Card decodeCard(const std::string& text) {
  Head head;
  Reader r(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  r(head);
  if (!r.ok() || head.magic != kCard || r.left() < size_t{head.hostBytes} + head.whereBytes) {
    throw std::runtime_error("a rank's address for the agreement is none; do all ranks run the same version?");
  }
  const size_t host = text.size() - r.left();
  Card card;
  card.host = text.substr(host, head.hostBytes);
  card.port = head.port;
  card.where = text.substr(host + head.hostBytes, head.whereBytes);
  card.terms = text.substr(host + head.hostBytes + head.whereBytes);
  card.termsHash = head.termsHash;
  card.agreement = head.agreement;
  card.key = head.key;
  return card;
}

}  // namespace r2cc::agree
