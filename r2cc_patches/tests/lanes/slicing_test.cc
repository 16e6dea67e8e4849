// How messages are cut: arithmetic that both ends agree on, and streams that are cut while NICs come and go.
#include "lanes/slicing.h"

#include <map>

#include "budget.h"
#include "check.h"
#include "data/load.h"
#include "lanes/cut_change.h"
#include "lanes/plan.h"
#include "rig/faults.h"
#include "rig/finish.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr size_t kChunk = 128 << 10;
constexpr size_t kThreeParts = 56 << 10;  // the least that three lanes have three parts of, two at a time

/// How many parts the Switches so far have asked for; the first of them that cuts.
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
        int none = 0;
        if (message.parts > 1) first.compare_exchange_strong(none, message.parts);
        if (message.parts > most) most = message.parts;
      });
    };
  }
  std::atomic<int> most{0}, last{0}, first{0};
};

RigOptions fewLarge(bool rdma) {
  RigOptions options;
  options.mode = 2;
  options.rails = 4;
  options.slots = 2;
  options.bytes = kThreeParts;
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
  // Every byte of a message is written, copied and compared, each time in TSan's sight: there it comes to fewer, and
  // the faults take no longer.
  const uint64_t messages = check::much(1200, 500);
  for (int i = 0; i < 2; i++) rig.stream(i, 1 - i, 0, messages).receiver->asksToFlush = flushes;
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

/// One lane a weight, as a plan has them.
std::vector<PlanLane> lanesOf(const std::vector<uint8_t>& weights) {
  std::vector<PlanLane> out;
  for (const uint8_t weight : weights) {
    const auto id = static_cast<uint32_t>(out.size() + 1);
    out.push_back({std::make_shared<Lane>(nullptr, id, true, nullptr, 0, InnerNet{}, nullptr), weight});
  }
  return out;
}

/// What is short has bytes in its first part alone: every part of messages goes to each lane by its weight, and so does
/// every run of turns.
TEST(net_slicing_each_part_goes_by_the_weights) {
  const std::vector<std::vector<uint8_t>> several{{1, 1, 1}, {1, 1}, {1, 3}, {2, 3, 3}, {1, 4, 4, 4}, {3, 15, 15, 15}};
  for (const std::vector<uint8_t>& weights : several) {
    uint64_t turns = 0;
    for (const uint8_t weight : weights) turns += weight;
    for (uint8_t parts = 1; parts <= kMostParts; parts++) {
      const PlanStep step(40, lanesOf(weights), {parts, 4096});
      std::map<std::pair<uint64_t, uint32_t>, uint64_t> count;  // by part and lane
      const uint64_t messages = turns * turns;
      for (uint64_t n = 0; n < messages * parts; n++) count[{n % parts, step.laneFor(40 + n)->id}]++;
      for (const auto& [at, times] : count) {
        const uint64_t fair = messages * weights[at.second - 1] / turns;
        CHECK(times + turns >= fair && times <= fair + turns);  // it may end in the middle of a round
      }
    }
  }
}

TEST(net_slicing_goes_by_what_is_usual) {
  Load load;
  CHECK_EQ(load.usual().inFlight, 0);
  const auto give = [&](size_t bytes, int times) {
    for (int i = 0; i < times; i++) load.given(bytes), load.over();
  };
  // One giant among equals is none, nor are many small ones: what has half of the bytes decides.
  give(1 << 20, 1), give(kChunk, 20);
  CHECK(load.usual().bytes == kChunk && load.usual().inFlight == 1);
  give(0, 20), give(100, 20);
  CHECK_EQ(load.usual().bytes, kChunk);
  // What was long ago says nothing, however little there was since.
  for (int i = 0; i < 8; i++) load.given(4 * kChunk);
  for (int i = 0; i < 8; i++) load.over();
  CHECK(load.usual().bytes == 4 * kChunk && load.usual().inFlight == 8);
  give(kChunk, static_cast<int>(Load::kNewest));
  CHECK(load.usual().bytes == kChunk && load.usual().inFlight == 1);
}

TEST(net_slicing_changes_for_what_lasts) {
  const Slicing four = slicingFor(4, 2, kChunk), five = slicingFor(5, 2, kChunk);
  CHECK(four.parts == 4 && five.parts == 5);
  CutChange change;
  int changes = 0;
  for (int64_t now = 0; now < msToNs(60000); now += msToNs(10)) {  // now this, now that: mostly another
    changes += change.due(four, now / msToNs(10) % 7 == 0 ? four : five, now) ? 1 : 0;
  }
  CHECK_EQ(changes, 0);
  // What lasts is soon followed; then not for a while.
  int64_t now = msToNs(70000);
  CHECK(!change.due(four, four, now) && !change.due(four, five, now) && !change.due(four, five, now + msToNs(90)));
  CHECK(change.due(four, five, now += msToNs(100)));
  change.changed(now);
  CHECK(!change.due(five, four, now + msToNs(10)) && !change.due(five, four, now + msToNs(400)));
  CHECK(change.due(five, four, now + msToNs(510)));
  // Other lanes came, with a cut of their own: that one may be wrong at once.
  change.reset();
  CHECK(!change.due(five, four, now + msToNs(20)) && change.due(five, four, now + msToNs(120)));
}

/// A stream at home, whose first cut comes with a NIC's loss.
void firstCut(const Sizes& sizes, int expected) {
  RigOptions options = fewLarge(false);
  options.bytes = 0, options.sizes = sizes;
  Rig rig(options);
  PartsSeen parts(rig);
  Stream& s = rig.stream(0, 1, 0, 100000000);
  s.sender->limit = 200;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 200; }));
  inject(rig, Fault::LinkAtBoth, 0, fake::Cut::Lose);
  s.sender->limit = UINT64_MAX;
  CHECK(Rig::within(kLimitNs, [&] { return parts.first != 0 && rig.delivered() > 400; }));
  CHECK_EQ(parts.first, expected);
  CHECK(Rig::within(kLimitNs, [&] { return parts.last == expected; }));
  rig.stop();
  CHECK_EQ(rig.streams()[0].receiver->wrong(), "");
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

TEST(net_slicing_first_cut_is_of_what_comes_now) {
  constexpr size_t kHalf = kSlotBytes / 2;
  CHECK(slicingFor(3, 2, kHalf).parts == 2 && slicingFor(3, 2, kSlotBytes).parts == 3);
  firstCut([](uint64_t number) { return number < 100 ? kSlotBytes : kHalf; }, 2);
}

TEST(net_slicing_one_large_message_does_not_decide) {
  firstCut([](uint64_t number) { return number % 16 == 0 ? kSlotBytes : kSlotBytes / 2; }, 2);
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
  options.bytes = 0;
  options.sizes = [](uint64_t number) { return number % 4 == 0 ? kSlotBytes : number * 977 % 3000; };
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
