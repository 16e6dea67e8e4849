// The lines that say whether R2CC is in the path.
#include "net/in_path.h"
#include "check.h"

namespace {

using namespace r2cc;

InPath path() { return {"0123456789abcdef", 2, "Socket", {"eth0", "eth1"}, 2, 0, 0}; }

}  // namespace

TEST(in_path_line_before_the_first_connection) {
  CHECK(inPathLine(path()) ==
        "R2CC: in the path: build 0123456789abcdef, R2CC_MODE=2, net Socket, NICs eth0, eth1 (all protected), "
        "no connection yet");
}

TEST(in_path_line_counts_what_is_protected) {
  InPath some = path();
  some.protectedNics = 1;
  some.connections = 12;
  some.protectedConnections = 8;
  const std::string line = inPathLine(some);
  CHECK(line.find("eth1 (1 protected), 12 connections so far (8 protected)") != std::string::npos);
  some.protectedConnections = some.protectedNics = 0;
  CHECK(inPathLine(some).find("eth1 (none protected), 12 connections so far (none protected)") != std::string::npos);
}

TEST(in_path_another_plugin_is_named_with_the_variable_to_set) {
  const std::string line = outOfPathLine("AWS Libfabric", "/opt/lib/libnccl-net.so");
  CHECK(line.find("the net is plugin AWS Libfabric (/opt/lib/libnccl-net.so)") != std::string::npos);
  CHECK(line.find("NCCL_NET_PLUGIN=none") != std::string::npos);
  CHECK(outOfPathLine("X", "").find("plugin X, so") != std::string::npos);
}

TEST(in_path_what_is_not_covered) {
  CHECK(notCoveredLine({}).empty());
  CHECK(notCoveredLine({"GIN", "RMA"}) == "R2CC: passed through as stock, not protected: GIN, RMA");
}
