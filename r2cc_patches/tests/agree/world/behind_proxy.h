// Two ranks with a proxy between them, and what they say.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "agree/world/proxy.h"
#include "agree/world/world.h"

namespace r2cc::agree::test {

/// Two ranks, the second behind a proxy, with short times.
inline Setup through(Proxy& proxy, int ranks = 2) {
  Setup setup(ranks);
  setup.bend = [&proxy](Card& card) { proxy.bend(card); };
  setup.tune = [](Options& options) {
    options.gather = options.quiet = Ms(2);
    options.silence = Ms(150);
  };
  return setup;
}

/// What an agreement said.
class Lines {
 public:
  std::function<void(const std::string&)> taker() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      all_ += line + "\n";
    };
  }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  size_t find(const std::string& words) const { return all().find(words); }
  int count(const std::string& words) const {
    const std::string text = all();
    int found = 0;
    for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; at++) found++;
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

}  // namespace r2cc::agree::test
