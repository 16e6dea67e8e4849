// What every part of the engine needs: this host's NICs, the side channel, the other processes, the journal, and when
// to look again. Under the engine's mutex, but for what says otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paths/agenda.h"
#include "paths/peers.h"
#include "record/events.h"
#include "record/flight.h"
#include "wire/side_channel.h"

namespace r2cc {

struct Shared {
  using Say = std::function<void(const std::string&)>;
  Shared(std::vector<LocalNic> nics, SideChannel::Filter filter, const std::string& eventFile, Say warn, Say info,
         int64_t holdNs, const Probation& probation, std::shared_ptr<const Encryption> encryption = nullptr)
      : nics(std::move(nics)),
        side(this->nics, std::move(filter)),
        holdNs(holdNs),
        warn(std::move(warn)),
        info(std::move(info)),
        events(eventFile),
        peers(self, side, this->nics, probation) {
    self.encryption = std::move(encryption);
  }

  std::vector<LocalNic> nics;
  SideChannel side;
  Self self;
  const int64_t holdNs;  // how long a host without any path is waited for
  const Say warn, info;  // NCCL's log; any thread, and never waits
  EventLog events;
  std::unique_ptr<Flight> flight;  // outlives the connections; null unless R2CC_TRACE_FILE is set
  Peers peers;
  Agenda agenda;

  bool linkUp(size_t nic) const { return (self.nicsUp >> nic & 1) != 0; }
  /// Where our NICs' side channels listen.
  std::vector<NicAddress> addresses() const { return addressesOf(nics); }
};

}  // namespace r2cc
