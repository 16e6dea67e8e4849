#include "agree/peer_terms.h"

#include <algorithm>
#include <array>

namespace r2cc::agree {
namespace {

constexpr size_t kTexts = 3;

/// The texts between the ends; empty where there are fewer.
std::array<std::string, kTexts> texts(const std::string& written) {
  std::array<std::string, kTexts> out;
  size_t at = 0;
  for (std::string& text : out) {
    const size_t end = std::min(written.find('\0', at), written.size());
    text = written.substr(at, end - at);
    at = std::min(end + 1, written.size());
  }
  return out;
}

}  // namespace

void writePeerTerms(const PeerTerms& mine, char* to, size_t size) {
  const std::string all = textOf(mine.terms) + '\0' + mine.build + '\0' + mine.host;
  std::copy_n(all.data(), std::min(all.size(), size - 1), to);
}

Compared comparePeerTerms(const std::vector<std::string>& ranks) {
  std::vector<Stated> terms, builds;
  for (const std::string& rank : ranks) {
    const auto [stated, build, host] = texts(rank);
    terms.push_back({stated, host, 0});
    builds.push_back({textOf({{"R2CC's build", build}}), host, 0});
  }
  Compared out{difference(terms), ""};
  if (out.error.empty()) out.warning = difference(builds);
  return out;
}

}  // namespace r2cc::agree
