// News of links that the kernel had no room for: what was lost is read again.
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

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

void inNamespace(std::string (*body)()) {
  std::string why;
  CHECK_EQ(inOwnNamespace(body, why), "");
  if (!why.empty()) std::fprintf(stderr, "skipped: %s\n", why.c_str());
}

}  // namespace

TEST(net_links_an_overrun_is_told) { inNamespace(watchOverrun); }
TEST(net_links_an_overrun_loses_no_nic) { inNamespace(engineOverrun); }
