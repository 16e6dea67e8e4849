// A communicator of one rank a node is at home on one NIC of several; others like it, of the nodes' other ranks, are on
// the rest and run at the same time. When a NIC is lost, all of them share those that are left.
#pragma once

#include "planner/planner.h"

namespace r2cc::planner {

/// Some node has a NIC that is no home.
bool sharesNics(const Request& request);
/// Each node with one NIC in place of all of its NICs: its homes' part of them, and what is left of that. Ring and
/// chains are then counted on the same.
Request pooled(Request request);

}  // namespace r2cc::planner
