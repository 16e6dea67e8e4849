// What the C interfaces of the planner and the simulator share: JSON text in, malloc'ed JSON text out.
#pragma once
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "base/json/text.h"
#include "planner/planner.h"

namespace r2cc {

constexpr int kBadInput = 2;
constexpr int kMistake = 3;

inline char* copyOf(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) std::abort();
  return std::memcpy(copy, text.c_str(), text.size() + 1), copy;
}

inline std::string problem(const std::string& error, const std::string& hint) {
  std::string out = "{\"error\":";
  appendJson(out, error);
  out += ",\"hint\":";
  appendJson(out, hint);
  return out + "}";
}

/// `answer` is called with the request; 0 and its text, or a code and what is wrong. `who` made the mistake, if one
/// did.
template <typename Answer>
int answered(const char* request, char** out, const char* who, Answer answer) {
  try {
    *out = copyOf(answer(request));
    return 0;
  } catch (const planner::PlanError& error) {
    *out = copyOf(problem(error.what(), error.hint()));
    return kBadInput;
  } catch (const std::exception& error) {
    *out =
        copyOf(problem(error.what(), std::string("this is a mistake of the ") + who + ": please report the request"));
    return kMistake;
  }
}

}  // namespace r2cc
