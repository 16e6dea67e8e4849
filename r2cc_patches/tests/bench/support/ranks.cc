#include "ranks.h"

#include <unistd.h>

#include <future>
#include <memory>

#include "bench/bench.h"
#include "ports.h"

using namespace r2cc::bench;

namespace r2cc::test {
namespace {

std::string drain(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t n = read(fd, buffer, sizeof(buffer)); n > 0; n = read(fd, buffer, sizeof(buffer))) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

Options smallRun(Op op) {
  Options options;
  options.ranks = 4;
  options.rootAddress = "127.0.0.1";
  options.op = op;
  options.bytes = 80044;  // divides by nothing
  options.iterations = 3;
  options.warmup = 1;
  options.channels = 3;
  options.chunkBytes = 1024;
  options.slots = 4;
  options.timeoutS = 20;
  options.idleUs = 10;
  return options;
}

RankResult runRank(const Options& options, const ncclNet_t& table, const Health& health) {
  int ends[2];
  if (pipe(ends) != 0) return {0, "no pipe", ""};
  auto reader = std::async(std::launch::async, drain, ends[0]);
  RankResult result;
  {
    const LineWriter out(ends[1]);
    std::unique_ptr<Bootstrap> bootstrap;
    try {
      bootstrap = std::make_unique<Bootstrap>(options);
      Bench bench(options, table, *bootstrap, out, health);
      result.wrong = bench.run();
    } catch (const std::exception& error) {
      result.error = error.what();
      if (bootstrap) bootstrap->fail(result.error);
    }
  }
  close(ends[1]);
  result.lines = reader.get();
  close(ends[0]);
  return result;
}

std::vector<RankResult> runAll(const Options& base, const ncclNet_t& table, const Health& health) {
  const uint16_t port = freePort();
  std::vector<std::future<RankResult>> ranks;
  ranks.reserve(static_cast<size_t>(base.ranks));
  for (int rank = 0; rank < base.ranks; rank++) {
    Options options = base;
    options.rank = rank;
    options.rootPort = port;
    if (!options.host.empty()) options.host += std::to_string(rank);
    ranks.push_back(
        std::async(std::launch::async, [options, &table, &health] { return runRank(options, table, health); }));
  }
  std::vector<RankResult> results;
  results.reserve(ranks.size());
  for (auto& rank : ranks) results.push_back(rank.get());
  return results;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

}  // namespace r2cc::test
