#include "schedule.h"

#include <algorithm>

namespace r2cc::bench {
namespace {

std::vector<Message> chunksOf(const Region& region, uint32_t chunkBytes, Action action) {
  std::vector<Message> chunks;
  const uint64_t end = region.end * sizeof(float);
  for (uint64_t offset = region.begin * sizeof(float); offset < end; offset += chunkBytes) {
    chunks.push_back({offset, static_cast<uint32_t>(std::min<uint64_t>(chunkBytes, end - offset)), action, 0});
  }
  return chunks;
}

// Appends the chunks of one ring step. `dependency` is the index, in the other direction's list, of the first chunk of
// the same block, or -1; the block has the same chunks there, one for one.
void append(std::vector<Message>& list, const std::vector<Message>& block, Action action, int64_t dependency) {
  for (size_t chunk = 0; chunk < block.size(); chunk++) {
    Message message = block[chunk];
    message.action = action;
    message.needs = dependency < 0 ? 0 : static_cast<uint32_t>(dependency) + static_cast<uint32_t>(chunk) + 1;
    list.push_back(message);
  }
}

}  // namespace

Region partOf(const Region& whole, uint64_t parts, uint64_t index) {
  const uint64_t base = whole.size() / parts;
  const uint64_t extra = whole.size() % parts;
  const uint64_t begin = whole.begin + index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

LaneSchedule ringSchedule(int rank, int ranks, const Region& region, uint32_t chunkBytes) {
  std::vector<std::vector<Message>> blocks;
  blocks.reserve(static_cast<size_t>(ranks));
  for (int block = 0; block < ranks; block++) {
    blocks.push_back(chunksOf(partOf(region, static_cast<uint64_t>(ranks), static_cast<uint64_t>(block)), chunkBytes,
                              Action::Store));
  }
  const auto block = [&](int index) -> const std::vector<Message>& {
    return blocks[static_cast<size_t>((index % ranks) + ranks) % blocks.size()];
  };
  LaneSchedule lane;
  std::vector<int64_t> sentAt;  // index in lane.sends where step s starts
  int64_t receivedAt = -1;      // index in lane.receives where the previous step started
  for (int step = 0; step < 2 * (ranks - 1); step++) {
    sentAt.push_back(static_cast<int64_t>(lane.sends.size()));
    append(lane.sends, block(rank - step), Action::Store, receivedAt);
    receivedAt = static_cast<int64_t>(lane.receives.size());
    const bool reducing = step < ranks - 1;
    const int64_t partialSent = reducing ? -1 : sentAt[static_cast<size_t>(step) + 1 - blocks.size()];
    append(lane.receives, block(rank - step - 1), reducing ? Action::Reduce : Action::Store, partialSent);
  }
  return lane;
}

LaneSchedule copySchedule(const Region& sent, const Region& received, uint32_t chunkBytes) {
  return {chunksOf(sent, chunkBytes, Action::Store), chunksOf(received, chunkBytes, Action::Store)};
}

LaneSchedule inARow(const LaneSchedule& once, int times) {
  const auto sends = static_cast<uint32_t>(once.sends.size()), receives = static_cast<uint32_t>(once.receives.size());
  LaneSchedule all;
  for (int turn = 0; turn < times; turn++) {
    const auto before = static_cast<uint32_t>(turn);
    for (Message message : once.sends) {
      message.needs += before * receives;
      message.after = before * sends;
      all.sends.push_back(message);
    }
    for (Message message : once.receives) {  // into blocks that the one before has still to send
      message.needs += before * sends;
      all.receives.push_back(message);
    }
  }
  return all;
}

}  // namespace r2cc::bench
