#include <csignal>

#include "check_jobs.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // as r2cc_bench itself does
  return r2cc::check::runTests(argc, argv);
}
