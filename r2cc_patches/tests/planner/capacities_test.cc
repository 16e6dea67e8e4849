// What is left of NICs as text.
#include "planner/capacities.h"
#include "check.h"

using namespace r2cc::planner;

namespace {

std::vector<Node> threeNodes() {
  return {{"a", {0, 1}, {{"x", 1, 1}, {"y", 1, 1}}}, {"b", {2}, {{"x", 1, 1}, {"y", 1, 1}}}, {"c", {3}, {{"x", 1, 1}}}};
}

}  // namespace

TEST(plan_capacities_are_said_agreed_and_read_back) {
  const std::vector<std::string> reports{"1 1", "1 0.52", "", "0 1"};  // the last one of NICs that there are not
  const std::vector<Node> now = withReports(threeNodes(), reports);
  const std::string text = capacitiesText(now);
  CHECK_EQ(text, std::string("capacities 0:1=0.5"));
  const auto read = atCapacities(withReports(threeNodes(), {"0 0", "0 0", "0 0", "0"}), text);
  CHECK_EQ(capacitiesText(read.value_or(std::vector<Node>())), text);
  CHECK_EQ(capacitiesText(threeNodes()), std::string("capacities"));
  CHECK_EQ(capacityReport({1, 0.25, 0}), std::string("1 0.25 0"));
  CHECK_EQ(capacityReport({}), std::string());
}

TEST(plan_capacities_of_a_node_are_the_least_that_its_ranks_say) {
  CHECK_EQ(capacitiesText(withReports(threeNodes(), {"0.5 1", "1 0.25", "1 1", "1"})),
           std::string("capacities 0:0=0.5 0:1=0.25"));
  const std::vector<Node> broken = withReports(threeNodes(), {"0 1", "", "", ""});
  CHECK_EQ(capacitiesText(withReports(broken, {"", "1 1", "", ""})), std::string("capacities"));  // it came back
}

TEST(plan_capacities_that_are_no_text_of_ours_are_refused) {
  for (const char* bad : {"", "caps", "capacities 3:0=0", "capacities 0:2=0", "capacities 0:0=1.5", "capacities 0:0=-1",
                          "capacities 0:0", "capacities 0:0=nan", "capacities 0;0=1", "capacities x"}) {
    CHECK(!atCapacities(threeNodes(), bad).has_value());
  }
}
