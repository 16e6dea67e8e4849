#include "planner/costs_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace r2cc::planner {
namespace {

constexpr std::uintmax_t kMostOfFile = 1 << 20;
constexpr const char* kWhoWrites = "; `r2cc plan calibrate` writes such files";

std::string textOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw PlanError("it is no file" + std::string(kWhoWrites));
  if (std::filesystem::file_size(path, error) > kMostOfFile)
    throw PlanError("it has more than 1 MiB" + std::string(kWhoWrites));
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw PlanError("it cannot be read");
  return text;
}

std::string inOneLine(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

}  // namespace

CostsFile readCostsFile(const std::string& path) {
  CostsFile out{{}, textOf(path)};
  try {
    out.costs = costsFromJson(out.text);
  } catch (const PlanError& error) {
    throw PlanError(inOneLine(error.what()) + kWhoWrites);
  }
  return out;
}

}  // namespace r2cc::planner
