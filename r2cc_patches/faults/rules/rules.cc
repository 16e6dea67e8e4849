#include "faults/rules/rules.h"

#include <cstring>
#include <sstream>

namespace r2cc::faults {

namespace {

constexpr char kHead[] = "r2cc-faults 1";
constexpr char kEnd[] = "end";

Action actionOf(const std::string& word) {
  if (word == "reset") return Action::Reset;
  if (word == "silent") return Action::Silent;
  if (word == "slow") return Action::Slow;
  if (word == "short_reads") return Action::ShortReads;
  throw BadRules("there is no action of that name");
}

void readPorts(const std::string& text, Rule& rule) {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) throw BadRules("ports are LOW-HIGH");
  rule.lowPort = static_cast<uint16_t>(numberOf(text.substr(0, dash), 0, 65535, "ports"));
  rule.highPort = static_cast<uint16_t>(numberOf(text.substr(dash + 1), rule.lowPort, 65535, "ports"));
}

void readSetting(const std::string& word, Rule& rule) {
  const auto [name, value] = settingOf(word);
  if (name == "peer") {
    rule.peer = ipOf(value);
  } else if (name == "ports") {
    readPorts(value, rule);
  } else if (name == "times") {
    rule.times = numberOf(value, 0, kMostOf, "times");
  } else if (name == "rate_Bps" && rule.action == Action::Slow) {
    rule.rateBytesPerS = numberOf(value, 1, kMostOf, "rate_Bps");
  } else if (name == "bytes" && rule.action == Action::ShortReads) {
    rule.mostBytes = numberOf(value, 1, kMostOf, "bytes");
  } else {
    throw BadRules("unknown setting");
  }
}

Rule socketRuleOf(std::istream& words) {
  std::string nic, action, setting;
  words >> nic >> action;
  Rule rule;
  rule.nic = nic;
  rule.local = ipOf(nic);
  rule.action = actionOf(action);
  while (words >> setting) readSetting(setting, rule);
  if (rule.action == Action::Slow && rule.rateBytesPerS == 0) throw BadRules("slow needs rate_Bps");
  if (rule.action == Action::ShortReads && rule.mostBytes == 0) throw BadRules("short_reads needs bytes");
  return rule;
}

void readRule(const std::string& line, Rules& rules) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "socket") {
    rules.sockets.push_back(socketRuleOf(words));
  } else if (kind == "verbs") {
    rules.verbs.push_back(verbsRuleOf(words));
  } else {
    throw BadRules("a rule begins with `socket` or `verbs`");
  }
}

std::vector<std::string> linesOf(const std::string& text) {
  if (text.size() > kMostFileBytes) throw BadRules("it is too long");
  if (text.find('\0') != std::string::npos) throw BadRules("it is no text");
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

bool Rule::matches(const Ends& ends) const {
  const auto within = [this](uint16_t port) { return port >= lowPort && port <= highPort; };
  if (ends.local != local || (peer && *peer != ends.peer)) return false;
  return within(ends.localPort) || within(ends.peerPort);
}

Rules parse(const std::string& text) {
  const std::vector<std::string> lines = linesOf(text);
  if (lines.empty() || lines.front().compare(0, std::strlen("r2cc-faults "), "r2cc-faults ") != 0)
    throw BadRules("it is no rule file");
  if (lines.front() != kHead) throw BadRules("it is of another version of R2CC");
  if (lines.back() != kEnd) throw BadRules("it is cut short");
  if (lines.size() < 3) throw BadRules("it has no rule");
  if (lines.size() - 2 > kMostRules) throw BadRules("it has too many rules");
  Rules rules;
  for (size_t n = 1; n + 1 < lines.size(); n++) {
    try {
      readRule(lines[n], rules);
    } catch (const BadRules& error) {
      throw BadRules("line " + std::to_string(n + 1) + ": " + error.what());
    }
  }
  return rules;
}

}  // namespace r2cc::faults
