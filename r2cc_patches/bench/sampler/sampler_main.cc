// r2cc_sampler: NIC byte counters, link changes and CPU load of this network namespace as JSON lines, until SIGTERM,
// SIGINT or the end of standard input. With --clock it says what time it is here, once for all input that there is.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/fd.h"
#include "bench/clock.h"
#include "bench/errors.h"
#include "bench/json.h"
#include "bench/sampler/sampler.h"
#include "bench/sampler/sampler_link.h"

namespace {

using namespace r2cc::bench;
using r2cc::Fd;

constexpr uint64_t kCpuIntervalNs = 20'000'000u;
constexpr size_t kCpuLineBytes = 512;
// Lines are handed on in batches: whoever reads them runs on the machine that is measured.
constexpr uint64_t kBatchNs = 100'000'000u;
constexpr uint64_t kNsPerMs = 1'000'000u;

struct SamplerOptions {
  int intervalMs = 10;
  std::vector<std::string> nics;
  bool cpu = false;
  bool clock = false;
};

std::vector<std::string> splitCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) throw UsageError("--nics takes names with commas between, not '" + text + "'");
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

SamplerOptions parseSamplerOptions(const std::vector<std::string>& args) {
  SamplerOptions options;
  for (size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--cpu") {
      options.cpu = true;
      continue;
    }
    if (args[i] == "--clock") {
      options.clock = true;
      continue;
    }
    if (i + 1 == args.size()) throw UsageError("unknown option or missing value: '" + args[i] + "'");
    const std::string& value = args[i + 1];
    if (args[i] == "--nics") {
      options.nics = splitCommas(value);
    } else if (args[i] == "--interval-ms") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.intervalMs);
      if (error != std::errc() || *end != '\0' || options.intervalMs < 1 || options.intervalMs > 60'000) {
        throw UsageError("--interval-ms takes 1 to 60000, not '" + value + "'");
      }
    } else {
      throw UsageError("unknown option '" + args[i] + "'");
    }
    i++;
  }
  return options;
}

// A file of /proc, opened once and read from its start each time.
class ProcFile {
 public:
  explicit ProcFile(const char* path) : path_(path), fd_(open(path, O_RDONLY | O_CLOEXEC)), text_(16384, '\0') {
    if (!fd_.valid()) throw std::runtime_error(std::string("cannot open ") + path + ": " + std::strerror(errno));
  }

  // All of it. What the kernel gives at once is whole where another line would have fitted in, too.
  std::string_view read() {
    size_t size = 0;
    while (true) {
      if (size == text_.size()) text_.resize(2 * size);
      const size_t n = readAt(size, text_.size() - size);
      size += n;
      if (n == 0 || (size == n && n <= kSurelyWhole)) return std::string_view(text_.data(), size);
    }
  }

  // Its first bytes.
  std::string_view head(size_t bytes) { return std::string_view(text_.data(), readAt(0, bytes)); }

 private:
  static constexpr size_t kSurelyWhole = 2048;  // half of the least that seq_file fills before it returns

  size_t readAt(size_t offset, size_t bytes) {
    const ssize_t n = pread(fd_.get(), text_.data() + offset, bytes, static_cast<off_t>(offset));
    if (n < 0) throw std::runtime_error(std::string("cannot read ") + path_ + ": " + std::strerror(errno));
    return static_cast<size_t>(n);
  }

  const char* path_;
  Fd fd_;
  std::string text_;
};

class Sampler {
 public:
  Sampler(const SamplerOptions& options, Fd signals)
      : signals_(std::move(signals)),
        pace_(static_cast<uint64_t>(options.intervalMs) * kNsPerMs, nowNs()),
        filter_(options.nics) {
    if (options.cpu) {
      stat_ = std::make_unique<ProcFile>("/proc/stat");
      cpu_ = parseCpu(stat_->head(kCpuLineBytes)).value_or(CpuTicks{});
      cpuNs_ = nowNs();
    }
  }

  void run() {
    sample(true);
    while (waitForNext()) sample(false);
    sample(true);
    flush();
  }

 private:
  // Handles links at once; true when the next sample is due, false at the end.
  bool waitForNext() {
    while (true) {
      const uint64_t now = nowNs();
      if (now >= pace_.nextNs()) return true;
      const uint64_t left = pace_.nextNs() - now;
      const timespec wait{static_cast<time_t>(left / 1'000'000'000u), static_cast<long>(left % 1'000'000'000u)};
      pollfd polled[] = {{signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}, {links_.fd(), POLLIN, 0}};
      const int ready = ppoll(polled, 3, &wait, nullptr);
      if (ready == 0) return true;
      if (ready < 0) continue;
      if (polled[2].revents != 0) {
        links_.receive([this](const std::string& nic, bool up) { keep(linkLine(nowNs(), nic, up)); });
        flush();
      }
      if (polled[0].revents != 0 || (polled[1].revents != 0 && inputEnded())) return false;
    }
  }

  void keep(const std::string& line) { (batch_ += line) += '\n'; }

  void flush() {
    flushedNs_ = nowNs();
    if (batch_.empty()) return;
    batch_.pop_back();  // write() adds the last newline
    out_.write(std::exchange(batch_, {}));
  }

  static bool inputEnded() {
    char ignored[256];
    return read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0;
  }

  void sample(bool all) {
    const std::string_view text = netDev_.read();
    const uint64_t now = nowNs();
    NicTable changed;
    if (all || text != seen_) changed = filter_.changed(parser_.parse(text), all);
    if (text != seen_) seen_ = text;
    for (const std::string& line : sampleLines(now, changed)) keep(line);
    pace_.sampled(now, !changed.empty());
    if (now - flushedNs_ >= kBatchNs) flush();
    if (stat_ != nullptr && (all || now - cpuNs_ >= kCpuIntervalNs)) sampleCpu(now);
  }

  void sampleCpu(uint64_t now) {
    const CpuTicks ticks = parseCpu(stat_->head(kCpuLineBytes)).value_or(cpu_);
    if (ticks.total == cpu_.total) return;
    keep(cpuLine(now, cpu_, ticks));
    cpu_ = ticks;
    cpuNs_ = now;
  }

  Fd signals_;
  Pace pace_;
  LinkWatch links_;
  ProcFile netDev_{"/proc/self/net/dev"};
  std::string seen_;  // what netDev_ last had
  NetDevParser parser_;
  SampleFilter filter_;
  std::unique_ptr<ProcFile> stat_;  // null without --cpu
  CpuTicks cpu_;
  uint64_t cpuNs_ = 0;
  std::string batch_;
  uint64_t flushedNs_ = 0;
  LineWriter out_{STDOUT_FILENO};
};

// Whoever asks notes when it asked and when the answer came, and so knows how far apart the two clocks are.
void answerTheTime() {
  LineWriter out(STDOUT_FILENO);
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0) {
    out.write(JsonObject().unsignedInteger("t_ns", nowNs()).text("event", "clock").str());
  }
}

Fd catchEndSignals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return Fd(signalfd(-1, &ends, SFD_CLOEXEC));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const SamplerOptions options = parseSamplerOptions({argv + 1, argv + argc});
    if (options.clock) {
      answerTheTime();
      return kExitExact;
    }
    Fd signals = catchEndSignals();
    Sampler(options, std::move(signals)).run();
    return kExitExact;
  } catch (const UsageError& error) {
    std::fprintf(stderr,
                 "r2cc_sampler: %s\nusage: r2cc_sampler [--interval-ms 10] [--nics eth0,eth1] [--cpu] | --clock\n",
                 error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "r2cc_sampler: %s\n", error.what());
    return kExitTransport;
  }
}
