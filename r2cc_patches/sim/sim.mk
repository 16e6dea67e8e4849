# What the simulator and its tests are made of; included by ../Makefile. It links the planner: what is simulated is what
# runs. No NCCL, no CUDA.
SIM_SRCS := $(filter-out sim/sim_c.cc,$(wildcard sim/*.cc sim/*/*.cc))
SIM_C_SRCS := sim/sim_c.cc
SIM_TEST_SRCS := $(wildcard tests/sim/*.cc)
# Of the bench what makes its programs, so that those are simulated that run.
SIM_BENCH_SRCS := $(wildcard bench/programs/*.cc)
