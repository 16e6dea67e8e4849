# The library that watches any NCCL (NCCL_PROFILER_PLUGIN); included by ../Makefile. NCCL's headers, nothing of its code.
PROGRESS_SRCS := $(wildcard progress/*.cc progress/*/*.cc)
# Of src what it writes lines with.
PROGRESS_BASE_SRCS := src/base/process_life.cc src/base/world_rank.cc src/record/events.cc src/record/scribe.cc
PROGRESS_TEST_SRCS := $(wildcard tests/progress/*_test.cc) tests/progress/main.cc
