#include "faults/rules/rule_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <optional>

#include "faults/rules/rules.h"

namespace r2cc::faults {

namespace {

constexpr char kNameLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
constexpr size_t kMostName = 32, kMostFiles = 64;

/// As the ids of faults are: what is still being written, and answers, have a dot.
bool isRuleFile(const std::string& name) {
  return !name.empty() && name.size() <= kMostName && name.find_first_not_of(kNameLetters) == std::string::npos;
}

bool ours(const struct stat& about) { return about.st_uid == geteuid() || about.st_uid == 0; }

std::optional<Stamp> stampOf(int folder, const std::string& name) {
  struct stat about{};
  if (fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  const int64_t changed = about.st_mtim.tv_sec * int64_t{1'000'000'000} + about.st_mtim.tv_nsec;
  return Stamp{about.st_ino, static_cast<uint64_t>(about.st_size), changed};
}

}  // namespace

std::map<std::string, Stamp> RuleFolder::files() const {
  std::map<std::string, Stamp> found;
  const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return found;
  DIR* const folder = fdopendir(fd);
  if (folder == nullptr) {
    close(fd);
    return found;
  }
  struct stat about{};
  if (fstat(fd, &about) == 0 && ours(about)) {
    while (const dirent* entry = readdir(folder)) {
      if (!isRuleFile(entry->d_name) || found.size() == kMostFiles) continue;
      if (const auto stamp = stampOf(fd, entry->d_name)) found[entry->d_name] = *stamp;
    }
  }
  closedir(folder);
  return found;
}

std::string RuleFolder::read(const std::string& name) const {
  const Fd file(open(pathOf(name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about{};
  if (!file.valid() || fstat(file.get(), &about) != 0) throw BadRules("it cannot be read");
  if (!S_ISREG(about.st_mode)) throw BadRules("it is no plain file");
  if (!ours(about) || (about.st_mode & S_IWOTH) != 0) throw BadRules("others can write it");
  std::string text(kMostFileBytes + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) throw BadRules("it cannot be read");
  text.resize(static_cast<size_t>(got));
  return text;
}

Fd RuleFolder::answers(const std::string& name) const {
  if (access(pathOf(name).c_str(), F_OK) != 0) return Fd();
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  return Fd(open((pathOf(name) + ".hits").c_str(), flags, 0644));
}

}  // namespace r2cc::faults
