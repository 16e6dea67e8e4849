// Ranks that were started differently, or planned differently: one clear word on all of them, and nothing runs.
#include <algorithm>

#include "agree/peer_terms.h"
#include "agree/world/puppet.h"
#include "check.h"

using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

constexpr uint64_t kMany = 1000;

std::string differenceOf(const std::vector<Terms>& ranks) {
  std::vector<Stated> stated;
  for (const Terms& terms : ranks) stated.push_back({textOf(terms), "", hashOf(terms)});
  return difference(stated);
}

/// What each rank threw when rank `other` has other terms; empty if it threw nothing.
std::vector<std::string> thrownBy(int ranks, const Terms& all, int other, const Terms& its) {
  Exchange exchange(ranks);
  std::vector<std::string> thrown(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; rank++) {
    threads.emplace_back([&, rank] {
      Options options;
      options.rank = rank, options.ranks = ranks;
      options.goodbye = Ms(50);
      options.terms = rank == other ? its : all;
      try {
        (void)Agreement::make(options, [&](const std::string& mine) { return exchange.gather(rank, mine); }, joined,
                              {});
      } catch (const Disagreement& error) {
        thrown[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

}  // namespace

TEST(agree_terms_name_what_differs_where_and_both_values) {
  const Terms one{{"R2CC_SCHEDULE", "auto"}, {"chunk", "32768"}}, two{{"R2CC_SCHEDULE", "chain"}, {"chunk", "32768"}};
  const Terms both{{"R2CC_SCHEDULE", "chain"}, {"chunk", "4"}}, less{{"R2CC_SCHEDULE", "auto"}};
  CHECK_EQ(differenceOf({one, one, one}), "");
  CHECK_EQ(differenceOf({}), "");
  CHECK_EQ(differenceOf({one, one, two}), "R2CC_SCHEDULE is auto on ranks 0, 1, chain on rank 2");
  CHECK_EQ(differenceOf({one, both}),
           "R2CC_SCHEDULE is auto on rank 0, chain on rank 1; chunk is 32768 on rank 0, 4 on rank 1");
  CHECK_EQ(differenceOf({one, less}), "chunk is 32768 on rank 0, not set on rank 1");
  CHECK_EQ(differenceOf({less, one}), "chunk is not set on rank 0, 32768 on rank 1");
  std::vector<Terms> many(kMany, one);
  many[7] = two;
  CHECK_EQ(differenceOf(many), "R2CC_SCHEDULE is auto on ranks 0, 1, 2, 3 and 995 more, chain on rank 7");
}

/// A plan of many ranks is long: its end counts too.
TEST(agree_terms_that_are_cut_differ_all_the_same) {
  const std::string start(5000, 'x');
  const std::string said = differenceOf({{{"order", start + "1"}}, {{"order", start + "2"}}});
  CHECK(said.find("order is xxx") == 0 && said.find(" on rank 0, xxx") != std::string::npos && said.size() < 500);
  Terms much, more;
  for (int i = 0; i < 100; i++) much.push_back({"name" + std::to_string(i), std::string(100, 'y')});
  more = much;
  more.back().value = "z";
  CHECK(textOf(much).size() <= kMaxTerms);
  CHECK(!differenceOf({much, more}).empty());
  CHECK_EQ(differenceOf({much, much}), "");
}

/// Whatever somebody sends: printable, of one line, short, and never the same as what is right.
TEST(agree_terms_may_hold_anything) {
  const Terms right{{"a", "1"}};
  const std::vector<std::string> hostile{"",
                                         "=",
                                         "\n\n\n",
                                         "a",
                                         "a=1",
                                         "a=1\na=2\n",
                                         std::string("\0a=1\n", 5),
                                         "%s",
                                         "a=\x1b[2J",
                                         "a=1\n\xff",
                                         "==",
                                         "a=1\r\n",
                                         std::string(1 << 20, '=')};
  for (const std::string& text : hostile) {
    for (const uint64_t hash : {hashOf(right), uint64_t{0}}) {
      const std::string said = difference({{textOf(right), "", hashOf(right)}, {text, "\x1b[2J", hash}});
      CHECK(!said.empty() && said.size() < 4000);
      CHECK(std::all_of(said.begin(), said.end(), [](char c) { return c >= ' ' && c <= '~'; }));
    }
  }
  std::string many;
  for (int i = 0; i < 500; i++) many += std::to_string(i) + "=x\n";
  CHECK(difference({{textOf(right), "", 1}, {many, "", 1}}).size() < 4000);
}

TEST(agree_ranks_that_were_started_differently_all_say_the_same) {
  const Terms all{{"R2CC_SCHEDULE", "auto"}, {"build", "a1"}};
  for (const int other : {0, 1, 2}) {
    const std::vector<std::string> thrown = thrownBy(3, all, other, {{"R2CC_SCHEDULE", "ring"}, {"build", "a1"}});
    for (const std::string& text : thrown) {
      CHECK_EQ(text, thrown[0]);
      CHECK(text.find("ranks do not agree: R2CC_SCHEDULE is ") != std::string::npos);
      CHECK(text.find("ring on rank " + std::to_string(other)) != std::string::npos || other == 0);
      CHECK(text.find("(127.0.0.1, host ") != std::string::npos && text.find("process ") != std::string::npos);
      CHECK(text.find("build") == std::string::npos);  // that is the same
    }
  }
  for (const std::string& text : thrownBy(3, all, 1, all)) CHECK_EQ(text, "");
}

TEST(agree_plans_that_differ_stop_the_switch_and_every_rank_says_so) {
  Setup setup(3);
  std::atomic<bool> differ{true};
  std::mutex mutex;
  std::vector<std::string> warned;
  setup.tune = [&](Options& options) {
    options.warn = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      warned.push_back(line);
    };
  };
  setup.prepare = [&](int rank, const std::string&) {
    return Prepared(true, {{"parts", rank == 2 && differ ? "chain 0 1 2" : "ring"}, {"chunk", "4"}});
  };
  World world(setup);
  world[0].report("x");
  const auto said = [&] {
    const std::lock_guard lock(mutex);
    return warned;
  };
  CHECK(eventually([&] { return said().size() == 3; }));
  for (const std::string& line : said()) {
    CHECK_EQ(line, "no switch: the ranks' plans differ: parts is ring on ranks 0, 1, chain 0 1 2 on rank 2");
  }
  world.enterUpTo(500);  // nobody stands anywhere, and what was in force is
  CHECK_EQ(world[1].stats().switches, 0U);
  CHECK_EQ(world[1].stats().lastWithdrawal.find("the ranks' plans differ"), 0U);
  differ = false;
  world[0].report("y");
  world.enterUntil(1);
  CHECK(world.consistent());
  CHECK_EQ(said().size(), 3U);
}

TEST(agree_a_rank_that_says_nonsense_of_its_plan_switches_nobody) {
  for (const std::string& text : {std::string(), std::string("parts=\x1b[2J\n"), std::string(4000, '\n')}) {
    std::atomic<int> warned{0};
    Stage stage(
        3,
        [&](Options& options) {
          options.prepare = Ms(60000);
          options.warn = [&](const std::string& line) { warned += line.find("plans differ") != std::string::npos; };
        },
        [text](const Message& message) {
          Message answer = silentFrom(Type::Promised)(message);
          if (answer.type == Type::Ready) answer.text = text, answer.number = 4711;
          return answer;
        });
    stage[1].report("x");
    CHECK(eventually([&] { return warned == 2; }));
    for (int i = 0; i < 100; i++) stage[0].enter(1), stage[1].enter(1);
    CHECK_EQ(stage[0].stats().switches + stage[1].stats().switches, 0U);
  }
}

namespace {

std::string written(const std::string& mode, const std::string& build, const std::string& host) {
  std::string out(256, '\0');
  writePeerTerms({{{"R2CC_MODE", mode}, {"R2CC's protocol", "9"}}, build, host}, out.data(), out.size());
  return out;
}

}  // namespace

/// What NCCL's ranks tell each other: hosts and builds may differ, what must be alike may not.
TEST(agree_peer_terms_name_the_hosts) {
  const std::string one = written("1", "aaaa", "h0");
  Compared found = comparePeerTerms({one, written("1", "aaaa", "h1")});
  CHECK_EQ(found.error, "");
  CHECK_EQ(found.warning, "");
  found = comparePeerTerms({one, written("1", "bbbb", "h1")});
  CHECK_EQ(found.error, "");
  CHECK_EQ(found.warning, "R2CC's build is aaaa on rank 0 (h0), bbbb on rank 1 (h1)");
  found = comparePeerTerms({one, written("0", "bbbb", "h1")});
  CHECK_EQ(found.error, "R2CC_MODE is 1 on rank 0 (h0), 0 on rank 1 (h1)");
  CHECK_EQ(found.warning, "");
}

TEST(agree_peer_terms_may_hold_anything) {
  const std::string one = written("1", "aaaa", "h0");
  for (const std::string& text :
       {std::string(), std::string(256, '\0'), std::string(256, 'x'), std::string("a\0b", 3)}) {
    CHECK(!comparePeerTerms({one, text}).error.empty());
  }
  char few[8] = {};
  writePeerTerms({{{"schedule", "ring"}}, "aaaa", "h0"}, few, sizeof(few));
  CHECK_EQ(std::string(few), "schedul");
}
