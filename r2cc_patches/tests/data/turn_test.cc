// How much one call of NCCL's takes from a connection: not all that has come, while other connections wait.
#include "check.h"
#include "data/recv_connection.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr uint64_t kFirst = 4;

/// Eight messages of this size have come, and NCCL asks about the first: how many of them are delivered then.
uint64_t inOneTurn(size_t bytes) {
  RigOptions options;
  options.bytes = bytes;
  Rig rig(options);
  const Stream& s = rig.stream(0, 1, 0, kFirst + kSlots);
  s.sender->limit = s.receiver->limit = kFirst;
  rig.start();
  CHECK(Rig::within(msToNs(15000), [&] { return rig.delivered() == kFirst; }));
  rig.stop();
  s.sender->limit = UINT64_MAX;
  auto& connection = *static_cast<RecvConnection*>(static_cast<Connection*>(s.receiver->comm()));
  std::vector<uint8_t> buffers(kSlots * kSlotBytes);
  void* mr = nullptr;
  CHECK_EQ(rig.engine(1).regMr(s.receiver->comm(), buffers.data(), buffers.size(), NCCL_PTR_HOST, 0, -1, &mr),
           ncclSuccess);
  void* requests[kSlots] = {};
  for (int i = 0; i < kSlots; i++) {
    const int tag = static_cast<int>(kFirst) + i;
    // None while the engine has the connection in hand: NCCL asks again, too.
    CHECK(Rig::within(msToNs(15000), [&] {
      void* buffer = &buffers[i * kSlotBytes];
      CHECK_EQ(connection.irecv(buffer, kSlotBytes, tag, mr, nullptr, &requests[i]), ncclSuccess);
      return requests[i] != nullptr;
    }));
  }
  (void)Rig::within(msToNs(200), [&] { return s.sender->step(), false; });  // they are all there
  // One look each: they had come. One that found the engine at work there took nothing, and is no look.
  const auto test = [&](void* request) {
    int done = 0;
    (void)Rig::within(msToNs(15000), [&] {
      const uint64_t before = connection.delivered();
      int size = 0;
      CHECK_EQ(connection.test(*static_cast<r2cc::Request*>(request), &done, &size), ncclSuccess);
      return done == 1 || connection.delivered() != before;
    });
    return done == 1;
  };
  CHECK(test(requests[0]));
  const uint64_t turn = connection.delivered() - kFirst;
  for (int i = 1; i < kSlots; i++) CHECK(test(requests[i]));
  CHECK_EQ(rig.engine(1).deregMr(s.receiver->comm(), mr), ncclSuccess);
  CHECK_EQ(s.sender->wrong(), "");
  return turn;
}

}  // namespace

TEST(net_a_turn_takes_one_large_message_or_all_small_ones) {
  CHECK_EQ(inOneTurn(kTurnBytes), 1u);
  CHECK_EQ(inOneTurn(kTurnBytes / 4), 4u);
  CHECK_EQ(inOneTurn(100), 8u);
}
