#include "planner/capacities.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace r2cc::planner {
namespace {

constexpr double kCapacityStep = 1.0 / 16;

std::vector<double> readReport(const std::string& report) {
  std::vector<double> values;
  std::istringstream in(report);
  for (double value = 0; in >> value;) values.push_back(value);
  return values;
}

/// The least that the node's ranks say of each NIC; empty if none says anything of all of them.
std::vector<double> saidOf(const Node& node, const std::vector<std::string>& reports) {
  std::vector<double> least;
  for (const int rank : node.ranks) {
    if (rank < 0 || static_cast<size_t>(rank) >= reports.size()) continue;
    const std::vector<double> values = readReport(reports[static_cast<size_t>(rank)]);
    if (values.size() != node.nics.size()) continue;
    if (least.empty()) least = values;
    for (size_t i = 0; i < values.size(); i++) least[i] = std::min(least[i], values[i]);
  }
  return least;
}

}  // namespace

double roundedCapacity(double capacity) {
  return std::clamp(std::round(capacity / kCapacityStep) * kCapacityStep, 0.0, 1.0);
}

std::string capacityReport(const std::vector<double>& capacities) {
  std::ostringstream out;
  for (size_t i = 0; i < capacities.size(); i++) out << (i == 0 ? "" : " ") << capacities[i];
  return out.str();
}

std::vector<Node> withReports(std::vector<Node> nodes, const std::vector<std::string>& reports) {
  for (Node& node : nodes) {
    const std::vector<double> said = saidOf(node, reports);
    for (size_t i = 0; i < said.size(); i++) node.nics[i].capacity = roundedCapacity(said[i]);
  }
  return nodes;
}

std::string capacitiesText(const std::vector<Node>& nodes) {
  std::ostringstream out;
  out << "capacities";
  for (size_t node = 0; node < nodes.size(); node++) {
    for (size_t nic = 0; nic < nodes[node].nics.size(); nic++) {
      const double capacity = nodes[node].nics[nic].capacity;
      if (capacity < 1) out << ' ' << node << ':' << nic << '=' << capacity;
    }
  }
  return out.str();
}

std::optional<std::vector<Node>> atCapacities(std::vector<Node> nodes, const std::string& text) {
  std::istringstream in(text);
  std::string word;
  if (!(in >> word) || word != "capacities") return std::nullopt;
  for (Node& node : nodes) {
    for (Nic& nic : node.nics) nic.capacity = 1;
  }
  while (in >> word) {
    std::istringstream entry(word);
    size_t node = 0, nic = 0;
    char colon = 0, equals = 0;
    double capacity = 0;
    if (!(entry >> node >> colon >> nic >> equals >> capacity) || colon != ':' || equals != '=') return std::nullopt;
    if (node >= nodes.size() || nic >= nodes[node].nics.size()) return std::nullopt;
    if (!(capacity >= 0 && capacity <= 1)) return std::nullopt;
    nodes[node].nics[nic].capacity = capacity;
  }
  return nodes;
}

}  // namespace r2cc::planner
