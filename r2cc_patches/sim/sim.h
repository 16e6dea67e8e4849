// The simulator's C interface and its text. docs/internals/simulation-model.md
#pragma once

#include <string>
#include <string_view>

namespace r2cc::sim {

/// JSON in and out. Throws planner::PlanError for what cannot be asked, with every problem.
std::string answer(std::string_view request);

}  // namespace r2cc::sim

extern "C" {
/// 0: *out is the answer. 2: bad input, *out is {"error": .., "hint": ..}. Both are JSON that r2cc_sim_free takes back.
int r2cc_sim(const char* request_json, char** out_json);
void r2cc_sim_free(char* text);
}
