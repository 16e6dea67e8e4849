// How communicators of three nodes begin with schedules, each rank in a thread.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "nccl/beginning.h"
#include "nccl/standing.h"
#include "schedules.h"

using namespace r2cc::nccl::test;
using r2cc::planner::Schedule;
using r2cc::schedules::Schedules;

namespace {

constexpr int kRanks = 3;

/// What became of all ranks that begin together.
struct Begun {
  std::array<ncclResult_t, kRanks> results{};
  std::array<std::unique_ptr<Schedules>, kRanks> schedules;
  int connected = 0;  // neighbours of chain channels

  bool all(ncclResult_t result) const {
    return std::all_of(results.begin(), results.end(), [result](ncclResult_t each) { return each == result; });
  }
  int without() const { return static_cast<int>(std::count(schedules.begin(), schedules.end(), nullptr)); }
};

/// One node a rank, one NIC each.
class Ranks {
 public:
  Ranks() : meeting_(kRanks) {
    standing() = {};
    standing().mode = 3;
    for (int rank = 0; rank < kRanks; rank++) comms_.push_back(std::make_unique<Beginner>(meeting_, rank, kRanks));
  }
  std::array<std::string, kRanks> addresses{"127.0.0.1", "127.0.0.1", "127.0.0.1"};

  ncclComm& operator[](int rank) { return **comms_[static_cast<size_t>(rank)]; }
  Begun begin() {
    Begun begun;
    std::vector<std::thread> threads;
    threads.reserve(kRanks);
    for (size_t rank = 0; rank < kRanks; rank++) {
      threads.emplace_back([&, rank] {
        meetsAt() = addresses[rank];
        begun.results[rank] = Schedules::make(&**comms_[rank], begun.schedules[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    begun.connected = meeting_.connected();
    return begun;
  }

 private:
  Meeting meeting_;
  std::vector<std::unique_ptr<Beginner>> comms_;
};

}  // namespace

TEST(nccl_schedules_begin_with_chain_channels) {
  Ranks ranks;
  const Begun begun = ranks.begin();
  CHECK(begun.all(ncclSuccess));
  CHECK_EQ(begun.without(), 0);
  CHECK(begun.connected > 0);
}

/// With CUDA graphs NCCL does the host's part of it long after it was enqueued, maybe after the next plan.
TEST(nccl_what_was_enqueued_keeps_its_tree_whatever_its_channel_has_then) {
  Ranks ranks;
  const Begun begun = ranks.begin();
  Schedules& schedules = *begun.schedules[1];
  CHECK(schedules.treeNow(0) == nullptr);  // NCCL's own
  ncclTree& tree = ranks[1].channels[1].tree;
  tree.up = 0, tree.down[0] = 2;
  const ncclTree* const then = schedules.treeNow(1);
  tree.up = 2, tree.down[0] = -1;
  const ncclTree* const now = schedules.treeNow(1);
  CHECK_EQ(then->up, 0);
  CHECK_EQ(then->down[0], 2);
  CHECK_EQ(now->up, 2);
  CHECK_EQ(now->down[0], -1);
}

/// Chains there would only cost time, memory and descriptors.
TEST(nccl_no_chain_channels_where_no_plan_can_ever_run) {
  const auto noneFor = [](const std::function<void(Ranks&)>& change) {
    Ranks ranks;
    change(ranks);
    const Begun begun = ranks.begin();
    CHECK(begun.all(ncclSuccess));
    CHECK_EQ(begun.without(), kRanks);
    CHECK_EQ(begun.connected, 0);
  };
  noneFor([](Ranks&) { standing().nics = 0; });                   // our net hands all through
  noneFor([](Ranks& ranks) { ranks[1].ncclNet = otherNet(); });   // another communicator here goes over ours
  noneFor([](Ranks&) { standing().schedule = Schedule::Ring; });  // R2CC_SCHEDULE
}

/// Schedules are optional: the communicator is made without them, on all ranks, before anything is connected for them.
TEST(nccl_a_rank_that_cannot_agree_leaves_all_without_schedules) {
  for (const size_t who : {0, 1, 2}) {
    for (const char* address : {"", "fe80::1%elsewhere", "203.0.113.1"}) {
      if (who != 0 && *address == '2') continue;  // it does not listen
      Ranks ranks;
      ranks.addresses[who] = address;
      const Begun begun = ranks.begin();
      CHECK(begun.all(ncclSuccess));
      CHECK_EQ(begun.without(), kRanks);
      CHECK_EQ(begun.connected, 0);
    }
  }
}
