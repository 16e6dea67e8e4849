// Requests and plans as JSON, and the C interface.
#include <string>

#include "check.h"
#include "planner/exact.h"
#include "requests.h"

using namespace r2cc::planner;
using r2cc::check::degraded;
using r2cc::check::says;

namespace {

constexpr const char* kRequest = R"({"schema":1,"nodes":[
  {"name":"h0","ranks":[0],"nics":[{"name":"eth0","rate_gbit":1},{"name":"eth1","rate_gbit":1,"capacity":0}]},
  {"name":"h1","ranks":[1],"nics":[{"name":"eth0","rate_gbit":1},{"name":"eth1","rate_gbit":1,"capacity":1.0}]},
  {"name":"h2","ranks":[2],"nics":[{"name":"eth0","rate_gbit":1},{"name":"eth1","rate_gbit":1}]}],
  "op":"allreduce","bytes":67108864,"datatype":"float16","reduction":"avg","channels":4,"schedule":"auto",
  "cost":{"hop_us":5,"chunk_bytes":65536}})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kRequest;
  return text.replace(text.find(from), from.size(), to);
}

std::string refusalOf(const std::string& text) { return THROWN(PlanError, requestFromJson(text)); }

}  // namespace

TEST(plan_request_from_json) {
  const Request request = requestFromJson(kRequest);
  CHECK_EQ(request.nodes.size(), size_t{3});
  CHECK_EQ(request.nodes[0].nics[1].capacity, 0.0);
  CHECK_EQ(request.nodes[1].nics[1].capacity, 1.0);
  CHECK_EQ(request.bytes, uint64_t{67108864});
  CHECK_EQ(request.reduction, std::string("avg"));
  CHECK_EQ(request.channels, 4);
  CHECK_EQ(request.cost.hopUs, 5.0);
  CHECK_EQ(request.cost.chunkBytes, uint64_t{65536});
}

TEST(plan_request_problems_name_their_line) {
  CHECK(says(refusalOf(changed("\"schema\":1", "\"schema\":2")), "line 1: schema"));
  CHECK(says(refusalOf(changed("\"op\"", "\"operation\"")), "line 5: unknown key \"operation\""));
  CHECK(says(refusalOf(changed("\"bytes\":67108864", "\"bytes\":-1")), "line 5: bytes"));
  CHECK(says(refusalOf(changed("\"bytes\":67108864", "\"bytes\":1.5")), "bytes"));
  CHECK(says(refusalOf(changed("\"auto\"", "\"best\"")), "line 5: there is no schedule \"best\""));
  CHECK(says(refusalOf(changed("\"hop_us\"", "\"hops\"")), "line 6: unknown key \"hops\""));
  CHECK(says(refusalOf(changed("\"rate_gbit\":1}", "\"rate_gbit\":\"1\"}")), "line 2: rate_gbit must be a number"));
  CHECK(says(refusalOf(changed("\"ranks\":[2]", "\"ranks\":[-2]")), "line 4: ranks"));
  CHECK(says(refusalOf(changed("\"rate_gbit\":1}", "\"rate_gbit\":NaN}")), "line 2"));
  CHECK(says(refusalOf(""), "the text ends"));
}

TEST(plan_goes_through_json_and_back) {
  for (const Schedule schedule :
       {Schedule::Balance, Schedule::Published, Schedule::Chain, Schedule::ChainFixed, Schedule::OptCC}) {
    const Plan plan = r2cc::planner::plan(degraded(5, 1, 0.25, schedule));
    CHECK_EQ(std::string(name(plan.schedule)), std::string(name(schedule)));
    const Plan back = planFromJson(toJson(plan));
    CHECK_EQ(exactText(back), exactText(plan));
    CHECK_EQ(back.bytes, plan.bytes);
    CHECK_EQ(back.parts.size(), plan.parts.size());
    CHECK_EQ(back.parts[0].share, plan.parts[0].share);
    CHECK_EQ(bounds(back, 1000003)[1], bounds(plan, 1000003)[1]);
  }
  CHECK(says(THROWN(PlanError, planFromJson("{\"schema\":1}")), "the plan, line 1"));
}

TEST(plan_c_interface) {
  char* out = nullptr;
  CHECK_EQ(r2cc_plan(kRequest, &out), 0);
  CHECK_EQ(toJson(plan(requestFromJson(kRequest))), std::string(out));
  r2cc_plan_free(out);
  CHECK_EQ(r2cc_plan("{", &out), 2);
  CHECK(says(out, "{\"error\":\"the plan_request, line 1") && says(out, "\"hint\":"));
  r2cc_plan_free(out);
  r2cc_plan_free(nullptr);
}
