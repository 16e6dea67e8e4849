// Rules in force, on real connections of this process.
#include "faults/enforcer.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "check.h"
#include "driver_double.h"
#include "faults/sockets.h"
#include "pair.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::faults;

namespace {

constexpr int kLongMs = 10'000, kShortMs = 50;

/// A folder as the toolkit fills it.
struct Rig {
  check::Scratch scratch;
  Book book;
  Devices devices;
  Enforcer enforcer{scratch.path(), book, devices};

  void rule(const std::string& words, const std::string& name = "f0") const {
    text("r2cc-faults 1\nsocket " + words + "\nend\n", name);
  }
  void text(const std::string& all, const std::string& name = "f0") const {
    std::ofstream(scratch / "new.") << all;
    std::filesystem::rename(scratch / "new.", scratch / name);
  }
  void remove(const std::string& name = "f0") const { std::filesystem::remove(scratch / name); }
  std::string answers(const std::string& name = "f0") const {
    std::ostringstream found;
    found << std::ifstream(scratch / (name + ".hits")).rdbuf();
    return found.str();
  }
  std::string hit(uint64_t count) const {
    return "hit " + std::to_string(getpid()) + " " + kNic + " " + std::to_string(count) + " ";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int errorOf(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? errno : 0;
}

/// Newer kernels want CAP_NET_ADMIN for a filter on TCP.
bool mayFilter() {
  const int error = deafenError();
  if (error != 0) std::fprintf(stderr, "skipped: no filter on TCP: %s\n", std::strerror(error));
  return error == 0;
}

int unacknowledged(int fd) {
  int bytes = 0;
  CHECK_EQ(ioctl(fd, SIOCOUTQ, &bytes), 0);
  return bytes;
}

}  // namespace

TEST(a_reset_is_seen_by_both_ends_and_by_no_other_connection) {
  Rig rig;
  const Pair pair;
  Enforcer& enforcer = rig.enforcer;
  CHECK(!enforcer.look());
  rig.rule("127.0.0.2 reset");
  CHECK(enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), ECONNRESET);
  CHECK(Pair::readable(pair.theirs.get(), kLongMs));
  CHECK_EQ(errorOf(pair.theirs.get()), ECONNRESET);
  CHECK(has(rig.answers(), "seen " + std::to_string(getpid())));
  CHECK(has(rig.answers(), rig.hit(1)));
  const Pair next;
  CHECK(enforcer.look());
  CHECK_EQ(errorOf(next.mine.get()), ECONNRESET);
  rig.remove();
  CHECK(!enforcer.look());
  const Pair after;
  CHECK(!enforcer.look());
  CHECK_EQ(errorOf(after.mine.get()), EAGAIN);
}

/// The first connection's reader ends its process at once, while hundreds more are being reset.
TEST(a_reset_is_answered_though_the_program_ends_by_it) {
  Rig rig;
  const std::vector<Pair> pairs(200);
  rig.rule("127.0.0.2 reset");
  const pid_t child = must(fork());
  if (child == 0) {
    std::thread([&pairs] {
      char byte = 0;
      _exit(recv(pairs[0].mine.get(), &byte, 1, 0) <= 0 ? 0 : 1);
    }).detach();
    while (true) (void)rig.enforcer.look();
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK(has(rig.answers(), "hit " + std::to_string(child) + " " + kNic + " 1 "));
}

TEST(what_has_arrived_is_read_before_a_reset) {
  if (!mayFilter()) return;
  Rig rig;
  const Pair pair;
  CHECK_EQ(send(pair.theirs.get(), "0123456789", 10, 0), 10);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
  rig.rule("127.0.0.2 reset");
  for (int n = 0; n < 5; n++) CHECK(rig.enforcer.look());
  CHECK_EQ(send(pair.theirs.get(), "more", 4, 0), 4);
  CHECK(!has(rig.answers(), rig.hit(1)));
  char bytes[32] = {};
  CHECK_EQ(recv(pair.mine.get(), bytes, sizeof(bytes), MSG_DONTWAIT), 10);
  CHECK_EQ(std::string(bytes), std::string("0123456789"));
  CHECK_EQ(errorOf(pair.mine.get()), EAGAIN);
  CHECK_EQ(unacknowledged(pair.theirs.get()), 4);  // the sender is told of nothing that the reset throws away
  CHECK(rig.enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), ECONNRESET);
  CHECK(has(rig.answers(), rig.hit(1)));
}

TEST(a_reset_that_is_over_before_its_reader_came_leaves_the_connection_as_it_was) {
  Rig rig;
  const Pair pair;
  CHECK_EQ(send(pair.theirs.get(), "a", 1, 0), 1);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
  rig.rule("127.0.0.2 reset");
  CHECK(rig.enforcer.look());
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), 0);
  CHECK_EQ(send(pair.theirs.get(), "b", 1, 0), 1);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
}

/// Where two rules want the same connection, the one that waits for its reader keeps it.
TEST(a_connection_that_waits_to_be_reset_is_no_other_rule_s) {
  Rig rig;
  const Pair pair;
  CHECK_EQ(send(pair.theirs.get(), "a", 1, 0), 1);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
  rig.rule("127.0.0.2 reset", "second");
  CHECK(rig.enforcer.look());
  rig.rule("127.0.0.2 silent", "first");
  CHECK(rig.enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), 0);
  CHECK(rig.enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), ECONNRESET);
}

TEST(only_so_many_connections_are_reset) {
  Rig rig;
  const Pair one, two, three;
  rig.rule("127.0.0.2 reset times=2");
  for (int n = 0; n < 3; n++) CHECK(rig.enforcer.look());
  int reset = 0;
  for (const Pair* pair : {&one, &two, &three}) reset += errorOf(pair->mine.get()) == ECONNRESET ? 1 : 0;
  CHECK_EQ(reset, 2);
}

TEST(a_silent_connection_takes_nothing_and_goes_on_when_it_is_over) {
  if (!mayFilter()) return;
  Rig rig;
  const Pair pair;
  rig.rule("127.0.0.2 silent");
  CHECK(rig.enforcer.look());
  CHECK_EQ(send(pair.mine.get(), "x", 1, 0), 1);
  CHECK_EQ(unacknowledged(pair.mine.get()), 1);
  CHECK_EQ(send(pair.theirs.get(), "x", 1, 0), 1);
  CHECK(!Pair::readable(pair.mine.get(), kShortMs));
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK(Pair::readable(pair.mine.get(), kLongMs));  // TCP sends it again
}

/// As where the kernel lets only the privileged filter TCP, but for root, too.
void refuseFilters(int fd) {
  const int yes = 1;
  CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &yes, sizeof(yes)), 0);
  CHECK(!deafen(fd));
}

TEST(a_reset_does_without_the_filter_that_the_kernel_refuses) {
  Rig rig;
  const Pair pair;
  refuseFilters(pair.mine.get());
  CHECK_EQ(send(pair.theirs.get(), "a", 1, 0), 1);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
  rig.rule("127.0.0.2 reset times=1");
  for (int n = 0; n < 5; n++) CHECK(rig.enforcer.look());
  CHECK(!has(rig.answers(), rig.hit(1)));
  CHECK_EQ(errorOf(pair.mine.get()), 0);  // what has arrived is read first
  CHECK(rig.enforcer.look());
  CHECK_EQ(errorOf(pair.mine.get()), ECONNRESET);
  CHECK(Pair::readable(pair.theirs.get(), kLongMs));
  CHECK_EQ(errorOf(pair.theirs.get()), ECONNRESET);
  CHECK(has(rig.answers(), rig.hit(1)) && !has(rig.answers(), "refused"));
}

TEST(silence_that_the_kernel_refuses_is_told_once) {
  Rig rig;
  const Pair pair;
  refuseFilters(pair.mine.get());
  rig.rule("127.0.0.2 silent");
  for (int n = 0; n < 5; n++) CHECK(rig.enforcer.look());
  const std::string answers = rig.answers(), line = "refused " + std::to_string(getpid()) + " the kernel refuses ";
  CHECK(has(answers, line) && !has(answers, "hit"));
  CHECK_EQ(answers.find(line), answers.rfind(line));
  CHECK(has(answers, std::strerror(EPERM)));
}

TEST(nobody_gets_through_a_silent_door_until_it_is_over) {
  if (!mayFilter()) return;
  Rig rig;
  const Fd door = doorOn(kNic);
  rig.rule("127.0.0.2 silent");
  CHECK(rig.enforcer.look());
  const Fd comes(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in there = named(door.get());
  CHECK(connect(comes.get(), generic(&there), sizeof(there)) < 0 && errno == EINPROGRESS);
  CHECK(!Pair::readable(door.get(), kShortMs));
  CHECK(!has(rig.answers(), "hit"));
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK(Pair::readable(door.get(), kLongMs));
}

TEST(a_new_connection_from_a_silent_nic_is_not_made_until_it_is_over) {
  if (!mayFilter()) return;
  Rig rig;
  const Fd door = doorOn(kOther);
  const sockaddr_in there = named(door.get());
  rig.rule("127.0.0.2 silent");
  CHECK(rig.enforcer.look());
  CHECK(rig.book.silences());
  const Fd goes(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in here = addressOf(kNic, 0);
  CHECK_EQ(bind(goes.get(), generic(&here), sizeof(here)), 0);
  const Ends ends = endsTo(goes.get(), generic(&there), sizeof(there)).value_or(Ends{});
  CHECK(ends.local == ipOf(kNic) && ends.peer == ipOf(kOther) && ends.peerPort == ntohs(there.sin_port));
  rig.book.silenceNew(cookieOf(goes.get()), ends, [&goes] { return deafen(goes.get()); });
  CHECK(connect(goes.get(), generic(&there), sizeof(there)) < 0 && errno == EINPROGRESS);
  pollfd made = {goes.get(), POLLOUT, 0};
  CHECK_EQ(poll(&made, 1, kShortMs), 0);
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK(!rig.book.silences());
  CHECK_EQ(poll(&made, 1, kLongMs), 1);
}

TEST(the_ends_of_a_connection_are_known_before_it_is_made) {
  const Fd goes(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in there = addressOf("127.0.0.9", 4000);
  const Ends ends = endsTo(goes.get(), generic(&there), sizeof(there)).value_or(Ends{});
  CHECK(ends.local == ipOf("127.0.0.1") && ends.peer == ipOf("127.0.0.9") && ends.peerPort == 4000);
  const Fd datagrams(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  CHECK(!endsTo(datagrams.get(), generic(&there), sizeof(there)));
  CHECK(!endsTo(goes.get(), nullptr, 0));
}

TEST(a_slow_connection_gets_its_old_pacing_back) {
  Rig rig;
  const Pair pair;
  const auto pacing = [&pair] {
    uint64_t rate = 0;
    socklen_t size = sizeof(rate);
    CHECK_EQ(getsockopt(pair.mine.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size), 0);
    return rate;
  };
  const uint64_t before = pacing();
  rig.rule("127.0.0.2 slow rate_Bps=125000");
  CHECK(rig.enforcer.look());
  CHECK_EQ(pacing(), uint64_t{125000});
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK_EQ(pacing(), before);
}

TEST(short_reads_stand_in_the_book_until_the_connection_is_closed) {
  Rig rig;
  rig.rule("127.0.0.2 short_reads bytes=7");
  {
    const Pair pair;
    CHECK(rig.enforcer.look());
    CHECK_EQ(rig.book.mostBytes(cookieOf(pair.mine.get())), uint64_t{7});
  }
  CHECK(rig.enforcer.look());
  CHECK(rig.book.empty());
}

TEST(a_rule_that_matches_nothing_says_so) {
  Rig rig;
  const Pair pair;
  rig.rule("127.0.0.3 reset");
  CHECK(rig.enforcer.look());
  CHECK(!has(rig.answers(), "hit"));
  CHECK_EQ(errorOf(pair.mine.get()), EAGAIN);
}

TEST(a_changed_rule_takes_the_place_of_the_old_one) {
  Rig rig;
  const Pair pair;
  rig.rule("127.0.0.2 silent");
  CHECK(rig.enforcer.look());
  rig.rule("127.0.0.2 short_reads bytes=7");
  CHECK(rig.enforcer.look());
  CHECK_EQ(rig.book.mostBytes(cookieOf(pair.mine.get())), uint64_t{7});
  CHECK_EQ(send(pair.theirs.get(), "x", 1, 0), 1);
  CHECK(Pair::readable(pair.mine.get(), kLongMs));
}

TEST(rubbish_is_refused_in_a_line_and_hurts_no_other_rule) {
  Rig rig;
  const Pair pair;
  rig.text("rubbish\n", "bad");
  rig.rule("127.0.0.2 reset", "good");
  CHECK(rig.enforcer.look());
  CHECK_EQ(rig.answers("bad"), "refused " + std::to_string(getpid()) + " it is no rule file\n");
  CHECK_EQ(errorOf(pair.mine.get()), ECONNRESET);
}

TEST(what_others_could_have_written_is_refused) {
  Rig rig;
  const Pair pair;
  rig.rule("127.0.0.2 reset", "open");
  CHECK_EQ(chmod((rig.scratch / "open").c_str(), 0666), 0);
  rig.rule("127.0.0.2 reset", "other.");
  CHECK_EQ(symlink((rig.scratch / "other.").c_str(), (rig.scratch / "link").c_str()), 0);
  CHECK_EQ(mkfifo((rig.scratch / "pipe").c_str(), 0600), 0);
  CHECK(rig.enforcer.look());
  CHECK(has(rig.answers("open"), "others can write it"));
  CHECK(has(rig.answers("link"), "it cannot be read"));
  CHECK(has(rig.answers("pipe"), "it is no plain file"));
  CHECK_EQ(errorOf(pair.mine.get()), EAGAIN);
}

TEST(a_rule_for_a_device_that_is_not_there_is_refused_in_a_line) {
  Rig rig;
  rig.text("r2cc-faults 1\nverbs no_such0 lost\nend\n");
  CHECK(rig.enforcer.look());
  CHECK(has(rig.answers(), "refused " + std::to_string(getpid()) + " there is no RDMA device no_such0 here; there "));
}

TEST(a_verbs_rule_is_in_force_until_its_file_is_removed) {
  Rig rig;
  DriverDouble driver;
  ibv_device about{};  // NOLINT(bugprone-invalid-enum-default-initialization): all zero, as the library makes it
  std::strcpy(about.name, "rxe1");
  driver.context.device = &about;
  driver.context.async_fd = -1;
  driver.context.ops.poll_cq = DriverDouble::pollCq;
  rig.devices.open(&driver.context, {}, DriverDouble::modifyQp);
  Device* const device = rig.devices.of(&driver.context);
  CHECK(device != nullptr && driver.context.ops.poll_cq == nullptr);
  rig.text("r2cc-faults 1\nverbs rxe1 fail call=reg_mr errno=12\nend\n");
  CHECK(rig.enforcer.look());
  CHECK_EQ(device->errorOf(VerbsCall::RegMr, nullptr), ENOMEM);
  CHECK(rig.enforcer.look());
  CHECK(has(rig.answers(), "hit " + std::to_string(getpid()) + " rxe1 1 "));
  rig.remove();
  CHECK(!rig.enforcer.look());
  CHECK(!device->active());
  rig.devices.close(&driver.context);
  CHECK(rig.devices.of(&driver.context) == nullptr && driver.context.ops.poll_cq == DriverDouble::pollCq);
}
