# What the planner and its tests are made of; included by ../Makefile. No NCCL, no CUDA.
PLANNER_SRCS := $(addprefix planner/,capacities.cc chains.cc check_request.cc cluster.cc cuts.cc cycles.cc exact.cc formulas.cc game.cc model.cc order.cc placing.cc \
  plan_text.cc planner.cc rails.cc schedules.cc)
PLAN_C_SRCS := planner/plan_c.cc
PLAN_TEST_SRCS := $(wildcard tests/planner/*.cc)
