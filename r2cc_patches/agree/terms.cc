#include "agree/terms.h"

#include <algorithm>
#include <map>

#include "base/json/text.h"
#include "base/siphash.h"

namespace r2cc::agree {
namespace {

constexpr size_t kLongestName = 40, kLongestValue = 160;
constexpr size_t kMostNamed = 4;  // terms, values of one, and ranks with one

uint64_t hashOfText(const std::string& text) {
  return sipHash(Key{}, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

/// Cut texts are equal only if the whole ones are.
std::string cut(const std::string& text, size_t longest) {
  if (text.size() <= longest) return text;
  const std::string end = "... (" + hex(hashOfText(text)) + ")";
  return text.substr(0, longest - end.size()) + end;
}

/// One line, printable, whatever it was.
std::string clean(std::string text, size_t longest) {
  text = cut(text, longest);
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

std::map<std::string, std::string> parsed(const std::string& text, std::vector<std::string>& names) {
  std::map<std::string, std::string> values;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t is = std::min(line.find('='), line.size());
    const std::string name = clean(line.substr(0, is), kLongestName);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    values[name] = is < line.size() ? clean(line.substr(is + 1), kLongestValue) : "";
    at = end + 1;
  }
  return values;
}

std::string ranks(const std::vector<size_t>& who, const std::vector<Stated>& all) {
  std::string text = who.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(who.size(), kMostNamed); i++) text += (i == 0 ? "" : ", ") + std::to_string(who[i]);
  if (who.size() > kMostNamed) text += " and " + std::to_string(who.size() - kMostNamed) + " more";
  const std::string& where = all[who.front()].where;
  return where.empty() || who.size() > 1 ? text : text + " (" + clean(where, kLongestValue) + ")";
}

/// `value` by rank: "name is x on rank 0, y on rank 2".
std::string differing(const std::string& name, const std::vector<std::string>& value, const std::vector<Stated>& all) {
  std::vector<std::string> values;
  for (const std::string& one : value) {
    if (std::find(values.begin(), values.end(), one) == values.end()) values.push_back(one);
  }
  if (values.size() == 1) return "";
  std::string text = name + " is ";
  for (size_t i = 0; i < std::min(values.size(), kMostNamed); i++) {
    std::vector<size_t> who;
    for (size_t rank = 0; rank < value.size(); rank++) {
      if (value[rank] == values[i]) who.push_back(rank);
    }
    text += (i == 0 ? "" : ", ") + (values[i].empty() ? "not set" : values[i]) + " on " + ranks(who, all);
  }
  return values.size() > kMostNamed ? text + ", and others elsewhere" : text;
}

}  // namespace

std::string textOf(const Terms& terms) {
  std::string text;
  for (const Term& term : terms) text += clean(term.name, kLongestName) + "=" + clean(term.value, kLongestValue) + "\n";
  return cut(text, kMaxTerms);
}

uint64_t hashOf(const Terms& terms) {
  if (terms.empty()) return 0;
  std::string text;
  for (const Term& term : terms) text += term.name + '\0' + term.value + '\0';
  return hashOfText(text);
}

std::string difference(const std::vector<Stated>& all) {
  const bool alike = std::all_of(all.begin(), all.end(), [&](const Stated& one) {
    return one.terms == all.front().terms && one.hash == all.front().hash;
  });
  if (alike) return "";
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> byRank;
  byRank.reserve(all.size());
  for (const Stated& one : all) byRank.push_back(parsed(cut(one.terms, kMaxTerms), names));
  std::string text;
  size_t found = 0;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    values.reserve(byRank.size());
    for (auto& rank : byRank) values.push_back(rank[name]);
    const std::string one = differing(name, values, all);
    if (!one.empty() && ++found <= kMostNamed) text += (text.empty() ? "" : "; ") + one;
  }
  if (found > kMostNamed) text += "; and " + std::to_string(found - kMostNamed) + " more";
  if (found > 0) return text;
  std::vector<std::string> hashes;
  hashes.reserve(all.size());
  for (const Stated& one : all) hashes.push_back(hex(one.hash));
  if (std::all_of(hashes.begin(), hashes.end(), [&](const std::string& hash) { return hash == hashes.front(); })) {
    for (size_t rank = 0; rank < all.size(); rank++) hashes[rank] = hex(hashOfText(all[rank].terms));
  }
  return differing("the hash of it all", hashes, all);
}

}  // namespace r2cc::agree
