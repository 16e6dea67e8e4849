// What a rule file may say; anything else is refused whole, in a line.
#include "faults/rules/rules.h"

#include "check.h"

using namespace r2cc::faults;

namespace {

std::string file(const std::string& rule) { return "r2cc-faults 1\n" + rule + "\nend\n"; }
std::string refusal(const std::string& text) { return THROWN(BadRules, (void)parse(text)); }

Ends ends(const char* local, uint16_t localPort, const char* peer, uint16_t peerPort) {
  return {ipOf(local), ipOf(peer), localPort, peerPort};
}

}  // namespace

TEST(every_action_is_read) {
  const auto rules = parse(
      "r2cc-faults 1\nsocket 10.2.0.2 reset times=3\nsocket fd02::2 silent peer=fd02::1\n"
      "socket 10.2.0.2 slow rate_Bps=125000 ports=4000-5000\nsocket 10.2.0.2 short_reads bytes=7\nend\n");
  CHECK_EQ(rules.size(), size_t{4});
  CHECK(rules[0].action == Action::Reset && rules[0].times == 3 && rules[0].nic == "10.2.0.2");
  CHECK(rules[1].action == Action::Silent && rules[1].peer == ipOf("fd02::1"));
  CHECK(rules[2].action == Action::Slow && rules[2].rateBytesPerS == 125000);
  CHECK_EQ(rules[2].lowPort, 4000);
  CHECK_EQ(rules[2].highPort, 5000);
  CHECK(rules[3].action == Action::ShortReads && rules[3].mostBytes == 7);
}

TEST(a_rule_matches_its_nic_its_peer_and_a_port_of_either_end) {
  const Rule any = parse(file("socket 10.2.0.2 reset"))[0];
  CHECK(any.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5000)));
  CHECK(any.matches(ends("::ffff:10.2.0.2", 4000, "::ffff:10.2.0.1", 5000)));
  CHECK(!any.matches(ends("10.2.0.1", 4000, "10.2.0.2", 5000)));
  const Rule peer = parse(file("socket 10.2.0.2 reset peer=10.2.0.3"))[0];
  CHECK(peer.matches(ends("10.2.0.2", 4000, "10.2.0.3", 5000)));
  CHECK(!peer.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5000)));
  const Rule ports = parse(file("socket 10.2.0.2 reset ports=4990-5000"))[0];
  CHECK(ports.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5000)));
  CHECK(ports.matches(ends("10.2.0.2", 4990, "10.2.0.1", 6000)));
  CHECK(!ports.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5001)));
}

TEST(what_is_no_rule_file_is_refused_with_the_line_and_the_reason) {
  CHECK_EQ(refusal(""), "it is no rule file");
  CHECK_EQ(refusal("ELF"), "it is no rule file");
  CHECK_EQ(refusal("r2cc-faults 2\nsocket 10.2.0.2 reset\nend\n"), "it is of another version of R2CC");
  CHECK_EQ(refusal("r2cc-faults 1\nsocket 10.2.0.2 reset\n"), "it is cut short");
  CHECK_EQ(refusal("r2cc-faults 1\nend\n"), "it has no rule");
  CHECK_EQ(refusal(file("socket 10.2.0 reset")), "line 2: no address");
  CHECK_EQ(refusal(file("socket 10.2.0.2 break")), "line 2: there is no action of that name");
  CHECK_EQ(refusal(file("shell 10.2.0.2 reset")), "line 2: a rule begins with `socket`");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset often")), "line 2: unknown setting");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset bytes=7")), "line 2: unknown setting");
  CHECK_EQ(refusal(file("socket 10.2.0.2 slow")), "line 2: slow needs rate_Bps");
  CHECK_EQ(refusal(file("socket 10.2.0.2 short_reads bytes=0")), "line 2: bytes is no number from 1");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset times=-1")), "line 2: times is no number from 0");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset times=99999999999999999999")), "line 2: times is no number from 0");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset ports=9-3")), "line 2: ports is no number from 9");
  CHECK_EQ(refusal(file("socket 10.2.0.2 reset ports=70000-70001")), "line 2: ports is no number from 0");
  CHECK_EQ(refusal(file(std::string("socket 10.2.0.2 reset\0", 22))), "it is no text");
  CHECK_EQ(refusal(file(std::string(kMostFileBytes, 'x'))), "it is too long");
}

TEST(too_many_rules_are_refused) {
  std::string many;
  for (size_t n = 0; n <= kMostRules; n++) many += "socket 10.2.0.2 reset\n";
  CHECK_EQ(refusal("r2cc-faults 1\n" + many + "end\n"), "it has too many rules");
}

// Every prefix, and every byte turned into every other: a rule list or a refusal, nothing else.
TEST(damaged_files_are_read_or_refused) {
  const std::string whole = file("socket 10.2.0.2 slow rate_Bps=125000 peer=fd02::1 ports=4000-5000 times=2");
  size_t read = 0, refused = 0;
  const auto tried = [&](const std::string& text) {
    try {
      read += parse(text).empty() ? 0 : 1;
    } catch (const BadRules&) {
      refused++;
    }
  };
  for (size_t n = 0; n < whole.size(); n++) tried(whole.substr(0, n));
  for (size_t n = 0; n < whole.size(); n++) {
    for (int byte = 0; byte < 256; byte++) {
      std::string damaged = whole;
      damaged[n] = static_cast<char>(byte);
      tried(damaged);
    }
  }
  CHECK_EQ(read + refused, whole.size() * 257);
  CHECK(refused > read);
}
