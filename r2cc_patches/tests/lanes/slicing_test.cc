// How messages are cut: arithmetic that both ends agree on, and streams that are cut while NICs come and go.
#include "lanes/slicing.h"

#include "check.h"
#include "rig/faults.h"
#include "rig/finish.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr size_t kChunk = 128 << 10;

/// The most parts that any Switch so far has asked for.
struct PartsSeen {
  explicit PartsSeen(Rig& rig) {
    rig.spy = [this](int, const NicAddress&, const std::vector<uint8_t>& bytes) {
      const auto parsed = Parsed::open(bytes.data(), bytes.size());
      if (!parsed) return;
      parsed->forEach([this](Type type, Reader& reader) {
        Switch message;
        if (type != Type::Switch) return;
        reader(message);
        last = message.parts;
        if (message.parts > most) most = message.parts;
      });
    };
  }
  std::atomic<int> most{0}, last{0};
};

RigOptions fewLarge(bool rdma) {
  RigOptions options;
  options.mode = 2;
  options.rails = 4;
  options.slots = 2;
  options.bytes = kSlotBytes;
  options.needsAck = !rdma;
  options.anyOrder = options.drains = rdma;
  options.plain = !rdma;
  return options;
}

/// Large messages, two at a time, over the three NICs that are left: exact, and cut.
void cutThroughFaults(const RigOptions& options, bool flushes = true) {
  Rig rig(options);
  PartsSeen parts(rig);
  if (!flushes) rig.fabric.needsNoFlush();
  for (int i = 0; i < 2; i++) rig.stream(i, 1 - i, 0, 1200).receiver->asksToFlush = flushes;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 50; }));
  inject(rig, Fault::LinkAtBoth, 0, fake::Cut::Lose);
  CHECK(Rig::within(kLimitNs, [&] { return parts.most > 1; }));
  for (int round = 0; round < 3; round++) {
    const uint64_t at = rig.delivered();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > at + 40; }));
    const Fault fault = round == 0 ? Fault::ErrorAtReceiver : round == 1 ? Fault::ErrorAtSender : Fault::LinkAtBoth;
    inject(rig, fault, 1 + round % 2, round == 0 ? fake::Cut::Hold : fake::Cut::Lose);
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > at + 80; }));
    revert(rig, fault, 1 + round % 2);
  }
  revert(rig, Fault::LinkAtBoth, 0);
  finishClean(rig, kLimitNs);
}

}  // namespace

TEST(net_slicing_has_a_part_for_each_lane_that_would_rest) {
  CHECK(slicingFor(1, 1, kChunk) == Slicing{});  // one NIC: nothing rests
  CHECK(slicingFor(7, 0, kChunk) == Slicing{});
  for (const size_t lanes : {2, 3, 7, 15}) {
    for (int inFlight = 1; inFlight <= 32; inFlight++) {
      const Slicing cut = slicingFor(lanes, inFlight, 1 << 20);
      CHECK(cut.parts >= 1 && cut.parts <= kMostParts && cut.parts * inFlight <= NCCL_NET_MAX_REQUESTS);
      const bool most = cut.parts == kMostParts || (cut.parts + 1) * inFlight > NCCL_NET_MAX_REQUESTS;
      CHECK(most || cut.parts * inFlight >= static_cast<int>(lanes));
    }
  }
  CHECK(slicingFor(7, 1, 16384) == Slicing{});  // small ones stay whole
}

TEST(net_slicing_parts_are_the_message) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{70001}, kChunk, 3 * kChunk}) {
    const Slicing cut = slicingFor(7, 3, kChunk);
    size_t next = 0;
    for (int part = 0; part < cut.parts; part++) {
      const Piece piece = pieceOf(cut, size, part);
      CHECK(piece.offset == next || piece.size == 0);
      next += piece.size;
      // The receiver's buffer is larger than the message: the same part begins at the same byte of it.
      const Piece room = pieceOf(cut, 4 * kChunk, part);
      CHECK(piece.size == 0 || (room.offset == piece.offset && room.size >= piece.size));
    }
    CHECK_EQ(next, size);
  }
}

TEST(net_slicing_is_kept_while_sizes_are_about_the_same) {
  const Slicing cut = slicingFor(7, 3, kChunk);
  CHECK(stillDoes(cut, cut) && stillDoes(cut, slicingFor(7, 3, kChunk * 9 / 10)));
  CHECK(!stillDoes(cut, slicingFor(7, 3, 2 * kChunk)) && !stillDoes(cut, Slicing{}));
}

TEST(net_slicing_exact_over_sockets) { cutThroughFaults(fewLarge(false)); }

TEST(net_slicing_exact_over_rdma) { cutThroughFaults(fewLarge(true)); }

/// Some GPUs need no flush, and NCCL asks for none: nothing that a NIC took with it lacks one then.
TEST(net_slicing_exact_in_gpu_memory_that_needs_no_flush) {
  RigOptions options = fewLarge(true);
  options.gpu = true;
  cutThroughFaults(options, false);
}

TEST(net_slicing_parts_in_gpu_memory_are_flushed) {
  RigOptions options = fewLarge(true);
  options.gpu = true;
  Rig rig(options);
  PartsSeen parts(rig);
  const Stream& s = rig.stream(0, 1, 0, 600);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 50; }));
  inject(rig, Fault::LinkAtSender, 0, fake::Cut::Hold);
  const auto over = [&] {
    return s.receiver->state() == End::State::Done || s.receiver->state() == End::State::Failed;
  };
  CHECK(Rig::within(kLimitNs, over));
  rig.stop();
  // What a NIC took with it before the flush is lost where the sender was told "done": then both ends say so.
  CHECK((s.receiver->state() == End::State::Done && parts.most > 1) || !rig.warnings().empty());
  CHECK_EQ(s.receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

/// Messages of many sizes, most of whose parts are empty; at home they are whole again.
TEST(net_slicing_ends_at_home) {
  RigOptions options = fewLarge(false);
  options.bytes = 0;  // mixed: the largest are as large
  Rig rig(options);
  PartsSeen parts(rig);
  rig.stream(0, 1, 0, 100000000);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 200; }));
  inject(rig, Fault::LinkAtBoth, 0, fake::Cut::Lose);
  CHECK(Rig::within(kLimitNs, [&] { return parts.most > 1; }));
  revert(rig, Fault::LinkAtBoth, 0);
  CHECK(Rig::within(kLimitNs, [&] { return parts.last == 1; }));
  rig.stop();
  CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}
