// The command line of the driver: who it plays, how much it moves, and what it does to itself meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace r2cc::driver {

enum class Role { Send, Recv, Self, Init, Listen };
enum class Leave { Return, Exit, Quick, Abort, Term };

constexpr uint64_t kNever = UINT64_MAX;

struct Options {
  bool help = false;
  Role role = Role::Init;
  std::string library;  // empty: libr2cc_net.so beside the program
  int table = 0;        // of the plugin: 8 to 12; 0: the socket transport's own
  std::string handle;   // the file in which the receiving end leaves its connect handles
  std::vector<int> devices{0};
  std::vector<int> listenDevices;  // of `self`'s receiving ends; empty: as devices
  int contexts = 1;
  uint64_t bytes = 64 << 10;
  uint64_t messages = 0;  // 0: until `seconds` are over
  uint64_t seconds = 5;
  int flight = 8;
  uint64_t window = 16;
  uint64_t connectSeconds = 20;
  uint64_t giveUpSeconds = 15;
  bool close = true;
  bool closeFailed = false;  // an error ends nothing before all is closed, as where NCCL's user aborts
  bool testThread = false;
  uint64_t forkAtMs = kNever;
  uint64_t childMs = 0;
  Leave leave = Leave::Return;
  uint64_t leaveAtMs = kNever;
  int exitCode = 0;
  uint64_t halfHeaderAtMs = kNever;
  uint64_t pauseMs = 1500;
  uint64_t corrupt = kNever;
  uint64_t askMs = 0;     // a receiver asks for nothing before, but for
  uint64_t askFirst = 0;  // so many messages
  uint64_t keepMs = 0;    // between the close of the connections and that of the net
  bool vary = false;      // messages of other sizes between those of `bytes`
  bool group = false;     // a receive of two messages is tried first
  int rounds = 1;         // of `self`: all of it again in the same process
};

std::string usageText();

// Throws bench::UsageError that names the option and what it takes.
Options parseOptions(const std::vector<std::string>& words);

}  // namespace r2cc::driver
