#include "driver.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "bench/clock.h"
#include "bench/errors.h"
#include "tables.h"

namespace r2cc::driver {
namespace {

using bench::JsonObject;
using bench::nowNs;

constexpr useconds_t kIdleUs = 100;
constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kMsNs = 1'000'000;
constexpr size_t kWindowsALine = 200;
constexpr uint64_t kCommId = 0x72326363;

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

Driver::Driver(Options options, const bench::LineWriter& out) : options_(std::move(options)), out_(out), child_(out) {}

bool Driver::run() {
  startNs_ = nowNs();
  const std::string library = options_.library.empty() ? bench::defaultLibrary() : options_.library;
  const ncclNet_t& table =
      options_.table == 0 ? bench::loadTable(library, bench::NetKind::Socket) : pluginTable(library, options_.table);
  for (int i = 0; i < options_.contexts; i++) {
    nets_.push_back(std::make_unique<bench::Net>(table, kCommId + static_cast<uint64_t>(i)));
    nets_.back()->announce(bench::Op::AllReduce, 2, 1);
  }
  describeDevices(table);
  if (options_.role != Role::Init) connect();
  if (options_.group) tryGroup();
  try {
    if (!flows_.empty()) move();
  } catch (const std::exception&) {
    report("end", nowNs());  // what it was told is done by then was looked at like any other
    throw;
  }
  report("end", nowNs());
  return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->progress().bad == 0; });
}

void Driver::describeDevices(const ncclNet_t& table) const {
  for (const bench::NicInfo& nic : nets_.front()->nics()) {
    ncclNetProperties_t p{};
    bench::checkNet(table.getProperties(nic.device, &p), "getProperties");
    JsonObject line;
    line.text("event", "device").text("name", p.name).integer("max_recvs", p.maxRecvs);
    line.integer("parts", p.vProps.ndevs).unsignedInteger("max_p2p_bytes", p.maxP2pBytes);
    out_.write(line.str());
  }
}

void Driver::tryGroup() const {
  for (const auto& flow : flows_) {
    const int result = flow->tryGroup();
    if (result >= 0) out_.write(JsonObject().text("event", "group").integer("result", result).str());
  }
}

void Driver::connect() {
  const uint64_t deadline = startNs_ + options_.connectSeconds * kSecondNs;
  std::vector<Handle> handles;
  if (options_.role != Role::Send) listeners_ = listenOn(nets_, options_.listenDevices);
  if (options_.role == Role::Recv) writeHandles(options_.handle, listeners_);
  if (options_.role == Role::Send) handles = readHandles(options_.handle, options_.devices.size(), deadline);
  if (options_.role == Role::Self)
    for (const Listener& listener : listeners_) handles.push_back(listener.handle);
  if (options_.role == Role::Listen) return;
  addFlows(connectAll(nets_, options_.devices, std::move(handles), listeners_, deadline));
  out_.write(JsonObject().text("event", "connected").real("ms", ms(nowNs() - startNs_)).str());
}

void Driver::addFlows(Made made) {
  for (size_t i = 0; i < made.sends.size(); i++) {
    auto sender = std::make_unique<Sender>(*nets_[i % nets_.size()], std::move(made.sends[i]), options_);
    if (sender_ == nullptr) sender_ = sender.get();
    flows_.push_back(std::move(sender));
  }
  for (size_t i = 0; i < made.receives.size(); i++) {
    flows_.push_back(std::make_unique<Receiver>(*nets_[i % nets_.size()], std::move(made.receives[i]), options_));
  }
}

void Driver::move() {
  uint64_t nextReport = startNs_ + kSecondNs;
  while (true) {
    if (!advanceAll()) usleep(kIdleUs);
    const uint64_t now = nowNs();
    misbehave(now);
    if (over(now)) return;
    if (now < nextReport) continue;
    report("second", now);
    checkSilence(now);
    nextReport = now + kSecondNs;
  }
}

bool Driver::advanceAll() {
  bool moved = false;
  for (const auto& flow : flows_) {
    if (flow->over() || !flow->advance()) continue;
    moved = true;
    if (firstNs_ == 0 && flow->progress().done > 0) firstNs_ = nowNs();
  }
  return moved;
}

bool Driver::over(uint64_t now) const {
  if (options_.leaveAtMs == 0 || due(options_.leaveAtMs, now)) return true;
  if (child_.running()) return false;
  return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->over(); });
}

bool Driver::due(uint64_t atMs, uint64_t now) const {
  return atMs != kNever && firstNs_ != 0 && now - firstNs_ >= atMs * kMsNs;
}

void Driver::misbehave(uint64_t now) {
  if (!child_.started() && due(options_.forkAtMs, now)) child_.start(options_.childMs);
  child_.look();
  if (sender_ == nullptr || !due(options_.halfHeaderAtMs, now)) return;
  if (!halfSent_) {
    sender_->pause(true);
    if (!sender_->idle()) return;
    sendHalfHeader(static_cast<uint32_t>(options_.bytes));
    halfSent_ = true;
    resumeNs_ = now + options_.pauseMs * kMsNs;
    out_.write(JsonObject().text("event", "half_header").str());
  }
  if (now >= resumeNs_) sender_->pause(false);
}

void Driver::checkSilence(uint64_t now) const {
  for (const auto& flow : flows_) {
    if (flow->over() || flow->silentNs(now) < options_.giveUpSeconds * kSecondNs) continue;
    throw Silence("silence for " + std::to_string(options_.giveUpSeconds) + " s");
  }
}

void Driver::report(const char* event, uint64_t now) {
  uint64_t done = 0, bad = 0, bytes = 0, gap = 0, silent = 0, profiled = 0;
  for (const auto& flow : flows_) {
    const Progress& p = flow->progress();
    done += p.done;
    bad += p.bad;
    bytes += p.bytes;
    profiled += flow->events();
    const uint64_t open = flow->over() ? 0 : flow->silentNs(now);
    silent = std::max(silent, open);
    gap = std::max({gap, p.longestGapNs, p.done == 0 ? 0 : open});
  }
  reportWindows();
  JsonObject line;
  line.text("event", event).real("t_ms", ms(now - startNs_)).unsignedInteger("done", done).unsignedInteger("bad", bad);
  line.unsignedInteger("bytes", bytes).real("longest_gap_ms", ms(gap)).real("silent_ms", ms(silent));
  line.unsignedInteger("profiled", profiled);
  out_.write(line.str());
}

void Driver::reportWindows() {
  if (flows_.empty()) return;
  const std::vector<double>& all = flows_.back()->progress().windowMs;
  while (windowsTold_ < all.size()) {
    const size_t end = std::min(all.size(), windowsTold_ + kWindowsALine);
    std::string list;
    for (size_t i = windowsTold_; i < end; i++) list += (list.empty() ? "" : ",") + std::to_string(all[i]);
    JsonObject line;
    line.text("event", "iterations").unsignedInteger("first", windowsTold_).raw("ms", "[" + list + "]");
    out_.write(line.str());
    windowsTold_ = end;
  }
}

void Driver::close() {
  for (const auto& flow : flows_) flow->close();
  if (options_.keepMs > 0) usleep(static_cast<useconds_t>(options_.keepMs * 1000));
  for (Listener& listener : listeners_) listener.comm.close();
  for (const auto& net : nets_) net->finalize();
}

void Driver::testForEver() {
  while (true) {
    for (const auto& flow : flows_) (void)flow->advance();
  }
}

}  // namespace r2cc::driver
