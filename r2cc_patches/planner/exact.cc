#include "planner/exact.h"

#include <cstdio>

namespace r2cc::planner {
namespace {

/// Every bit of it.
std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

std::string textOf(const Part& part) {
  std::string text = std::string(name(part.kind)) + " " + exact(part.share);
  if (part.cycle >= 0) text += " cycle " + std::to_string(part.cycle);
  if (!part.homes.empty()) text += " on " + joined(part.homes);
  if (part.straggler >= 0) text += " beside " + std::to_string(part.straggler) + (part.mirrored ? " mirrored" : "");
  if (part.pieces != 0) text += " y " + exact(part.y) + " in " + std::to_string(part.pieces);
  for (const std::vector<int>& ranks : part.spared) text += " spares " + joined(ranks);
  if (!part.order.empty()) text += " along " + joined(part.order);
  if (!part.parents.empty()) text += " below " + joined(part.parents);
  return text;
}

}  // namespace

std::string exactText(const Plan& plan) {
  std::string text = name(plan.schedule);
  if (plan.thresholdBytes) text += " from " + std::to_string(*plan.thresholdBytes) + " bytes";
  for (const Baseline& each : plan.baselines) {
    if (each.beatenFrom) text += ", before " + each.name + " from " + std::to_string(*each.beatenFrom);
  }
  if (plan.inTurn) text += ", in turn";
  for (const Part& part : plan.parts) text += ", " + textOf(part);
  return text;
}

}  // namespace r2cc::planner
