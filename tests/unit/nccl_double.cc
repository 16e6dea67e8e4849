// A library with NCCL's interface for processes of one machine: ranks meet in files of FAKE_NCCL_DIR. An operation
// that a peer does not join within FAKE_NCCL_PATIENCE_MS stays under way, as on a GPU: the call returns, nothing is
// written. FAKE_NCCL_HANG, _FAIL and _WRONG name a function (NAME or NAME:RANK) that never returns, fails, or gives a
// wrong element; FAKE_NCCL_LATE=ncclAllReduce:RANK sends what the rank adds after the call, in the background, as
// NCCL's proxy may; FAKE_NCCL_LEAK=N makes every destroyed communicator keep N files open.

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

enum Result {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};

struct Id {
  char internal[128];
};

struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Comm {
  std::string tag;
  int rank = 0, ranks = 0, blocking = 1;
  int sequence = 0, children = 0, polls_left = 0;
  std::vector<int> sent, received;
  bool finalized = false;
};

std::set<Comm*> alive;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string path(const std::string& name) { return setting("FAKE_NCCL_DIR") + "/" + name; }

bool asked(const char* what, const std::string& function, int rank) {
  const std::string told = setting(what);
  return told == function || told == function + ":" + std::to_string(rank);
}

/// What the settings make of a call.
Result met(const char* function, int rank) {
  while (asked("FAKE_NCCL_HANG", function, rank)) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (!asked("FAKE_NCCL_FAIL", function, rank)) return kSuccess;
  if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // its store ends with it: the others fail first
  return kSystemError;
}

void say(const Comm& comm, const char* what) {
  const std::string line = comm.tag + " " + std::to_string(comm.rank) + " " + what + "\n";
  const int file = open(path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (write(file, line.data(), line.size()) < 0) std::abort();
  close(file);
}

/// Whole at once: a reader sees all of it or nothing.
void put(const std::string& name, const std::vector<float>& values) {
  const std::string unfinished = path(name + ".tmp");
  std::ofstream(unfinished, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<long>(values.size() * sizeof(float)));
  std::rename(unfinished.c_str(), path(name).c_str());
}

bool exists(const std::string& name) { return access(path(name).c_str(), F_OK) == 0; }

bool await(const std::string& name, const std::string& end, double patience_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(patience_ms);
  while (!exists(name)) {
    if (std::chrono::steady_clock::now() > deadline || exists(end)) return exists(name);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

double patience_ms() {
  const std::string told = setting("FAKE_NCCL_PATIENCE_MS");
  return told.empty() ? 5000 : std::stod(told);
}

std::vector<float> taken(const std::string& name, size_t count) {
  std::vector<float> values(count);
  std::ifstream(path(name), std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()), static_cast<long>(count * sizeof(float)));
  return values;
}

struct Operation {
  enum Kind { kReduce, kSend, kReceive } kind;
  Comm* comm;
  const float* source;
  float* target;
  size_t count;
  std::string name;
  int peer;

  void post() const {
    if (kind == kReceive) return;
    const std::string whole = kind == kReduce ? name + "." + std::to_string(comm->rank) : name;
    const std::vector<float> values(source, source + count);
    if (!asked("FAKE_NCCL_LATE", "ncclAllReduce", comm->rank)) return put(whole, values);
    std::thread([whole, values] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      put(whole, values);
    }).detach();
  }

  void complete() const {
    const std::string end = comm->tag + ".aborted";
    if (kind == kReceive && await(name, end, patience_ms())) {
      const auto values = taken(name, count);
      std::memcpy(target, values.data(), count * sizeof(float));
    }
    if (kind != kReduce) return;
    std::vector<float> sum(count);
    for (int rank = 0; rank < comm->ranks; ++rank) {
      const std::string part = name + "." + std::to_string(rank);
      const bool mine = rank == comm->rank;
      if (!mine && !await(part, end, patience_ms())) return;
      const auto values = mine ? std::vector<float>(source, source + count) : taken(part, count);
      for (size_t at = 0; at < count; ++at) sum[at] += values[at];
    }
    if (asked("FAKE_NCCL_WRONG", "ncclAllReduce", comm->rank)) sum[count / 2] += 1;
    std::memcpy(target, sum.data(), count * sizeof(float));
  }
};

thread_local int depth = 0;
thread_local std::vector<Operation> queued;

Result run_queued() {
  for (const auto& operation : queued) operation.post();
  for (const auto& operation : queued) operation.complete();
  queued.clear();
  return kSuccess;
}

Result given(Operation operation, const char* function) {
  if (alive.count(operation.comm) == 0 || operation.comm->finalized) return kInvalidArgument;
  if (operation.comm->polls_left > 0) return kInvalidUsage;  // not asked how far it is
  if (const Result result = met(function, operation.comm->rank)) return result;
  queued.push_back(std::move(operation));
  if (depth > 0) return kSuccess;
  Comm* comm = queued.back().comm;
  run_queued();
  if (comm->blocking == 0) comm->polls_left = 2;
  return comm->blocking != 0 ? kSuccess : kInProgress;
}

/// All ranks have to come to it, as to NCCL's own bootstrap.
Result made(std::unique_ptr<Comm> comm, Comm** found) {
  comm->sent.resize(static_cast<size_t>(comm->ranks));
  comm->received.resize(static_cast<size_t>(comm->ranks));
  put(comm->tag + ".init." + std::to_string(comm->rank), {});
  for (int rank = 0; rank < comm->ranks; ++rank)
    if (!await(comm->tag + ".init." + std::to_string(rank), "never", 1e9)) return kSystemError;
  say(*comm, "made");
  const Result result = comm->blocking != 0 ? kSuccess : kInProgress;
  if (result == kInProgress) comm->polls_left = 3;
  *found = comm.release();
  alive.insert(*found);
  return result;
}

Result ended(Comm* comm, const char* function, const char* how) {
  if (alive.count(comm) == 0) return kInvalidArgument;
  if (const Result result = met(function, comm->rank)) return result;
  say(*comm, how);
  for (int left = atoi(setting("FAKE_NCCL_LEAK").c_str()); left > 0; --left)
    if (open("/dev/null", O_RDONLY) < 0) return kSystemError;
  alive.erase(comm);
  delete comm;
  return kSuccess;
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  *version = 22907;
  return kSuccess;
}

const char* ncclGetErrorString(Result result) { return result == kSystemError ? "a made-up system error" : "an error"; }

const char* ncclGetLastError(Comm*) { return "a made-up warning"; }

Result ncclGetUniqueId(Id* id) {
  static int number = 0;
  std::memset(id, 0, sizeof(*id));
  // A zero byte in the middle: an id is no C string.
  std::snprintf(id->internal, 64, "%d-%d", getpid(), number++);
  std::snprintf(id->internal + 64, 64, "end");
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm** found, int ranks, Id id, int rank, Config* config) {
  if (config->magic != 0xcafebeef || config->size != 88 || config->version != 22907) return kInvalidArgument;
  if (std::strcmp(id.internal + 64, "end") != 0 || rank < 0 || rank >= ranks) return kInvalidArgument;
  if (const Result result = met("ncclCommInitRankConfig", rank)) return result;
  auto comm = std::make_unique<Comm>();
  comm->tag = id.internal;
  comm->rank = rank, comm->ranks = ranks;
  comm->blocking = config->blocking == INT_MIN ? 1 : config->blocking;
  return made(std::move(comm), found);
}

Result ncclCommSplit(Comm* parent, int color, int key, Comm** found, Config* config) {
  if (alive.count(parent) == 0 || config != nullptr) return kInvalidArgument;
  if (const Result result = met("ncclCommSplit", parent->rank)) return result;
  const std::string step = parent->tag + "s" + std::to_string(parent->children++);
  put(step + "." + std::to_string(parent->rank), {static_cast<float>(color), static_cast<float>(key)});
  auto comm = std::make_unique<Comm>();
  comm->tag = step + "c" + std::to_string(color);
  for (int rank = 0; rank < parent->ranks; ++rank) {
    const std::string other = step + "." + std::to_string(rank);
    if (!await(other, parent->tag + ".aborted", 1e9)) return kRemoteError;
    const auto told = taken(other, 2);
    if (static_cast<int>(told[0]) != color) continue;
    ++comm->ranks;
    if (static_cast<int>(told[1]) < key) ++comm->rank;
  }
  return made(std::move(comm), found);
}

Result ncclCommShrink(Comm* parent, int* without, int count, Comm** found, Config* config, int flags) {
  if (alive.count(parent) == 0 || config != nullptr || count != 1 || without[0] != parent->ranks - 1 ||
      parent->rank == without[0] || flags < 0 || flags > 1)
    return kInvalidArgument;
  if (const Result result = met("ncclCommShrink", parent->rank)) return result;
  auto comm = std::make_unique<Comm>();
  comm->tag = parent->tag + "r" + std::to_string(parent->children++);
  comm->rank = parent->rank, comm->ranks = parent->ranks - 1;
  say(*parent, flags == 1 ? "shrunk with work under way" : "shrunk");
  return made(std::move(comm), found);
}

Result ncclCommFinalize(Comm* comm) {
  if (alive.count(comm) == 0 || comm->finalized) return kInvalidArgument;
  if (const Result result = met("ncclCommFinalize", comm->rank)) return result;
  comm->finalized = true;
  if (comm->blocking == 0) comm->polls_left = 2;
  return comm->blocking != 0 ? kSuccess : kInProgress;
}

Result ncclCommDestroy(Comm* comm) { return ended(comm, "ncclCommDestroy", "destroyed"); }

Result ncclCommAbort(Comm* comm) {
  if (alive.count(comm) != 0) put(comm->tag + ".aborted", {});
  return ended(comm, "ncclCommAbort", "aborted");
}

Result ncclCommGetAsyncError(Comm* comm, int* state) {
  if (alive.count(comm) == 0) return kInvalidArgument;
  *state = comm->polls_left > 0 ? kInProgress : kSuccess;
  if (comm->polls_left > 0) --comm->polls_left;
  return kSuccess;
}

Result ncclGroupStart() {
  ++depth;
  return kSuccess;
}

Result ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  return --depth == 0 ? run_queued() : kSuccess;
}

Result ncclAllReduce(const float* source, float* target, size_t count, int type, int op, Comm* comm, void* stream) {
  if (type != 7 || op != 0 || stream != nullptr || alive.count(comm) == 0) return kInvalidArgument;
  const std::string name = comm->tag + ".a" + std::to_string(comm->sequence++);
  return given({Operation::kReduce, comm, source, target, count, name, -1}, "ncclAllReduce");
}

Result ncclSend(const float* source, size_t count, int type, int peer, Comm* comm, void* stream) {
  if (type != 7 || stream != nullptr || alive.count(comm) == 0) return kInvalidArgument;
  const int number = comm->sent[static_cast<size_t>(peer)]++;
  const std::string name =
      comm->tag + ".p" + std::to_string(comm->rank) + "to" + std::to_string(peer) + "." + std::to_string(number);
  return given({Operation::kSend, comm, source, nullptr, count, name, peer}, "ncclSend");
}

Result ncclRecv(float* target, size_t count, int type, int peer, Comm* comm, void* stream) {
  if (type != 7 || stream != nullptr || alive.count(comm) == 0) return kInvalidArgument;
  const int number = comm->received[static_cast<size_t>(peer)]++;
  const std::string name =
      comm->tag + ".p" + std::to_string(peer) + "to" + std::to_string(comm->rank) + "." + std::to_string(number);
  return given({Operation::kReceive, comm, nullptr, target, count, name, peer}, "ncclRecv");
}
}
