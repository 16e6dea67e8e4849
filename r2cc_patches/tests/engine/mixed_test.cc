// Ranks that do not fit: both ends fail, each with one clear line; ranks that differ without harm work, and say so
// once.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "check.h"
#include "rig/rig.h"
#include "scratch.h"
#include "wire/party.h"
#include "wire/refusal.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(20000);
constexpr size_t kVersionAt = sizeof(kMagic);

/// One listen of host 1, whose handle host 0 gets after something was changed in it.
struct Mixed {
  explicit Mixed(const RigOptions& options = {}) : rig(options) {
    CHECK_EQ(rig.engine(1).listen(rig.context(1), 0, handle.data(), &listen), ncclSuccess);
  }
  ~Mixed() { rig.engine(1).closeListen(listen); }
  Mixed(const Mixed&) = delete;
  Mixed& operator=(const Mixed&) = delete;
  /// Host 0 finds the handle written by another.
  void pretend(const std::function<void(Party&)>& change) {
    ConnectHandle known;
    CHECK_EQ(openHandle(handle.data(), known), kWireVersion);
    Party writer = partyOf(known, kWireVersion);
    change(writer);
    describeIn(known, writer);
    writeHandle(known, handle.data());
  }
  ncclResult_t connect() {
    void* comm = nullptr;
    return rig.engine(0).connect(rig.context(0), 0, handle.data(), &comm);
  }
  ncclResult_t accept() {
    void* comm = nullptr;
    return rig.engine(1).accept(listen, &comm);
  }
  bool bothFail() {
    ncclResult_t sender = ncclSuccess, receiver = ncclSuccess;
    return Rig::within(kLimitNs,
                       [&] {
                         if (sender == ncclSuccess) sender = connect();
                         if (receiver == ncclSuccess) receiver = accept();
                         return sender != ncclSuccess && receiver != ncclSuccess;
                       }) &&
           sender == ncclInvalidUsage && receiver == ncclInvalidUsage;
  }
  /// How many lines of the log have this in them; the log has a thread of its own.
  size_t lines(const std::string& part) const {
    const std::vector<std::string> all = rig.warnings();
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [&](const auto& l) { return l.find(part) != std::string::npos; }));
  }
  bool says(const std::string& part, size_t times) {
    return Rig::within(kLimitNs, [&] { return lines(part) == times; });
  }

  Rig rig;
  InnerHandle handle{};
  void* listen = nullptr;
};

}  // namespace

TEST(net_mixed_another_protocol_is_an_error_at_both_ends) {
  Mixed mixed;
  mixed.handle[kVersionAt] = kWireVersion + 1;
  CHECK(mixed.bothFail());
  CHECK(mixed.says("R2CC's protocol is " + std::to_string(kWireVersion) + " on ", 2));
  CHECK(mixed.says("Use one build of R2CC on all ranks", 2));
  CHECK_EQ(mixed.connect(), ncclInvalidUsage);  // and it stays so
  CHECK_EQ(mixed.accept(), ncclInvalidUsage);
}

TEST(net_mixed_another_net_is_an_error_at_both_ends) {
  Mixed mixed;
  mixed.pretend([](Party& writer) { writer.inner = writer.inner == Inner::Ib ? Inner::Socket : Inner::Ib; });
  CHECK(mixed.bothFail());
  CHECK(mixed.says("the net is ", 2));
}

TEST(net_mixed_a_stock_peer_is_an_error_at_once) {
  Mixed mixed;
  mixed.handle.fill(0);
  CHECK_EQ(mixed.connect(), ncclInvalidUsage);
  CHECK(mixed.says("which runs without R2CC", 1));
}

/// Several connections, as NCCL makes them: one line.
TEST(net_mixed_builds_and_modes_may_differ) {
  Mixed mixed;
  mixed.pretend([](Party& writer) { writer.build = 0xb2, writer.mode = 2; });
  void *sends = nullptr, *receives = nullptr;
  CHECK(Rig::within(kLimitNs, [&] {
    if (sends == nullptr)
      CHECK_EQ(mixed.rig.engine(0).connect(mixed.rig.context(0), 0, mixed.handle.data(), &sends), ncclSuccess);
    if (receives == nullptr) CHECK_EQ(mixed.rig.engine(1).accept(mixed.listen, &receives), ncclSuccess);
    return sends != nullptr && receives != nullptr;
  }));
  CHECK(mixed.says("Both speak the same protocol, so the job goes on", 1));
  mixed.rig.engine(0).closeSend(sends);
  mixed.rig.engine(1).closeRecv(receives);
}

/// A process that could not start its net has no engine to speak for it.
TEST(net_mixed_one_without_an_engine_is_heard) {
  Mixed mixed;
  ConnectHandle known;
  CHECK_EQ(openHandle(mixed.handle.data(), known), kWireVersion);
  refuseOnce(known, "process 1 on h9 could not start R2CC");
  CHECK(Rig::within(kLimitNs, [&] { return mixed.accept() == ncclInvalidUsage; }));
  CHECK(mixed.says("process 1 on h9 could not start R2CC", 1));
}

/// Only who was given the handle can refuse.
TEST(net_mixed_a_stranger_cannot_refuse) {
  Mixed mixed;
  ConnectHandle known;
  CHECK_EQ(openHandle(mixed.handle.data(), known), kWireVersion);
  const uint64_t forged = mixed.rig.engine(1).droppedByReason().forged;
  known.key = randomKey();
  refuseOnce(known, "nonsense");
  CHECK(Rig::within(kLimitNs, [&] { return mixed.rig.engine(1).droppedByReason().forged > forged; }));
  CHECK_EQ(mixed.accept(), ncclSuccess);
}

TEST(net_mixed_encryption_on_one_end_is_an_error_at_both) {
  for (const bool sender : {true, false}) {
    RigOptions options;
    options.tls = sender ? std::vector<std::string>{"1", ""} : std::vector<std::string>{"0", "1"};
    Mixed mixed(options);
    CHECK(mixed.bothFail());
    CHECK(mixed.says(sender ? "R2CC_TLS is 1 on " : "R2CC_TLS is 0 on ", 2));
    CHECK(mixed.says("Set it alike on all ranks", 2));
  }
}

TEST(net_mixed_secrets_are_an_error_at_both_ends) {
  const check::Scratch folder;
  std::vector<std::string> files;
  for (const char* text : {"0", "1"}) {
    files.push_back(folder / text);
    std::ofstream(files.back()) << std::string(64, *text);
    CHECK_EQ(chmod(files.back().c_str(), 0600), 0);
  }
  RigOptions options;
  options.tls = {"1", "1"};
  options.secretFiles = files;
  Mixed mixed(options);
  CHECK(mixed.bothFail());
  CHECK(mixed.says("to files that differ", 2));
}
