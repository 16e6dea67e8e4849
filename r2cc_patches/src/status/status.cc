#include "status/status.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/json/text.h"
#include "base/world_rank.h"
#include "nic/topology.h"
#include "status/control_folder.h"
#include "status/status_file.h"

namespace r2cc {
namespace {

constexpr int64_t kStatusEveryNs = msToNs(1000), kChangeSettlesNs = msToNs(50);
constexpr size_t kMostEvents = 16, kMostNamed = 4;

template <class Nic>
std::string addressText(const Nic& nic) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(nic.first, nic.second.data(), text, sizeof(text));
  return text;
}

/// "2 NICs", "1 NIC".
std::string some(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

struct Status::Desk {
  std::unique_ptr<StatusFile> file;
  std::unique_ptr<ControlFolder> control;
  std::atomic<int> waiting{0};  // of its jobs
  std::atomic<uint32_t> leaving{0};
};

Status::Status(StatusOptions options, Shared& shared, const Tally& tally, NicReport& report, Drains& drains,
               const Dropped& dropped)
    : options_(std::move(options)),
      shared_(shared),
      tally_(tally),
      report_(report),
      drains_(drains),
      dropped_(dropped),
      host_(hostName()),
      startedMs_(wallMs()),
      rank_(worldRank()) {
  std::vector<std::vector<std::string>> names;
  for (const LocalNic& local : shared_.nics) {
    Nic nic;
    nic.names = {local.name};
    nic.data = (local.address.flags & (kSideOnly | kLastResort)) == 0;
    nic.sinceMs = startedMs_;
    if (!shared_.linkUp(nics_.size())) nic.state = NicState::Down, nic.capacity = 0;  // from the start: no failure
    ncclNetProperties_t props{};
    const ncclNet_t* net = local.inner.net;
    if (nic.data && net != nullptr && net->getProperties != nullptr &&
        net->getProperties(local.dev, &props) == ncclSuccess && props.name != nullptr && local.name != props.name)
      nic.names.emplace_back(props.name);
    names.push_back(nic.data ? nic.names : std::vector<std::string>{});
    nics_.push_back(std::move(nic));
  }
  if (options_.folder.empty() && options_.controlFolder.empty()) return;
  desk_ = std::make_shared<Desk>();
  const std::string id = hex(shared_.self.id).substr(0, 8);
  if (!options_.folder.empty())
    desk_->file =
        std::make_unique<StatusFile>(options_.folder, host_ + "-" + std::to_string(getpid()) + "-" + id, shared_.warn);
  if (!options_.controlFolder.empty())
    desk_->control = std::make_unique<ControlFolder>(options_.controlFolder,
                                                     std::vector<std::string>{host_, host_.substr(0, host_.find('.'))},
                                                     std::move(names), shared_.warn);
  thread_ = std::make_unique<Scribe>("r2cc-status", [](uint64_t) { return std::string(); });
  write_ = thread_->through([desk = desk_](const std::string& text) {
    if (desk->file != nullptr) text.empty() ? desk->file->remove() : desk->file->write(text);
    desk->waiting--;
  });
  read_ = thread_->through([desk = desk_](const std::string& /*asks*/) {
    desk->leaving = desk->control->read();
    desk->waiting--;
  });
}

Status::~Status() = default;

const char* Status::name(NicState state) {
  switch (state) {
    case NicState::Up:
      return "up";
    case NicState::Degraded:
      return "degraded";
    case NicState::Down:
      return "down";
    case NicState::Draining:
      break;
  }
  return "draining";
}

// ---- looking ----------------------------------------------------------------------------------------------------

void Status::tick(int64_t now) {
  if (desk_ != nullptr) drains_.want(desk_->leaving.load(std::memory_order_relaxed), now);
  drains_.tick(now);
  if (report_.version() != seen_) {
    seen_ = report_.version();
    if (changedNs_ == 0) changedNs_ = now;
    lookAtLinks();
  }
  const bool changed = changedNs_ != 0 && now - changedNs_ >= kChangeSettlesNs;
  if (changed) {
    changedNs_ = 0;
    look();
    next_ = now;
  }
  if (desk_ == nullptr || now < next_) return;
  if (desk_->waiting.load(std::memory_order_acquire) > 0) return;  // the disk is slow: no queue of old news
  next_ = now + kStatusEveryNs;
  if (desk_->file != nullptr) desk_->waiting++, write_(text(/*ended=*/false));
  if (desk_->control != nullptr) desk_->waiting++, read_("drain");
}

/// At once, as one may come back soon.
void Status::lookAtLinks() {
  for (size_t i = 0; i < nics_.size(); i++) {
    if (nics_[i].data && !shared_.linkUp(i)) become(i, 0);
  }
}

/// All there is to look at, in one go over the paths: some time after a change, so that a failover is over by then.
void Status::look() {
  std::vector<double> capacities = report_.capacities();
  capacities.resize(nics_.size(), 1);
  std::map<RemoteNic, bool> remote;
  std::vector<Silence> silences(nics_.size());
  for (const auto& [key, peer] : shared_.peers) {
    std::vector<bool> blamed(peer->remote().size());
    for (const auto& path : peer->paths()) {
      if (!path->data || path->within || path->byRouter) continue;
      const bool theirs = path->blame == Blame::Remote;
      blamed[path->remote] = blamed[path->remote] || (!path->up() && theirs);
      if (!peer->weConnect || peer->connections == 0) continue;
      Silence& nic = silences[path->local];
      nic.any |= path->up();
      nic.dead |= !path->up() && !theirs && !path->diedByLink();
    }
    for (size_t r = 0; r < blamed.size(); r++) {
      const NicAddress& nic = peer->remote()[r];
      if (nic.flags == 0) remote[{nic.family, nic.ip}] |= blamed[r] || (peer->remoteUp >> nic.dev & 1) == 0;
    }
  }
  for (size_t i = 0; i < nics_.size(); i++) {
    // Where nothing comes over any path of it nobody may know whose end it is: it carries nothing.
    const bool carries = shared_.linkUp(i) && (silences[i].any || !silences[i].dead);
    if (nics_[i].data) become(i, carries ? capacities[i] : 0);
  }
  for (const auto& [nic, isDown] : remote) becomeRemote(nic, isDown);
}

Status::NicState Status::stateOf(size_t nic) const {
  if (drains_.leaving(nic)) return NicState::Draining;
  if (nics_[nic].capacity <= 0) return NicState::Down;
  return nics_[nic].capacity < 1 ? NicState::Degraded : NicState::Up;
}

void Status::become(size_t which, double capacity) {
  Nic& nic = nics_[which];
  nic.capacity = capacity;
  const NicState state = stateOf(which);
  if (std::exchange(nic.state, state) == state) return;
  nic.sinceMs = wallMs();
  nicFailures_ += state == NicState::Down ? 1 : 0;
  note(nic.names[0], name(state));
}

/// Several processes of a host have the same NICs.
void Status::becomeRemote(const RemoteNic& nic, bool down) {
  if (!down && remoteDown_.count(nic) == 0) return;
  if (std::exchange(remoteDown_[nic], down) == down) return;
  nicFailures_ += down ? 1 : 0;
  note(addressText(nic), down ? "down" : "up");
}

int64_t Status::wallMs() {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

void Status::note(const std::string& nic, const char* state) {
  events_.push_back({wallMs(), nic, state});
  if (events_.size() > kMostEvents) events_.pop_front();
}

// ---- what is said -----------------------------------------------------------------------------------------------

void Status::close() {
  const bool happened = !endLine().empty();
  if (desk_ != nullptr && desk_->file != nullptr && desk_->waiting < 2) {
    desk_->waiting++;
    write_(happened ? text(/*ended=*/true) : "");
  }
  thread_.reset();
}

std::string Status::endLine() const {
  const Tally::Counts counts = tally_.counts();
  uint64_t failovers = 0;
  for (const auto& [cause, count] : counts.failovers) failovers += count;
  const int64_t now = runNs();
  const double stoodMs = static_cast<double>(counts.stalled.totalNs(now)) / 1e6;
  if (nicFailures_ == 0 && failovers == 0 && counts.lost == 0) return "";
  std::string out =
      nicFailures_ > 0 || failovers == 0 ? some(nicFailures_, "NIC failure") : some(failovers, "connection failure");
  out += counts.lost > 0 ? ", " + some(counts.lost, "connection") + " lost for good" : " carried";
  char lost[32];
  snprintf(lost, sizeof(lost), stoodMs < 10 ? ", %.1f ms lost" : ", %.0f ms lost", stoodMs);
  out += lost;
  std::vector<std::string> down;
  for (const Nic& nic : nics_) {
    if (nic.data && nic.state == NicState::Down) down.push_back(host_ + ":" + nic.names[0]);
  }
  for (const auto& [nic, isDown] : remoteDown_) {
    if (isDown) down.push_back(addressText(nic));
  }
  for (size_t i = 0; i < std::min(down.size(), kMostNamed); i++) out += ", " + down[i] + " still down";
  if (down.size() > kMostNamed) out += ", and " + std::to_string(down.size() - kMostNamed) + " more";
  return "R2CC: " + out;
}

}  // namespace r2cc
