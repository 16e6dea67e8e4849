// A test harness in one header: TEST defines and registers, CHECK counts and goes on; check_jobs.h runs them.
#pragma once

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace r2cc::check {

struct Test {
  const char* name;
  void (*body)();
};

class Suite {
 public:
  static Suite& instance() noexcept {
    static Suite suite;
    return suite;
  }

  // Without exceptions: it runs before main().
  bool add(const char* name, void (*body)()) noexcept {
    tests_.push_back({name, body});
    return true;
  }

  void failed(const char* file, int line, const std::string& what) {
    failures_++;
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  }
  void counted() { checks_++; }

  // Runs the tests whose names contain `filter`. The process's exit code: 0 if all held and at least one check was
  // made.
  int run(const char* filter) {
    int ran = 0;
    for (const Test& test : tests_) {
      if (std::strstr(test.name, filter) == nullptr) continue;
      ran++;
      runOne(test);
    }
    return report(ran, 0, checks_, failed_);
  }

  // Runs one test; the process's exit code: 0 if it held.
  int runOnly(const Test& test) {
    runOne(test);
    return failures_ == 0 ? 0 : 1;
  }

  static int report(int ran, int leftOut, int checks, const std::vector<const char*>& failed) {
    for (const char* name : failed) std::fprintf(stderr, "failed: %s\n", name);
    std::fprintf(stderr, "%d tests, %d checks, %zu failed", ran, checks, failed.size());
    if (leftOut > 0) std::fprintf(stderr, "; %d left out, which ran whole elsewhere", leftOut);
    std::fprintf(stderr, "\n");
    return failed.empty() && checks > 0 ? 0 : 1;
  }

  const std::vector<Test>& tests() const { return tests_; }
  int checks() const { return checks_; }

  /// Said by a test, or its threads, that does less in this build than in another (budget.h).
  void inPart() { inPart_ = true; }
  bool wasInPart() const { return inPart_; }

 private:
  // What this process and those that it waited for have computed; more than the time it took, where threads compute.
  static double cpuMs() {
    double sum = 0;
    for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage used{};
      getrusage(who, &used);
      sum += 1e3 * static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
             1e-3 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    }
    return sum;
  }

  void runOne(const Test& test) {
    const int before = failures_;
    const auto start = std::chrono::steady_clock::now();
    const double cpuBefore = cpuMs();
    try {
      test.body();
    } catch (const std::exception& error) {
      failed(test.name, 0, std::string("unexpected exception: ") + error.what());
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "%-4s %s (%.0f ms, %.0f ms of CPU)\n", failures_ == before ? "ok" : "FAIL", test.name,
                 took.count(), cpuMs() - cpuBefore);
    if (failures_ != before) failed_.push_back(test.name);
  }

  std::vector<Test> tests_;
  std::vector<const char*> failed_;
  std::atomic<bool> inPart_{false};
  int checks_ = 0;
  int failures_ = 0;
};

template <typename A, typename B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  Suite::instance().counted();
  if (a == b) return;
  std::ostringstream what;
  what << text << ": " << a << " != " << b;
  Suite::instance().failed(file, line, what.str());
}

inline void holds(bool condition, const char* text, const char* file, int line) {
  Suite::instance().counted();
  if (!condition) Suite::instance().failed(file, line, text);
}

// Calls `body`, which must throw Error; returns its message ("" if it threw nothing).
template <typename Error, typename Body>
std::string messageOf(const Body& body, const char* file, int line) {
  Suite::instance().counted();
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  Suite::instance().failed(file, line, "nothing was thrown");
  return "";
}

}  // namespace r2cc::check

#define TEST(name)                                                                                               \
  static void test_##name();                                                                                     \
  [[maybe_unused]] static const bool registered_##name = r2cc::check::Suite::instance().add(#name, test_##name); \
  static void test_##name()
#define CHECK(condition) r2cc::check::holds((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(a, b) r2cc::check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define THROWN(Error, ...) r2cc::check::messageOf<Error>([&] { __VA_ARGS__; }, __FILE__, __LINE__)
