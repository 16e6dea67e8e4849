// With R2CC_TLS=1 all that the engine does by datagrams works as it does without: connecting, failing over, returning,
// by UDP and by TCP; and nobody who listens can tell messages apart.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "check.h"
#include "rig/rig.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(30000);

RigOptions encrypted() {
  RigOptions options;
  options.tls = {"1", "1"};
  return options;
}

/// A stream that loses its NIC in the middle, and gets it back.
void survives(Rig& rig) {
  constexpr uint64_t kMessages = 4000;
  const Stream& s = rig.stream(0, 1, 0, kMessages);
  s.sender->limit = s.receiver->limit = kMessages / 2;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kMessages / 2; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

}  // namespace

TEST(net_encrypted_a_nic_is_lost_mid_stream) {
  Rig rig(encrypted());
  survives(rig);
  for (int host = 0; host < 2; host++) {
    const Dropped& dropped = rig.engine(host).droppedByReason();  // not replayed: a late host's twins by TCP may be
    CHECK_EQ(dropped.malformed.load(), 0u);
    CHECK_EQ(dropped.stranger.load(), 0u);
    CHECK_EQ(dropped.forged.load(), 0u);
    CHECK_EQ(dropped.refusals.load(), 0u);
  }
}

TEST(net_encrypted_with_a_secret_by_tcp_alone) {
  const check::Scratch folder;
  const std::string file = folder / "secret";
  std::ofstream(file) << std::string(64, 's');
  CHECK_EQ(chmod(file.c_str(), 0600), 0);
  RigOptions options = encrypted();
  options.secretFiles = {file, file};
  Rig rig(options);
  rig.loseUdp = true;
  survives(rig);
}

/// Of a connection's Hello nothing can be read but the header; without TLS it can.
TEST(net_encrypted_datagrams_leave_the_engine) {
  for (const bool tls : {false, true}) {
    Rig rig(tls ? encrypted() : RigOptions{});
    std::atomic<int> read{0}, left{0};
    rig.spy = [&](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
      const auto parsed = Parsed::open(bytes.data(), bytes.size());
      left++;
      if (!parsed) return;
      bool first = true;
      (void)parsed->forEach([&](Type type, Reader& reader) {
        Hello hello;
        if (std::exchange(first, false) && type == Type::Hello) reader(hello);
        read += !hello.nics.empty() && hello.nics.front().ip[0] == 127 ? 1 : 0;
      });
    };
    rig.stream(0, 1, 0, 100);
    rig.start();
    CHECK(rig.allDone(kLimitNs));
    rig.stop();
    CHECK(left > 0);
    CHECK_EQ(read > 0, !tls);
  }
}
