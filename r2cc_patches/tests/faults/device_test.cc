// What is done to an RDMA device's completions, calls and events, on a driver that does what the test says.
#include "faults/verbs/device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "check.h"
#include "driver_double.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::faults;

namespace {

constexpr int kLongMs = 10'000;

/// As libibverbs reads them.
struct Record {
  uint64_t element = 0;
  uint32_t event = 0, reserved = 0;
};

/// `EVENT/PORT`, or `nothing`, or `end`.
std::string eventOn(int fd, int limitMs) {
  pollfd asked = {fd, POLLIN, 0};
  if (::poll(&asked, 1, limitMs) != 1) return "nothing";
  Record record;
  if (read(fd, &record, sizeof(record)) != sizeof(record)) return "end";
  return std::to_string(record.event) + "/" + std::to_string(record.element);
}

}  // namespace

TEST(what_no_rule_is_for_is_left_alone) {
  DriverDouble driver;
  CHECK(!driver.device.active());
  driver.rule("error status=fatal qp=99");
  CHECK(driver.device.active());
  driver.completes(1);
  driver.completes(2, IBV_WC_RECV);
  CHECK_EQ(driver.polled(), "1 2");
  CHECK(driver.broken.empty());
  driver.end();
  CHECK(!driver.device.active());
}

TEST(a_completion_that_fails_breaks_its_queue_pair_and_flushes_what_is_behind_it) {
  DriverDouble driver;
  const auto rule = driver.rule("error status=retry_exceeded skip=1 times=1");
  driver.completes(1);
  driver.completes(2);
  driver.completes(3);
  driver.completes(4, IBV_WC_RECV_RDMA_WITH_IMM);
  driver.completes(5, IBV_WC_RDMA_WRITE, kOtherQp);
  CHECK_EQ(driver.polled(), "1 2:12 3:5 4 5");
  CHECK(driver.broken == std::vector<uint32_t>{kQp});
  CHECK_EQ(rule->hits.load(), uint64_t{1});
  CHECK(rule->hitNs != 0);
  driver.end();
  driver.completes(6);
  CHECK_EQ(driver.polled(), "6:5");  // the rule is over, the queue pair is not well
  ibv_qp_attr reset{};               // NOLINT(bugprone-invalid-enum-default-initialization): the mask says what counts
  driver.device.modified(&driver.first, reset, IBV_QP_STATE);
  CHECK(!driver.device.active());
  driver.completes(7);
  CHECK_EQ(driver.polled(), "7");
}

TEST(of_a_completion_that_fails_nothing_is_said_but_whose_it_is) {
  DriverDouble driver;
  driver.rule("error status=remote_access opcode=rdma_read");
  driver.completes(1, IBV_WC_RDMA_READ);
  driver.done.back().byte_len = 48;
  driver.done.back().imm_data = 7;
  const std::vector<ibv_wc> got = driver.poll();
  CHECK_EQ(got.size(), size_t{1});
  CHECK(got[0].status == IBV_WC_REM_ACCESS_ERR && got[0].wr_id == 1 && got[0].qp_num == kQp);
  CHECK(got[0].byte_len == 0 && got[0].imm_data == 0 && got[0].opcode == 0);
}

TEST(what_was_received_stays_well_and_the_next_fails) {
  DriverDouble driver;
  const auto rule = driver.rule("error status=local_protection opcode=recv_rdma_with_imm times=1");
  driver.completes(1, IBV_WC_RECV_RDMA_WITH_IMM);
  driver.completes(2, IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK_EQ(driver.polled(), "1 2");  // the sender was told that both have come
  CHECK(driver.broken == std::vector<uint32_t>{kQp});
  CHECK_EQ(rule->hits.load(), uint64_t{1});
  driver.completes(3, IBV_WC_SEND, kQp, IBV_WC_WR_FLUSH_ERR);
  driver.completes(4, IBV_WC_SEND, kQp, IBV_WC_WR_FLUSH_ERR);
  CHECK_EQ(driver.polled(), "3:4 4:5");
  driver.end();
  CHECK(!driver.device.active());
}

TEST(a_real_error_stays_what_it_is) {
  DriverDouble driver;
  const auto rule = driver.rule("error status=fatal");
  driver.completes(1, IBV_WC_SEND, kQp, IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK_EQ(driver.polled(), "1:13");
  CHECK_EQ(rule->hits.load(), uint64_t{0});
}

TEST(a_rule_is_for_a_queue_pair_a_peer_or_an_opcode) {
  DriverDouble driver;
  driver.rule("error status=fatal peer=10.2.0.3");
  driver.completes(1);
  driver.completes(2, IBV_WC_RDMA_WRITE, kOtherQp);
  CHECK_EQ(driver.polled(), "1 2:19");
  driver.rule("error status=fatal qp=17 opcode=send");
  driver.completes(3);
  driver.completes(4, IBV_WC_SEND);
  CHECK_EQ(driver.polled(), "3 4:19");
}

TEST(what_is_lost_makes_room_for_what_is_not) {
  DriverDouble driver;
  const auto rule = driver.rule("lost times=3");
  for (uint64_t n = 1; n <= 5; n++) driver.completes(n);
  CHECK_EQ(driver.polled(2), "4 5");
  CHECK_EQ(rule->hits.load(), uint64_t{3});
  driver.end();
  CHECK_EQ(driver.polled(), "");
}

TEST(what_is_late_is_not_overtaken_on_its_queue_pair) {
  DriverDouble driver;
  driver.rule("late ms=3600000 times=1");
  driver.completes(1);
  driver.completes(2);
  driver.completes(3, IBV_WC_RECV);
  driver.completes(4, IBV_WC_RDMA_WRITE, kQp, IBV_WC_WR_FLUSH_ERR);
  driver.completes(5, IBV_WC_RDMA_WRITE, kOtherQp);
  CHECK_EQ(driver.polled(), "3 5");
  CHECK_EQ(driver.polled(), "");
  driver.end();
  CHECK_EQ(driver.polled(2), "1 2");  // over: all that waited, in its order
  CHECK_EQ(driver.polled(), "4:5");
  CHECK(!driver.device.active());
}

TEST(what_is_late_comes_by_itself) {
  DriverDouble driver;
  driver.rule("late ms=1");
  driver.completes(1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  std::string got;
  while (got.empty() && std::chrono::steady_clock::now() < until) got = driver.polled();
  CHECK_EQ(got, "1");
}

TEST(a_duplicate_comes_twice) {
  DriverDouble driver;
  driver.rule("duplicate times=1");
  driver.completes(1);
  driver.completes(2);
  std::string all = driver.polled();
  all += " " + driver.polled();
  CHECK_EQ(all, " 1 1 2");
}

TEST(a_slow_queue_pair_keeps_to_its_rate) {
  DriverDouble driver;
  driver.rule("slow per_s=1000");
  const auto began = std::chrono::steady_clock::now();
  constexpr uint64_t kMany = 21;
  for (uint64_t n = 0; n < kMany; n++) driver.completes(n);
  size_t got = 0;
  const auto until = began + std::chrono::milliseconds(kLongMs);
  while (got < kMany && std::chrono::steady_clock::now() < until) got += driver.poll().size();
  CHECK_EQ(got, size_t{kMany});
  CHECK(std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(20));
}

TEST(a_queue_pair_that_is_destroyed_leaves_nothing) {
  DriverDouble driver;
  driver.rule("late ms=3600000");
  driver.completes(1);
  CHECK_EQ(driver.polled(), "");
  driver.device.forget(&driver.first);
  driver.end();
  CHECK_EQ(driver.polled(), "");
  CHECK(!driver.device.active());
}

TEST(calls_fail_as_often_as_the_rule_says) {
  DriverDouble driver;
  const auto rule = driver.rule("fail call=post_send errno=12 peer=10.2.0.1 times=1");
  CHECK_EQ(driver.device.errorOf(VerbsCall::PostRecv, &driver.first), 0);
  CHECK_EQ(driver.device.errorOf(VerbsCall::PostSend, &driver.second), 0);
  CHECK_EQ(driver.device.errorOf(VerbsCall::PostSend, &driver.first), ENOMEM);
  CHECK_EQ(driver.device.errorOf(VerbsCall::PostSend, &driver.first), 0);
  CHECK_EQ(rule->hits.load(), uint64_t{1});
  driver.rule("fail call=reg_mr errno=14");
  CHECK_EQ(driver.device.errorOf(VerbsCall::RegMr, nullptr), EFAULT);
}

TEST(events_of_the_kernel_and_ours_come_by_the_same_descriptor) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Fd kernel(ends[0]);
  const Fd program(ends[1]);
  DriverDouble driver;
  driver.device.openEvents(program.get());
  const Record real = {2, IBV_EVENT_LID_CHANGE, 0};
  CHECK_EQ(write(kernel.get(), &real, sizeof(real)), ssize_t{sizeof(real)});
  CHECK_EQ(eventOn(program.get(), kLongMs), "11/2");
  const auto rule = driver.rule("event name=port_err then=port_active");
  CHECK_EQ(eventOn(program.get(), kLongMs), "10/1");
  CHECK_EQ(rule->hits.load(), uint64_t{1});
  driver.end();
  CHECK_EQ(eventOn(program.get(), kLongMs), "9/1");
  kernel.reset();  // the device is taken away
  CHECK_EQ(eventOn(program.get(), kLongMs), "end");
  driver.device.closeEvents();
  CHECK(!driver.rule("event name=device_fatal")->hits);
}

TEST(the_first_hit_is_answered_before_the_program_knows_of_it) {
  const check::Scratch scratch;
  const std::string file = scratch / "f0.hits";
  const auto answers = std::make_shared<const Answers>(Fd(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)));
  const auto said = [&file] {
    std::ostringstream found;
    found << std::ifstream(file).rdbuf();
    return found.str().substr(0, found.str().rfind(' '));
  };
  const std::string hit = "hit " + std::to_string(getpid()) + " rxe1 1";
  DriverDouble driver;
  std::istringstream error("rxe1 error status=fatal"), lost("rxe1 event name=device_fatal");
  driver.device.setRules({std::make_shared<ActiveRule>(verbsRuleOf(error), answers)});
  driver.completes(1);
  driver.completes(2);
  CHECK_EQ(driver.polled(), "1:" + std::to_string(IBV_WC_FATAL_ERR) + " 2:5");
  CHECK_EQ(said(), hit);  // nobody looks at it here

  std::filesystem::resize_file(file, 0);
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd kernel(ends[0]), program(ends[1]);
  driver.device.openEvents(program.get());
  driver.device.setRules({std::make_shared<ActiveRule>(verbsRuleOf(lost), answers)});
  CHECK_EQ(said(), hit);
  CHECK_EQ(eventOn(program.get(), kLongMs), std::to_string(IBV_EVENT_DEVICE_FATAL) + "/1");
  driver.device.closeEvents();
}

TEST(a_device_that_is_opened_later_is_not_told_what_was) {
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd kernel(ends[0]), program(ends[1]);
  std::istringstream words("rxe1 event name=device_fatal");
  const ActiveRules rules = {std::make_shared<ActiveRule>(verbsRuleOf(words))};
  Device late("rxe1", {}, rules);
  late.openEvents(program.get());
  late.setRules(rules);
  CHECK_EQ(eventOn(program.get(), 0), "nothing");
  late.closeEvents();
}
