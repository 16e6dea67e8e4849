// Threads for calls into a transport that may take long: fences of queue pairs, registration of memory. Nobody who
// holds a lock waits for them, and several run at once.
#pragma once

#include <functional>
#include <memory>

namespace r2cc {

class Helpers {
 public:
  using Work = std::function<void()>;
  Helpers();
  ~Helpers() { end(); }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  /// `slow` on some thread of ours, and then `then` there, which may take locks; neither once it has ended.
  void run(Work slow, Work then);
  /// Waits for what it was given, but not for ever: a thread that hangs in a call is left behind, without its `then`.
  /// Not with a lock held that a `then` takes.
  void end();

 private:
  struct State;
  static void loop(const std::shared_ptr<State>& state);
  static void startThread(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;  // shared with the threads, which may outlive us
};

}  // namespace r2cc
