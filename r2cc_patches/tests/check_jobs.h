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

#include "check.h"

namespace r2cc::check {

class Jobs {
 public:
  /// Runs the tests whose names contain `filter`, at most `atOnce` at a time; the exit code, as Suite::run.
  static int run(const char* filter, int atOnce) {
    Jobs jobs;
    const auto& tests = Suite::instance().tests();
    for (const Test& test : tests) {
      if (std::strstr(test.name, filter) == nullptr) continue;
      while (static_cast<int>(jobs.running_.size()) >= atOnce) jobs.wait();
      jobs.start(test);
    }
    while (!jobs.running_.empty()) jobs.wait();
    return Suite::report(jobs.ran_, jobs.checks_, jobs.failed_);
  }

 private:
  static constexpr int kLimitMs = 300000;  // far beyond the longest; a soak is run without --jobs

  struct Job {
    const Test* test;
    pid_t pid;
    int output;  // the child's stdout and stderr
    int checks;  // the pipe by which it says how many checks it made
    std::chrono::steady_clock::time_point start;
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
      const int checks = Suite::instance().checks();
      if (write(ends[1], &checks, sizeof(checks)) != sizeof(checks)) std::abort();
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
    int checks = 0;
    if (read(job.checks, &checks, sizeof(checks)) == sizeof(checks)) checks_ += checks;
    close(job.output), close(job.checks);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    // In any case by name: the body of a test may have passed, before a sanitizer ended the process.
    const bool killed = WIFSIGNALED(status);
    std::fprintf(stderr, "FAIL %s (%s %d)\n", job.test->name, killed ? "signal" : "exit code",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status));
    failed_.push_back(job.test->name);
  }

  std::vector<Job> running_;
  std::vector<const char*> failed_;
  int ran_ = 0;
  int checks_ = 0;
};

/// `[--jobs N] [FILTER]`: without --jobs all in this process, one after the other, as a debugger likes it.
inline int runTests(int argc, char** argv) {
  const bool jobs = argc > 2 && std::strcmp(argv[1], "--jobs") == 0;
  const char* filter = argc > (jobs ? 3 : 1) ? argv[jobs ? 3 : 1] : "";
  if (!jobs) return Suite::instance().run(filter);
  char* end = nullptr;
  const long atOnce = std::strtol(argv[2], &end, 10);
  if (*end == '\0' && atOnce > 0) return Jobs::run(filter, static_cast<int>(atOnce));
  std::fprintf(stderr, "--jobs takes a number from 1 on, not '%s'\n", argv[2]);
  return 2;
}

}  // namespace r2cc::check
