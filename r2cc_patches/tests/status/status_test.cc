// What a process says in its status file and at its end, and NICs that are to go away.
#include "status/status.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/json/reader.h"
#include "check.h"
#include "nic/topology.h"
#include "rig/rig.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;
using r2cc::check::Scratch;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kLimitNs = msToNs(20000);

RigOptions watched(const Scratch& scratch, int mode = 1) {
  RigOptions options;
  options.mode = mode;
  options.desk = scratch.path();
  for (const char* host : {"h0", "h1"}) fs::create_directories(scratch.path() + "/" + host + "/control");
  return options;
}

/// The status file of a host; nothing while there is none.
std::optional<Json> statusOf(const Scratch& scratch, int host) {
  const std::string folder = scratch.path() + "/h" + std::to_string(host) + "/status";
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() != ".json") continue;
    try {
      return readJsonFile(entry.path());
    } catch (const JsonError&) {  // it was renamed away just now
      return std::nullopt;
    }
  }
  return std::nullopt;
}

const Json& nicOf(const Json& status, size_t rail) { return status.at("nics").array("nics").at(rail); }
std::string stateOf(const Json& status, size_t rail) { return nicOf(status, rail).at("state").string("state"); }
int64_t countOf(const Json& object, const char* key) { return object.at(key).integer(key, 0, INT64_MAX); }

bool shows(const Scratch& scratch, int host, const std::function<bool(const Json&)>& what) {
  return Rig::within(kLimitNs, [&] {
    const std::optional<Json> status = statusOf(scratch, host);
    return status && what(*status);
  });
}

void connectAll(Rig& rig) {
  for (int rail = 0; rail < 3; rail++) {
    rig.stream(0, 1, rail, UINT64_MAX / 2);
    rig.stream(1, 0, rail, UINT64_MAX / 2);
  }
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= 600; }));
}

void drain(const Scratch& scratch, int host, int rail) {
  const std::string folder = scratch.path() + "/h" + std::to_string(host) + "/control";
  std::ofstream(folder + "/drain-it.json")
      << R"({"schema": 1, "host": ")" << hostName() << R"(", "nic": "rail)" << rail << R"(", "until_unix_s": null})";
}

void undrain(const Scratch& scratch, int host) {
  fs::remove(scratch.path() + "/h" + std::to_string(host) + "/control/drain-it.json");
}

void finish(Rig& rig) {
  rig.stop();
  for (const Stream& stream : rig.streams()) CHECK_EQ(stream.receiver->wrong(), "");
  rig.fabric.healAll();
}

/// Connections leave a NIC of either end without a freeze, its link may then be lost for nothing, and they come back.
void leavesAndComesBack(int mode) {
  const Scratch scratch;
  Rig rig(watched(scratch, mode));
  connectAll(rig);
  CHECK(shows(scratch, 1, [](const Json& s) { return countOf(nicOf(s, 2), "connections_here") == 2; }));
  const size_t freezes = rig.decided(Type::Freeze);
  drain(scratch, 1, 2);
  const auto left = [](const Json& s) { return countOf(nicOf(s, 2), "connections_here") == 0; };
  CHECK(shows(scratch, 1, [&](const Json& s) { return left(s) && stateOf(s, 2) == "draining"; }));
  CHECK(shows(scratch, 0, left));
  rig.link(1, 2, false);
  rig.fabric.cut({1, 2}, Cut::Hold);
  const uint64_t before = rig.delivered();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= before + 300; }));
  CHECK_EQ(rig.decided(Type::Freeze), freezes);
  rig.fabric.heal({1, 2});
  rig.link(1, 2, true);
  undrain(scratch, 1);
  CHECK(shows(scratch, 1, [](const Json& s) {
    return stateOf(s, 2) == "up" && countOf(nicOf(s, 2), "connections_here") == 2 &&
           countOf(nicOf(s, 2), "connections_carried") == 0;
  }));
  CHECK_EQ(rig.decided(Type::Freeze), freezes);
  finish(rig);
}

}  // namespace

TEST(status_says_what_a_lost_link_did_and_the_end_line_says_it_too) {
  const Scratch scratch;
  Rig rig(watched(scratch));
  connectAll(rig);
  CHECK(shows(scratch, 1, [](const Json& s) {
    const Json& nic = nicOf(s, 1);
    return stateOf(s, 1) == "up" && countOf(nic, "tx_bytes") > 0 && countOf(nic, "rx_bytes") > 0 &&
           countOf(nic, "connections_home") == 2 && countOf(s.at("connections"), "active") == 6;
  }));
  CHECK_EQ(rig.engine(1).endLine(), "");
  rig.fabric.cut({1, 1}, Cut::Hold);
  rig.link(1, 1, false);
  CHECK(shows(scratch, 1, [](const Json& s) {
    const Json& nic = nicOf(s, 1);
    return stateOf(s, 1) == "down" && countOf(nic, "capacity_percent") == 0 &&
           countOf(nic, "connections_carried") == 2 && countOf(s.at("totals").at("failovers"), "netlink") == 1 &&
           countOf(s.at("totals"), "nic_failures") == 1;
  }));
  CHECK(shows(scratch, 0, [](const Json& s) {
    return stateOf(s, 1) == "up" && countOf(s.at("totals"), "nic_failures") == 1;  // the other end's
  }));
  const std::string line = rig.engine(1).endLine();
  CHECK_EQ(line.find("R2CC: 1 NIC failure carried, "), 0U);
  CHECK(line.find(" ms lost, " + hostName() + ":rail1 still down") != std::string::npos);
  CHECK(rig.engine(0).endLine().find(", 127.0.2.2 still down") != std::string::npos);
  rig.fabric.heal({1, 1});
  rig.link(1, 1, true);
  CHECK(shows(scratch, 1, [](const Json& s) {
    return stateOf(s, 1) == "up" && countOf(nicOf(s, 1), "connections_carried") == 0 &&
           countOf(s.at("totals"), "failbacks") >= 1;
  }));
  CHECK(rig.engine(1).endLine().find("still down") == std::string::npos);
  finish(rig);
  rig.closeStreams();
  rig.endEngine(1);
  CHECK(shows(scratch, 1, [](const Json& s) { return s.at("ended").boolean("ended"); }));
}

TEST(status_file_of_a_process_to_which_nothing_happened_goes_with_it) {
  const Scratch scratch;
  Rig rig(watched(scratch));
  connectAll(rig);
  CHECK(shows(scratch, 0, [](const Json& s) { return countOf(s.at("paths"), "up") == 3; }));
  finish(rig);
  rig.closeStreams();
  rig.endEngine(0);
  CHECK(!statusOf(scratch, 0));
}

TEST(status_counts_connections_that_hold) {
  const Scratch scratch;
  Rig rig(watched(scratch));
  connectAll(rig);
  for (int rail = 0; rail < 3; rail++) rig.link(0, rail, false);
  CHECK(shows(scratch, 0, [](const Json& s) {
    return countOf(s.at("connections"), "held") == 3 && s.at("totals").at("held_s").number("held_s") > 0;
  }));
  for (int rail = 0; rail < 3; rail++) rig.link(0, rail, true);
  CHECK(shows(scratch, 0, [](const Json& s) { return countOf(s.at("connections"), "held") == 0; }));
  finish(rig);
}

/// Its last path is up, and takes no lane (a firewall): that is no move which is about to end.
TEST(status_counts_connections_for_which_no_lane_can_be_made_as_held) {
  const Scratch scratch;
  Rig rig(watched(scratch));
  connectAll(rig);
  rig.fabric.refuse({0, 2}, true), rig.fabric.refuse({1, 2}, true);
  for (const int host : {0, 1}) {
    rig.fabric.breakComms({host, 2});
    for (const int rail : {0, 1}) rig.link(host, rail, false);
  }
  CHECK(shows(scratch, 0, [](const Json& s) { return countOf(s.at("connections"), "held") == 3; }));
  rig.fabric.refuse({0, 2}, false), rig.fabric.refuse({1, 2}, false);
  CHECK(shows(scratch, 0, [](const Json& s) { return countOf(s.at("connections"), "active") == 6; }));
  finish(rig);
}

TEST(drain_moves_connections_without_a_freeze_and_back_in_migrate) { leavesAndComesBack(1); }
TEST(drain_moves_connections_without_a_freeze_and_back_in_balance) { leavesAndComesBack(2); }

TEST(drain_of_the_last_nic_leaves_connections_where_they_are) {
  const Scratch scratch;
  Rig rig(watched(scratch));
  connectAll(rig);
  for (const int rail : {0, 1}) rig.link(1, rail, false);
  drain(scratch, 1, 2);
  CHECK(shows(scratch, 1, [](const Json& s) {
    return stateOf(s, 2) == "draining" && countOf(nicOf(s, 2), "connections_here") == 6;
  }));
  const uint64_t before = rig.delivered();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() >= before + 300; }));
  finish(rig);
}
