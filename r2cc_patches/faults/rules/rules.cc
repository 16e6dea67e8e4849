#include "faults/rules/rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace r2cc::faults {

namespace {

constexpr char kHead[] = "r2cc-faults 1";
constexpr char kEnd[] = "end";
constexpr uint64_t kMostOf = 1'000'000'000'000;

uint64_t numberOf(const std::string& text, uint64_t least, uint64_t most, const std::string& what) {
  const bool digits = !text.empty() && text.size() <= 13 && text.find_first_not_of("0123456789") == std::string::npos;
  const uint64_t value = digits ? std::stoull(text) : 0;
  if (!digits || value < least || value > most) throw BadRules(what + " is no number from " + std::to_string(least));
  return value;
}

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
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
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

Rule ruleOf(const std::string& line) {
  std::istringstream words(line);
  std::string kind, nic, action, setting;
  words >> kind >> nic >> action;
  if (kind != "socket") throw BadRules("a rule begins with `socket`");
  Rule rule;
  rule.nic = nic;
  rule.local = ipOf(nic);
  rule.action = actionOf(action);
  while (words >> setting) readSetting(setting, rule);
  if (rule.action == Action::Slow && rule.rateBytesPerS == 0) throw BadRules("slow needs rate_Bps");
  if (rule.action == Action::ShortReads && rule.mostBytes == 0) throw BadRules("short_reads needs bytes");
  return rule;
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

Ip ipOf(const std::string& text) {
  Ip ip{};
  if (inet_pton(AF_INET6, text.c_str(), ip.data()) == 1) return ip;
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) != 1) throw BadRules("no address");
  ip[10] = ip[11] = 0xff;
  std::memcpy(ip.data() + 12, &four, sizeof(four));
  return ip;
}

std::vector<Rule> parse(const std::string& text) {
  const std::vector<std::string> lines = linesOf(text);
  if (lines.empty() || lines.front().compare(0, std::strlen("r2cc-faults "), "r2cc-faults ") != 0)
    throw BadRules("it is no rule file");
  if (lines.front() != kHead) throw BadRules("it is of another version of R2CC");
  if (lines.back() != kEnd) throw BadRules("it is cut short");
  if (lines.size() < 3) throw BadRules("it has no rule");
  if (lines.size() - 2 > kMostRules) throw BadRules("it has too many rules");
  std::vector<Rule> rules;
  for (size_t n = 1; n + 1 < lines.size(); n++) {
    try {
      rules.push_back(ruleOf(lines[n]));
    } catch (const BadRules& error) {
      throw BadRules("line " + std::to_string(n + 1) + ": " + error.what());
    }
  }
  return rules;
}

}  // namespace r2cc::faults
