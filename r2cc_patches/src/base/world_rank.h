// Which rank of the job this process is, as its launcher says in the environment.
#pragma once

namespace r2cc {

/// -1 where none says it. A net plugin is not told its rank.
int worldRank();

}  // namespace r2cc
