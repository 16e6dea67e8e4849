#include <stdexcept>
#include <utility>

#include "agree/net/transport.h"
#include "base/bytes.h"

namespace r2cc::agree {
namespace {

constexpr uint32_t kCard = 0x46433252;  // "R2CF"; another for another form
constexpr size_t kMostOfCannot = 1024;

/// What comes before the texts.
struct Head {
  uint32_t magic = 0;
  uint16_t port = 0;
  uint64_t agreement = 0;
  Key key{};
  uint64_t termsHash = 0;
  uint8_t hostBytes = 0;
  uint16_t whereBytes = 0;
  uint16_t cannotBytes = 0;
  auto fields() { return inOrder(magic, port, agreement, key, termsHash, hostBytes, whereBytes, cannotBytes); }
};

}  // namespace

std::string encode(const Card& card) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  const std::string where = card.where.substr(0, UINT16_MAX), cannot = card.cannot.substr(0, kMostOfCannot);
  w(Head{kCard, card.port, card.agreement, card.key, card.termsHash, static_cast<uint8_t>(card.host.size()),
         static_cast<uint16_t>(where.size()), static_cast<uint16_t>(cannot.size())});
  return std::string(bytes.begin(), bytes.end()) + card.host + where + cannot + card.terms;
}

Card decodeCard(const std::string& text) {
  Head head;
  Reader r(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  r(head);
  if (!r.ok() || head.magic != kCard || r.left() < size_t{head.hostBytes} + head.whereBytes + head.cannotBytes) {
    throw std::runtime_error("a rank's address for the agreement is none; do all ranks run the same version?");
  }
  size_t at = text.size() - r.left();
  const auto next = [&](size_t bytes) { return text.substr(std::exchange(at, at + bytes), bytes); };
  Card card;
  card.host = next(head.hostBytes);
  card.port = head.port;
  card.where = next(head.whereBytes);
  card.cannot = next(head.cannotBytes);
  card.terms = text.substr(at);
  card.termsHash = head.termsHash;
  card.agreement = head.agreement;
  card.key = head.key;
  return card;
}

}  // namespace r2cc::agree
