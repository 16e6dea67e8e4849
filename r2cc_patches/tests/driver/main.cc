// net_driver: NCCL's part, played on the net's table alone. See docs/internals/net-cases.md.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "bench/clock.h"
#include "bench/errors.h"
#include "driver.h"

namespace {

using namespace r2cc::driver;
using r2cc::bench::JsonObject;
using r2cc::bench::LineWriter;

constexpr int kWrong = 1, kUsage = 2, kFailed = 3, kSilent = 4;

// When, as the library's own lines say it: whoever did something to the process knows how long after.
JsonObject line(const char* event) {
  JsonObject out;
  out.text("event", event).unsignedInteger("t_ns", r2cc::bench::nowNs());
  return out;
}

void say(const LineWriter& out, const char* event, const std::string& why) {
  std::fprintf(stderr, "net_driver: %s\n", why.c_str());
  out.write(line(event).text("why", why).str());
}

void close(Driver& driver, const LineWriter& out) {
  const uint64_t start = r2cc::bench::nowNs();
  driver.close();
  out.write(line("closed").real("ms", static_cast<double>(r2cc::bench::nowNs() - start) / 1e6).str());
}

int leave(Leave how, int code) {
  switch (how) {
    case Leave::Return:
      return code;
    case Leave::Exit:
      std::exit(code);
    case Leave::Quick:
      std::quick_exit(code);
    case Leave::Abort:
      std::abort();
    case Leave::Term:
      (void)std::raise(SIGTERM);
      return code;
  }
  return code;
}

int play(const Options& options, const LineWriter& out) {
  Driver* driver = nullptr;
  try {
    for (int round = 1; round < options.rounds; round++) {
      Driver earlier(options, out);
      if (!earlier.run()) return kWrong;
      earlier.close();
    }
    // Never deleted: what is not closed must be as open as in a process that does not close its communicators.
    driver = new Driver(options, out);
    const bool exact = driver->run();
    if (options.testThread) std::thread([driver] { driver->testForEver(); }).detach();
    if (options.close && !options.testThread) close(*driver, out);
    return leave(options.leave, exact ? options.exitCode : kWrong);
  } catch (const Silence& silence) {
    say(out, "silence", silence.what());
    _exit(kSilent);
  } catch (const std::exception& error) {
    say(out, "error", error.what());
    if (options.closeFailed && driver != nullptr) close(*driver, out);
    _exit(kFailed);  // at once: what the library does at the end of a process that failed is not what is looked at
  }
}

}  // namespace

int main(int argc, char** argv) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  // NCCL's own logger prints to `stdout`; file descriptor 1 is for JSON lines alone.
  stdout = stderr;
  (void)fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_APPEND);
  static const LineWriter out(STDOUT_FILENO);
  try {
    const Options options = parseOptions({argv + 1, argv + argc});
    if (!options.help) return play(options, out);
    (void)!write(STDOUT_FILENO, usageText().data(), usageText().size());
    return 0;
  } catch (const r2cc::bench::UsageError& error) {
    std::fprintf(stderr, "net_driver: %s\n%s", error.what(), usageText().c_str());
    return kUsage;
  }
}
