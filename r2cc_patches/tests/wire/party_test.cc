// Two ends that differ: what is said of them, and how the one that listens hears of it.
#include "wire/party.h"
#include "check.h"
#include "wire/keys.h"
#include "wire/refusal.h"

using namespace r2cc;

namespace {

Party party(const std::string& where, uint64_t build = 0xa1, int mode = 1) {
  Party out;
  out.where = where, out.build = build, out.mode = mode, out.inner = Inner::Socket;
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ConnectHandle someHandle() {
  ConnectHandle handle;
  handle.process = 0x1122334455667788, handle.listen = 7, handle.key = randomKey(), handle.dev = 3;
  for (uint8_t i = 0; i < ConnectHandle::kAddresses; i++) {
    NicAddress nic;
    nic.family = AF_INET, nic.port = 9, nic.ip = {10, 0, 0, i};
    handle.nics.push_back(nic);
  }
  return handle;
}

}  // namespace

TEST(net_party_travels_in_the_handle) {
  Party here = party("h0", buildNumber("0123456789abcdef"), 3);
  here.inner = Inner::Ib;
  ConnectHandle handle = someHandle(), copy;
  describeIn(handle, here);
  std::vector<uint8_t> bytes(NCCL_NET_HANDLE_MAXSIZE);
  writeHandle(handle, bytes.data());
  CHECK(!isPlainHandle(bytes.data()));
  for (size_t i = kHandleStateAt; i < bytes.size(); i++) CHECK_EQ(bytes[i], 0);  // room for connect()
  CHECK_EQ(openHandle(bytes.data(), copy), kWireVersion);
  const Party again = partyOf(copy, kWireVersion);
  CHECK_EQ(again.where, "10.0.0.0");
  CHECK_EQ(again.build, 0x0123456789u);
  CHECK_EQ(again.mode, 3);
  CHECK(again.inner == Inner::Ib && again.wire == kWireVersion);
}

TEST(net_party_says_what_does_not_fit_and_what_to_do) {
  const Party here = party("h0");
  CHECK_EQ(conflict(here, party("10.0.0.2", 0xb2, 2)), "");
  Party other = party("10.0.0.2", 0xb2, 2);
  other.wire = kWireVersion + 1;
  const std::string versions = conflict(here, other);
  CHECK(has(versions, "protocol is " + std::to_string(kWireVersion) + " on h0 (build 00000000a1..., R2CC_MODE=1"));
  CHECK(has(versions, "on 10.0.0.2 (build 00000000b2..., R2CC_MODE=2") && has(versions, "Use one build"));
  CHECK(versions.size() <= Refusal::kMostText);
  other = party("10.0.0.2");
  other.inner = Inner::Ib;
  CHECK(has(conflict(here, other), "net is Socket on h0") &&
        has(conflict(here, other), "NCCL_NET and R2CC_INNER_PLUGIN alike"));
  other.inner = Inner::Unknown;
  CHECK_EQ(conflict(here, other), "");
}

TEST(net_party_says_what_differs_without_harm) {
  const Party here = party("h0");
  CHECK_EQ(difference(here, party("10.0.0.2")), "");
  CHECK_EQ(difference(here, party("10.0.0.2", 0)), "");  // built by hand
  CHECK(has(difference(here, party("10.0.0.2", 0xb2)), "the build of R2CC differ"));
  CHECK(has(difference(here, party("10.0.0.2", 0xa1, 2)), "R2CC_MODE of R2CC differ"));
  CHECK(has(difference(here, party("10.0.0.2", 0xb2, 2)), "R2CC_MODE and build"));
}

TEST(net_party_a_stock_peer_is_named_by_its_address) {
  std::vector<uint8_t> bytes(NCCL_NET_HANDLE_MAXSIZE);
  ConnectHandle out;
  CHECK_EQ(openHandle(bytes.data(), out), 0);
  CHECK(
      has(withoutR2cc(party("h0"), bytes.data()), "h0 (build 00000000a1..., R2CC_MODE=1, net Socket) cannot connect"));
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(0x0a000002);
  memcpy(bytes.data(), &address, sizeof(address));
  CHECK(has(withoutR2cc(party("h0"), bytes.data()), "to 10.0.0.2, which runs without R2CC"));
}

TEST(net_refusal_is_read_as_it_was_written_and_by_its_listener_alone) {
  const ConnectHandle handle = someHandle();
  std::vector<uint8_t> bytes = Refusal::sealed(handle, 42, "why\x1b[2J");
  const auto read = Refusal::open(bytes.data(), bytes.size());
  CHECK(read.has_value() && read->from == 42 && read->to == handle.process && read->listen == handle.listen);
  CHECK_EQ(read->readable(), "why?[2J");
  CHECK(Refusal::genuine(bytes.data(), bytes.size(), *read, handle.key));
  CHECK(!Refusal::genuine(bytes.data(), bytes.size(), *read, randomKey()));
  CHECK(!Parsed::open(bytes.data(), bytes.size()));
  for (size_t at = 0; at < bytes.size(); at++) {
    bytes[at] ^= 1;
    const auto changed = Refusal::open(bytes.data(), bytes.size());
    CHECK(!changed || !Refusal::genuine(bytes.data(), bytes.size(), *changed, handle.key));
    bytes[at] ^= 1;
  }
  for (size_t size = 0; size < bytes.size(); size++) {
    const auto cut = Refusal::open(bytes.data(), size);
    CHECK(!cut || !Refusal::genuine(bytes.data(), size, *cut, handle.key));
  }
  const std::vector<uint8_t> longest = Refusal::sealed(handle, 42, std::string(5000, 'x'));
  CHECK_EQ(Refusal::open(longest.data(), longest.size())->text.size(), Refusal::kMostText);
}

/// The filter in the kernel looks for the receiver where a datagram has it.
TEST(net_refusal_names_its_receiver_where_a_datagram_does) {
  const ConnectHandle handle = someHandle();
  Header header;
  header.to = handle.process;
  Datagram datagram(header);
  const std::vector<uint8_t> one = datagram.seal(handle.key), other = Refusal::sealed(handle, 0, "");
  constexpr size_t kAt = sizeof(kMagic) + sizeof(kWireVersion);
  CHECK(std::equal(one.begin(), one.begin() + kAt - 1, other.begin()));
  CHECK(std::equal(one.begin() + kAt, one.begin() + kAt + 2 * sizeof(uint64_t), other.begin() + kAt));
}
