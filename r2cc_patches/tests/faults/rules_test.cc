// What a rule file may say; anything else is refused whole, in a line.
#include "faults/rules/rules.h"

#include <ibvcore.h>
#include <pthread.h>

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
  const auto rules =
      parse(
          "r2cc-faults 1\nsocket 10.2.0.2 reset times=3\nsocket fd02::2 silent peer=fd02::1\n"
          "socket 10.2.0.2 slow rate_Bps=125000 ports=4000-5000\nsocket 10.2.0.2 short_reads bytes=7\nend\n")
          .sockets;
  CHECK_EQ(rules.size(), size_t{4});
  CHECK(rules[0].action == Action::Reset && rules[0].times == 3 && rules[0].nic == "10.2.0.2");
  CHECK(rules[1].action == Action::Silent && rules[1].peer == ipOf("fd02::1"));
  CHECK(rules[2].action == Action::Slow && rules[2].rateBytesPerS == 125000);
  CHECK_EQ(rules[2].lowPort, 4000);
  CHECK_EQ(rules[2].highPort, 5000);
  CHECK(rules[3].action == Action::ShortReads && rules[3].mostBytes == 7);
}

TEST(a_rule_matches_its_nic_its_peer_and_a_port_of_either_end) {
  const Rule any = parse(file("socket 10.2.0.2 reset")).sockets[0];
  CHECK(any.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5000)));
  CHECK(any.matches(ends("::ffff:10.2.0.2", 4000, "::ffff:10.2.0.1", 5000)));
  CHECK(!any.matches(ends("10.2.0.1", 4000, "10.2.0.2", 5000)));
  const Rule peer = parse(file("socket 10.2.0.2 reset peer=10.2.0.3")).sockets[0];
  CHECK(peer.matches(ends("10.2.0.2", 4000, "10.2.0.3", 5000)));
  CHECK(!peer.matches(ends("10.2.0.2", 4000, "10.2.0.1", 5000)));
  const Rule ports = parse(file("socket 10.2.0.2 reset ports=4990-5000")).sockets[0];
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
  CHECK_EQ(refusal(file("shell 10.2.0.2 reset")), "line 2: a rule begins with `socket` or `verbs`");
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

TEST(every_verbs_action_is_read) {
  const auto rules = parse(
                         "r2cc-faults 1\nverbs mlx5_0 error status=retry_exceeded opcode=rdma_write qp=17\n"
                         "verbs rxe1 lost peer=10.2.0.1 skip=5 times=2\nverbs rxe1 late ms=20\nverbs rxe1 duplicate\n"
                         "verbs rxe1 slow ms=2 per_s=100\nverbs rxe1 fail call=create_qp errno=12\n"
                         "verbs rxe1 event name=port_err then=port_active port=2\nsocket 10.2.0.2 reset\nend\n")
                         .verbs;
  CHECK_EQ(rules.size(), size_t{7});
  CHECK(rules[0].device == "mlx5_0" && rules[0].status == IBV_WC_RETRY_EXC_ERR);
  CHECK(rules[0].opcode == IBV_WC_RDMA_WRITE && rules[0].qp == 17U);
  CHECK(rules[1].action == VerbsAction::Lost && rules[1].peer == ipOf("10.2.0.1"));
  CHECK(rules[1].skip == 5 && rules[1].times == 2);
  CHECK(rules[2].action == VerbsAction::Late && rules[2].delayNs == 20'000'000);
  CHECK(rules[3].action == VerbsAction::Duplicate);
  CHECK(rules[4].action == VerbsAction::Slow && rules[4].perS == 100 && rules[4].delayNs == 2'000'000);
  CHECK(rules[5].action == VerbsAction::Fail && rules[5].call == VerbsCall::CreateQp && rules[5].error == 12);
  CHECK(rules[6].event == IBV_EVENT_PORT_ERR && rules[6].after == IBV_EVENT_PORT_ACTIVE && rules[6].port == 2);
}

TEST(what_is_no_verbs_rule_is_refused) {
  CHECK_EQ(refusal(file("verbs")), "line 2: no name of a device");
  CHECK_EQ(refusal(file("verbs ../rxe1 lost")), "line 2: no name of a device");
  CHECK_EQ(refusal(file("verbs rxe1 explode")), "line 2: there is no action of that name");
  CHECK_EQ(refusal(file("verbs rxe1 error")), "line 2: error needs status");
  CHECK_EQ(refusal(file("verbs rxe1 error status=tired")), "line 2: there is no status of that name");
  CHECK_EQ(refusal(file("verbs rxe1 lost opcode=fly")), "line 2: there is no opcode of that name");
  CHECK_EQ(refusal(file("verbs rxe1 lost status=fatal")), "line 2: unknown setting");
  CHECK_EQ(refusal(file("verbs rxe1 late")), "line 2: late needs ms");
  CHECK_EQ(refusal(file("verbs rxe1 slow")), "line 2: slow needs ms or per_s");
  CHECK_EQ(refusal(file("verbs rxe1 fail errno=12")), "line 2: fail needs call and errno");
  CHECK_EQ(refusal(file("verbs rxe1 fail call=reg_mr errno=12 opcode=send")), "line 2: unknown setting");
  CHECK_EQ(refusal(file("verbs rxe1 event")), "line 2: event needs name");
  CHECK_EQ(refusal(file("verbs rxe1 event name=qp_fatal")), "line 2: there is no event of that name");
  CHECK_EQ(refusal(file("verbs rxe1 event name=port_err qp=3")), "line 2: unknown setting");
}

TEST(too_many_rules_are_refused) {
  std::string many;
  for (size_t n = 0; n <= kMostRules; n++) many += "socket 10.2.0.2 reset\n";
  CHECK_EQ(refusal("r2cc-faults 1\n" + many + "end\n"), "it has too many rules");
}

// Every prefix, and every byte turned into every other: a rule list or a refusal, nothing else.
TEST(damaged_files_are_read_or_refused) {
  const std::string whole = file(
      "socket 10.2.0.2 slow rate_Bps=125000 peer=fd02::1 ports=4000-5000 times=2\n"
      "verbs rxe1 error status=fatal opcode=send peer=fd02::1 qp=3 skip=2");
  size_t read = 0, refused = 0;
  const auto tried = [&](const std::string& text) {
    try {
      const Rules rules = parse(text);
      read += rules.sockets.empty() && rules.verbs.empty() ? 0 : 1;
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
