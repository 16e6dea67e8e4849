// The command line of r2cc_bench as one checked value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agree/terms.h"
#include "planner/planner.h"

namespace r2cc::bench {

enum class Op { AllReduce, Stream, AllToAll };
enum class NetKind { Socket, Ib };

struct Corruption {
  int rank = -1;  // -1: corrupt nothing
  int64_t iteration = 0;
};

// Self-test: what the bench does wrong on purpose once a NIC of its host has lost its carrier so often.
struct CarrierCorruption {
  int rank = -1;  // -1: corrupt nothing
  std::string nic;
  uint64_t losses = 0;
};

// One rank enters one iteration late, as a slow GPU does: it posts nothing, while its library goes on answering.
struct Lateness {
  int rank = -1;  // -1: nobody is late
  int64_t iteration = 0;
  int ms = 0;
};

// Self-test: what one rank says of one of its NICs from an iteration on, whatever the library says.
struct Pretence {
  int rank = -1;
  int64_t iteration = 0;
  std::string nic;
  int percent = 100;  // of its capacity
};

// Self-test: one rank takes so long to be ready for another schedule.
struct SlowToAgree {
  int rank = -1;  // -1: nobody
  int ms = 0;
};

// When the connections of --schedule are made that its ring does not need: all of them at the start, or those of a plan
// when it begins.
enum class Connect { Ahead, Switch };

// How a rank learns of another's end while data moves: also over its connection to rank 0, or by the net alone.
enum class ToldBy { All, Net };

struct Options {
  int rank = -1;
  int ranks = 0;
  std::string rootAddress;
  uint16_t rootPort = 0;
  Op op = Op::AllReduce;
  uint64_t bytes = 64u << 20;
  int64_t iterations = 40;
  int64_t warmup = 2;
  int channels = 4;
  int connectionsPerPeer = 1;
  int inARow = 1;  // operations of an iteration, one after the other
  uint32_t chunkBytes = 128u << 10;
  int slots = 8;
  uint64_t seed = 1;
  NetKind net = NetKind::Socket;
  int timeoutS = 120;
  int idleUs = 200;   // sleep of the progress thread when nothing moved; 0: only yield, as NCCL does
  int mergeNics = 1;  // that many NICs in a row become one virtual NIC, as NCCL makes them; 1: none
  int seconds = 0;    // 0: all iterations; else iterations end once so many seconds have passed
  Corruption corrupt;
  CarrierCorruption corruptCarrier;
  std::vector<Lateness> late;
  std::optional<planner::Plan> plan;          // of an all-reduce: its parts; none: one ring over all
  std::optional<planner::Schedule> schedule;  // of an all-reduce: planned anew whenever NICs come or go
  Connect connect = Connect::Ahead;
  ToldBy toldBy = ToldBy::All;
  std::vector<Pretence> pretended;
  SlowToAgree slowToAgree;
  std::string library;  // empty: libr2cc_net.so beside the executable
  std::string build;    // of the library: what its bytes come to
  std::string nonce;    // tells runs apart that share a root address
  std::string planFile;
  std::string host;  // empty: as NCCL names it (NCCL_HOSTID, else the machine's name)
  bool bytesGiven = false;
  bool help = false;
};

const char* nameOf(Op op);
std::string usageText();

// Throws UsageError that names the option and what it takes.
Options parseOptions(const std::vector<std::string>& args);

// Takes the plan, and its size unless --bytes gave another. Throws UsageError for one that these ranks cannot run.
void usePlan(Options& options, const planner::Plan& plan);

// What all ranks must agree on; compared when they meet.
agree::Terms terms(const Options& options);
// The same as one line.
std::string fingerprint(const Options& options);

}  // namespace r2cc::bench
