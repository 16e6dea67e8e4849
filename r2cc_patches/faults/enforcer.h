// Keeps the rules that are in force, breaks what matches them, and answers. One thread uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "faults/book.h"
#include "faults/rules/rule_folder.h"
#include "faults/rules/rules.h"

namespace r2cc::faults {

class Enforcer {
 public:
  Enforcer(std::string folder, Book& book) : folder_(std::move(folder)), book_(book) {}
  /// What is broken stays so: a process that ends needs no undoing.
  ~Enforcer() = default;
  Enforcer(const Enforcer&) = delete;
  Enforcer& operator=(const Enforcer&) = delete;

  /// New rules are read, those whose file is gone undone, and connections that match broken. True: rules are in force.
  bool look();

 private:
  struct InForce {
    Rule rule;
    uint64_t hits = 0, answered = 0;
    int64_t hitNs = 0, answeredNs = 0;
    std::unordered_map<uint64_t, uint64_t> held;  // cookies of broken connections, and their pacing before
  };
  struct File {
    Stamp stamp;
    std::vector<InForce> rules;
    Fd answers;
  };

  void load(const std::string& name, const Stamp& stamp);
  void undo(File& file);
  void hearEarly(const std::unordered_map<uint64_t, int>& open);
  void silenceNew();
  void strikeAll();
  void strike(int fd, uint64_t cookie, const Ends& ends);
  void close(int fd, uint64_t cookie, const Ends& door);
  bool apply(int fd, uint64_t cookie, InForce& one);
  void forget(const std::unordered_set<uint64_t>& open);
  bool isHeld(uint64_t cookie) const;
  void answer(File& file);

  RuleFolder folder_;
  Book& book_;
  std::map<std::string, File> files_;
};

}  // namespace r2cc::faults
