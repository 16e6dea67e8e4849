// The C interface of libr2cc_sim.so.
#include "planner/c_text.h"
#include "sim/sim.h"

extern "C" {

__attribute__((visibility("default"))) int r2cc_sim(const char* request_json, char** out_json) {
  return r2cc::answered(request_json, out_json, "simulator",
                        [](const char* request) { return r2cc::sim::answer(request); });
}

__attribute__((visibility("default"))) void r2cc_sim_free(char* text) { std::free(text); }
}
