#include "wire/side_filter.h"

#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "wire/refusal.h"
#include "wire/wire.h"

namespace r2cc {
namespace {

constexpr uint32_t kUdpHeader = 8;  // the filter sees it before our bytes

/// The bytes every datagram for `process` begins with, and where its id lies among them.
struct Template {
  std::vector<uint8_t> bytes;
  uint32_t idAt;
};

Template templateFor(uint64_t process) {
  Header marked{};
  marked.to = ~uint64_t{0};
  marked.keyOfSender = 0;
  Datagram unsealed(marked);
  const std::vector<uint8_t> sealed = unsealed.seal(Key{});
  const auto id = std::find(sealed.begin() + 5, sealed.end(), uint8_t{0xff});
  Template out{sealed, static_cast<uint32_t>(id - sealed.begin())};
  for (size_t i = 0; i < 8; i++) out.bytes[out.idAt + i] = static_cast<uint8_t>(process >> (8 * i));
  return out;
}

uint32_t word(const std::vector<uint8_t>& bytes, uint32_t at) {  // as the filter loads it
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 | bytes[at + 3];
}

sock_filter step(uint16_t code, uint32_t k, uint8_t otherwise = 0, uint8_t then = 0) {
  return {code, then, otherwise, k};
}

}  // namespace

void keepOnlyFor(uint64_t process, const std::vector<Fd>& sockets) {
  const Template t = templateFor(process);
  const uint16_t load4 = BPF_LD | BPF_W | BPF_ABS;
  const uint16_t load1 = BPF_LD | BPF_B | BPF_ABS;
  const uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K;
  // A load past the end drops the datagram, too.
  std::array<sock_filter, 11> code = {
      step(load4, kUdpHeader),
      step(equal, word(t.bytes, 0), 8),  // magic
      step(load1, kUdpHeader + 4),
      step(equal, t.bytes[4], 0, 1),  // version
      step(equal, kAnyVersion, 5),    // or a refusal
      step(load4, kUdpHeader + t.idAt),
      step(equal, word(t.bytes, t.idAt), 3),  // receiver
      step(load4, kUdpHeader + t.idAt + 4),
      step(equal, word(t.bytes, t.idAt + 4), 1),
      step(BPF_RET | BPF_K, UINT32_MAX),
      step(BPF_RET | BPF_K, 0),
  };
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  // Spares work, and decides nothing: where the kernel refuses it, the engine refuses each datagram that is not ours.
  // That Linux wants CAP_NET_ADMIN for such a filter holds for TCP alone.
  for (const Fd& fd : sockets) {
    if (fd.valid()) (void)setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
  }
}

uint64_t droppedByKernel(const std::vector<Fd>& sockets) {
  uint64_t sum = 0;
  for (const Fd& fd : sockets) {
    std::array<uint32_t, SK_MEMINFO_VARS> info{};
    socklen_t size = sizeof(info);
    if (fd.valid() && getsockopt(fd.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &size) == 0)
      sum += info[SK_MEMINFO_DROPS];
  }
  return sum;
}

}  // namespace r2cc
