#include "lane.h"

namespace r2cc::bench {
namespace {

int modulo(int value, int ranks) { return ((value % ranks) + ranks) % ranks; }

int nicOf(const Net& net, int channel) { return channel % static_cast<int>(net.nics().size()); }

int deviceOf(const Net& net, int nic) { return net.nics()[static_cast<size_t>(nic)].device; }

}  // namespace

std::vector<LanePlace> lanePlaces(const Options& options) {
  const int farthest = options.op == Op::AllToAll ? options.ranks - 1 : 1;
  std::vector<LanePlace> places;
  for (int distance = 1; distance <= farthest; distance++) {
    for (int channel = 0; channel < options.channels; channel++) {
      for (int share = 0; share < options.connectionsPerPeer; share++) places.push_back({distance, channel, share});
    }
  }
  return places;
}

LaneSchedule scheduleOf(const Options& options, const LanePlace& place) {
  const Region all{0, options.bytes / sizeof(float)};
  const auto ofLane = [&](const Region& whole) {
    const Region ofChannel =
        partOf(whole, static_cast<uint64_t>(options.channels), static_cast<uint64_t>(place.channel));
    return partOf(ofChannel, static_cast<uint64_t>(options.connectionsPerPeer), static_cast<uint64_t>(place.share));
  };
  if (options.op == Op::AllReduce)
    return inARow(ringSchedule(options.rank, options.ranks, ofLane(all), options.chunkBytes), options.inARow);
  if (options.op == Op::Stream) return copySchedule(ofLane(all), ofLane(all), options.chunkBytes);
  // Every rank's data is cut into one block a rank. Block `me` of a peer lands where the peer's number says.
  const auto ranks = static_cast<uint64_t>(options.ranks);
  const auto to = static_cast<uint64_t>(modulo(options.rank + place.distance, options.ranks));
  const auto from = static_cast<uint64_t>(modulo(options.rank - place.distance, options.ranks));
  const uint64_t blockElements = all.size() / ranks;
  const auto block = [&](uint64_t index) { return Region{index * blockElements, (index + 1) * blockElements}; };
  return copySchedule(ofLane(block(to)), ofLane(block(from)), options.chunkBytes);
}

Lane::Lane(const Net& net, const Options& options, const LanePlace& place, int index)
    : net_(net),
      place_(place),
      schedule_(scheduleOf(options, place)),
      sender_(
          net,
          {2 * index, modulo(options.rank + place.distance, options.ranks), place.channel, nicOf(net, place.channel)},
          options.slots, options.rank),
      receiver_(net,
                {2 * index + 1, modulo(options.rank - place.distance, options.ranks), place.channel,
                 nicOf(net, place.channel)},
                options.slots, options.chunkBytes),
      listener_(net, CommKind::Listen, receiver_.id().peer, receiver_.id().id) {}

Handle Lane::listen() {
  Handle handle{};
  const ConnectionId& id = receiver_.id();
  checkNet(net_.table().listen(net_.context(), deviceOf(net_, id.nic), handle.data(), listener_.slot()), "listen",
           id.peer, id.id);
  return handle;
}

bool Lane::connect() {
  ncclNetDeviceHandle_v11_t* noDevice = nullptr;
  const ConnectionId& to = sender_.id();
  if (!sender_.comm().open()) {
    checkNet(net_.table().connect(net_.context(), deviceOf(net_, to.nic), peerHandle_.data(), sender_.comm().slot(),
                                  &noDevice),
             "connect", to.peer, to.id);
  }
  const ConnectionId& from = receiver_.id();
  if (!receiver_.comm().open()) {
    checkNet(net_.table().accept(listener_.get(), receiver_.comm().slot(), &noDevice), "accept", from.peer, from.id);
    if (receiver_.comm().open()) listener_.close();
  }
  return sender_.comm().open() && receiver_.comm().open();
}

void Lane::useBuffers(const FloatBuffer& sendData, const FloatBuffer& receiveData) {
  sender_.useBuffer(sendData);
  receiver_.useBuffer(receiveData);
}

void Lane::begin() {
  sender_.begin(schedule_.sends);
  receiver_.begin(schedule_.receives);
}

// Receives first: a chunk that has just arrived is passed on in the same turn.
size_t Lane::advance() {
  size_t completed = 0;
  if (!receiver_.complete()) completed += receiver_.advance(sender_.done()) ? 1 : 0;
  if (!sender_.complete()) completed += sender_.advance(receiver_.done()) ? 1 : 0;
  return completed;
}

void Lane::close() {
  sender_.comm().close();
  receiver_.comm().close();
  listener_.close();
}

}  // namespace r2cc::bench
