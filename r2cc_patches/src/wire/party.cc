#include "wire/party.h"

#include <arpa/inet.h>

#include <array>
#include <cstdlib>

#include "base/json/text.h"
#include "nic/topology.h"

extern const char r2ccBuildId[];  // stamp/build_id.cc

namespace r2cc {
namespace {

constexpr uint8_t kModeBits = 2;
constexpr uint8_t kModeMask = (1 << kModeBits) - 1;
constexpr uint8_t kTlsBit = 1 << 4;
constexpr int kSecretShift = 32;
constexpr size_t kBuildDigits = 16, kShownDigits = 10;

std::string address(const NicAddress& nic) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (nic.family != AF_INET && nic.family != AF_INET6) return "";
  return inet_ntop(nic.family, nic.ip.data(), text.data(), text.size()) == nullptr ? "" : text.data();
}

const char* nameOf(Inner inner) {
  switch (inner) {
    case Inner::Ib:
      return "IB";
    case Inner::Socket:
      return "Socket";
    case Inner::Other:
      return "R2CC_INNER_PLUGIN's";
    case Inner::Unknown:
      break;
  }
  return "unknown";
}

/// "h0 (build 0123456789..., R2CC_MODE=1, net Socket)".
std::string described(const Party& one) {
  std::string text = one.where.empty() ? "its peer" : one.where;
  text += " (build " + (one.build == 0 ? "unknown" : hex(one.build).substr(kBuildDigits - kShownDigits) + "...");
  if (one.mode > 0) text += ", R2CC_MODE=" + std::to_string(one.mode);
  return text + ", net " + nameOf(one.inner) + ")";
}

std::string onBoth(const std::string& what, const std::string& mine, const Party& here, const std::string& theirs,
                   const Party& there) {
  return what + " is " + mine + " on " + described(here) + " and " + theirs + " on " + described(there);
}

}  // namespace

Party ownParty(int mode, Inner inner, const Encryption* encryption) {
  Party out;
  out.where = hostName();
  out.build = buildNumber(r2ccBuildId);
  out.mode = mode;
  out.inner = inner;
  out.tls = encryption != nullptr;
  out.secret = encryption != nullptr ? encryption->check : 0;
  return out;
}

uint64_t buildNumber(const std::string& id) {
  const bool digits = id.size() == kBuildDigits && id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return digits ? strtoull(id.substr(0, kShownDigits).c_str(), nullptr, 16) : 0;
}

Inner innerOf(const std::string& netName) {
  if (netName == "IB") return Inner::Ib;
  return netName == "Socket" ? Inner::Socket : Inner::Other;
}

Party partyOf(const ConnectHandle& handle, uint8_t version) {
  Party out;
  if (!handle.nics.empty()) out.where = address(handle.nics.front());
  for (const uint8_t byte : handle.build) out.build = out.build << 8 | byte;
  out.mode = handle.modeAndInner & kModeMask;
  out.wire = version;
  out.tls = (handle.modeAndInner & kTlsBit) != 0;
  out.secret = out.tls ? static_cast<uint32_t>(handle.listen >> kSecretShift) : 0;
  const int inner = (handle.modeAndInner & ~kTlsBit) >> kModeBits;
  if (inner <= static_cast<int>(Inner::Other)) out.inner = static_cast<Inner>(inner);
  return out;
}

void describeIn(ConnectHandle& handle, const Party& writer) {
  for (size_t i = 0; i < handle.build.size(); i++) {
    handle.build[i] = static_cast<uint8_t>(writer.build >> (8 * (handle.build.size() - 1 - i)));
  }
  const int tls = writer.tls ? kTlsBit : 0;
  handle.modeAndInner =
      static_cast<uint8_t>(tls | static_cast<int>(writer.inner) << kModeBits | (writer.mode & kModeMask));
  if (writer.tls) handle.listen = (handle.listen & UINT32_MAX) | uint64_t{writer.secret} << kSecretShift;
}

std::string conflict(const Party& here, const Party& there) {
  if (here.wire != there.wire) {
    return onBoth("R2CC's protocol", std::to_string(here.wire), here, std::to_string(there.wire), there) +
           ". Use one build of R2CC on all ranks";
  }
  const bool known = here.inner != Inner::Unknown && there.inner != Inner::Unknown;
  if (known && here.inner != there.inner) {
    return onBoth("the net", nameOf(here.inner), here, nameOf(there.inner), there) +
           ". Set NCCL_NET and R2CC_INNER_PLUGIN alike on all ranks, or see why one has no InfiniBand";
  }
  if (here.tls != there.tls) {
    return onBoth("R2CC_TLS", here.tls ? "1" : "0", here, there.tls ? "1" : "0", there) + ". Set it alike on all ranks";
  }
  if (here.secret != there.secret) {
    const auto has = [](const Party& one) { return one.secret == 0 ? "not set" : "set"; };
    const std::string same = here.secret == 0 || there.secret == 0 ? "" : ", to files that differ";
    return onBoth("R2CC_TLS_SECRET_FILE", has(here), here, has(there) + same, there) +
           ". Give all ranks a copy of one file";
  }
  return "";
}

std::string difference(const Party& here, const Party& there) {
  const bool builds = here.build != there.build && here.build != 0 && there.build != 0;
  const bool modes = here.mode != there.mode && here.mode != 0 && there.mode != 0;
  if (!builds && !modes) return "";
  const std::string what = modes && builds ? "R2CC_MODE and build" : modes ? "R2CC_MODE" : "the build";
  return what + " of R2CC differ on " + described(here) + " and " + described(there) +
         ". Both speak the same protocol, so the job goes on";
}

std::string withoutR2cc(const Party& here, const void* handle) {
  sa_family_t family = 0;
  memcpy(&family, handle, sizeof(family));
  sockaddr_storage stock{};
  const bool ip = family == AF_INET || family == AF_INET6;
  memcpy(&stock, handle, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  const std::string where = ip ? address(NicAddress::from(stock)) : "";
  return described(here) + " cannot connect to " + (where.empty() ? "a rank" : where) +
         ", which runs without R2CC: use the same library and R2CC_MODE on all ranks, or R2CC_MODE=0 on all";
}

}  // namespace r2cc
