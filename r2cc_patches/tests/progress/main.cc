#include "check_jobs.h"

// Each test is a process, with --jobs or without: the library has one state for each, and reads the environment once.
int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--jobs") == 0) return r2cc::check::runTests(argc, argv);
  return r2cc::check::Jobs::run(argc > 1 ? argv[1] : "", 1);
}
