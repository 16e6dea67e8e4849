#include "record/flight_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/bytes.h"
#include "base/json_text.h"
#include "record/recorder.h"

namespace r2cc {
namespace {

std::string hex(uint64_t value) {
  char text[17];
  snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

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

/// The linker's note of the library that this code is part of.
int findBuildId(dl_phdr_info* info, size_t /*size*/, void* found) {
  const auto here = reinterpret_cast<uintptr_t>(&findBuildId);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    ours |= info->dlpi_phdr[i].p_type == PT_LOAD && here >= from && here - from < info->dlpi_phdr[i].p_memsz;
  }
  for (int i = 0; ours && i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
    const auto* at = reinterpret_cast<const uint8_t*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    const uint8_t* const end = at + info->dlpi_phdr[i].p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      memcpy(&note, at, sizeof(note));
      const uint8_t* const data = at + sizeof(note) + ((note.n_namesz + 3) & ~3U);
      if (note.n_type == NT_GNU_BUILD_ID) {
        static constexpr char kDigits[] = "0123456789abcdef";
        auto& out = *static_cast<std::string*>(found);
        for (size_t n = 0; n < note.n_descsz; n++) out += {kDigits[data[n] >> 4], kDigits[data[n] & 15]};
        return 1;
      }
      at = data + ((note.n_descsz + 3) & ~3U);
    }
  }
  return 0;
}

std::string buildId() {
  std::string id;
  dl_iterate_phdr(findBuildId, &id);
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

HeaderWriter::HeaderWriter(const std::string& reason, uint64_t process, int mode) : text_("{\"schema\":1") {
  const auto add = [this](const char* k, const std::string& value) {
    key(k);
    appendJson(text_, value);
  };
  add("reason", reason);
  add("host", hostOrUnknown());
  add("process", hex(process));
  add("boot", bootId());
  add("build_id", buildId());
  // The two clocks at one moment.
  const int64_t before = nowNs(), wall = wallNs(), after = nowNs();
  text_ += ",\"pid\":" + std::to_string(getpid()) + ",\"mode\":" + std::to_string(mode);
  text_ += ",\"wall_ns\":" + std::to_string(wall) + ",\"t_ns\":" + std::to_string(before + (after - before) / 2);
  text_ += ",\"record_bytes\":" + std::to_string(kRecordBytes);
  key("kinds");
  text_ += '{';
  for (int kind = 0; kind < 256; kind++) {
    const char* const known = name(static_cast<RecordKind>(kind));
    if (*known == '?') continue;
    if (text_.back() != '{') text_ += ',';
    text_ += "\"" + std::to_string(kind) + "\":\"" + known + "\"";
  }
  text_ += '}';
  std::vector<std::string> states;
  for (uint8_t i = 0; *name(static_cast<ConnectionState>(i)) != '?'; i++) {
    states.emplace_back(name(static_cast<ConnectionState>(i)));
  }
  list("states", states);
  list("path_states", {"up", "suspect", "dead", "probation"});  // in PathState's order
}

void HeaderWriter::key(const char* key) { text_ += std::string(",\"") + key + "\":"; }

void HeaderWriter::list(const char* name, const std::vector<std::string>& values) {
  key(name);
  text_ += '[';
  for (const std::string& value : values) {
    if (text_.back() != '[') text_ += ',';
    appendJson(text_, value);
  }
  text_ += ']';
}

void HeaderWriter::ring(const char* name, const RecordRing::Snapshot& snapshot) {
  key(name);
  text_ += "{\"at\":" + std::to_string(records_) + ",\"count\":" + std::to_string(snapshot.records.size()) +
           ",\"first\":" + std::to_string(snapshot.first) + "}";
  records_ += snapshot.records.size();
}

void HeaderWriter::track(const Track& track, const RecordRing::Snapshot& messages, const RecordRing::Snapshot& events) {
  tracks_ += tracks_.empty() ? "{" : ",{";
  tracks_ += "\"id\":" + std::to_string(track.id) + ",\"direction\":\"" + (track.sends ? "send" : "recv") + "\"";
  tracks_ += ",\"peer_process\":\"" + hex(track.peerProcess) + "\",\"peer\":";
  appendJson(tracks_, track.route.peer);
  tracks_ += ",\"home_nic\":";
  appendJson(tracks_, track.route.homeNic);
  if (track.route.peerHomeNic >= 0) tracks_ += ",\"peer_home_nic\":" + std::to_string(track.route.peerHomeNic);
  std::swap(text_, tracks_);
  ring("messages", messages);
  ring("events", events);
  std::swap(text_, tracks_);
  tracks_ += "}";
}

std::string HeaderWriter::finish() { return text_ + ",\"connections\":[" + tracks_ + "]}"; }

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
