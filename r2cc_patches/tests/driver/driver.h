// A whole run of the driver, from init to the end it was asked for.
#pragma once

#include <memory>
#include <vector>

#include "bench/json.h"
#include "driver_options.h"
#include "ends.h"
#include "flow.h"
#include "mischief.h"

namespace r2cc::driver {

class Driver {
 public:
  Driver(Options options, const bench::LineWriter& out);

  // Plays its part; false when a message was wrong. Throws TransportError; Silence after --give-up-s.
  bool run();
  // Closes everything in NCCL's order.
  void close();
  // For a thread that goes on while main returns: never comes back.
  [[noreturn]] void testForEver();

 private:
  void describeDevices(const ncclNet_t& table) const;
  void tryGroup() const;
  void connect();
  void addFlows(Made made);
  void move();
  bool advanceAll();
  bool over(uint64_t now) const;
  bool due(uint64_t atMs, uint64_t now) const;
  void misbehave(uint64_t now);
  void checkSilence(uint64_t now) const;
  void report(const char* event, uint64_t now);
  void reportWindows();

  const Options options_;
  const bench::LineWriter& out_;
  Nets nets_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Flow>> flows_;
  Sender* sender_ = nullptr;  // the first that sends
  Child child_;
  uint64_t startNs_ = 0;
  uint64_t firstNs_ = 0;   // of the first message of all
  uint64_t resumeNs_ = 0;  // half a header is out: nothing more until then
  bool halfSent_ = false;
  size_t windowsTold_ = 0;
};

// Nothing moved for --give-up-s.
class Silence : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace r2cc::driver
