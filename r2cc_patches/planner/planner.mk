# What the planner and its tests are made of; included by ../Makefile. No NCCL, no CUDA.
PLANNER_SRCS := $(filter-out planner/plan_c.cc,$(wildcard planner/*.cc planner/*/*.cc))
PLAN_C_SRCS := planner/plan_c.cc
PLAN_TEST_SRCS := $(wildcard tests/planner/*.cc)
