#include "record/flight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/bytes.h"
#include "base/json/text.h"

extern const char r2ccBuildId[];  // src/stamp/build_id.cc

namespace r2cc {
namespace {

std::string hostOrUnknown() {
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);
  std::string out = name[0] == '\0' ? "unknown" : name;
  std::replace(out.begin(), out.end(), '/', '_');
  return out;
}

/// Clocks of two processes with the same boot id are one clock.
std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t wallNs() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

bool isDirectory(const std::string& path) {
  struct stat s{};
  return !path.empty() && (path.back() == '/' || (stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode)));
}

std::string inFolder(const std::string& folder, const std::string& name) {
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

/// With the host and the process filled in.
std::string expanded(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); i++) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') out += hostOrUnknown();
    if (next == 'p') out += std::to_string(getpid());
    if (next == '%') out += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      i++;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

}  // namespace

std::string dumpName(const std::string& pattern) {
  return isDirectory(pattern) ? inFolder(pattern, expanded("%h.%p.r2trace")) : expanded(pattern);
}

std::string requestName(const std::string& pattern) {
  return isDirectory(pattern) ? inFolder(pattern, "request") : dumpName(pattern) + ".request";
}

// ---- header -----------------------------------------------------------------------------------------------------

std::string encodeHeader(const std::string& reason, const FlightOptions& options, const std::vector<std::string>& texts,
                         const std::vector<std::shared_ptr<Track>>& tracks,
                         const std::vector<RecordRing::Snapshot>& rings) {
  // The two clocks at one moment.
  const int64_t before = nowNs(), wall = wallNs(), after = nowNs();
  JsonWriter out;
  out.open('{').key("schema").number(1).key("reason").text(reason).key("host").text(hostOrUnknown());
  out.key("process").text(hex(options.process)).key("boot").text(bootId()).key("build_id").text(r2ccBuildId);
  out.key("pid").number(getpid()).key("mode").number(options.mode).key("wall_ns").number(wall);
  out.key("t_ns").number(before + (after - before) / 2).key("record_bytes").number(kRecordBytes);
  out.key("kinds").open('{');
  for (int kind = 0; kind < 256; kind++) {
    const char* const known = name(static_cast<RecordKind>(kind));
    if (*known != '?') out.key(std::to_string(kind)).text(known);
  }
  out.close('}').key("states").open('[');
  for (uint8_t i = 0; *name(static_cast<ConnectionState>(i)) != '?'; i++) {
    out.text(name(static_cast<ConnectionState>(i)));
  }
  // In PathState's order.
  out.close(']').key("path_states").texts({"up", "suspect", "dead", "probation"});
  out.key("nics").texts(options.nics).key("texts").texts(texts);
  size_t at = 0;  // records described so far
  const auto ring = [&](const char* key, const RecordRing::Snapshot& snapshot) {
    out.key(key).open('{').key("at").number(at).key("count").number(snapshot.records.size());
    out.key("first").number(snapshot.first).close('}');
    at += snapshot.records.size();
  };
  ring("process_events", rings[0]);
  out.key("connections").open('[');
  for (size_t i = 0; i < tracks.size(); i++) {
    const Track& track = *tracks[i];
    out.open('{').key("id").number(track.id).key("direction").text(track.sends ? "send" : "recv");
    out.key("peer_process").text(hex(track.peerProcess)).key("peer").text(track.route.peer);
    out.key("home_nic").text(track.route.homeNic);
    if (track.route.peerHomeNic >= 0) out.key("peer_home_nic").number(track.route.peerHomeNic);
    ring("messages", rings[2 * i + 1]);
    ring("events", rings[2 * i + 2]);
    out.close('}');
  }
  return out.close(']').close('}').out();
}

std::vector<uint8_t> encodeDump(const std::string& header, const std::vector<RecordRing::Snapshot>& rings) {
  std::vector<uint8_t> out(kDumpMagic, kDumpMagic + 8);
  uint64_t records = 0;
  for (const auto& ring : rings) records += ring.records.size();
  const uint64_t size = 24 + header.size() + records * kRecordBytes;
  out.reserve(size);
  Writer write(out);
  write(kDumpVersion);
  write(static_cast<uint32_t>(header.size()));
  write(size);
  out.insert(out.end(), header.begin(), header.end());
  for (const auto& ring : rings) {
    for (const Record& r : ring.records) {
      write(r.ticks);
      write(r.number);
      write(r.bytes);
      write(r.lane);
      write(r.epoch);
      write(r.kind);
      write(r.code);
      write(r.text);
    }
  }
  return out;
}

std::string writeWhole(const std::string& file, const std::vector<uint8_t>& content) {
  const std::string part = file + ".part";
  (void)unlink(part.c_str());  // of a process of the same number that was killed
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return strerror(errno);
  std::string problem;
  for (size_t done = 0; done < content.size() && problem.empty();) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno != EINTR) problem = strerror(errno);
    if (n > 0) done += static_cast<size_t>(n);
  }
  if (close(fd) != 0 && problem.empty()) problem = strerror(errno);  // some file systems say "full" only now
  if (problem.empty() && rename(part.c_str(), file.c_str()) != 0) problem = strerror(errno);
  if (!problem.empty()) (void)unlink(part.c_str());
  return problem;
}

}  // namespace r2cc
