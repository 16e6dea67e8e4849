#include "world.h"

#include <algorithm>
#include <future>
#include <stdexcept>

namespace r2cc::agree::test {

bool eventually(const std::function<bool()>& what, Ms limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!what()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(Ms(1));
  }
  return true;
}

std::vector<std::string> Exchange::gather(int rank, const std::string& mine) {
  std::string text = mine;
  if (rank == 0 && bend) {
    Card card = decodeCard(text);
    bend(card);
    text = encode(card);
  }
  std::unique_lock lock(mutex_);
  texts_[static_cast<size_t>(rank)] = text;
  present_++;
  changed_.notify_all();
  changed_.wait(lock, [this] { return present_ == texts_.size(); });
  return texts_;
}

std::string joined(const std::vector<std::string>& reports) {
  std::string text;
  for (const std::string& report : reports) {
    if (!report.empty()) text += (text.empty() ? "" : "+") + report;
  }
  return text;
}

World::World(const Setup& setup)
    : exchange_(setup.ranks), agreements_(static_cast<size_t>(setup.ranks)), seen_(static_cast<size_t>(setup.ranks)) {
  exchange_.bend = setup.bend;
  inThreads([&](int rank) {
    Options options;
    options.rank = rank;
    options.ranks = setup.ranks;
    options.gather = Ms(2);
    options.quiet = Ms(2);
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    // What a broken mechanism would let wait for ever ends, and with it the test.
    options.aborted = [until = std::chrono::steady_clock::now() + Ms(40000)] {
      return std::chrono::steady_clock::now() > until;
    };
    if (setup.tune) setup.tune(options);
    const Prepare prepare = [rank, prepare = setup.prepare](const std::string& proposal) {
      return prepare ? prepare(rank, proposal) : Prepared(true);
    };
    agreements_[static_cast<size_t>(rank)] = Agreement::make(
        options, [this, rank](const std::string& mine) { return exchange_.gather(rank, mine); },
        setup.decide ? setup.decide : joined, prepare);
  });
}

void World::inThreads(const std::function<void(int rank)>& what) {
  std::vector<std::future<void>> threads;
  threads.reserve(agreements_.size());
  for (int rank = 0; rank < ranks(); rank++) threads.push_back(std::async(std::launch::async, what, rank));
  for (const std::future<void>& thread : threads) thread.wait();
  for (std::future<void>& thread : threads) thread.get();  // throws what one of them threw
}

void World::enter(int rank) {
  auto& seen = seen_[static_cast<size_t>(rank)];
  const Decision& decision = (*this)[rank].enter(0x1234 * (seen.size() + 1));
  seen.push_back(std::to_string(decision.epoch) + decision.text);
}

void World::enterUntil(uint64_t epoch, const std::function<void(int rank)>& pause) {
  // Ranks that have it go on until all have: the first group with it may lie far ahead of the slowest.
  std::atomic<int> without{ranks()};
  inThreads([&](int rank) {
    bool has = false;
    const auto limit = std::chrono::steady_clock::now() + Ms(40000);
    while (without > 0) {
      if (std::chrono::steady_clock::now() > limit) throw std::runtime_error("no switch came");
      const Decision& decision = (*this)[rank].enter(0x1234 * (seen(rank).size() + 1));
      seen_[static_cast<size_t>(rank)].push_back(std::to_string(decision.epoch) + decision.text);
      if (!has && decision.epoch >= epoch) {
        has = true;
        without--;
      }
      if (pause) pause(rank);
      if (!pause) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
}

void World::enterUpTo(uint64_t group) {
  inThreads([&](int rank) {
    while (entered(rank) < group) enter(rank);
  });
}

bool World::consistent() const {
  const auto shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto& most = *std::max_element(seen_.begin(), seen_.end(), shorter);
  return std::all_of(seen_.begin(), seen_.end(),
                     [&most](const auto& seen) { return std::equal(seen.begin(), seen.end(), most.begin()); });
}

std::string World::logged() {
  const std::lock_guard lock(mutex_);
  return log_;
}

}  // namespace r2cc::agree::test
