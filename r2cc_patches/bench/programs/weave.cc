#include "bench/programs/weave.h"

#include <unordered_map>

namespace r2cc::bench {
namespace {

constexpr uint32_t kNoEnd = UINT32_MAX;

// Who wrote a chunk last (one that stored, or several that added), what these had to wait for, and who has read it
// since.
struct Chunk {
  std::vector<Need> writers, before, readers;
  bool stored = false;
};

class Weaver {
 public:
  Weaver(const Sequence& sequence, int rank) : sequence_(sequence), endOf_(sequence.edges.size(), kNoEnd) {
    for (uint32_t edge = 0; edge < sequence.edges.size(); edge++) {
      const auto [from, to] = sequence.edges[edge];
      if (from != rank && to != rank) continue;
      endOf_[edge] = static_cast<uint32_t>(ends_.size());
      ends_.push_back({edge, from == rank ? to : from, from == rank, {}});
    }
  }

  void turn(uint32_t number) {
    std::vector<Need> done(sequence_.transfers.size());
    for (size_t i = 0; i < sequence_.transfers.size(); i++) {
      const Transfer& transfer = sequence_.transfers[i];
      const uint32_t end = endOf_[transfer.edge];
      if (end == kNoEnd) continue;
      done[i] = {end, static_cast<uint32_t>(ends_[end].messages.size()) + 1};
      Message message = ends_[end].sends ? send(transfer, done[i]) : receive(transfer, done[i]);
      for (const int64_t other : transfer.after) {
        const bool concernsUs = ends_[end].sends && other != kNoTransfer;
        if (concernsUs && done[static_cast<size_t>(other)].count > 0)
          message.needs.push_back(done[static_cast<size_t>(other)]);
      }
      message.turn = number;
      ends_[end].messages.push_back(message);
    }
  }

  std::vector<End> take() { return std::move(ends_); }

 private:
  Message send(const Transfer& transfer, const Need& self) {
    Message message{transfer.sendOffset, transfer.bytes, transfer.action, 0, {}};
    if (!sequence_.inPlace) return message;
    Chunk& chunk = chunks_[transfer.sendOffset];
    for (const Need& writer : chunk.writers) message.needs.push_back(writer);
    chunk.readers.push_back(self);
    return message;
  }

  // Additions may come in any order. What has to be over before one was itself after all that came before it.
  Message receive(const Transfer& transfer, const Need& self) {
    Message message{transfer.receiveOffset, transfer.bytes, transfer.action, 0, {}};
    if (!sequence_.inPlace) return message;
    Chunk& chunk = chunks_[transfer.receiveOffset];
    const bool stores = transfer.action == Action::Store;
    const bool joins = chunk.readers.empty() && !stores && !chunk.stored;
    if (!joins) {
      chunk.before = chunk.readers.empty() ? std::move(chunk.writers) : std::move(chunk.readers);
      chunk.writers.clear();
      chunk.readers.clear();
    }
    for (const Need& before : chunk.before) message.needs.push_back(before);
    chunk.writers.push_back(self);
    chunk.stored = stores;
    return message;
  }

  const Sequence& sequence_;
  std::vector<uint32_t> endOf_;  // by edge
  std::vector<End> ends_;
  std::unordered_map<uint64_t, Chunk> chunks_;  // by offset
};

}  // namespace

std::vector<End> weave(const Sequence& sequence, int rank, int times) {
  Weaver weaver(sequence, rank);
  for (int turn = 0; turn < times; turn++) weaver.turn(static_cast<uint32_t>(turn));
  return weaver.take();
}

}  // namespace r2cc::bench
