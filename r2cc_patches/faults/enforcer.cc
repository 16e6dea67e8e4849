#include "faults/enforcer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "faults/answers.h"
#include "faults/build_check.h"
#include "faults/monotonic.h"
#include "faults/sockets.h"

namespace r2cc::faults {

namespace {

constexpr int64_t kAnswerEveryNs = 100'000'000;
constexpr useconds_t kPastFilterUs = 200;  // a packet that was past the filter when it was set has arrived

std::string notSilent(int error) {
  return std::string("the kernel refuses the filter without which nothing is silent (") + std::strerror(error) +
         "): it may want CAP_NET_ADMIN";
}

/// Before such a rule is in force: who reads that it is counts on it.
void checkSilent(const std::vector<Rule>& rules) {
  const auto silent = [](const Rule& rule) { return rule.action == Action::Silent; };
  if (std::none_of(rules.begin(), rules.end(), silent)) return;
  if (const int error = deafenError(); error != 0) throw BadRules(notSilent(error));
}

}  // namespace

bool Enforcer::look() {
  const std::map<std::string, Stamp> there = folder_.files();
  std::vector<File> over;
  for (auto it = files_.begin(); it != files_.end();) {
    const auto found = there.find(it->first);
    const bool stays = found != there.end() && found->second == it->second.stamp;
    if (!stays) over.push_back(std::move(it->second));
    it = stays ? std::next(it) : files_.erase(it);
  }
  const size_t stayed = files_.size();
  for (const auto& [name, stamp] : there)
    if (files_.count(name) == 0) load(name, stamp);
  if (!over.empty() || files_.size() != stayed) {
    silenceNew();
    passOnVerbs();
    sayWhatIsInForce();
  }
  for (File& file : over) undo(file);
  const auto hasSockets = [](const auto& file) { return !file.second.rules.empty(); };
  if (files_.empty()) return false;
  if (std::any_of(files_.begin(), files_.end(), hasSockets)) {  // a device's calls come by themselves
    strikeAll();
    if (closes()) {
      (void)usleep(kPastFilterUs);
      strikeAll();
    }
  }
  for (auto& [name, file] : files_) answer(file);
  return true;
}

void Enforcer::checkDevices(const std::vector<VerbsRule>& rules) const {
  if (rules.empty()) return;
  const std::set<std::string> there = devices_.names();
  for (const VerbsRule& rule : rules) {
    if (there.count(rule.device) != 0) continue;
    std::string all;
    for (const std::string& name : there) all += (all.empty() ? "" : ", ") + name;
    throw BadRules("there is no RDMA device " + rule.device + " here; there " +
                   (all.empty() ? "is none" : "are " + all));
  }
}

void Enforcer::passOnVerbs() {
  ActiveRules rules;
  for (const auto& [name, file] : files_)
    for (const VerbsInForce& one : file.verbs) rules.push_back(one.active);
  devices_.setRules(rules);
}

/// Whoever reads that may count on it. Before anything strikes: the program may end by it.
void Enforcer::sayWhatIsInForce() {
  for (auto& [name, file] : files_) {
    if (file.unsaid) file.answers->say("seen " + std::to_string(getpid()) + " " + ownBuild() + "\n");
    file.unsaid = false;
  }
}

void Enforcer::load(const std::string& name, const Stamp& stamp) {
  File& file = files_[name];
  file.stamp = stamp;
  file.path = folder_.pathOf(name);
  file.answers = std::make_shared<const Answers>(folder_.answers(name));
  try {
    Rules rules = parse(folder_.read(name));
    checkDevices(rules.verbs);
    checkSilent(rules.sockets);
    if (const std::string why = otherBuildHere(); !why.empty()) throw BadRules(why);
    for (Rule& rule : rules.sockets) file.rules.emplace_back().rule = std::move(rule);
    for (VerbsRule& rule : rules.verbs)
      file.verbs.push_back({std::make_shared<ActiveRule>(std::move(rule), file.answers), {}});
    file.unsaid = true;
  } catch (const BadRules& error) {
    refuse(file, error.what());
  }
}

void Enforcer::refuse(const File& file, const std::string& why) {
  std::fputs(("r2cc faults: " + file.path + " is refused: " + why + "\n").c_str(), stderr);
  file.answers->say("refused " + std::to_string(getpid()) + " " + why + "\n");
}

void Enforcer::undo(File& file) {
  std::unordered_map<uint64_t, int> open;
  for (const int fd : openDescriptors())
    if (const uint64_t cookie = cookieOf(fd); cookie != 0) open[cookie] = fd;
  hearEarly(open);
  for (InForce& one : file.rules) {
    for (const uint64_t cookie : one.closing) {
      const auto found = open.find(cookie);
      const Fd socket = found == open.end() ? Fd() : heldOpen(found->second);
      if (cookieOf(socket.get()) == cookie) hear(socket.get());
    }
    for (const auto& [cookie, pacing] : one.held) {
      book_.remove(cookie);
      const auto found = open.find(cookie);
      const Fd socket = found == open.end() ? Fd() : heldOpen(found->second);
      if (cookieOf(socket.get()) != cookie) continue;
      if (one.rule.action == Action::Silent) hear(socket.get());
      if (one.rule.action == Action::Slow) (void)pace(socket.get(), pacing);
    }
  }
}

/// Where another rule still silences one, the next look sees to it.
void Enforcer::hearEarly(const std::unordered_map<uint64_t, int>& open) {
  for (const uint64_t cookie : book_.takeEarly()) {
    const auto found = open.find(cookie);
    const Fd socket = found == open.end() ? Fd() : heldOpen(found->second);
    if (cookieOf(socket.get()) == cookie) hear(socket.get());
  }
}

void Enforcer::silenceNew() {
  std::vector<Rule> rules;
  for (const auto& [name, file] : files_)
    for (const InForce& one : file.rules)
      if (one.rule.action == Action::Silent && one.rule.times == 0) rules.push_back(one.rule);
  book_.setSilent(std::move(rules));
}

void Enforcer::strikeAll() {
  std::unordered_set<uint64_t> open;
  for (const int fd : openDescriptors()) {
    const uint64_t cookie = cookieOf(fd);
    if (cookie == 0 || !open.insert(cookie).second || isHeld(cookie)) continue;
    if (const std::optional<Ends> ends = endsOf(fd)) strike(fd, cookie, *ends);
    if (const std::optional<Ends> door = doorOf(fd)) close(fd, cookie, *door);
  }
  forget(open);
}

void Enforcer::strike(int fd, uint64_t cookie, const Ends& ends) {
  for (auto& [name, file] : files_) {
    for (InForce& one : file.rules) {
      const uint64_t others = one.closing.size() - one.closing.count(cookie);
      const bool spent = one.rule.times != 0 && one.hits + others >= one.rule.times;
      if (isClosing(cookie) && one.closing.count(cookie) == 0) continue;  // it is another rule's until that is over
      if (spent || !one.rule.matches(ends)) continue;
      const Fd socket = heldOpen(fd);
      if (cookieOf(socket.get()) != cookie || !apply(socket.get(), cookie, file, one)) return;
      one.hits++;
      one.hitNs = monotonicNs();
      return;
    }
  }
}

/// Nobody gets through a door that should be silent. That is no hit: perhaps nobody comes.
void Enforcer::close(int fd, uint64_t cookie, const Ends& door) {
  for (auto& [name, file] : files_) {
    for (InForce& one : file.rules) {
      const bool whole = one.rule.action == Action::Silent && !one.rule.peer && one.rule.times == 0;
      if (!whole || !one.rule.matches(door)) continue;
      const Fd socket = heldOpen(fd);
      if (cookieOf(socket.get()) == cookie && silence(socket.get(), file, one)) one.held[cookie] = 0;
      return;
    }
  }
}

/// Where this one socket is refused, or the process has lost a capability. The next look tries again, and says nothing.
bool Enforcer::silence(int fd, const File& file, InForce& one) {
  if (deafen(fd)) return true;
  if (!one.refused) refuse(file, notSilent(errno));
  one.refused = true;
  return false;
}

bool Enforcer::apply(int fd, uint64_t cookie, const File& file, InForce& one) {
  std::optional<uint64_t> pacing = 0;
  switch (one.rule.action) {
    case Action::Reset:
      return resetOnceRead(fd, cookie, *file.answers, one);
    case Action::Silent:
      if (!silence(fd, file, one)) return false;
      break;
    case Action::Slow:
      pacing = pace(fd, one.rule.rateBytesPerS);
      break;
    case Action::ShortReads:
      book_.limit(cookie, one.rule.mostBytes);
      break;
  }
  if (pacing) one.held[cookie] = *pacing;
  return pacing.has_value();
}

/// What has arrived stays readable when a network resets a connection, and our call would throw it away. So nothing
/// more is let in, and what is there is left to its reader first. Looked at twice: a packet may be on its way past the
/// filter. The first is answered before it strikes: the program may end by it. Where the kernel refuses the filter, a
/// moment in which nothing is unread has to do: what arrives between our look and the reset is lost.
bool Enforcer::resetOnceRead(int fd, uint64_t cookie, const Answers& answers, InForce& one) {
  const bool deaf = one.closing.count(cookie) != 0;
  if (!deaf && deafen(fd)) {
    one.closing.insert(cookie);
    return false;
  }
  if (hasUnread(fd)) return false;
  if (one.answered.hits == 0) answers.hit(one.rule.nic, ++one.answered.hits, monotonicNs());
  if (!deaf && hasUnread(fd)) return false;  // it came while we answered: answer() takes that back
  one.closing.erase(cookie);
  return reset(fd);
}

bool Enforcer::isHeld(uint64_t cookie) const {
  for (const auto& [name, file] : files_)
    for (const InForce& one : file.rules)
      if (one.held.count(cookie) != 0) return true;
  return false;
}

bool Enforcer::isClosing(uint64_t cookie) const {
  for (const auto& [name, file] : files_)
    for (const InForce& one : file.rules)
      if (one.closing.count(cookie) != 0) return true;
  return false;
}

bool Enforcer::closes() const {
  const auto waits = [](const InForce& one) { return !one.closing.empty(); };
  return std::any_of(files_.begin(), files_.end(), [&](const auto& file) {
    return std::any_of(file.second.rules.begin(), file.second.rules.end(), waits);
  });
}

void Enforcer::forget(const std::unordered_set<uint64_t>& open) {
  for (auto& [name, file] : files_) {
    for (InForce& one : file.rules) {
      for (auto it = one.held.begin(); it != one.held.end();) {
        const bool closed = open.count(it->first) == 0;
        if (closed) book_.remove(it->first);
        it = closed ? one.held.erase(it) : std::next(it);
      }
      for (auto it = one.closing.begin(); it != one.closing.end();)
        it = open.count(*it) == 0 ? one.closing.erase(it) : std::next(it);
    }
  }
}

void Enforcer::answer(File& file) {
  for (InForce& one : file.rules) answer(*file.answers, one.rule.nic, one.hits, one.hitNs, one.answered);
  for (VerbsInForce& one : file.verbs) {
    const ActiveRule& active = *one.active;
    if (active.hits != 0 && one.answered.hits == 0) one.answered = {1, active.hitNs};  // by who hit
    answer(*file.answers, active.rule.device, active.hits, active.hitNs, one.answered);
  }
}

void Enforcer::answer(const Answers& to, const std::string& nic, uint64_t hits, int64_t hitNs, Answered& answered) {
  const int64_t now = monotonicNs();
  if (hits == answered.hits || (answered.hits != 0 && now - answered.atNs < kAnswerEveryNs)) return;
  to.hit(nic, hits, hitNs);
  answered = {hits, now};
}

}  // namespace r2cc::faults
