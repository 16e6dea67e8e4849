// What is left of every node's NICs, as text: what a rank reports, and what all ranks agree on. Short while little is
// broken, whatever the number of nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"

namespace r2cc::planner {

/// Differences below 1/16 are none: a measured rate wavers by that much, and a plan changes little for it.
double roundedCapacity(double capacity);

/// What one rank says of its node's NICs, in the order of the node's list.
std::string capacityReport(const std::vector<double>& capacities);

/// The nodes with what the ranks say now, by rank: of one NIC the least that a rank of its node says. Who said nothing,
/// or of another number of NICs, changes nothing.
std::vector<Node> withReports(std::vector<Node> nodes, const std::vector<std::string>& reports);

/// "capacities node:nic=capacity ...": each NIC that is not whole, by its places.
std::string capacitiesText(const std::vector<Node>& nodes);

/// The nodes at what such a text says; none if it is none.
std::optional<std::vector<Node>> atCapacities(std::vector<Node> nodes, const std::string& text);

}  // namespace r2cc::planner
