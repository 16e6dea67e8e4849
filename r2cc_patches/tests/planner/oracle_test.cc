// docs/internals/schedules.md's table and formulas, to the digits given there, as the planner has them.
#include <cmath>

#include "check.h"
#include "formulas.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::degraded;
using r2cc::check::inUnits;

namespace {

bool near(double a, double b, double within) { return std::abs(a - b) <= within; }

double timeOf(int nodes, int ranksEach, double x, Schedule schedule) {
  const Request request = degraded(nodes, ranksEach, x, schedule);
  return inUnits(plan(request).predictedUs, request);
}

constexpr double kHalfDigit = 0.00051;

}  // namespace

TEST(plan_table_of_schedules) {
  struct Row {
    int nodes, gpus;
    double x, healthy, backup, balance, published, ringAndChain, bound;
  };
  const Row rows[] = {{4, 1, 1.0 / 8, 1.500, 3.000, 1.714, 1.643, 1.600, 1.548},
                      {4, 8, 1.0 / 8, 1.938, 3.875, 2.214, 2.080, 1.953, 0},
                      {8, 8, 1.0 / 8, 1.969, 3.938, 2.250, 2.112, 1.976, 0},
                      {4, 8, 1.0 / 2, 1.938, 3.875, 3.875, 2.938, 2.000, 0}};
  for (const Row& row : rows) {
    const int n = row.nodes * row.gpus;
    CHECK(near(ringLoad(n), row.healthy, kHalfDigit));
    CHECK(near(backupTime(n, 1), row.backup, kHalfDigit));
    CHECK(near(balanceTime(n, row.x), row.balance, kHalfDigit));
    CHECK(near(publishedLimit(n, row.x), row.published, kHalfDigit * 2));
    CHECK(near(fixedHeadTime(n, row.x).time, row.ringAndChain, kHalfDigit));
    if (row.bound > 0) CHECK(near(lowerBound(row.nodes, row.x), row.bound, kHalfDigit));
    CHECK(near(timeOf(row.nodes, row.gpus, row.x, Schedule::Balance), row.balance, kHalfDigit));
    CHECK(near(timeOf(row.nodes, row.gpus, row.x, Schedule::ChainFixed), row.ringAndChain, kHalfDigit));
  }
  CHECK(near(fixedHeadTime(4, 1.0 / 8).ringShare, 0.80, 0.0051));
  CHECK(near(fixedHeadTime(32, 1.0 / 8).ringShare, 0.76, 0.0051));
  CHECK(near(fixedHeadTime(64, 1.0 / 8).ringShare, 0.75, 0.0051));
  CHECK_EQ(fixedHeadTime(32, 1.0 / 2).ringShare, 0.0);
}

TEST(plan_published_as_measured_by_its_authors) {
  const double t0 = ringLoad(6);
  const double pieces[] = {1, 2, 4, 8, 16};
  const double model[] = {1.600, 1.450, 1.375, 1.3375, 1.31875};
  for (int i = 0; i < 5; i++) CHECK(near(publishedTimes(6, 1.0 / 3, 1.0 / 3, pieces[i]).whole() / t0, model[i], 6e-5));
  CHECK(near(publishedReceived(6, 1.0 / 3), 0.867, kHalfDigit));
  CHECK(near(publishedLimit(8, 0.5) / ringLoad(8), 1.571, kHalfDigit));
  // Better than balance only with K > n / (n - 2): 1.5 for six.
  CHECK(publishedTimes(6, 1.0 / 3, 1.0 / 3, 1.49).whole() > balanceTime(6, 1.0 / 3));
  CHECK(publishedTimes(6, 1.0 / 3, 1.0 / 3, 1.51).whole() < balanceTime(6, 1.0 / 3));
}

TEST(plan_published_is_the_formula) {
  for (const double x : {0.125, 1.0 / 3, 0.5}) {
    for (const int p : {3, 4, 8}) {
      const Request request = degraded(p, 1, x, Schedule::Published);
      const Plan plan = r2cc::planner::plan(request);
      CHECK_EQ(plan.parts.size(), size_t{1});
      CHECK(near(plan.parts[0].y, x, 1e-12));
      const double formula = publishedTimes(p, x, x, plan.parts[0].pieces).whole();
      CHECK(near(inUnits(plan.predictedUs, request), formula, 1e-6));
      CHECK(near(plan.nodes[1].rxBytes / static_cast<double>(request.bytes) / ringLoad(p), publishedReceived(p, x),
                 1e-9));
    }
  }
}

TEST(plan_lower_bound_and_what_meets_it) {
  CHECK(near(lowerBound(4, 0.5) / ringLoad(4), 1.333, kHalfDigit));
  CHECK(near(lowerBound(5, 0.5) / ringLoad(5), 1.25, kHalfDigit));
  CHECK(near(lowerBound(8, 0.5) / ringLoad(8), 1.143, kHalfDigit));
  CHECK(near(lowerBound(64, 0.5) / ringLoad(64), 1.016, kHalfDigit));
  CHECK(near(rotatingHeadsTime(4, 0.125).time, 1.548, kHalfDigit));
  CHECK(near(rotatingHeadsTime(4, 0.125).ringShare, 0.71, 0.0051));
  CHECK(near(rotatingHeadsTime(4, 0.5).time, 2, 1e-12));
  CHECK(near(rotatingHeadsTime(8, 0.25).time, 1.806, kHalfDigit));
  CHECK(near(rotatingHeadsTime(8, 0.25).ringShare, 0.47, 0.0051));
  for (int p = 3; p <= 64; p++) {
    for (int percent = 2; percent <= 50; percent += 4) {
      const double x = percent / 100.0;
      const double bound = lowerBound(p, x);
      if (p >= 4) CHECK(near(rotatingHeadsTime(p, x).time, bound, 1e-9));
      CHECK(near(timeOf(p, 1, x, Schedule::Chain), bound, 1e-5));  // and a chunk of a byte on every hop
    }
  }
}

TEST(plan_optcc_is_the_rotating_heads_sum) {
  for (const double x : {0.125, 0.25, 0.5, 0.75}) {
    CHECK(near(timeOf(4, 1, x, Schedule::OptCC), rotatingHeadsTime(4, x).time, 1e-6));
    CHECK(near(timeOf(8, 1, x, Schedule::OptCC), rotatingHeadsTime(8, x).time, 1e-6));
  }
}
