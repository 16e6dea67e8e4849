#include "check_jobs.h"

// NCCL's socket helper threads hand their tasks over without atomics, which is not ours to change.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:persistentSocketThread\n";
}
// Their stacks must be known for that: they spin, and what the sanitizer remembers was too short twice. 7 is the most.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() { return "history_size=7"; }

int main(int argc, char** argv) { return r2cc::check::runTests(argc, argv); }
