// r2cc_bench: collectives on host memory over an ncclNet table, driven as NCCL drives it. See docs/internals/bench.md.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>

#include "bench/bench.h"
#include "bench/errors.h"
#include "bench/report.h"

namespace {

using namespace r2cc::bench;

[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  _exit(
      code);  // no destructors: after an error the transport may hang in close, and its threads use what we would free
}

void tell(const LineWriter& out, int rank, const std::string& message, int peer, int connection) {
  std::fprintf(stderr, "r2cc_bench: rank %d: %s\n", rank, message.c_str());
  try {
    out.write(errorLine(rank, message, peer, connection));
  } catch (const TransportError&) {
    return;  // nobody reads our lines; stderr has it
  }
}

int runRank(Options options) {
  const LineWriter out(STDOUT_FILENO);
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<Bench> bench;  // out here, so that an error leaves it as it is until leave()
  const auto end = [&](const std::string& message, int peer, int connection, int code) {
    tell(out, options.rank, message, peer, connection);
    if (bootstrap) bootstrap->fail(message);
    leave(code);
  };
  try {
    bootstrap = std::make_unique<Bootstrap>(options);
    const std::string library = options.library.empty() ? defaultLibrary() : options.library;
    options.build = buildOf(library);
    Health health = loadHealth(library, options.plan || options.schedule);
    bench = std::make_unique<Bench>(options, loadTable(library, options.net), *bootstrap, out, std::move(health));
    return bench->run() == 0 ? kExitExact : kExitWrong;
  } catch (const UsageError& error) {
    end(error.what(), -1, -1, kExitUsage);
  } catch (const TransportError& error) {
    end(error.what(), error.peer(), error.connection(), kExitTransport);
  } catch (const std::exception& error) {
    end(error.what(), -1, -1, kExitTransport);
  }
  return kExitTransport;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // NCCL's own logger prints to `stdout`; file descriptor 1 is for JSON lines alone. glibc lets a program assign it.
  stdout = stderr;
  // The net library opens /proc/self/fd/1 anew. Into a file both must append, or they overwrite each other's lines.
  (void)fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_APPEND);
  try {
    const Options options = parseOptions({argv + 1, argv + argc});
    if (options.help) {
      (void)!write(STDOUT_FILENO, usageText().data(), usageText().size());
      return kExitExact;
    }
    return runRank(options);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "r2cc_bench: %s\n%s", error.what(), usageText().c_str());
    return kExitUsage;
  }
}
