// News of links that the kernel had no room for: what was lost is read again. And a kernel that gives no news at all.
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include "check.h"
#include "rig/door.h"
#include "rig/fabric/fake_inner.h"
#include "rig/rig.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int kSmallBuffer = 1;  // the kernel makes it some two KiB: one notification or two
constexpr int kTurns = 50;

void setLoopback(bool up) {
  ifreq request{};
  strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
    request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    (void)ioctl(fd, SIOCSIFFLAGS, &request);
  }
  close(fd);
}

/// More news than fits; `last` is the newest.
void flood(bool last) {
  for (int i = 0; i < kTurns; i++) setLoopback(!last), setLoopback(last);
}

void shrink(int fd) { (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSmallBuffer, sizeof(kSmallBuffer)); }

std::string watchOverrun() {
  LinkWatch watch;
  const unsigned loopback = if_nametoindex("lo");
  int news = 0;
  const auto count = [&](unsigned, bool) { news++; };
  flood(false);
  if (watch.read(count) || news < kTurns) return "the usual buffer is too small";
  if (LinkWatch::isUp(loopback)) return "a NIC that is down is up";
  shrink(watch.fd());
  flood(true);
  news = 0;
  if (!watch.read(count)) return "nothing said that news was lost";
  if (news >= kTurns) return "nothing was lost";
  if (!LinkWatch::isUp(loopback)) return "a NIC that is up is down";
  if (watch.read(count)) return "lost twice";
  return LinkWatch::isUp(99999U) ? "a NIC that is not there is up" : "";
}

std::string engineOverrun() {
  Fabric fabric(1, true, 1);
  LocalNic nic = findLocalNic("lo", 0, 0);
  Config config;
  config.holdNs = msToNs(60000);
  Engine engine(config, fabric.inner(), {nic}, [](const std::string&) {});
  for (const bool up : {false, true}) {
    EngineDoor::holding(engine, [up](int links) {
      shrink(links);
      flood(up);
    });
    if (!Rig::within(msToNs(5000), [&] { return EngineDoor::linkUp(engine, 0) == up; }))
      return "it did not see the end";
  }
  return "";
}

/// As a container's sandbox may: this process gets no netlink socket any more.
bool forbidNetlink() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// A job goes on, exact, through a NIC that dies, and is told once.
std::string withoutNetlink() {
  if (!forbidNetlink()) return "no seccomp";
  LinkWatch watch;
  if (watch.fd() >= 0 || watch.refused().empty()) return "netlink was not forbidden";
  if (watch.read([](unsigned, bool) {})) return "news of nothing";
  Rig rig({});
  rig.stream(0, 1, 1, 3000);
  rig.start();
  if (!Rig::within(msToNs(20000), [&] { return rig.delivered() > 300; })) return "it did not start";
  rig.fabric.cut({0, 1}, Cut::Hold);
  if (!rig.allDone(msToNs(20000))) return "it did not go on";
  rig.stop();
  const std::string problems = rig.problems();
  const std::string told =
      "R2CC: the kernel gives no news of links here (netlink: Operation not permitted): a lost link ";
  const size_t first = problems.find(told), second = problems.find(told, first + 1);
  if (first != 0 || second == std::string::npos) return "two processes did not say so: " + problems;
  return std::count(problems.begin(), problems.end(), '\n') <= 2 ? "" : problems;
}

void inNamespace(std::string (*body)()) {
  std::string why;
  CHECK_EQ(inOwnNamespace(body, why), "");
  if (!why.empty()) std::fprintf(stderr, "skipped: %s\n", why.c_str());
}

}  // namespace

TEST(net_links_an_overrun_is_told) { inNamespace(watchOverrun); }
TEST(net_links_an_overrun_loses_no_nic) { inNamespace(engineOverrun); }
TEST(net_links_without_netlink_a_job_goes_on) { inNamespace(withoutNetlink); }
