#include "hostile.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "own_process.h"

namespace r2cc::fake {
namespace {

uint16_t checksum(const std::vector<uint8_t>& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i++) sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

template <class T>
void append(std::vector<uint8_t>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(value));
}

}  // namespace

void Captured::watch(Rig& rig, size_t most) {
  rig.spy = [tape = tape_, most](int from, const NicAddress& to, const std::vector<uint8_t>& bytes) {
    const std::lock_guard<std::mutex> lock(tape->mutex);
    if (tape->seen.size() < most) tape->seen.push_back({from, to, bytes});
  };
}

std::vector<Captured::One> Captured::all() const {
  const std::lock_guard<std::mutex> lock(tape_->mutex);
  return tape_->seen;
}

Stranger::Stranger(const char* from) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (from != nullptr && inet_pton(AF_INET, from, &address.sin_addr) == 1) {
    (void)!bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address));  // NOLINT(bugprone-unused-return-value): then from anywhere
  }
}

Stranger::~Stranger() { close(fd_); }

void Stranger::send(const NicAddress& to, const std::vector<uint8_t>& bytes) const {
  const sockaddr_storage address = to.sockaddr();
  (void)sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in));
}

Flood::Flood(const NicAddress& to, int perSecond, std::function<std::vector<uint8_t>(uint64_t)> make)
    : make_(std::move(make)), thread_([this, to, perSecond] { run(to, perSecond); }) {}

void Flood::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Flood::run(const NicAddress& to, int perSecond) {
  const Stranger stranger;
  const int64_t start = nowNs();
  while (!stop_) {
    const bool early = perSecond > 0 && static_cast<int64_t>(sent_) * 1000000000 / perSecond > nowNs() - start;
    if (early) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else {
      stranger.send(to, make_(sent_++));
    }
  }
}

bool forgeRefusal(const NicAddress& victim, const NicAddress& supposedPeer, const std::vector<uint8_t>& quote) {
  const int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
  if (fd < 0) return false;
  iphdr ip{};
  ip.version = 4, ip.ihl = 5, ip.ttl = 64, ip.protocol = IPPROTO_UDP;
  ip.tot_len = htons(static_cast<uint16_t>(sizeof(iphdr) + sizeof(udphdr) + quote.size()));
  memcpy(&ip.saddr, victim.ip.data(), 4), memcpy(&ip.daddr, supposedPeer.ip.data(), 4);
  udphdr udp{};
  udp.source = htons(victim.port), udp.dest = htons(supposedPeer.port);
  udp.len = htons(static_cast<uint16_t>(sizeof(udphdr) + quote.size()));
  std::vector<uint8_t> bytes = {ICMP_DEST_UNREACH, ICMP_PORT_UNREACH, 0, 0, 0, 0, 0, 0};
  append(bytes, ip), append(bytes, udp);
  bytes.insert(bytes.end(), quote.begin(), quote.end());
  const uint16_t sum = checksum(bytes);
  memcpy(bytes.data() + 2, &sum, sizeof(sum));
  const sockaddr_storage to = victim.sockaddr();
  const ssize_t sent =
      sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in));
  close(fd);
  return sent == static_cast<ssize_t>(bytes.size());
}

Footprint Footprint::now() {
  Footprint out;
  out.descriptors = check::descriptors();
  out.threads = check::threads();
  FILE* file = fopen("/proc/self/statm", "re");
  long pages = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion,cert-err34-c): the kernel writes numbers
  if (file != nullptr && fscanf(file, "%*d %ld", &pages) == 1) out.residentKb = pages * (sysconf(_SC_PAGESIZE) / 1024);
  if (file != nullptr) fclose(file);
  return out;
}

}  // namespace r2cc::fake
