// Datagrams in: who sent it, is it genuine and new, and whom it concerns. Under the engine's mutex.
#pragma once

#include "engine/admission.h"
#include "engine/connections.h"
#include "engine/listeners.h"
#include "engine/refusals.h"
#include "health/judge.h"
#include "health/locator.h"
#include "health/nic_report.h"
#include "health/rates.h"
#include "paths/shared.h"
#include "paths/streams.h"
#include "status/drains.h"

namespace r2cc {

class Messages {
 public:
  /// Who acts on what is said.
  struct Parts {
    Admission& admission;
    Streams& streams;
    Connections& connections;
    Listeners& listeners;
    Refusals& refusals;
    Judge& judge;
    Locator& locator;
    Rates& rates;
    NicReport& report;
    Drains& drains;
  };
  Messages(Shared& shared, const Services& services, const Parts& parts)
      : shared_(shared), services_(services), parts_(parts), dropped_(parts.admission.dropped()) {}

  /// By UDP, from the NIC's socket for all but acknowledgements.
  void onDatagram(size_t nic, const NicAddress& from, const uint8_t* data, size_t size);
  /// By UDP, from the NIC's socket for acknowledgements. Takes no connection's ownership: NCCL's thread, which may hold
  /// one, calls this, too.
  void onAcks(size_t nic, const NicAddress& from, const uint8_t* data, size_t size);
  /// What can be read of a stream.
  void readStream(int fd);
  /// A "no such port" answer, with as much of the datagram it answers as it quotes.
  void onRefused(size_t nic, const NicAddress& to, const uint8_t* quote, size_t size);

 private:
  /// The datagram that is being read.
  struct Arrival {
    Peer& peer;
    Path* path;  // that it came over, or null
    bool byUdp;
    uint32_t version;      // of what its sender says of its NICs
    bool answers = false;  // it answers a probe
  };
  void onStreamRefused(const SideStreamPtr& stream);
  void onStreamDatagram(const SideStreamPtr& stream, const uint8_t* data, size_t size);
  void hearStream(SideStream& stream, Peer& peer, const Parsed& parsed);
  static void hearTwin(const Peer& peer, size_t nic, const NicAddress& from, const Header& header);
  Path* hear(Peer& peer, size_t nic, const NicAddress& from, const Header& header);
  void hearOver(Peer& peer, size_t nic, Path* path, const Header& header);
  void takeAcks(Peer& peer, const Parsed& parsed);
  void dispatchAll(Arrival arrival, const Parsed& parsed);
  void dispatch(Arrival& arrival, Type type, Reader& reader);
  bool dispatchToSender(const Arrival& arrival, Type type, Reader& reader);
  bool dispatchToReceiver(const Arrival& arrival, Type type, Reader& reader);
  void onAddresses(const Arrival& arrival, const std::vector<NicAddress>& nics);
  void onHello(const Arrival& arrival, const Hello& hello);
  /// What is no datagram of this version may be what is read in every version.
  void onRefusal(const uint8_t* data, size_t size);
  static void onPing(const Arrival& arrival, const Ping& ping);
  void onPong(const Arrival& arrival, const Pong& pong);
  Shared& shared_;
  const Services& services_;
  const Parts parts_;
  Dropped& dropped_;
};

}  // namespace r2cc
