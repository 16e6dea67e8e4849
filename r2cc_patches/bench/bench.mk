# What the bench, the sampler and their tests are made of; included by ../Makefile.
BENCH_LIB_SRCS := $(filter-out bench/main.cc bench/clock_jump.cc,$(wildcard bench/*.cc)) \
  $(wildcard $(foreach folder,ranks transport data programs switching,bench/$(folder)/*.cc))
SAMPLER_SRCS := $(wildcard bench/sampler/*.cc)
CLOCK_SRCS := bench/clock_jump.cc
BENCH_TEST_SRCS := bench/sampler/sampler.cc $(wildcard tests/bench/*.cc tests/bench/*/*.cc)
