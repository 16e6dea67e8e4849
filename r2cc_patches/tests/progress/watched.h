// A test's environment: where the library writes to, and how often.
#pragma once

#include <string>
#include <vector>

#include "lines.h"
#include "scratch.h"

namespace r2cc::play {

class Watched {
 public:
  Watched() {
    setenv("R2CC_PROGRESS_FILE", file().c_str(), 1);
    setenv("R2CC_PROGRESS_MS", "5", 1);
    for (const char* name : {"R2CC_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"}) unsetenv(name);
  }
  std::string file() const { return scratch_ / "progress.jsonl"; }
  std::vector<Line> lines(const std::string& event, const std::string& part = "") const {
    return linesOf(file(), event, part);
  }
  Line last(const std::string& part = "") const {
    const auto all = lines("traffic", part);
    return all.empty() ? Line{} : all.back();
  }

 private:
  check::Scratch scratch_;
};

}  // namespace r2cc::play
