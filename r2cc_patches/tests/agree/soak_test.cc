// Random schedules of both machines and a network that delays: whatever happens, no two ranks differ at any group.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "agree/agreement.h"
#include "agree/protocol/coordinator.h"
#include "agree/protocol/member.h"
#include "check.h"

using namespace r2cc::agree;

namespace {

/// A rank whose enqueuing thread is a number.
struct Rank : Member::Actions {
  void send(const Message& message) override { up.push_back(message); }
  void work(uint64_t round, const std::string& /*text*/) override { working = round; }
  Promise promise(uint64_t index, int64_t /*windowNs*/) override {
    promised = std::max({index, entered + margin, waiting.empty() ? 0 : waiting.back().first});
    return {entered, *promised, {}};
  }
  void commit(Decision decision) override {
    promised.reset();
    waiting.push_back(std::move(decision));
  }
  void withdraw(const std::string& /*why*/) override { promised.reset(); }
  void warn(const std::string& /*line*/) override {}
  void fail(const AgreementBroken& /*why*/) override { promised.reset(), dead = true; }
  size_t pending() override { return waiting.size(); }

  bool mayEnter() const { return !dead && (!promised || entered < *promised); }
  uint64_t enter() {
    entered++;
    for (; !waiting.empty() && waiting.front().first <= entered; waiting.pop_front()) epoch = waiting.front().epoch;
    return epoch;
  }

  int number = 0;
  Member member{*this};
  std::deque<Message> up, down;
  uint64_t entered = 0, margin = 0, working = 0, epoch = 0;
  std::optional<uint64_t> promised;
  std::deque<Decision> waiting;
  bool dead = false;
};

class Soak : Coordinator::Actions {
 public:
  explicit Soak(uint64_t seed) : random_(seed), ranks_(2 + pick(4)) {
    coordinator_ =
        std::make_unique<Coordinator>(static_cast<Coordinator::Actions&>(*this), static_cast<int>(ranks_.size()),
                                      Coordinator::Timing{500, 300, 20, 50});
    int number = 0;
    for (Rank& rank : ranks_) rank.number = number++, rank.margin = pick(6);
  }

  /// False when two ranks had different decisions at a group, or one stands still for ever.
  bool run(int steps) {
    for (int i = 0; i < steps && same_; i++) step(i);
    return same_ && settles();
  }
  uint64_t switches() const { return switches_; }
  uint64_t withdrawals() const { return withdrawals_; }

 private:
  void send(int rank, const Message& message) override {
    ranks_[static_cast<size_t>(rank)].down.push_back(message);
    if (rank == 0 && message.type == Type::Commit) switches_++;
    if (rank == 0 && message.type == Type::Withdraw) withdrawals_++;
  }
  void decide(const std::vector<std::string>& /*reports*/) override { deciding_ = true; }
  uint64_t ahead(int64_t /*windowNs*/) override { return ranks_[0].entered + ranks_[0].margin; }
  bool able() override { return pick(4) != 0; }
  void log(const std::string& /*line*/) override {}

  size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }

  void step(int number) {
    Rank& rank = ranks_[pick(ranks_.size())];
    switch (pick(number % 1000 < 300 ? 8 : 7)) {  // reports come in bursts
      case 0:
        return hear(rank);
      case 1:
        return listen(rank);
      case 2:
        return work(rank, pick(20) != 0);
      case 3:
        if (deciding_) deciding_ = false, coordinator_->decided(pick(5) == 0 ? "" : std::to_string(pick(3)), now_);
        return;
      case 4:
        now_ += static_cast<int64_t>(pick(30));
        if (pick(100) == 0) coordinator_->unreached(rank.number, "somewhere", "silent", now_);
        return coordinator_->tick(now_);
      case 5:
      case 6:
        if (rank.mayEnter()) enter(rank);
        return;
      default:
        coordinator_->on(rank.number, report(), now_);
    }
  }

  Message report() {
    Message message;
    message.type = Type::Report;
    message.text = std::to_string(pick(9));
    return message;
  }
  void enter(Rank& rank) {
    const uint64_t epoch = rank.enter();
    const auto [at, first] = decisions_.emplace(rank.entered, epoch);
    same_ &= at->second == epoch;
  }
  static void hear(Rank& rank) {
    if (rank.down.empty()) return;
    const Message message = rank.down.front();
    rank.down.pop_front();
    rank.member.on(message);
  }
  void listen(Rank& rank) {
    if (rank.up.empty()) return;
    const Message message = rank.up.front();
    rank.up.pop_front();
    coordinator_->on(rank.number, message, now_);
  }
  static void work(Rank& rank, bool able) {
    if (rank.working != 0) rank.member.worked(std::exchange(rank.working, 0), able, "");
  }

  /// Everything that was said arrives and time passes: then nobody waits.
  bool settles() {
    for (int i = 0; i < 4000; i++) {
      for (Rank& rank : ranks_) hear(rank), work(rank, true), listen(rank);
      if (deciding_) deciding_ = false, coordinator_->decided("", now_);
      coordinator_->tick(now_ += 5);
    }
    const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.mayEnter(); });
    uint64_t furthest = 0;
    for (const Rank& rank : ranks_) furthest = std::max(furthest, rank.entered);
    for (Rank& rank : ranks_) {
      while (rank.mayEnter() && rank.entered < furthest + 50) enter(rank);
    }
    return all && same_;
  }

  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::unique_ptr<Coordinator> coordinator_;
  std::map<uint64_t, uint64_t> decisions_;  // by group
  int64_t now_ = 0;
  bool deciding_ = false, same_ = true;
  uint64_t switches_ = 0, withdrawals_ = 0;
};

}  // namespace

TEST(agree_soak_no_two_ranks_ever_differ) {
  // AGREE_SEED repeats one run, AGREE_RUNS makes more of them.
  const char* given = std::getenv("AGREE_SEED");
  const char* runs = std::getenv("AGREE_RUNS");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  const int count = given != nullptr ? 1 : runs != nullptr ? static_cast<int>(std::strtol(runs, nullptr, 10)) : 200;
  uint64_t switches = 0, withdrawals = 0;
  for (int i = 0; i < count; i++) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    Soak soak(seed);
    const bool held = soak.run(6000);
    if (!held) std::fprintf(stderr, "AGREE_SEED=%llu\n", static_cast<unsigned long long>(seed));
    CHECK(held);
    switches += soak.switches(), withdrawals += soak.withdrawals();
  }
  std::fprintf(stderr, "seeds from %llu: %llu switches, %llu withdrawn\n", static_cast<unsigned long long>(first),
               static_cast<unsigned long long>(switches), static_cast<unsigned long long>(withdrawals));
  CHECK(given != nullptr || switches > 0);
  CHECK(given != nullptr || withdrawals > 0);
}
