#include "status/status_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/fd.h"

namespace r2cc {
namespace {
constexpr mode_t kFolderMode = 0755, kFileMode = 0644;
}

StatusFile::StatusFile(std::string folder, const std::string& name, Say warn)
    : folder_(std::move(folder)),
      path_(folder_ + "/" + name + ".json"),
      aside_(folder_ + "/." + name + ".new"),
      warn_(std::move(warn)) {}

void StatusFile::write(const std::string& text) {
  if (tryWrite(text) || std::exchange(said_, true)) return;
  warn_("R2CC: R2CC_STATUS_DIR=" + folder_ + ": " + strerror(errno) + "; the job goes on without a status file");
}

/// A folder like /tmp is everybody's: a link that lies there already is not followed.
bool StatusFile::tryWrite(const std::string& text) const {
  const auto create = [this] {
    return open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  };
  int fd = create();
  if (fd < 0 && errno == ENOENT && mkdir(folder_.c_str(), kFolderMode) == 0) fd = create();
  if (fd < 0 && errno == EEXIST && unlink(aside_.c_str()) == 0) fd = create();
  const Fd file(fd);
  if (!file.valid()) return false;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) && rename(aside_.c_str(), path_.c_str()) == 0) return true;
  const int problem = written >= 0 && written < static_cast<ssize_t>(text.size()) ? ENOSPC : errno;
  (void)unlink(aside_.c_str());
  errno = problem;
  return false;
}

void StatusFile::remove() const { (void)unlink(path_.c_str()); }

}  // namespace r2cc
