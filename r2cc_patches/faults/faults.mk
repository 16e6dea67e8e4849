# The library that breaks connections and queue pairs from inside a process (LD_PRELOAD); included by ../Makefile. Nothing of NCCL.
FAULTS_SRCS := $(wildcard faults/*.cc faults/rules/*.cc faults/verbs/*.cc)
FAULTS_TEST_SRCS := $(filter-out faults/calls.cc faults/watcher.cc faults/verbs/calls.cc faults/verbs/library.cc,$(FAULTS_SRCS)) $(wildcard tests/faults/*.cc)
