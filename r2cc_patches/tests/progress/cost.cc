// What watching costs NCCL's threads: `make progress-cost`, benchmarks/progress_cost.py runs it. Prints one JSON line.
#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "player.h"

using namespace r2cc;
using namespace r2cc::play;

namespace {

constexpr int kCalls = 20000;
constexpr int kRounds = 101;

/// The best of the rounds: what others do on the machine only adds.
template <class Body>
double leastNs(const Body& body) {
  double least = 1e9;
  for (int round = 0; round < kRounds; round++) {
    const int64_t start = nowNs();
    for (int i = 0; i < kCalls; i++) body();
    least = std::min(least, static_cast<double>(nowNs() - start) / kCalls);
  }
  return least;
}

}  // namespace

int main() {
  setenv("R2CC_PROGRESS_FILE", "/dev/null", 1);
  Player<V6> player;
  void* task = player.launch(1);
  void* send = player.op(task, true);
  void* receive = player.op(task, false);
  player.stop(task);
  void* waiting = player.step(send);
  volatile int64_t sink = 0;
  const double sending = leastNs([&] { player.wholeStep(send, true, 4096); });
  const double receiving = leastNs([&] { player.wholeStep(receive, false, 4096); });
  // The proxies say at every look that a peer is not ready.
  const double polled = leastNs([&] { player.record(waiting, ncclProfilerProxyStepSendPeerWait_v4, 0); });
  const double operation = leastNs([&] {
    void* op = player.op(task, true);
    player.stop(player.step(op)), player.stop(op);
  });
  const double collective = leastNs([&] { player.stop(player.launch(1)); });
  const double clock = leastNs([&] { sink = nowNs(); });
  printf(
      "{\"send_step_ns\": %.1f, \"receive_step_ns\": %.1f, \"poll_ns\": %.1f, \"operation_ns\": %.1f, "
      "\"collective_ns\": %.1f, ",
      sending, receiving, polled, operation, collective);
  printf("\"clock_gettime_ns\": %.1f}\n", clock);
  return 0;
}
