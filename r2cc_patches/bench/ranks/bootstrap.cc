#include "bench/ranks/bootstrap.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstdio>

#include "bench/clock.h"
#include "bench/errors.h"

namespace r2cc::bench {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000u;
constexpr uint64_t kHelloTimeNs = 5 * kSecondNs;
constexpr size_t kMaxPending = 128;
constexpr size_t kMaxStrangerPayload = 64;
constexpr int kTickMs = 100;

Address rootOf(const Options& options) {
  try {
    return agree::parseAddress(options.rootAddress, options.rootPort);
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--root: ") + error.what());
  }
}

}  // namespace

// A connection that has not said yet who it is.
struct Bootstrap::Pending {
  ControlLink link;
  uint64_t deadlineNs;
};

Bootstrap::Bootstrap(const Options& options) : options_(options), address_(rootOf(options)) {
  if (options_.rank == 0) {
    meetAsRoot();
  } else {
    meetRoot();
  }
}

std::string Bootstrap::missingRanks() const {
  std::string missing;
  for (int rank = 1; rank < options_.ranks; rank++) {
    if (links_.count(rank) == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  return missing;
}

void Bootstrap::meetAsRoot() {
  const Fd listener = listenAsRoot(address_);
  const uint64_t deadline = nowNs() + static_cast<uint64_t>(options_.timeoutS) * kSecondNs;
  std::vector<Pending> pending;
  while (static_cast<int>(links_.size()) < options_.ranks - 1) {
    if (nowNs() > deadline) {
      throw TransportError("not all ranks came within " + std::to_string(options_.timeoutS) +
                           " s; missing: " + missingRanks());
    }
    pollPending(listener.get(), pending);
  }
}

void Bootstrap::pollPending(int listener, std::vector<Pending>& pending) {
  std::vector<pollfd> polled{{listener, POLLIN, 0}};
  for (const Pending& one : pending) polled.push_back({one.link.fd(), POLLIN, 0});
  if (poll(polled.data(), polled.size(), kTickMs) < 0) return;
  for (size_t i = 0; i < pending.size(); i++) {
    if (polled[i + 1].revents != 0) judge(pending[i]);
    if (pending[i].link.open() && nowNs() > pending[i].deadlineNs) refuse(pending[i], "said nothing for 5 s");
  }
  std::vector<Pending> waiting;
  for (Pending& one : pending) {
    if (one.link.open()) waiting.push_back(std::move(one));
  }
  pending = std::move(waiting);
  if (polled[0].revents == 0) return;
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return;
  if (pending.size() == kMaxPending) pending.erase(pending.begin());  // the longest silent one makes room
  watchLiveness(fd.get());
  pending.push_back({ControlLink(std::move(fd), kMaxStrangerPayload), nowNs() + kHelloTimeNs});
}

void Bootstrap::judge(Pending& stranger) {
  try {
    if (!stranger.link.receive()) return refuse(stranger, "closed without a hello");
    if (stranger.link.frames.empty()) return;
    const Frame frame = std::move(stranger.link.frames.front());
    stranger.link.frames.pop_front();
    if (frame.type != FrameType::Hello) return refuse(stranger, "did not begin with a hello");
    admit(stranger, decodeHello(frame.payload));
  } catch (const ProtocolError& error) {
    refuse(stranger, error.what());
  }
}

void Bootstrap::admit(Pending& stranger, const Hello& hello) {
  if (hello.version != kProtocolVersion) return refuse(stranger, "other protocol version");
  if (hello.nonce != nonceOf(options_.nonce)) return refuse(stranger, "another run's nonce");
  const auto rank = static_cast<int>(hello.rank);
  std::string why;
  if (hello.ranks != static_cast<uint32_t>(options_.ranks)) {
    why = "it was started with --ranks " + std::to_string(hello.ranks) + ", rank 0 with " +
          std::to_string(options_.ranks);
  } else if (rank <= 0 || rank >= options_.ranks || links_.count(rank) != 0) {
    why = "rank " + std::to_string(hello.rank) + " is taken or does not exist";
  }
  if (!why.empty()) {
    (void)stranger.link.send(FrameType::Fail, why);  // it knows the nonce: one of ours, started wrongly
    return refuse(stranger, why);
  }
  if (!stranger.link.send(FrameType::Welcome, "")) return refuse(stranger, "closed before its welcome");
  stranger.link.trust();
  links_.emplace(rank, std::move(stranger.link));
}

void Bootstrap::refuse(Pending& stranger, const std::string& why) {
  turnedAway_++;
  std::fprintf(stderr, "r2cc_bench: turned a connection away: %s\n", why.c_str());
  stranger.link.close();
}

void Bootstrap::meetRoot() {
  const uint64_t deadline = nowNs() + static_cast<uint64_t>(options_.timeoutS) * kSecondNs;
  Fd fd = tryConnect(address_, 1000);
  while (!fd.valid()) {
    if (nowNs() > deadline) {
      throw TransportError("cannot reach rank 0 within " + std::to_string(options_.timeoutS) + " s", 0);
    }
    (void)poll(nullptr, 0, 20);  // rank 0 may not listen yet
    fd = tryConnect(address_, 1000);
  }
  watchLiveness(fd.get());
  ControlLink link(std::move(fd), kMaxControlPayload);
  const Hello hello{kProtocolVersion, static_cast<uint32_t>(options_.rank), static_cast<uint32_t>(options_.ranks), 0,
                    nonceOf(options_.nonce)};
  if (!link.send(FrameType::Hello, encodeHello(hello))) throw TransportError("rank 0 closed the connection", 0);
  ControlLink& root = links_.emplace(0, std::move(link)).first->second;
  while (root.frames.empty()) {
    if (nowNs() > deadline) throw TransportError("rank 0 did not answer", 0);
    pump(kTickMs, -1);
  }
  if (root.frames.front().type != FrameType::Welcome) throw TransportError("rank 0 gave a wrong answer", 0);
  root.frames.pop_front();
}

bool Bootstrap::pump(int timeoutMs, int extraFd) {
  std::vector<pollfd> polled{{extraFd, POLLIN, 0}};
  std::vector<int> ranks;
  for (const auto& [rank, link] : links_) {
    polled.push_back({link.fd(), POLLIN, 0});
    ranks.push_back(rank);
  }
  if (poll(polled.data(), polled.size(), timeoutMs) <= 0) return false;
  for (size_t i = 0; i < ranks.size(); i++) {
    if (polled[i + 1].revents != 0) readLink(ranks[i], links_.at(ranks[i]));
  }
  return polled[0].revents != 0;
}

bool Bootstrap::readable(int fd, int timeoutMs) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, timeoutMs) > 0;
}

void Bootstrap::readLink(int rank, ControlLink& link) {
  bool open = false;
  try {
    open = link.receive();
  } catch (const ProtocolError& error) {
    throw TransportError("rank " + std::to_string(rank) + " sent " + error.what(), rank);
  }
  // A last word counts more than the closed connection behind it.
  if (!link.frames.empty() && link.frames.back().type == FrameType::Fail) {
    throw TransportError("rank " + std::to_string(rank) + " reports: " + link.frames.back().payload, rank);
  }
  // Rank 0 alone may close with something unread: the answer to the last barrier, after which it has ended well.
  const bool lastAnswer = rank == 0 && !link.frames.empty();
  if (!open && !lastAnswer) {
    throw TransportError("rank " + std::to_string(rank) + " died: its control connection closed", rank);
  }
}

std::string Bootstrap::awaitGather(int rank) {
  ControlLink& link = links_.at(rank);
  const uint64_t deadline = nowNs() + static_cast<uint64_t>(options_.timeoutS) * kSecondNs;
  while (link.frames.empty()) {
    if (nowNs() > deadline) {
      throw TransportError(
          "rank " + std::to_string(rank) + " did not come within " + std::to_string(options_.timeoutS) + " s", rank);
    }
    pump(kTickMs, -1);
  }
  Frame frame = std::move(link.frames.front());
  link.frames.pop_front();
  if (frame.type != FrameType::Gather) throw TransportError("rank " + std::to_string(rank) + " is out of step", rank);
  return std::move(frame.payload);
}

std::vector<std::string> Bootstrap::allGather(const std::string& mine) {
  std::vector<std::string> all(static_cast<size_t>(options_.ranks));
  if (options_.rank == 0) {
    all[0] = mine;
    for (int rank = 1; rank < options_.ranks; rank++) all[static_cast<size_t>(rank)] = awaitGather(rank);
    const std::string payload = encodeList(all.data(), all.size());
    for (auto& [rank, link] : links_) {
      if (!link.send(FrameType::Gather, payload)) {
        throw TransportError("rank " + std::to_string(rank) + " died: its control connection closed", rank);
      }
    }
    return all;
  }
  if (!links_.at(0).send(FrameType::Gather, mine)) {
    pump(0, -1);  // rank 0 may have said why
    throw TransportError("rank 0 died: its control connection closed", 0);
  }
  try {
    decodeList(awaitGather(0), all.data(), all.size());
  } catch (const ProtocolError& error) {
    throw TransportError(std::string("rank 0 sent a ") + error.what(), 0);
  }
  return all;
}

void Bootstrap::waitFor(int fd, const std::function<uint64_t()>& progress) {
  uint64_t seen = progress();
  uint64_t seenNs = nowNs();
  const bool hears = options_.toldBy == ToldBy::All;
  while (!(hears ? pump(kTickMs, fd) : readable(fd, kTickMs))) {
    const uint64_t current = progress();
    const uint64_t now = nowNs();
    if (current != seen) {
      seen = current;
      seenNs = now;
    } else if (now - seenNs > static_cast<uint64_t>(options_.timeoutS) * kSecondNs) {
      throw TransportError("no progress for " + std::to_string(options_.timeoutS) + " s");
    }
  }
}

std::string Bootstrap::localAddress() const { return localHost(links_.begin()->second.fd()); }

void Bootstrap::fail(const std::string& why) noexcept {
  try {
    for (auto& [rank, link] : links_) (void)link.send(FrameType::Fail, why);
  } catch (const std::exception&) {  // out of memory: closing the connections tells them, too
    return;
  }
}

}  // namespace r2cc::bench
