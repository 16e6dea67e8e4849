// Who takes what lost NICs had: which connections go whole over one NIC each, and which are spread.
#include "paths/wanted.h"

#include <arpa/inet.h>

#include <string>
#include <vector>

#include "check.h"
#include "paths/peer.h"

using namespace r2cc;

namespace {

constexpr uint64_t kMuch = 1'000'000;

LocalNic nic(uint8_t dev, const char* host) {
  LocalNic out;
  out.name = "eth" + std::to_string(dev);
  out.address.dev = dev;
  out.address.family = AF_INET;
  out.address.prefix = 24;
  out.address.domain = dev;
  out.address.port = 1000;
  CHECK_EQ(inet_pton(AF_INET, ("10." + std::to_string(dev) + ".0." + host).c_str(), out.address.ip.data()), 1);
  return out;
}

std::vector<LocalNic> rails(uint8_t count, const char* host) {
  std::vector<LocalNic> out;
  for (uint8_t dev = 0; dev < count; dev++) out.push_back(nic(dev, host));
  return out;
}

/// A peer over four rails, of which some are lost.
struct Rails {
  explicit Rails(const std::vector<size_t>& lost) {
    peer.setRemote(addressesOf(rails(4, "2")));
    CHECK_EQ(peer.paths().size(), 4U);
    for (const size_t rail : lost) CHECK(peer.paths()[rail]->linkLost(msToNs(1000), true));
  }
  Path* path(size_t rail) const { return peer.paths()[rail].get(); }
  /// Of each carrier in turn the rail it goes whole over, - for one that is spread.
  std::string whole(const std::vector<Carrier>& carriers) const {
    const std::vector<double> demand(4, 1.0);
    const auto found = wholeByTurns(peer, carriers, demand, {});
    std::string out;
    for (const Carrier& carrier : carriers) {
      const auto it = found.find(carrier.connection);
      out += it == found.end() ? "-" : std::to_string(it->second->local);
    }
    return out;
  }
  std::vector<LocalNic> nics = rails(4, "1");
  const SideChannel side{nics};
  const Self self;
  Peer peer{1, /*weConnect=*/true, Key{}, self, side, nics, Probation{}};
};

}  // namespace

TEST(net_another_communicators_go_round_by_themselves) {
  const Rails rails({1, 3});
  const int one = 0, other = 0;
  const auto of = [&](uint64_t connection, size_t rail, const int& communicator) {
    return Carrier{connection, rails.path(rail), &communicator, kMuch};
  };
  // Two of each go round the two NICs that are left, whichever came first.
  CHECK_EQ(rails.whole({of(1, 1, one), of(2, 3, one), of(3, 1, other), of(4, 3, other)}), "0202");
  CHECK_EQ(rails.whole({of(1, 1, one), of(2, 1, other), of(3, 3, one), of(4, 3, other)}), "0022");
  // One of each does not: they do not begin together, so one cannot stand for the other's missing half.
  CHECK_EQ(rails.whole({of(1, 1, one), of(2, 3, other)}), "--");
  CHECK_EQ(rails.whole({of(1, 1, one), of(2, 3, one), of(3, 1, other)}), "02-");
}

TEST(net_what_does_not_go_round_is_spread) {
  const Rails rails({2});
  const auto of = [&](uint64_t connection, size_t rail, uint64_t bytes = kMuch) {
    return Carrier{connection, rails.path(rail), nullptr, bytes};
  };
  CHECK_EQ(rails.whole({of(1, 2), of(2, 2)}), "--");
  CHECK_EQ(rails.whole({of(1, 2), of(2, 2), of(3, 2)}), "013");
  CHECK_EQ(rails.whole({of(1, 2), of(2, 2), of(3, 2), of(4, 2)}), "013-");
  CHECK_EQ(rails.whole({of(1, 2), of(2, 0), of(3, 2), of(4, 2)}), "0-13");  // at home on a NIC that is well
  // Those that carried as much go round together; a quarter more or less is as much.
  CHECK_EQ(rails.whole({of(1, 2), of(2, 2, 2 * kMuch), of(3, 2), of(4, 2)}), "0-13");
  CHECK_EQ(rails.whole({of(1, 2), of(2, 2, kMuch * 5 / 4), of(3, 2, kMuch * 4 / 5)}), "013");
}

TEST(net_nobody_goes_whole_where_survivors_take_different_parts) {
  const Rails rails({2});
  const auto of = [&](uint64_t connection) { return Carrier{connection, rails.path(2), nullptr, kMuch}; };
  rails.path(1)->capacity = 0.9;
  CHECK_EQ(rails.whole({of(1), of(2), of(3)}), "---");
  rails.path(1)->capacity = 0.5;  // it has too much of its own to take any of that
  CHECK_EQ(rails.whole({of(1), of(2), of(3)}), "03-");
}
