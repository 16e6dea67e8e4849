// A rank that does as it is told, instead of as it should: it knows the key, and speaks as a rank does.
#pragma once

#include <functional>
#include <thread>

#include "agree/net/channel.h"
#include "agree/protocol/link.h"
#include "world.h"

namespace r2cc::agree::test {

class Puppet {
 public:
  /// What it answers to a message; Ping: nothing.
  using Answer = std::function<Message(const Message&)>;

  Puppet(const Card& root, int rank, Answer answer);
  ~Puppet() { stop(); }
  Puppet(const Puppet&) = delete;
  Puppet& operator=(const Puppet&) = delete;

  void say(Message message);
  void sayRaw(const Frame& frame);
  /// Hangs up.
  void stop();
  bool hungUp() const { return hungUp_; }
  std::vector<Message> heard();

 private:
  void meet(const Card& root, int rank);
  void run();

  const Answer answer_;
  std::mutex mutex_;
  std::unique_ptr<Channel> channel_;
  Link link_;
  std::vector<Message> heard_;
  std::atomic<bool> stop_{false}, hungUp_{false};
  std::thread thread_;
};

/// A rank's answers as they should be, up to the given one: that and what follows it stays unsaid.
Puppet::Answer silentFrom(Type type);

/// Ranks 0 and up are real, the last one is a puppet.
class Stage {
 public:
  Stage(int ranks, const std::function<void(Options&)>& tune, Puppet::Answer answer);
  Agreement& operator[](int rank) { return *real_[static_cast<size_t>(rank)]; }
  Puppet& puppet() { return *puppet_; }

 private:
  std::vector<std::unique_ptr<Agreement>> real_;
  std::unique_ptr<Puppet> puppet_;
};

}  // namespace r2cc::agree::test
