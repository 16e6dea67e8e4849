// The C interface of libr2cc_sim.so.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "../planner/planner.h"
#include "../src/json_text.h"
#include "sim.h"

namespace {

constexpr int kBadInput = 2;
constexpr int kMistake = 3;

char* copyOf(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) std::abort();
  return std::memcpy(copy, text.c_str(), text.size() + 1), copy;
}

std::string problem(const std::string& error, const std::string& hint) {
  std::string out = "{\"error\":";
  r2cc::appendJson(out, error);
  out += ",\"hint\":";
  r2cc::appendJson(out, hint);
  return out + "}";
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int r2cc_sim(const char* request_json, char** out_json) {
  try {
    *out_json = copyOf(r2cc::sim::answer(request_json));
    return 0;
  } catch (const r2cc::planner::PlanError& error) {
    *out_json = copyOf(problem(error.what(), error.hint()));
    return kBadInput;
  } catch (const std::exception& error) {
    *out_json = copyOf(problem(error.what(), "this is a mistake of the simulator: please report the request"));
    return kMistake;
  }
}

__attribute__((visibility("default"))) void r2cc_sim_free(char* text) { std::free(text); }
}
