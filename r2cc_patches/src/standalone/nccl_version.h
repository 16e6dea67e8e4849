// Which NCCL calls the plugin, and through which of its tables.
#pragma once

#include <string>

#include "standalone/net_tables.h"

namespace r2cc::plugin {

/// The version code (22907: 2.29.7) of the library that a function lies in; 0 where it does not say. That library stays
/// loaded from now on: our threads may log through it for as long as the process lives.
int ncclVersionOf(Log inside);

/// One line for the log. `table`: the one that NCCL took.
std::string describe(int version, int table);
/// Says it once.
void describeNccl(int table, Log log);

}  // namespace r2cc::plugin
