// One rank's run from the first connection to the last line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/data/data.h"
#include "bench/json.h"
#include "bench/options.h"
#include "bench/programs/placement.h"
#include "bench/ranks/bootstrap.h"
#include "bench/switching/auto_schedule.h"
#include "bench/switching/health.h"
#include "bench/transport/carrier.h"
#include "bench/transport/flow.h"
#include "bench/transport/net.h"
#include "bench/transport/progress.h"

namespace r2cc::bench {

class Bench {
 public:
  // `bootstrap` has met all ranks.
  Bench(const Options& options, const ncclNet_t& table, Bootstrap& bootstrap, const LineWriter& out,
        Health health = {});

  // The number of wrong elements over all measured iterations. Throws TransportError.
  uint64_t run();

 private:
  void checkTerms();
  void layOut();
  void place();
  void planAhead();
  // What every rank says of its host, aligned.
  std::vector<RankNics> meetNics() const;
  RankNics ourNics() const;
  // Makes the flows of these plans and connects them: the same on all ranks.
  void lay(const std::vector<size_t>& plans);
  void exchangeHandles(size_t firstFlow);
  void connect(size_t firstFlow);
  void takeHandles(size_t firstFlow, const std::vector<std::string>& all);
  size_t connections(size_t firstFlow = 0) const;
  // From this iteration on.
  void adopt(Choice choice, int64_t index, uint64_t beganNs);
  void use(Choice& choice);
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
  const Health health_;
  std::vector<FlowPlan> plans_;         // of all ranks
  std::unique_ptr<AutoSchedule> auto_;  // with --schedule
  std::optional<Choice> first_;         // what it begins with
  bool uneven_ = false;                 // the library was told so
  NamedLoads loads_;                    // of our host's NICs, where a plan says
  std::vector<Flow> flows_;
  std::vector<size_t> laid_;  // which of plans_ each flow is of
  ProgressThread progress_;   // after flows_: its thread ends before they are destroyed
  CarrierWatch carrier_;
  uint64_t firstNs_ = 0;  // when the first measured iteration could begin
  uint64_t wrongElements_ = 0;
  std::string handles_;   // of our receivers
  size_t connected_ = 0;  // connections that stand, of those being made
  size_t working_ = 0;    // connections that have something to do
  uint64_t endNs_ = 0;    // of the iteration
};

}  // namespace r2cc::bench
