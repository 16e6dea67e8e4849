// Writes lines on a thread of its own: whoever reads an event file or NCCL's log may be slow, a pipe may be full, and
// neither the engine nor NCCL's threads may wait for that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace r2cc {

class Scribe {
 public:
  using Write = std::function<void(const std::string&)>;
  /// The line that says how many lines are missing in its place.
  using Missing = std::function<std::string(uint64_t lines)>;

  Scribe(const char* thread, Missing missing);
  /// Waits for what is still to be written, at most kPatienceNs: a thread that hangs in a write is left behind.
  ~Scribe();
  Scribe(const Scribe&) = delete;
  Scribe& operator=(const Scribe&) = delete;

  /// As `to`, which may block, but later: what goes through one scribe is written one by one and in order. Where
  /// kMostBytes wait already, lines are lost and counted. What it returns may outlive the scribe, and then calls `to`.
  Write through(Write to);
  /// True when all that was given to it is written; false when that takes longer.
  bool flush(int64_t limitNs);

  static constexpr int64_t kPatienceNs = 1'000'000'000;
  static constexpr size_t kMostBytes = 1 << 20;

 private:
  struct State;
  bool end();
  static void add(State& state, const std::shared_ptr<const Write>& to, const std::string& text);
  static void loop(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive us
  std::thread thread_;
};

}  // namespace r2cc
