// Ring and copy schedules, played by an interpreter with no network: they must finish, agree on both ends, and be
// right.
#include <map>
#include <vector>

#include "../bench/lane.h"
#include "../bench/schedule.h"
#include "check.h"

using namespace r2cc::bench;

namespace {

// All ranks of one ring with one message in flight at a time, in whatever order is possible.
class RingPlay {
 public:
  RingPlay(int ranks, const Region& region, uint32_t chunkBytes) : ranks_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; rank++) {
      lanes_.push_back(ringSchedule(rank, ranks, region, chunkBytes));
      data_.emplace_back(region.end, static_cast<double>(1 << rank));  // the sum shows who contributed, and how often
    }
    sent_.assign(ranks_, 0);
    received_.assign(ranks_, 0);
  }

  // False when nothing can move although something is left: a deadlock.
  bool run() {
    while (!finished()) {
      bool moved = false;
      for (size_t rank = 0; rank < ranks_; rank++) moved |= deliverFrom(rank);
      if (!moved) return false;
    }
    return true;
  }

  const std::vector<double>& dataOf(size_t rank) const { return data_[rank]; }

 private:
  bool finished() const {
    for (size_t rank = 0; rank < ranks_; rank++) {
      if (sent_[rank] < lanes_[rank].sends.size() || received_[rank] < lanes_[rank].receives.size()) return false;
    }
    return true;
  }

  bool deliverFrom(size_t rank) {
    const size_t next = (rank + 1) % ranks_;
    if (sent_[rank] == lanes_[rank].sends.size()) return false;
    const Message& out = lanes_[rank].sends[sent_[rank]];
    const Message& in = lanes_[next].receives.at(received_[next]);
    if (out.needs > received_[rank] || in.needs > sent_[next]) return false;
    CHECK_EQ(out.bytes, in.bytes);
    CHECK_EQ(out.offset, in.offset);  // AllReduce moves nothing to another place
    for (size_t i = out.offset / sizeof(float); i < (out.offset + out.bytes) / sizeof(float); i++) {
      data_[next][i] = data_[rank][i] + (in.action == Action::Reduce ? data_[next][i] : 0.0);
    }
    sent_[rank]++;
    received_[next]++;
    return true;
  }

  size_t ranks_;
  std::vector<LaneSchedule> lanes_;
  std::vector<std::vector<double>> data_;
  std::vector<size_t> sent_;
  std::vector<size_t> received_;
};

uint64_t bytesOf(const std::vector<Message>& messages) {
  uint64_t sum = 0;
  for (const Message& message : messages) sum += message.bytes;
  return sum;
}

}  // namespace

TEST(ring_reduces_every_element_exactly_once) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const uint64_t elements : {1U, 3U, 64U, 1000U, 1021U}) {
      RingPlay play(ranks, {0, elements}, 64);
      CHECK(play.run());
      for (int rank = 0; rank < ranks; rank++) {
        const auto& data = play.dataOf(static_cast<size_t>(rank));
        CHECK(data == std::vector<double>(elements, static_cast<double>((1 << ranks) - 1)));
      }
    }
  }
}

TEST(ring_sends_what_theory_says) {
  const uint64_t elements = 4096;
  const LaneSchedule lane = ringSchedule(1, 4, {0, elements}, 1024);
  CHECK_EQ(bytesOf(lane.sends), elements * sizeof(float) * 2 * 3 / 4);  // 2 (n-1)/n of the data
  CHECK_EQ(bytesOf(lane.receives), bytesOf(lane.sends));
  CHECK_EQ(lane.sends.size(), 6U * 4U);
  CHECK_EQ(lane.sends.front().needs, 0U);
}

TEST(ring_overwrites_a_block_only_after_its_partial_sum_has_left) {
  for (int rank = 0; rank < 4; rank++) {
    const LaneSchedule lane = ringSchedule(rank, 4, {0, 999}, 128);
    for (const Message& in : lane.receives) {
      if (in.action != Action::Store) continue;
      bool sentBefore = false;
      for (size_t i = 0; i < in.needs; i++) sentBefore |= lane.sends[i].offset == in.offset;
      CHECK(sentBefore);
    }
  }
}

TEST(parts_cover_the_whole_without_overlap) {
  for (const uint64_t parts : {1U, 3U, 16U}) {
    uint64_t at = 10;
    for (uint64_t i = 0; i < parts; i++) {
      const Region part = partOf({10, 110}, parts, i);
      CHECK_EQ(part.begin, at);
      at = part.end;
    }
    CHECK_EQ(at, 110U);
  }
}

TEST(the_next_of_a_row_begins_when_the_one_before_is_over) {
  const LaneSchedule once = ringSchedule(1, 4, {0, 4000}, 512);
  const LaneSchedule row = inARow(once, 3);
  CHECK_EQ(row.sends.size(), 3 * once.sends.size());
  CHECK_EQ(row.receives.size(), 3 * once.receives.size());
  for (size_t i = 0; i < row.sends.size(); i++) {
    const size_t turn = i / once.sends.size();
    CHECK_EQ(row.sends[i].after, turn * once.sends.size());
    CHECK(row.sends[i].needs >= turn * once.receives.size());
    CHECK_EQ(row.sends[i].offset, once.sends[i % once.sends.size()].offset);
  }
  for (size_t i = 0; i < row.receives.size(); i++) {
    CHECK(row.receives[i].needs >= i / once.receives.size() * once.sends.size());
  }
}

TEST(copy_cuts_both_directions_alike) {
  const LaneSchedule lane = copySchedule({0, 1000}, {5000, 6000}, 512);
  CHECK_EQ(lane.sends.size(), lane.receives.size());
  CHECK_EQ(bytesOf(lane.receives), 4000U);
  CHECK_EQ(lane.receives.front().offset, 20000U);
  CHECK_EQ(lane.receives.back().bytes, lane.sends.back().bytes);
}

TEST(both_ends_of_every_lane_agree_in_every_operation) {
  for (const Op op : {Op::AllReduce, Op::Stream, Op::AllToAll}) {
    Options options;
    options.ranks = 4;
    options.op = op;
    options.bytes = 49388;
    options.channels = 3;
    options.connectionsPerPeer = 2;
    options.chunkBytes = 256;
    for (const LanePlace& place : lanePlaces(options)) {
      for (int rank = 0; rank < 4; rank++) {
        Options sender = options;
        Options receiver = options;
        sender.rank = rank;
        receiver.rank = (rank + place.distance) % 4;
        const std::vector<Message> sends = scheduleOf(sender, place).sends;
        const std::vector<Message> receives = scheduleOf(receiver, place).receives;
        CHECK_EQ(sends.size(), receives.size());
        for (size_t i = 0; i < sends.size() && i < receives.size(); i++) CHECK_EQ(sends[i].bytes, receives[i].bytes);
      }
    }
  }
}

TEST(lanes_of_one_rank_cover_all_elements_once) {
  Options options;
  options.rank = 2;
  options.ranks = 4;
  options.op = Op::AllToAll;
  options.bytes = 16384;
  options.channels = 4;
  options.connectionsPerPeer = 3;
  options.chunkBytes = 100;
  std::map<uint64_t, int> received;
  for (const LanePlace& place : lanePlaces(options)) {
    for (const Message& message : scheduleOf(options, place).receives) {
      for (uint64_t b = message.offset; b < message.offset + message.bytes; b += 4) received[b / 4]++;
    }
  }
  CHECK_EQ(received.size(), 3U * 1024U);  // all but the own block
  for (const auto& [element, times] : received) CHECK(times == 1 && element / 1024 != 2);
}
