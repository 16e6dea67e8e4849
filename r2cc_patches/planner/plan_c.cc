// The planner's C interface, of libr2cc_plan.so alone: what links the planner itself does not export it.
#include "planner/c_text.h"
#include "planner/planner.h"

extern "C" {

__attribute__((visibility("default"))) int r2cc_plan(const char* request_json, char** out_json) {
  using namespace r2cc::planner;
  return r2cc::answered(request_json, out_json, "planner",
                        [](const char* request) { return toJson(plan(requestFromJson(request))); });
}

__attribute__((visibility("default"))) void r2cc_plan_free(char* text) { std::free(text); }
}
