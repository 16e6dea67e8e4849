#include "control.h"

#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace r2cc::wire {
namespace {

constexpr uint64_t kMinRateBps = 1000;

std::vector<std::string> wordsOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

template <typename Number>
std::optional<Number> numberOf(const std::string& text) {
  std::istringstream stream(text);
  Number value{};
  if (text.empty() || text[0] == '-' || !(stream >> value) || !stream.eof()) return std::nullopt;
  return value;
}

// The impairment with one property changed; nothing when property or value make no sense.
std::optional<Impairment> changed(Impairment now, const std::string& property, const std::string& value) {
  const bool switched = value == "on" || value == "off";
  for (const auto& [name, flag] :
       {std::pair{"drop", &now.drop}, {"cut", &now.cut}, {"tcp", &now.tcp}, {"udp", &now.udp}}) {
    if (property != name || !switched) continue;
    *flag = value == "on";
    return now;
  }
  if (const auto above = numberOf<uint32_t>(value); property == "above" && above) {
    now.above = *above;
    return now;
  }
  if (const auto burst = numberOf<uint32_t>(value); property == "burst" && burst && *burst > 0) {
    now.burst = *burst;
    return now;
  }
  if (const auto loss = numberOf<double>(value); property == "loss" && loss && *loss <= 1) {
    now.loss = *loss;
    return now;
  }
  if (const auto rate = numberOf<uint64_t>(value); property == "rate" && rate && (*rate == 0 || *rate >= kMinRateBps)) {
    now.rateBps = *rate;
    return now;
  }
  return std::nullopt;
}

std::string set(Fabric& fabric, const std::vector<std::string>& words, uint64_t nowNs) {
  Port* port = fabric.find(words[1]);
  if (port == nullptr) return "error: no port " + words[1];
  const bool from = words[2] == "from" || words[2] == "both";
  const bool to = words[2] == "to" || words[2] == "both";
  const auto newFrom = changed(port->from.impairment(), words[3], words[4]);
  const auto newTo = changed(port->to.impairment(), words[3], words[4]);
  if ((!from && !to) || !newFrom || !newTo) return "error: cannot set " + words[2] + " " + words[3] + " " + words[4];
  if (from) port->from.impair(*newFrom, nowNs);
  if (to) port->to.impair(*newTo, nowNs);
  return "ok";
}

std::string stageJson(const Stage& stage) {
  const Impairment& impairment = stage.impairment();
  const Counters& counters = stage.counters();
  std::ostringstream out;
  out << R"({"drop": )" << (impairment.drop ? "true" : "false") << R"(, "loss": )" << impairment.loss
      << R"(, "rate_bps": )" << impairment.rateBps << R"(, "burst": )" << impairment.burst << R"(, "limit": )"
      << stage.limitBytes() << R"(, "tcp": )" << (impairment.tcp ? "true" : "false") << R"(, "udp": )"
      << (impairment.udp ? "true" : "false") << R"(, "above": )" << impairment.above << R"(, "frames": )"
      << counters.frames << R"(, "bytes": )" << counters.bytes << R"(, "dropped": )" << counters.dropped
      << R"(, "overrun": )" << counters.overrun << "}";
  return out.str();
}

std::string show(Fabric& fabric) {
  std::string text = "{";
  for (const Port& port : fabric.ports()) {
    if (text.size() > 1) text += ", ";
    text += "\"" + port.name + R"(": {"rail": )" + std::to_string(port.rail) + R"(, "from": )" + stageJson(port.from) +
            R"(, "to": )" + stageJson(port.to) + "}";
  }
  return text + "}";
}

}  // namespace

std::string answer(Fabric& fabric, const std::string& request, uint64_t nowNs) {
  const std::vector<std::string> words = wordsOf(request);
  if (words.size() == 1 && words[0] == "show") return show(fabric);
  if (words.size() == 2 && words[0] == "clear") {
    Port* port = fabric.find(words[1]);
    if (port == nullptr) return "error: no port " + words[1];
    for (Stage* stage : {&port->from, &port->to}) {
      Impairment none;
      none.cut = stage->impairment().cut;
      stage->impair(none, nowNs);
    }
    return "ok";
  }
  if (words.size() == 5 && words[0] == "set") return set(fabric, words, nowNs);
  return "error: not understood: " + request;
}

}  // namespace r2cc::wire
