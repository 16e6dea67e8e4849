// Lines: complete, small enough to be written in one piece, and adding up.
#include <poll.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bench/errors.h"
#include "bench/json.h"
#include "bench/report.h"
#include "check.h"

using namespace r2cc::bench;

namespace {

std::vector<uint64_t> gapsOf(const std::string& line) {
  const size_t open = line.find("\"gaps_us\":[") + 11;
  std::vector<uint64_t> gaps;
  std::string digits;
  for (size_t i = open; i < line.size(); i++) {
    if (line[i] >= '0' && line[i] <= '9') {
      digits += line[i];
    } else {
      if (!digits.empty()) gaps.push_back(std::stoull(digits));
      digits.clear();
      if (line[i] == ']') break;
    }
  }
  return gaps;
}

}  // namespace

TEST(long_delivery_lists_are_split_below_the_atomic_write) {
  std::vector<uint64_t> delivered;
  const uint64_t start = 1'000'000'000'123u;
  for (uint64_t i = 1; i <= 5000; i++) delivered.push_back(start + i * 1'234'567);
  const std::vector<std::string> lines = deliveryLines(3, 7, 39, start, delivered);
  CHECK(lines.size() > 5);
  uint64_t sum = 0;
  size_t gaps = 0;
  for (size_t part = 0; part < lines.size(); part++) {
    CHECK(lines[part].size() + 1 < 4096);
    CHECK(lines[part].find("\"part\":" + std::to_string(part) + ",") != std::string::npos);
    for (const uint64_t gap : gapsOf(lines[part])) {
      sum += gap;
      gaps++;
    }
  }
  CHECK_EQ(gaps, delivered.size());
  CHECK_EQ(sum, (delivered.back() - start) / 1000);  // rounding does not add up
}

TEST(no_delivery_no_line) { CHECK(deliveryLines(0, 1, 0, 5, {}).empty()); }

TEST(delivery_line_has_the_contract_s_fields) {
  const std::string line = deliveryLines(1, 5, -2, 1000, {3000, 9000}).at(0);
  CHECK(line.find("\"event\":\"delivery\",\"rank\":1,\"connection\":5,\"index\":-2,\"start_ns\":1000,\"part\":0,\"gaps_"
                  "us\":[2,6]}") != std::string::npos);
}

TEST(error_line_survives_any_text) {
  const std::string line = errorLine(2, "bad \"thing\"\n\\ \x01\xff", 3, -1);
  CHECK(line.find(R"("message":"bad \"thing\"\u000a\\ \u0001\u00ff","peer":3,"connection":null})") !=
        std::string::npos);
  CHECK(errorLine(0, std::string(100'000, '\x02'), -1, -1).size() > 1024);
}

TEST(line_writer_writes_whole_lines_and_notices_a_closed_reader) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  const LineWriter writer(ends[1]);
  writer.write("{\"a\":1}");
  char text[16] = {0};
  CHECK_EQ(read(ends[0], text, sizeof(text)), 8);
  CHECK_EQ(std::string(text), std::string("{\"a\":1}\n"));
  close(ends[0]);
  CHECK(THROWN(TransportError, writer.write("{}")).find("standard output") != std::string::npos);
  close(ends[1]);
}
