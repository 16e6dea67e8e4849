// One connection's messages: eight requests on their way, tested in order, each message numbered at both ends.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/transport/comm.h"
#include "driver_options.h"
#include "tables.h"

namespace r2cc::driver {

// What one flow has done so far; times are CLOCK_MONOTONIC.
struct Progress {
  uint64_t done = 0;
  uint64_t bad = 0;
  uint64_t bytes = 0;
  uint64_t firstNs = 0;  // 0: no message yet
  uint64_t lastNs = 0;
  uint64_t longestGapNs = 0;
  std::vector<double> windowMs;  // of each `--window` messages
};

class Flow {
 public:
  Flow(const bench::Net& net, bench::Comm comm, const Options& options);
  virtual ~Flow() = default;
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Posts what may be posted and tests the oldest; false when nothing moved. Throws bench::TransportError.
  bool advance();
  bool over() const { return end_ != 0 && progress_.done == end_; }
  uint64_t events() const { return events_; }
  const Progress& progress() const { return progress_; }
  // Silence so far: since the last message, or since the flow began.
  uint64_t silentNs(uint64_t now) const { return now - (progress_.lastNs == 0 ? startNs_ : progress_.lastNs); }
  // NCCL's result of a receive of two messages at a time; -1 of a flow that sends.
  virtual int tryGroup() { return -1; }
  void close() { comm_.close(); }

 protected:
  virtual bool mayPost() { return end_ == 0 || posted_ < end_; }
  virtual ncclResult_t post(void** request) = 0;
  virtual void finish(int size) = 0;

  // Every fifth message has all bytes, and the last; between them are others where sizes vary.
  size_t bytesOf(uint64_t message) const;
  uint64_t* slot(uint64_t message) { return memory_.data() + message % requests_.size() * words_; }

  Events events_{0};
  const bench::Net& net_;
  bench::Comm comm_;
  const size_t words_;
  void* registration_ = nullptr;
  Progress progress_;
  uint64_t posted_ = 0;
  const bool vary_;
  uint64_t end_ = 0;  // how many messages there will be; 0: not known yet
  const uint64_t startNs_;

 private:
  bool postOne();
  bool testOldest();
  void count(uint64_t now);

  const uint64_t window_;
  uint64_t windowNs_ = 0;
  std::vector<uint64_t> memory_;
  std::vector<void*> requests_;
};

class Sender : public Flow {
 public:
  Sender(const bench::Net& net, bench::Comm comm, const Options& options);
  void pause(bool on) { paused_ = on; }
  bool idle() const { return posted_ == progress_.done; }

 private:
  bool mayPost() override;
  ncclResult_t post(void** request) override;
  void finish(int size) override;

  const uint64_t seconds_;
  const uint64_t corrupt_;
  bool paused_ = false;
};

class Receiver : public Flow {
 public:
  Receiver(const bench::Net& net, bench::Comm comm, const Options& options);
  int tryGroup() override;

 private:
  bool mayPost() override;
  ncclResult_t post(void** request) override;
  void finish(int size) override;

  const uint64_t askNs_, askFirst_;
};

}  // namespace r2cc::driver
