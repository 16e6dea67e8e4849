// What one record costs: `make recorder-cost`, benchmarks/recorder_overhead.py runs it. Prints one JSON line.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "record/flight.h"

using namespace r2cc;

namespace {

constexpr int kRecords = 2000000;
constexpr int kRounds = 11;

template <class Body>
double medianNs(const Body& body) {
  std::vector<double> each;
  for (int round = 0; round < kRounds; round++) {
    const int64_t start = nowNs();
    for (int i = 0; i < kRecords; i++) body(i);
    each.push_back(static_cast<double>(nowNs() - start) / kRecords);
  }
  std::sort(each.begin(), each.end());
  return each[kRounds / 2];
}

}  // namespace

int main() {
  FlightOptions options;
  options.file = "/dev/null/none";  // nothing is to be written
  options.warn = [](const std::string&) {};
  Flight flight(options);
  Recorder on = flight.open(1, true, 7), off;
  const auto record = [](Recorder& r) { return [&r](int i) { r.post(static_cast<uint64_t>(i), 4096, 1); }; };
  volatile int64_t sink = 0;
  const double recording = medianNs(record(on)), idle = medianNs(record(off));
  const double clock = medianNs([&](int) { sink = nowNs(); });
  const double ticks = medianNs([&](int) { sink = static_cast<int64_t>(flight.clock().now()); });
  printf("{\"record_ns\": %.2f, \"off_ns\": %.2f, \"clock_gettime_ns\": %.2f, \"ticks_ns\": %.2f, \"counter\": %s}\n",
         recording, idle, clock, ticks, flight.clock().usesCounter() ? "true" : "false");
  return 0;
}
