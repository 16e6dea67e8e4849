// Tests only: a way into the engine past its sockets, as its own thread would hand things over, and what it then holds.
#pragma once

#include <linux/filter.h>
#include <sys/socket.h>

#include <algorithm>

#include "engine/engine.h"

namespace r2cc {

struct EngineDoor {
  static constexpr int kMostFds = 4096;
  static void datagram(Engine& engine, size_t nic, const NicAddress& from, const std::vector<uint8_t>& bytes) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    engine.messages_.onDatagram(nic, from, bytes.data(), bytes.size());
  }
  static void refused(Engine& engine, size_t nic, const NicAddress& to, const std::vector<uint8_t>& quote) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    engine.messages_.onRefused(nic, to, quote.data(), quote.size());
  }
  /// `body` gets the descriptor of the link notifications; the engine cannot read them meanwhile.
  template <class Body>
  static void holding(Engine& engine, const Body& body) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    body(engine.links_.fd());
  }
  static bool linkUp(Engine& engine, size_t nic) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    return engine.shared_.linkUp(nic);
  }
  /// It does nothing of its own accord for so long.
  static void rest(Engine& engine, int64_t ns) {
    {
      const std::lock_guard<std::mutex> lock(engine.mutex_);
      engine.shared_.agenda.lookAt(runNs() + ns);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it was waiting for the tick before
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    engine.shared_.agenda.lookAt(runNs() + ns);
  }
  /// Nothing has made it look sooner.
  static bool rests(const Engine& engine, int64_t ns) { return engine.shared_.agenda.next() > runNs() + ns; }
  static NicAddress address(Engine& engine, size_t nic) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    return engine.shared_.nics[nic].address;
  }
  static std::vector<NicAddress> addresses(const Engine& engine) { return engine.shared_.addresses(); }
  /// As if so long had passed since NCCL asked for anything.
  static void forget(Engine& engine, int64_t laterNs) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    engine.connections_.endAbandoned(runNs() + laterNs);
  }
  /// Descriptors that the side channel's second way holds just now: each begins and ends by itself.
  static size_t everyStream(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    return engine.streams_.size();
  }
  /// What comes in by its streams of now is lost, to the last acknowledgement and the end.
  static void deafen(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog all{1, &drop};
    for (int fd = 0; fd < kMostFds; fd++) {
      if (engine.streams_.find(fd) != nullptr) (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof(all));
    }
  }
  /// Those in use.
  static size_t streams(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    return engine.streams_.size() - engine.streams_.resting();
  }
  /// Those of nobody who is known.
  static size_t strangers(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    size_t out = 0;
    for (int fd = 0; fd < kMostFds; fd++) {
      const auto stream = engine.streams_.find(fd);
      out += stream != nullptr && stream->peer == nullptr ? 1 : 0;
    }
    return out;
  }
  /// Some peer is heard twice just now.
  static bool hearsTwice(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    const int64_t now = runNs();
    return std::any_of(engine.shared_.peers.begin(), engine.shared_.peers.end(),
                       [now](const auto& entry) { return entry.second->hearsTwice(now); });
  }
  /// Some peer owes it an answer, or has been silent for `ns` and is not known to owe none.
  static bool awaits(Engine& engine, int64_t ns) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    const auto owes = [](const auto& c) { return !c.second->over() && c.second->isOwed(); };
    return std::any_of(engine.shared_.peers.begin(), engine.shared_.peers.end(), [&](const auto& entry) {
      const Peer& peer = *entry.second;
      return runNs() - peer.lastHeard > ns || std::any_of(peer.sends.begin(), peer.sends.end(), owes) ||
             std::any_of(peer.receivesById.begin(), peer.receivesById.end(), owes);
    });
  }
  /// Sending ends that are neither closed nor failed.
  static size_t sending(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    size_t out = 0;
    for (const auto& [id, peer] : engine.shared_.peers) {
      for (const auto& [number, c] : peer->sends) out += c->over() ? 0 : 1;
    }
    return out;
  }
  struct Held {
    size_t peers = 0, connections = 0;
    size_t mostNics = 0, mostPaths = 0, mostArrived = 0;  // of one peer, one listen
  };
  static Held held(Engine& engine) {
    const std::lock_guard<std::mutex> lock(engine.mutex_);
    Held out;
    out.peers = engine.shared_.peers.size();
    out.connections = engine.connections_.size();
    for (const auto& [id, peer] : engine.shared_.peers) {
      out.mostNics = std::max(out.mostNics, peer->remote().size());
      out.mostPaths = std::max(out.mostPaths, peer->paths().size());
    }
    out.mostArrived = engine.listeners_.mostArrived();
    return out;
  }
};

}  // namespace r2cc
