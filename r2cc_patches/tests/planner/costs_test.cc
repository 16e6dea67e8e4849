// Files of costs, what they change of NCCL's table, and fabrics.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "planner/cost/cluster.h"
#include "planner/cost/nccl_table.h"
#include "planner/costs_file.h"
#include "planner/planner.h"
#include "scratch.h"

using namespace r2cc::planner;

namespace {

Request alike(int nodes, int nics, int ranks, double rateGbit) {
  Request request;
  for (int node = 0; node < nodes; node++) {
    Node made{"h" + std::to_string(node), {}, {}};
    for (int rank = 0; rank < ranks; rank++) made.ranks.push_back(node * ranks + rank);
    for (int nic = 0; nic < nics; nic++) made.nics.push_back({"n" + std::to_string(nic), rateGbit, 1});
    request.nodes.push_back(std::move(made));
  }
  request.bytes = uint64_t{1} << 30;
  return request;
}

/// Why a file is refused; empty: it is not.
std::string refused(const std::string& path) {
  try {
    readCostsFile(path);
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

TEST(plan_costs_files_that_are_none_are_refused_in_one_line) {
  const r2cc::check::Scratch folder;
  const auto with = [&](const std::string& text) {
    std::ofstream(folder / "costs.json", std::ios::binary) << text;
    return folder / "costs.json";
  };
  const std::string good = R"({"schema": 1, "name": "ours", "title": "t", "cost": {"hop_us": 9, "rank_GBps": 3}})";
  const CostsFile file = readCostsFile(with(good));
  CHECK_EQ(file.costs.name, std::string("ours"));
  CHECK_EQ(file.costs.cost.hopUs, 9.0);
  CHECK_EQ(file.costs.cost.rankGBps, 3.0);
  CHECK_EQ(file.text, good);
  const std::string two = R"({"schema": 1, "name": "x", "cost": {"hop_us": -1, "margin": 7, "rank_GBps": -2}})";
  for (const std::string& path : {folder / "nowhere.json", folder.path(), std::string("/dev/zero")}) {
    CHECK(refused(path).find("is no file") != std::string::npos);
  }
  for (const std::string& text :
       {two, std::string(), std::string("{\n"), std::string("hop_us: 3"), std::string(size_t{2} << 20, ' ')}) {
    const std::string why = refused(with(text));
    CHECK(!why.empty() && why.find('\n') == std::string::npos);
    CHECK(why.find("r2cc plan calibrate") != std::string::npos);
  }
  for (const char* each : {"hop_us", "margin", "rank_GBps"}) {
    CHECK(refused(with(two)).find(each) != std::string::npos);
  }
}

TEST(plan_costs_of_a_file) {
  const Costs costs = costsFromJson(R"({"schema": 1, "name": "x", "title": "t", "cost": {"chain_efficiency": 0.9},
      "nccl": {"gpu": "hopper", "tree": {"hop_us": 7, "efficiency": 0.5}}, "sources": {}})");
  CHECK_EQ(costs.name, std::string("x"));
  CHECK_EQ(costs.cost.hopUs, 7.0);
  CHECK_EQ(costs.cost.chainEfficiency, 0.9);
  CHECK_EQ(costs.nccl ? costs.nccl->tree.efficiency : 0, 0.5);
  for (const char* bad :
       {R"({"schema": 1, "name": "x", "cost": {"hop_us": -1}})", R"({"schema": 1, "name": "x", "z": 1})",
        R"({"schema": 2, "name": "x"})", "", R"({"schema": 1, "name": "x", "nccl": {"ring": {"efficiency": 0}}})"}) {
    bool thrown = false;
    try {
      costsFromJson(bad);
    } catch (const PlanError&) {
      thrown = true;
    }
    CHECK(thrown);
  }
}

TEST(plan_healthy_is_what_nccl_would_choose) {
  Request request = alike(64, 8, 8, 400);
  request.nccl = NcclMachine{};
  request.cost = ncclCost(*request.nccl);
  const Plan made = plan(request);
  CHECK_EQ(made.ncclRuns, std::string("nvlstree/simple"));
  CHECK(made.healthyUs > 5300 && made.healthyUs < 6200);
  CHECK_EQ(made.predictedUs, made.healthyUs);
}

TEST(plan_measured_costs_change_times_and_not_what_nccl_chooses) {
  Request request = alike(16, 8, 8, 400);
  request.nccl = NcclMachine{};
  const Plan table = plan(request);
  request.nccl->nvlsTree = {-1, -1, -1, 0.5};
  request.nccl->tree.hopUs = 28;
  const Plan measured = plan(request);
  CHECK_EQ(measured.ncclRuns, table.ncclRuns);
  CHECK(measured.healthyUs > 1.8 * table.healthyUs);
  // The same from NCCL's own table.
  const Cluster cluster(request);
  const std::vector<Rival> before = rivalsOf(NcclMachine{}, cluster), after = rivalsOf(*request.nccl, cluster);
  for (size_t i = 3; i < 6; i++) {  // tree: LL, LL128, Simple
    Rival rival = before[i];
    asMeasured(rival, Algorithm::Tree, static_cast<int>(i - 3), *request.nccl, 16, 128);
    CHECK(std::abs(rival.latencyUs - after[i].latencyUs) < 1e-9 * after[i].latencyUs);
    for (size_t power = 0; power < rival.us.size(); power++) {
      CHECK(std::abs(rival.takes[power] - after[i].takes[power]) < 1e-6 * after[i].takes[power]);
      CHECK_EQ(rival.us[power], after[i].us[power]);
    }
  }
}

TEST(plan_of_a_fabric_with_a_spine_knows_no_rails) {
  Request request = alike(4, 4, 1, 100);
  request.nodes[1].nics[0].capacity = 0;
  request.nodes[2].nics[3].capacity = 0;  // a neighbour that lost another rail
  const auto us = [&](int planes, Schedule schedule) {
    request.planes = planes;
    request.schedule = schedule;
    return plan(request).predictedUs;
  };
  for (const Schedule schedule : {Schedule::Ring, Schedule::Chain}) {
    CHECK(us(1, schedule) <= us(2, schedule) && us(2, schedule) <= us(0, schedule));  // 2: NICs 0 and 2, 1 and 3
  }
  CHECK(us(1, Schedule::Chain) < 0.97 * us(0, Schedule::Chain));
}

}  // namespace
