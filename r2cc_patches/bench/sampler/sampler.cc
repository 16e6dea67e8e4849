#include "bench/sampler/sampler.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "bench/json.h"

namespace r2cc::bench {
namespace {

// Takes the text up to `end` off the front of `rest`.
std::string_view take(std::string_view& rest, char end) {
  const size_t at = rest.find(end);
  const std::string_view taken = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return taken;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::string_view word = take(text, ' ');
    if (!word.empty()) found.push_back(word);
  }
  return found;
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

size_t bytesColumn(const std::vector<std::string_view>& names) {
  const auto found = std::find(names.begin(), names.end(), "bytes");
  if (found == names.end()) throw std::runtime_error("/proc/net/dev has no column 'bytes'");
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

// The second line of the file: " face |bytes packets ... |bytes packets ...".
void NetDevParser::readHeader(std::string_view line) {
  if (line == header_ && !header_.empty()) return;
  std::string_view rest = line;
  take(rest, '|');
  const std::vector<std::string_view> receive = words(take(rest, '|'));
  const std::vector<std::string_view> transmit = words(rest);
  rxColumn_ = bytesColumn(receive);
  txColumn_ = receive.size() + bytesColumn(transmit);
  header_ = std::string(line);
}

NicTable NetDevParser::parse(std::string_view text) {
  take(text, '\n');
  readHeader(take(text, '\n'));
  NicTable table;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    const size_t colon = line.rfind(':');  // an interface's alias may hold colons itself
    if (colon == std::string_view::npos) continue;
    const std::vector<std::string_view> name = words(line.substr(0, colon));
    const std::vector<std::string_view> values = words(line.substr(colon + 1));
    if (name.size() != 1 || values.size() <= std::max(rxColumn_, txColumn_)) continue;
    table[std::string(name[0])] = {number(values[txColumn_]), number(values[rxColumn_])};
  }
  return table;
}

std::optional<CpuTicks> parseCpu(std::string_view text) {
  const std::vector<std::string_view> fields = words(take(text, '\n'));
  constexpr size_t kIdle = 4;  // proc(5): cpu user nice system idle iowait irq softirq steal guest guest_nice
  constexpr size_t kSteal = 8;
  if (fields.size() <= kIdle + 1 || fields[0] != "cpu") return std::nullopt;
  CpuTicks ticks;
  for (size_t i = 1; i < fields.size() && i <= kSteal; i++) {  // guest time is in user time already
    ticks.total += number(fields[i]);
  }
  ticks.busy = ticks.total - number(fields[kIdle]) - number(fields[kIdle + 1]);
  ticks.stolen = fields.size() > kSteal ? number(fields[kSteal]) : 0;
  return ticks;
}

double shareOf(uint64_t CpuTicks::* part, const CpuTicks& before, const CpuTicks& after) {
  if (after.total <= before.total) return 0.0;
  const double time = after.*part > before.*part ? static_cast<double>(after.*part - before.*part) : 0.0;
  return std::min(1.0, time / static_cast<double>(after.total - before.total));
}

NicTable SampleFilter::changed(const NicTable& now, bool all) {
  NicTable result;
  for (const auto& [name, bytes] : now) {
    const bool wanted =
        wanted_.empty() ? name != "lo" : std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
    if (!wanted) continue;
    const auto last = last_.find(name);
    if (all || last == last_.end() || last->second != bytes) result[name] = bytes;
  }
  last_ = now;
  return result;
}

void Pace::sampled(uint64_t nowNs, bool changed) {
  if (changed) changedNs_ = nowNs;
  const bool idle = nowNs - changedNs_ >= kIdleAfterNs;
  const uint64_t step = idle ? std::max(intervalNs_, kIdleNs) : intervalNs_;
  nextNs_ += step;
  if (nextNs_ <= nowNs) nextNs_ = nowNs + step;
}

std::vector<std::string> sampleLines(uint64_t tNs, const NicTable& nics) {
  std::vector<std::string> lines;
  std::string body;
  const auto flush = [&] {
    if (body.empty()) return;
    lines.push_back(
        JsonObject().unsignedInteger("t_ns", tNs).text("event", "sample").raw("nics", "{" + body + "}").str());
    body.clear();
  };
  constexpr size_t kFrame = 64;  // t_ns, event, braces, newline
  for (const auto& [name, bytes] : nics) {
    const std::string values =
        JsonObject().unsignedInteger("tx_bytes", bytes.tx).unsignedInteger("rx_bytes", bytes.rx).str();
    const std::string entry = jsonQuote(name) + ":" + values;
    if (body.size() + entry.size() + 1 + kFrame > kMaxLineBytes) flush();
    body += (body.empty() ? "" : ",") + entry;
  }
  flush();
  return lines;
}

std::string linkLine(uint64_t tNs, const std::string& nic, bool up) {
  return JsonObject()
      .unsignedInteger("t_ns", tNs)
      .text("event", "link")
      .text("nic", nic)
      .raw("up", up ? "true" : "false")
      .str();
}

std::string cpuLine(uint64_t tNs, const CpuTicks& before, const CpuTicks& after) {
  return JsonObject()
      .unsignedInteger("t_ns", tNs)
      .text("event", "cpu")
      .real("busy", shareOf(&CpuTicks::busy, before, after))
      .real("stolen", shareOf(&CpuTicks::stolen, before, after))
      .str();
}

}  // namespace r2cc::bench
