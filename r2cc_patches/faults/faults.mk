# The library that breaks connections from inside a process (LD_PRELOAD); included by ../Makefile. Nothing of NCCL.
FAULTS_SRCS := $(wildcard faults/*.cc faults/rules/*.cc)
FAULTS_TEST_SRCS := $(filter-out faults/calls.cc faults/watcher.cc,$(FAULTS_SRCS)) $(wildcard tests/faults/*.cc)
