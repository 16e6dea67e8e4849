#include "reporter.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/json/text.h"
#include "base/signals.h"

namespace r2cc::progress {
namespace {

constexpr int64_t kPendingNs = msToNs(500);  // how often what stands still is written again
constexpr int64_t kPatienceNs = msToNs(100);
constexpr size_t kMostName = 200;

}  // namespace

Reporter::Reporter(const Settings& settings, Comms& comms)
    : settings_(settings), comms_(comms), log_(settings.file, "R2CC_PROGRESS_FILE") {
  if (!enabled()) return;
  const SignalsBlocked blocked;
  std::thread thread([this] { loop(); });
  pthread_setname_np(thread.native_handle(), "r2cc-progress");
  thread.detach();
}

void Reporter::wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  awake_ = true;
  changed_.notify_all();
}

void Reporter::loop() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return awake_; });
    }
    tick();
    std::this_thread::sleep_for(std::chrono::nanoseconds(settings_.periodNs));
    const std::lock_guard<std::mutex> lock(mutex_);
    awake_ = !comms_.empty();
  }
}

/// While earlier lines wait for a reader nothing is added: the next ones say it all.
void Reporter::tick() {
  if (!log_.flushAll(0)) return;
  comms_.each([this](Entry& entry) { write(entry, false); });
  (void)log_.flushAll(0);
}

void Reporter::end(Entry& entry) {
  write(entry, true);
  if (!entry.begun) return;
  EventLog::Line line = log_.line("comm_end");
  name(line, entry);
}

void Reporter::flush() { (void)log_.flushAll(kPatienceNs); }

void Reporter::atProcessEnd() {
  comms_.each([this](Entry& entry) { write(entry, false); });
  flush();
}

void Reporter::write(Entry& entry, bool last) {
  if (!entry.identified) return;
  if (!entry.begun) begin(entry);
  const int64_t now = nowNs();
  entry.comm.settle(now, last);
  const Totals totals = entry.comm.totals();
  const bool due = entry.comm.pending() && now - entry.writtenNs >= kPendingNs;
  if (last || due || totals != entry.written) traffic(entry, totals, now);
}

void Reporter::begin(Entry& entry) {
  const Identity& identity = entry.identity;
  EventLog::Line line = log_.line("comm");
  name(line, entry)
      .add("name", identity.name.substr(0, kMostName))
      .add("comm_ranks", identity.ranks)
      .add("nodes", identity.nodes)
      .add("pid", getpid());
  entry.begun = true;
}

void Reporter::traffic(Entry& entry, const Totals& totals, int64_t now) {
  const Stills stills = entry.comm.stills(now);
  EventLog::Line line = log_.line("traffic");
  name(line, entry)
      .add("collectives", static_cast<int64_t>(totals.collectives))
      .add("ended", static_cast<int64_t>(totals.ended))
      .add("bytes", static_cast<int64_t>(totals.bytes))
      .add("launched_bytes", static_cast<int64_t>(totals.launched))
      .add("still_us", stills.stillUs)
      .add("stall_us", stills.pending.us)
      .add("stall_began_ns", stills.pending.beganNs)
      .add("net_stall_us", stills.sending.us)
      .add("net_stall_began_ns", stills.sending.beganNs);
  entry.written = totals;
  entry.writtenNs = now;
}

EventLog::Line& Reporter::name(EventLog::Line& line, const Entry& entry) const {
  const Identity& identity = entry.identity;
  return line.add("rank", settings_.worldRank >= 0 ? settings_.worldRank : identity.rank)
      .add("comm", hex(identity.hash))
      .add("comm_rank", identity.rank);
}

}  // namespace r2cc::progress
