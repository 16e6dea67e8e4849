#include "status/control_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/fd.h"
#include "base/json/reader.h"

namespace r2cc {
namespace {

constexpr size_t kMostDrainBytes = 4096, kMostDrains = 256, kMostDrainsSaid = 16;
constexpr int64_t kLastSecond = INT64_C(1) << 40;

bool isDrain(const std::string& name) {
  const std::string begin = "drain-", end = ".json";
  return name.size() > begin.size() + end.size() && name.compare(0, begin.size(), begin) == 0 &&
         name.compare(name.size() - end.size(), end.size(), end) == 0;
}

/// Throws std::runtime_error for a file that is not for us to believe.
std::string readOwn(int fd) {
  struct stat kind{};
  if (fstat(fd, &kind) != 0) throw std::runtime_error(strerror(errno));
  if (!S_ISREG(kind.st_mode)) throw std::runtime_error("not a plain file");
  if (kind.st_uid != geteuid() && kind.st_uid != 0)
    throw std::runtime_error("it belongs to user " + std::to_string(kind.st_uid) + ", not to the job's or to root");
  if ((kind.st_mode & (S_IWGRP | S_IWOTH)) != 0) throw std::runtime_error("others may write to it");
  std::array<char, kMostDrainBytes> text{};
  const ssize_t size = read(fd, text.data(), text.size());
  if (size < 0) throw std::runtime_error(strerror(errno));
  return {text.data(), static_cast<size_t>(size)};
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ControlFolder::ControlFolder(std::string folder, std::vector<std::string> hosts,
                             std::vector<std::vector<std::string>> nics, Say warn)
    : folder_(std::move(folder)), hosts_(std::move(hosts)), nics_(std::move(nics)), warn_(std::move(warn)) {}

uint32_t ControlFolder::read() { return last_ = readAll().value_or(last_); }

/// None: nobody knows now.
std::optional<uint32_t> ControlFolder::readAll() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (folder == nullptr) {
    if (errno == ENOENT) return 0;
    return say("", strerror(errno)), std::nullopt;
  }
  if (!ours(dirfd(folder.get()))) return 0;
  uint32_t nics = 0;
  size_t files = 0;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr && errno == 0) return nics;
    if (entry == nullptr) return say("", strerror(errno)), std::nullopt;
    if (!isDrain(entry->d_name)) continue;
    if (++files > kMostDrains) return say("", "over 256 files named drain-*.json; the others are not read"), nics;
    const std::optional<uint32_t> asked = readFile(dirfd(folder.get()), entry->d_name);
    if (!asked) return std::nullopt;
    nics |= *asked;
  }
}

/// Else anybody could take away what root has written.
bool ControlFolder::ours(int folder) {
  struct stat kind{};
  if (fstat(folder, &kind) != 0) return say("", strerror(errno)), false;
  const bool open = (kind.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (kind.st_mode & S_ISVTX) == 0;
  if (open || (kind.st_uid != geteuid() && kind.st_uid != 0))
    return say("", open ? "others may remove its files: chmod +t" : "it is another user's"), false;
  return true;
}

std::optional<uint32_t> ControlFolder::readFile(int folder, const std::string& name) {
  const Fd file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return 0;  // removed just now
  const bool notForUs = errno == EACCES || errno == ELOOP || errno == ENXIO;
  if (!file.valid() && !notForUs) return say(name, strerror(errno)), std::nullopt;
  try {
    if (!file.valid()) throw std::runtime_error(strerror(errno));
    return asksFor(readOwn(file.get()));
  } catch (const std::runtime_error& problem) {
    return say(name, problem.what()), 0;
  }
}

/// Throws JsonError, which is a std::runtime_error.
uint32_t ControlFolder::asksFor(const std::string& text) const {
  const Json file = Json::parse(text);
  if (const int64_t schema = file.at("schema").integer("schema", 1, INT32_MAX); schema != 1)
    throw std::runtime_error("it is of another version of R2CC (schema " + std::to_string(schema) + ")");
  if (!has(hosts_, file.at("host").string("host"))) return 0;
  const Json* until = file.find("until_unix_s");
  if (until != nullptr && until->type() != Json::Type::Null &&
      until->integer("until_unix_s", 0, kLastSecond) <= static_cast<int64_t>(time(nullptr)))
    return 0;
  const std::string& nic = file.at("nic").string("nic");
  for (size_t i = 0; i < nics_.size(); i++) {
    if (has(nics_[i], nic)) return uint32_t{1} << i;
  }
  throw std::runtime_error("this process has no NIC " + nic);
}

void ControlFolder::say(const std::string& file, const std::string& what) {
  if (said_.size() >= kMostDrainsSaid || !said_.insert(file + what).second) return;
  warn_("R2CC: R2CC_CONTROL_DIR=" + folder_ + (file.empty() ? "" : "/" + file) + ": " + what + "; it is not used");
}

}  // namespace r2cc
