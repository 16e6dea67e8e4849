// Questions as text: every mistake at once, and what is no question.
#include <cstring>
#include <string>

#include "check.h"
#include "planner/planner.h"
#include "sim/sim.h"

using r2cc::planner::PlanError;
using r2cc::sim::answer;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kQuestion = R"({"schema":1,"kind":"collective","topology":{"hosts":4,"nics":2,"spine":false},
  "bytes":1000000,"arm":"balance","states":[{"hosts":4},{"hosts":4,"left":[[1,[0,1]]]}]})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kQuestion;
  return text.replace(text.find(from), from.size(), to);
}

std::string refusalOf(const std::string& text) { return THROWN(PlanError, answer(text)); }

}  // namespace

TEST(sim_text_answers_all_states) {
  const std::string found = answer(kQuestion);
  CHECK(says(found, "\"schedule\":\"ring\""));
  CHECK(says(found, "},{\"time_us\":"));
  CHECK(says(answer(changed("balance", "stock")), "{\"time_us\":null,"));
}

TEST(sim_text_names_every_mistake) {
  std::string text = changed("\"nics\":2", "\"nics\":0");
  text.replace(text.find("balance"), 7, "magic");
  text.replace(text.find("\"hosts\":4}"), 10, "\"hosts\":9}");
  const std::string refusal = refusalOf(text);
  CHECK(says(refusal, "nics must be from 1 to 64, not 0"));
  CHECK(says(refusal, "there is no arm magic: there are stock, upstream"));
  CHECK(says(refusal, "more hosts take part than the topology has"));
  CHECK(says(refusal, "has 2 NICs and not the topology's 0"));
}

TEST(sim_text_refuses_what_is_no_question) {
  CHECK(says(refusalOf(changed("\"schema\":1", "\"schema\":2")), "line 1: schema"));
  CHECK(says(refusalOf(changed("collective", "oracle")), "there is no kind oracle"));
  CHECK(says(refusalOf(changed("\"bytes\"", "\"bites\"")), "unknown key \"bites\""));
  CHECK(says(refusalOf(changed("[1,[0,1]]", "[7,[0,1]]")), "there is no host 7"));
  CHECK(says(refusalOf(changed("[1,[0,1]]", "[1,[0,2]]")), "what is left of a NIC must be from 0 to 1, not 2"));
  CHECK(says(refusalOf("{"), "the request, line 1"));
  CHECK(says(refusalOf(changed("\"bytes\":1000000", "\"bytes\":1000000,\"op\":\"gather\"")), "there is no op gather"));
}

TEST(sim_text_comes_through_the_c_interface) {
  char* out = nullptr;
  CHECK_EQ(r2cc_sim(kQuestion, &out), 0);
  CHECK(std::strstr(out, "healthy_us") != nullptr);
  r2cc_sim_free(out);
  CHECK_EQ(r2cc_sim("[]", &out), 2);
  CHECK(std::strstr(out, "\"hint\"") != nullptr);
  r2cc_sim_free(out);
}
