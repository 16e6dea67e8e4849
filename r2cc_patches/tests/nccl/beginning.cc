#include "nccl/beginning.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "bootstrap.h"
#include "channel.h"
#include "costs.h"
#include "graph.h"
#include "nccl/standing.h"
#include "net/r2cc_net.h"
#include "record/r2cc_health.h"
#include "settings.h"
#include "transport.h"

namespace r2cc::nccl::test {
namespace {

ncclNet_t ourNet{}, othersNet{};

}  // namespace

void Meeting::gather(int rank, void* all, int size) {
  const auto each = static_cast<size_t>(size);
  auto* const bytes = static_cast<char*>(all);
  std::unique_lock<std::mutex> lock(mutex_);
  gathering_.resize(each * static_cast<size_t>(ranks_));
  std::copy_n(bytes + each * static_cast<size_t>(rank), each, gathering_.data() + each * static_cast<size_t>(rank));
  if (++here_ == ranks_) {
    gathered_ = gathering_;
    here_ = 0;
    rounds_++;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [this, round = rounds_] { return rounds_ != round; });
  }
  std::copy(gathered_.begin(), gathered_.end(), bytes);  // the next round ends only with this rank in it
}

void Meeting::connects(int peers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connected_ += peers;
}

int Meeting::connected() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return connected_;
}

Beginner::Beginner(Meeting& meeting, int rank, int ranks)
    : seat_{meeting, rank},
      nodes_(static_cast<size_t>(ranks)),
      topo_(static_cast<ncclTopoSystem*>(calloc(1, sizeof(ncclTopoSystem))), free),
      comm_(static_cast<ncclComm*>(calloc(1, sizeof(ncclComm)))) {
  std::iota(nodes_.begin(), nodes_.end(), 0);
  comm_->bootstrap = &seat_;
  comm_->abortFlag = &abortFlag_;
  comm_->ncclNet = &ourNet;
  comm_->rank = comm_->node = rank;
  comm_->nRanks = comm_->nNodes = ranks;
  comm_->rankToNode = nodes_.data();
  comm_->localRanks = comm_->nChannels = comm_->graphs[NCCL_ALGO_RING].nChannels = 1;
  comm_->localRankToRank = nodes_.data() + rank;
  comm_->buffSizes[NCCL_PROTO_SIMPLE] = 4 << 20;
  comm_->topo = topo_.get();
  comm_->topo->nodes[GPU].count = 1;
  comm_->sharedRes = shared_.get();
  initChannel(comm_, 0);
  for (int place = 0; place < ranks; place++) comm_->channels[0].ring.userRanks[place] = (rank + place) % ranks;
}

Beginner::~Beginner() {
  for (ncclChannel& channel : comm_->channels) {
    free(channel.ring.userRanks);
    free(channel.ring.rankToIndex);
  }
  free(comm_);
}

std::string& meetsAt() {
  thread_local std::string address;
  return address;
}

ncclNet_t* otherNet() { return &othersNet; }

}  // namespace r2cc::nccl::test

using namespace r2cc::nccl::test;

bool r2ccWraps(const ncclNet_t* net) { return net == &ourNet; }

namespace r2cc::schedules {

std::string Settings::whereToMeet() const {
  if (meetsAt().empty()) throw std::runtime_error("no interface to agree over");
  return meetsAt();
}
std::vector<planner::Rival> rivalsOf(ncclComm* /*comm*/, ncclFunc_t /*func*/) { return {}; }
planner::Cost costOf(const ncclComm* /*comm*/, int /*leastChunkBytes*/, int /*mostChunkBytes*/) { return {}; }
std::string nameOf(int /*algorithm*/, int /*protocol*/) { return ""; }

}  // namespace r2cc::schedules

int r2ccHealth(R2ccNicHealth* out, int most) {
  const int count = std::min(standing().nics, most);
  std::fill_n(out, count, R2ccNicHealth{"eth", 1, 100});
  return count;
}
int r2ccNicsFailTogether() { return 0; }
void r2ccUnevenLoad(int /*begins*/, uint64_t /*schedule*/, int /*inTurn*/) {}
void r2ccScheduleConnects(int /*begins*/, uint64_t /*schedule*/, uint64_t /*window*/, int /*turn*/) {}

ncclResult_t bootstrapAllGather(void* bootstrap, void* all, int size) {
  const Seat& seat = *static_cast<Seat*>(bootstrap);
  seat.meeting.gather(seat.rank, all, size);
  return ncclSuccess;
}
ncclResult_t bootstrapIntraNodeBarrier(void* /*bootstrap*/, int* /*ranks*/, int /*rank*/, int /*count*/, int /*tag*/) {
  return ncclSuccess;  // it is alone on its node
}
ncclResult_t ncclTopoGetNetDev(ncclComm* /*comm*/, int rank, ncclTopoGraph* /*graph*/, int /*channel*/, int /*peer*/,
                               int64_t* id, int* device, int* proxyRank) {
  *id = *device = 0;
  *proxyRank = rank;
  return ncclSuccess;
}
ncclResult_t initChannel(ncclComm* comm, int id) {
  const auto ranks = static_cast<size_t>(comm->nRanks);
  comm->channels[id].ring.userRanks = static_cast<int*>(calloc(ranks, sizeof(int)));
  comm->channels[id].ring.rankToIndex = static_cast<int*>(calloc(ranks, sizeof(int)));
  return ncclSuccess;
}
ncclResult_t ncclTransportP2pConnect(ncclComm* comm, int /*channel*/, int receives, int* /*from*/, int sends,
                                     int* /*to*/, int /*index*/) {
  static_cast<Seat*>(comm->bootstrap)->meeting.connects(receives + sends);
  return ncclSuccess;
}
ncclResult_t ncclTransportP2pSetup(ncclComm* /*comm*/, ncclTopoGraph* /*graph*/, int /*index*/) { return ncclSuccess; }
