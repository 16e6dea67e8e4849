#include "comms.h"

namespace r2cc::progress {

Handle Comms::open(int64_t nowNs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Handle handle;
  if (!free_.empty()) {
    handle.comm = free_.back();
    free_.pop_back();
  } else if (made_ < kMost) {
    handle.comm = made_;
    entries_[made_++].store(new Entry, std::memory_order_release);  // never freed
  } else {
    return handle;
  }
  Entry& entry = *entries_[handle.comm].load();
  entry.comm.begin(nowNs);
  entry.identity = {};
  entry.written = {};
  entry.writtenNs = nowNs;
  entry.begun = entry.identified = false;
  entry.open = true;
  open_++;
  handle.kind = Kind::kComm;
  handle.life = entry.life.load() & Handle::mask(Handle::kLifeBits);
  return handle;
}

void Comms::identify(Handle comm, const Identity& identity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry* entry = find(comm);
  if (entry == nullptr || entry->identified) return;
  entry->identity = identity;
  entry->comm.setNodes(identity.nodes);
  entry->identified = true;
}

bool Comms::identified(Handle comm) {
  const Entry* entry = find(comm);
  return entry == nullptr || entry->identified.load(std::memory_order_relaxed);
}

void Comms::close(Handle comm, const std::function<void(Entry&)>& last) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry* entry = find(comm);
  if (entry == nullptr || !entry->open) return;
  last(*entry);
  entry->open = false;
  entry->life++;
  open_--;
  free_.push_back(comm.comm);
}

void Comms::each(const std::function<void(Entry&)>& visit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (unsigned i = 0; i < made_; i++) {
    Entry& entry = *entries_[i].load();
    if (entry.open) visit(entry);
  }
}

bool Comms::empty() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_ == 0;
}

}  // namespace r2cc::progress
