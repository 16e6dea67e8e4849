// One rank's run from the first connection to the last line.
#pragma once

#include <functional>
#include <vector>

#include "bootstrap.h"
#include "carrier.h"
#include "data.h"
#include "flow.h"
#include "json.h"
#include "net.h"
#include "options.h"
#include "placement.h"
#include "progress.h"

namespace r2cc::bench {

class Bench {
 public:
  // `bootstrap` has met all ranks.
  Bench(const Options& options, const ncclNet_v11_t& table, Bootstrap& bootstrap, const LineWriter& out,
        ReadHealth health = nullptr);

  // The number of wrong elements over all measured iterations. Throws TransportError.
  uint64_t run();

 private:
  void checkFingerprints();
  void layOut();
  void place();
  RankNics ourNics() const;
  void exchangeHandles();
  void connect();
  void takeHandles(const std::vector<std::string>& all);
  size_t connections() const;
  void iterate(int64_t index);
  bool timeIsUp(int64_t index);
  void beLate(int64_t index);
  void corruptIfAsked(int64_t index);
  void writeIteration(int64_t index, uint64_t startNs, uint64_t endNs, uint64_t wrong) const;
  void close();

  // Runs `pass` on the progress thread until it is done, watching the other ranks meanwhile. An error there leaves it
  // running until the process ends: it may use what is a member, and nothing of its caller's.
  void onProgressThread(std::function<Pass()> pass);

  const Options options_;
  Bootstrap& bootstrap_;
  const LineWriter& out_;
  Net net_;
  RankData data_;
  const ReadHealth health_;
  std::vector<FlowPlan> plans_;  // of all ranks
  NamedLoads loads_;             // of our host's NICs, where a plan says
  std::vector<Flow> flows_;
  ProgressThread progress_;  // after flows_: its thread ends before they are destroyed
  CarrierWatch carrier_;
  uint64_t firstNs_ = 0;  // when the first measured iteration could begin
  uint64_t wrongElements_ = 0;
  std::string handles_;   // of our receivers
  size_t connected_ = 0;  // connections that stand
  uint64_t endNs_ = 0;    // of the iteration
};

}  // namespace r2cc::bench
