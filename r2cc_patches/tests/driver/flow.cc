#include "flow.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bench/clock.h"
#include "bench/errors.h"

namespace r2cc::driver {
namespace {

using bench::nowNs;

constexpr int kTag = 7;
constexpr uint64_t kNotice = 32;  // the end is told so many messages ahead: no receiver has posted more
constexpr uint64_t kMix = 0x9e3779b97f4a7c15;

// Words of a message: its number, the end if that is known, a pattern that no other message has, its number again.
void fill(uint64_t* words, size_t count, uint64_t number, uint64_t end) {
  const uint64_t start = (number + 1) * kMix;
  for (size_t i = 2; i + 1 < count; i++) words[i] = start + i;
  words[0] = words[count - 1] = number;
  words[1] = end;
}

// Of `count` words the first `bytes`.
bool isWhole(const uint64_t* words, size_t count, size_t bytes, uint64_t number) {
  const uint64_t start = (number + 1) * kMix;
  const auto wanted = [=](size_t i) { return i == 0 || i + 1 == count ? number : start + i; };
  const size_t whole = bytes / 8;
  uint64_t differs = 0;
  for (size_t i = 0; i < whole; i++) differs |= i == 1 ? 0 : words[i] ^ wanted(i);
  const uint64_t tail = wanted(whole);
  return differs == 0 && (whole == 1 || memcmp(words + whole, &tail, bytes % 8) == 0);
}

}  // namespace

Flow::Flow(const bench::Net& net, bench::Comm comm, const Options& options)
    : net_(net),
      comm_(std::move(comm)),
      words_(options.bytes / 8),
      vary_(options.vary),
      startNs_(nowNs()),
      window_(options.window),
      memory_(words_ * static_cast<size_t>(options.flight)),
      requests_(static_cast<size_t>(options.flight), nullptr) {
  registration_ = comm_.registerMemory(memory_.data(), memory_.size() * 8);
}

size_t Flow::bytesOf(uint64_t message) const {
  const size_t all = words_ * 8;
  if (!vary_) return all;
  const size_t sizes[] = {all, 0, 1, 31, all / 2 + 4};
  return sizes[message % 5];
}

bool Flow::advance() {
  bool moved = false;
  while (postOne()) moved = true;
  return testOldest() || moved;
}

bool Flow::postOne() {
  if (posted_ == progress_.done + requests_.size() || !mayPost()) return false;
  void** request = &requests_[posted_ % requests_.size()];
  *request = nullptr;
  bench::checkNet(post(request), "isend or irecv");
  if (*request == nullptr) return false;
  posted_++;
  return true;
}

bool Flow::testOldest() {
  if (posted_ == progress_.done) return false;
  int done = 0;
  int sizes[NCCL_NET_MAX_REQUESTS] = {0};
  bench::checkNet(net_.table().test(requests_[progress_.done % requests_.size()], &done, sizes), "test");
  if (done == 0) return false;
  finish(sizes[0]);
  count(nowNs());
  return true;
}

void Flow::count(uint64_t now) {
  Progress& p = progress_;
  if (p.firstNs == 0) {
    p.firstNs = windowNs_ = now;
  } else {
    p.longestGapNs = std::max(p.longestGapNs, now - p.lastNs);
  }
  p.lastNs = now;
  p.done++;
  p.bytes += bytesOf(p.done - 1);
  if (p.done == 1 || (p.done - 1) % window_ != 0) return;
  p.windowMs.push_back(static_cast<double>(now - windowNs_) / 1e6);
  windowNs_ = now;
}

Sender::Sender(const bench::Net& net, bench::Comm comm, const Options& options)
    : Flow(net, std::move(comm), options), seconds_(options.seconds), corrupt_(options.corrupt) {
  end_ = options.messages;
}

bool Sender::mayPost() {
  if (paused_) return false;
  if (end_ == 0 && nowNs() - startNs_ > seconds_ * 1'000'000'000) end_ = posted_ + kNotice;
  return Flow::mayPost();
}

ncclResult_t Sender::post(void** request) {
  fill(slot(posted_), words_, posted_, end_);
  if (posted_ == corrupt_) slot(posted_)[words_ / 2] ^= 1;
  return net_.table().isend(comm_.get(), slot(posted_), bytesOf(posted_), kTag, registration_, &events_, request);
}

void Sender::finish(int size) {
  if (static_cast<size_t>(size) != bytesOf(progress_.done)) progress_.bad++;
}

Receiver::Receiver(const bench::Net& net, bench::Comm comm, const Options& options)
    : Flow(net, std::move(comm), options), askNs_(startNs_ + options.askMs * 1'000'000), askFirst_(options.askFirst) {}

bool Receiver::mayPost() { return (posted_ < askFirst_ || nowNs() >= askNs_) && Flow::mayPost(); }

int Receiver::tryGroup() {
  void* data[] = {slot(0), slot(1)};
  size_t sizes[] = {words_ * 8, words_ * 8};
  int tags[] = {kTag, kTag + 1};
  void* registrations[] = {registration_, registration_};
  void* profilers[] = {&events_, &events_};
  void* request = nullptr;
  return net_.table().irecv(comm_.get(), 2, data, sizes, tags, registrations, profilers, &request);
}

ncclResult_t Receiver::post(void** request) {
  void* data = slot(posted_);
  size_t size = words_ * 8;
  int tag = kTag;
  void* profilers = &events_;
  return net_.table().irecv(comm_.get(), 1, &data, &size, &tag, &registration_, &profilers, request);
}

void Receiver::finish(int size) {
  const uint64_t* words = slot(progress_.done);
  const size_t bytes = bytesOf(progress_.done);
  const bool whole = static_cast<size_t>(size) == bytes && isWhole(words, words_, bytes, progress_.done);
  if (!whole) progress_.bad++;
  if (whole && bytes >= 16 && words[1] != 0) end_ = words[1];
}

}  // namespace r2cc::driver
