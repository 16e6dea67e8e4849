# What the bench, the sampler and their tests are made of; included by ../Makefile.
BENCH_LIB_SRCS := $(addprefix bench/,auto_schedule.cc bench.cc bootstrap.cc carrier.cc comm.cc connection.cc control.cc data.cc flow.cc frame.cc \
  health.cc json.cc layout.cc memory.cc net.cc options.cc pattern.cc placement.cc plan_schedule.cc progress.cc published.cc report.cc schedule.cc \
  tracks.cc weave.cc)
SAMPLER_SRCS := bench/sampler.cc bench/sampler_main.cc bench/sampler_link.cc bench/json.cc
CLOCK_SRCS := bench/clock_jump.cc
BENCH_TEST_SRCS := bench/sampler.cc $(wildcard tests/bench/*.cc)
