// Keeps the rules that are in force, breaks what matches them, and answers. One thread uses it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "faults/book.h"
#include "faults/rules/rule_folder.h"
#include "faults/rules/rules.h"
#include "faults/verbs/devices.h"

namespace r2cc::faults {

class Enforcer {
 public:
  Enforcer(std::string folder, Book& book, Devices& devices)
      : folder_(std::move(folder)), book_(book), devices_(devices) {}
  /// What is broken stays so: a process that ends needs no undoing.
  ~Enforcer() = default;
  Enforcer(const Enforcer&) = delete;
  Enforcer& operator=(const Enforcer&) = delete;

  /// New rules are read, those whose file is gone undone, and connections that match broken. True: rules are in force.
  bool look();

 private:
  struct Answered {
    uint64_t hits = 0;
    int64_t atNs = 0;
  };
  struct InForce {
    Rule rule;
    uint64_t hits = 0;
    int64_t hitNs = 0;
    Answered answered;
    std::unordered_map<uint64_t, uint64_t> held;  // cookies of broken connections, and their pacing before
    std::unordered_set<uint64_t> closing;         // of those that are reset once what has arrived is read
    bool refused = false;                         // that the kernel would not is said
  };
  struct VerbsInForce {
    std::shared_ptr<ActiveRule> active;
    Answered answered;
  };
  struct File {
    Stamp stamp;
    std::string path;
    std::vector<InForce> rules;
    std::vector<VerbsInForce> verbs;
    std::shared_ptr<const Answers> answers;
    bool unsaid = false;  // that it is in force
  };

  void checkDevices(const std::vector<VerbsRule>& rules) const;
  void load(const std::string& name, const Stamp& stamp);
  static void refuse(const File& file, const std::string& why);
  void undo(File& file);
  void hearEarly(const std::unordered_map<uint64_t, int>& open);
  void silenceNew();
  void passOnVerbs();
  void sayWhatIsInForce();
  void strikeAll();
  void strike(int fd, uint64_t cookie, const Ends& ends);
  void close(int fd, uint64_t cookie, const Ends& door);
  bool apply(int fd, uint64_t cookie, const File& file, InForce& one);
  static bool silence(int fd, const File& file, InForce& one);
  static bool resetOnceRead(int fd, uint64_t cookie, const Answers& answers, InForce& one);
  void forget(const std::unordered_set<uint64_t>& open);
  bool isHeld(uint64_t cookie) const;
  bool isClosing(uint64_t cookie) const;
  bool closes() const;
  void answer(File& file);
  static void answer(const Answers& to, const std::string& nic, uint64_t hits, int64_t hitNs, Answered& answered);

  RuleFolder folder_;
  Book& book_;
  Devices& devices_;
  std::map<std::string, File> files_;
};

}  // namespace r2cc::faults
