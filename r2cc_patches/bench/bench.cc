#include "bench.h"

#include <algorithm>

#include "clock.h"
#include "errors.h"
#include "report.h"

namespace r2cc::bench {
namespace {

std::vector<Lane> makeLanes(const Net& net, const Options& options) {
  std::vector<Lane> lanes;
  for (const LanePlace& place : lanePlaces(options)) {
    lanes.emplace_back(net, options, place, static_cast<int>(lanes.size()));
  }
  return lanes;
}

}  // namespace

Bench::Bench(const Options& options, const ncclNet_v11_t& table, Bootstrap& bootstrap, const LineWriter& out)
    : options_(options),
      bootstrap_(bootstrap),
      out_(out),
      net_(table, nonceOf(options.nonce + fingerprint(options))),
      data_(options),
      lanes_(makeLanes(net_, options)),
      progress_(options.idleUs) {}

void Bench::checkFingerprints() {
  const std::string mine = fingerprint(options_);
  const std::vector<std::string> all = bootstrap_.allGather(mine);
  for (size_t rank = 0; rank < all.size(); rank++) {
    if (all[rank] == mine) continue;
    throw UsageError("rank " + std::to_string(rank) + " was started with '" + all[rank] + "', this rank with '" + mine +
                     "'");
  }
}

void Bench::onProgressThread(std::function<Pass()> pass) {
  progress_.start(std::move(pass));
  bootstrap_.waitFor(progress_.endedFd(), [this] { return progress_.moves(); });
  progress_.collect();
}

void Bench::exchangeHandles() {
  std::string mine;
  onProgressThread([&] {
    for (Lane& lane : lanes_) {
      const Handle handle = lane.listen();
      mine.append(handle.data(), handle.size());
    }
    return Pass::Done;
  });
  const std::vector<std::string> all = bootstrap_.allGather(mine);
  for (size_t index = 0; index < lanes_.size(); index++) {
    const int peer = lanes_[index].sender().id().peer;
    const std::string& theirs = all[static_cast<size_t>(peer)];
    Handle handle{};
    if (theirs.size() != lanes_.size() * handle.size()) throw TransportError("rank sent no handles", peer);
    std::copy_n(theirs.begin() + static_cast<ptrdiff_t>(index * handle.size()), handle.size(), handle.begin());
    lanes_[index].setPeerHandle(handle);
  }
}

void Bench::connect() {
  const int flows = options_.channels * options_.connectionsPerPeer;
  net_.announce(options_.op, options_.ranks, flows);
  size_t connected = 0;
  onProgressThread([&] {
    size_t standing = 0;
    for (Lane& lane : lanes_) standing += lane.connect() ? 1 : 0;
    const bool moved = standing != std::exchange(connected, standing);
    if (standing < lanes_.size()) return moved ? Pass::Moved : Pass::Idle;
    for (Lane& lane : lanes_) lane.useBuffers(data_.sendBuffer(), data_.receiveBuffer());
    return Pass::Done;
  });
}

void Bench::iterate(int64_t index) {
  bootstrap_.barrier();
  const uint64_t startNs = nowNs();
  out_.write(progressLine(options_.rank, index, startNs));
  for (Lane& lane : lanes_) lane.begin();
  uint64_t endNs = 0;
  onProgressThread([&] {
    size_t moved = 0;
    bool complete = true;
    for (Lane& lane : lanes_) {
      moved += lane.advance();
      complete &= lane.complete();
    }
    if (complete) {
      endNs = nowNs();
      return Pass::Done;
    }
    if (moved >= lanes_.size()) return Pass::Saturated;
    return moved > 0 ? Pass::Moved : Pass::Idle;
  });
  bootstrap_.barrier();  // checking must not take the CPU from ranks that still work
  if (options_.corrupt.rank == options_.rank && options_.corrupt.iteration == index) data_.corruptOne();
  const uint64_t wrong = data_.checkAndRefill(index);
  wrongElements_ += wrong;
  writeIteration(index, startNs, endNs, wrong);
}

void Bench::writeIteration(int64_t index, uint64_t startNs, uint64_t endNs, uint64_t wrong) const {
  out_.write(iterationLine(options_, index, startNs, endNs, wrong));
  for (const Lane& lane : lanes_) {
    const Receiver& receiver = lane.receiver();
    for (std::string& line : deliveryLines(options_.rank, receiver.id().id, index, startNs, receiver.deliveredNs())) {
      out_.write(std::move(line));
    }
  }
}

void Bench::close() {
  onProgressThread([&] {
    for (Lane& lane : lanes_) lane.close();
    return Pass::Done;
  });
  net_.finalize();
}

uint64_t Bench::run() {
  checkFingerprints();
  exchangeHandles();
  connect();
  out_.write(startLine(options_, net_, lanes_));
  data_.fill(-options_.warmup);
  for (int64_t index = -options_.warmup; index < options_.iterations; index++) iterate(index);
  bootstrap_.barrier();
  close();
  out_.write(endLine(options_.rank, options_.iterations, wrongElements_));
  bootstrap_.barrier();  // nobody leaves while another may still fail
  return wrongElements_;
}

}  // namespace r2cc::bench
