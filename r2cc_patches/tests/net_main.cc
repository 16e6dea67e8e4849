#include "check_jobs.h"

// NCCL's socket helper threads hand their tasks over without atomics, which is not ours to change.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:persistentSocketThread\n";
}

int main(int argc, char** argv) { return r2cc::check::runTests(argc, argv); }
