// The planner's C interface, of libr2cc_plan.so alone: what links the planner itself does not export it.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "json_text.h"
#include "planner.h"

namespace {

constexpr int kBadInput = 2;

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

__attribute__((visibility("default"))) int r2cc_plan(const char* request_json, char** out_json) {
  using namespace r2cc::planner;
  try {
    *out_json = copyOf(toJson(plan(requestFromJson(request_json))));
    return 0;
  } catch (const PlanError& error) {
    *out_json = copyOf(problem(error.what(), error.hint()));
  } catch (const std::exception& error) {
    *out_json = copyOf(problem(error.what(), "this is a mistake of the planner: please report the request"));
  }
  return kBadInput;
}

__attribute__((visibility("default"))) void r2cc_plan_free(char* text) { std::free(text); }
}
