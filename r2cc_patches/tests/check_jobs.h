// Runs the tests of check.h each in a process of its own, several at a time: most of them wait more than they compute.
// A test that crashes or hangs fails alone, and its output stays together.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "check.h"

namespace r2cc::check {

/// A list of the tests that held and did all they do in any build (budget.h): what no other build need run again.
struct WholeTests {
  const char* written = nullptr;  // the file to write them to; none
  std::set<std::string> known;    // by another build: these are left out
};

class Jobs {
 public:
  /// Runs the tests whose names contain `filter`, at most `atOnce` at a time; the exit code, as Suite::run.
  static int run(const char* filter, int atOnce, const WholeTests& whole = {}) {
    Jobs jobs;
    int leftOut = 0;
    for (const Test& test : Suite::instance().tests()) {
      if (std::strstr(test.name, filter) == nullptr) continue;
      if (whole.known.count(test.name) != 0) {
        leftOut++;
        continue;
      }
      while (static_cast<int>(jobs.running_.size()) >= atOnce) jobs.wait();
      jobs.start(test);
    }
    while (!jobs.running_.empty()) jobs.wait();
    if (whole.written != nullptr) jobs.writeWhole(whole.written);
    return Suite::report(jobs.ran_, leftOut, jobs.checks_, jobs.failed_);
  }

 private:
  static constexpr int kLimitMs = 300000;  // far beyond the longest; a soak is run without --jobs

  struct Job {
    const Test* test;
    pid_t pid;
    int output;  // the child's stdout and stderr
    int said;    // the pipe by which it says what it did
    std::chrono::steady_clock::time_point start;
  };

  struct Said {
    int checks;
    bool inPart;
  };

  static int must(int result, const char* what) noexcept {
    if (result >= 0) return result;
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::abort();
  }

  void start(const Test& test) {
    int ends[2];
    must(pipe2(ends, O_CLOEXEC), "pipe");
    const int output = must(memfd_create("output", MFD_CLOEXEC), "memfd_create");
    const pid_t pid = must(fork(), "fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // none outlives an interrupted run
      dup2(output, 1);
      dup2(output, 2);
      const int code = Suite::instance().runOnly(test);
      const Said said{Suite::instance().checks(), Suite::instance().wasInPart()};
      if (write(ends[1], &said, sizeof(said)) != sizeof(said)) std::abort();
      std::exit(code);  // with what a sanitizer does at exit
    }
    close(ends[1]);
    running_.push_back({&test, pid, output, ends[0], std::chrono::steady_clock::now()});
    ran_++;
  }

  /// Waits until one test has ended, or has taken too long and was killed.
  void wait() {
    for (;;) {
      for (size_t i = 0; i < running_.size(); i++) {
        const Job job = running_[i];
        int status = 0;
        if (waitpid(job.pid, &status, WNOHANG) == 0) {
          if (std::chrono::steady_clock::now() - job.start < std::chrono::milliseconds(kLimitMs)) continue;
          std::fprintf(stderr, "%s: still running after %d s: killed\n", job.test->name, kLimitMs / 1000);
          kill(job.pid, SIGKILL);
          waitpid(job.pid, &status, 0);
        }
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        ended(job, status);
        return;
      }
      poll(nullptr, 0, 5);
    }
  }

  void ended(const Job& job, int status) {
    char buffer[4096];
    ssize_t got = 0;
    for (off_t at = 0; (got = pread(job.output, buffer, sizeof(buffer), at)) > 0; at += got) {
      fwrite(buffer, 1, static_cast<size_t>(got), stderr);
    }
    Said said{0, true};
    if (read(job.said, &said, sizeof(said)) != sizeof(said)) said = {0, true};
    checks_ += said.checks;
    close(job.output), close(job.said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      if (said.checks > 0 && !said.inPart) whole_.push_back(job.test->name);
      return;
    }
    // In any case by name: the body of a test may have passed, before a sanitizer ended the process.
    const bool killed = WIFSIGNALED(status);
    std::fprintf(stderr, "FAIL %s (%s %d)\n", job.test->name, killed ? "signal" : "exit code",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status));
    failed_.push_back(job.test->name);
  }

  void writeWhole(const char* file) const {
    std::ofstream out(file);
    for (const char* name : whole_) out << name << '\n';
    if (out.close(), out.fail()) must(-1, file);
  }

  std::vector<Job> running_;
  std::vector<const char*> whole_;
  std::vector<const char*> failed_;
  int ran_ = 0;
  int checks_ = 0;
};

/// The names in a file that --whole wrote; false where there is none: nothing says then what may be left out.
inline bool readWhole(const char* file, std::set<std::string>& names) {
  std::ifstream in(file);
  if (!in) {
    std::fprintf(stderr, "--but: cannot read %s, which --whole writes: %s\n", file, std::strerror(errno));
    return false;
  }
  for (std::string name; std::getline(in, name);) names.insert(name);
  return true;
}

/// `[--jobs N [--whole FILE] [--but FILE]] [FILTER]`: without --jobs all in this process, one after the other, as a
/// debugger likes it. --whole writes which tests held and were not run in part; --but leaves out those that a file has.
inline int runTests(int argc, char** argv) {
  const auto is = [&](int at, const char* option) { return argc > at + 1 && std::strcmp(argv[at], option) == 0; };
  if (!is(1, "--jobs")) return Suite::instance().run(argc > 1 ? argv[1] : "");
  char* end = nullptr;
  const long atOnce = std::strtol(argv[2], &end, 10);
  if (end == argv[2] || *end != '\0' || atOnce <= 0) {
    std::fprintf(stderr, "--jobs takes a number from 1 on, not '%s'\n", argv[2]);
    return 2;
  }
  int next = 3;
  WholeTests whole;
  if (is(next, "--whole")) whole.written = argv[next + 1], next += 2;
  if (is(next, "--but")) {
    if (!readWhole(argv[next + 1], whole.known)) return 2;
    next += 2;
  }
  return Jobs::run(argc > next ? argv[next] : "", static_cast<int>(atOnce), whole);
}

}  // namespace r2cc::check
